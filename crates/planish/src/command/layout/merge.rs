//! `planish layout merge`: the layouts of several images as one, for the build that makes all of
//! them.

use crate::cli::{FINE, Format, Global};
use crate::output::{self, print_json};
use anyhow::{Context, anyhow, bail};
use layout::write::files::{FileKind, with_suffix};
use layout::write::merge::{Part, merge};
use report::layout::MergedLayouts;
use std::path::{Path, PathBuf};

/// Most functions that are named of those that several images have.
const MOST_NAMED: usize = 5;

/// Arguments of `planish layout merge`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What the names of each layout's two files begin with; the first one's functions go before
    /// those of the same name in others
    #[arg(required = true, value_name = "PREFIX")]
    pub parts: Vec<PathBuf>,
    /// Beginning of the names of the files to write
    #[arg(long, required = true, value_name = "PREFIX")]
    pub prefix: Option<PathBuf>,
    /// How to print what was merged
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Runs the tool.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let Some(prefix) = args.prefix.as_deref().filter(|prefix| !super::names_directory(prefix))
    else {
        bail!("--prefix PREFIX is needed: the start of the names of the files to write")
    };
    let outputs = files(prefix);
    let inputs: Vec<PathBuf> = args.parts.iter().flat_map(|part| files(part)).collect();
    output::refuse_inputs(
        outputs.iter().map(PathBuf::as_path),
        inputs.iter().map(PathBuf::as_path),
    )?;
    let parts = args.parts.iter().map(|part| read(part)).collect::<anyhow::Result<Vec<_>>>()?;
    let merged = merge(&parts).map_err(|error| {
        let about = error.part().and_then(|part| args.parts.get(part));
        match about.map(|part| files(part)) {
            Some([cc, _]) => anyhow!("{}: {error}", cc.display()),
            None => anyhow!("{error}"),
        }
    })?;
    let [cc, ld] = &outputs;
    beside::named::write_together(&[
        (cc.clone(), merged.cc.as_str()),
        (ld.clone(), merged.ld.as_str()),
    ])?;
    let name = |part: &usize| {
        args.parts.get(*part).map_or_else(String::new, |part| part.display().to_string())
    };
    let shared = merged.shared.iter().map(|(f, kept, out)| (f.clone(), name(kept), name(out)));
    let result = MergedLayouts::of(merged.functions as u64, shared.collect());
    match args.format {
        Format::Json => print_json(&result)?,
        Format::Text if !global.quiet => {
            let layouts = args.parts.len();
            eprintln!("merged {layouts} layouts: {} functions", merged.functions);
            for (function, kept, out) in result.shared.iter().take(MOST_NAMED) {
                eprintln!("note: {function}: laid out as in {kept}, also in {out}");
            }
            if result.shared.len() > MOST_NAMED {
                eprintln!("note: and {} functions more", result.shared.len() - MOST_NAMED);
            }
        }
        Format::Text => {}
    }
    Ok(FINE)
}

/// The cc profile and the ld profile of a prefix.
fn files(prefix: &Path) -> [PathBuf; 2] {
    let [cc, ld] = FileKind::PROPELLER_SUFFIXES;
    [with_suffix(prefix, cc), with_suffix(prefix, ld)]
}

fn read(prefix: &Path) -> anyhow::Result<Part> {
    let text = |path: &Path| {
        String::from_utf8(crate::input::read(path)?)
            .with_context(|| format!("{}: expected the text of a layout", path.display()))
    };
    let [cc, ld] = files(prefix);
    Ok(Part { cc: text(&cc)?, ld: text(&ld)? })
}
