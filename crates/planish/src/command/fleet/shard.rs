//! `planish fleet shard`: the counts of one recording, with what it says of itself.

use super::second;
use crate::cli::{FINE, Format, Global};
use crate::command::aggregate::print_ledger;
use crate::command::inputs::{self, Selection};
use crate::output::{self, print_json};
use anyhow::{Context, bail};
use fleet::{Recording, origin};
use perfdata::Input;
use std::path::{Path, PathBuf};

/// Arguments of `planish fleet shard`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Recordings; each becomes a shard of its own
    #[arg(required = true, value_name = "PERF.DATA")]
    pub inputs: Vec<PathBuf>,
    /// Where to write the shard of one recording; `-` is standard output
    #[arg(short, long, value_name = "FILE", required_unless_present = "into")]
    pub output: Option<PathBuf>,
    /// Write the shards into this directory, as ID.counts
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub into: Option<PathBuf>,
    /// Count only in this ELF file; may be given several times
    #[arg(long, value_name = "FILE")]
    pub binary: Vec<PathBuf>,
    /// The recording's name among all recordings, which counts once [default: a hash of its bytes]
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// The machine [default: the one that the recording names]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// What kind of machine it is, for `fleet merge --host-class`
    #[arg(long, value_name = "NAME")]
    pub host_class: Option<String>,
    /// Where it stands, as you call it
    #[arg(long, value_name = "NAME")]
    pub region: Option<String>,
    /// The build of the program, as you call it
    #[arg(long, value_name = "TEXT")]
    pub program: Option<String>,
    /// When the recording began: 2026-11-26T17:40:00 (UTC), or seconds since 1970 [default: as the
    /// recording says; those of planish do]
    #[arg(long, value_name = "TIME", value_parser = second)]
    pub begin: Option<u64>,
    /// When it ended
    #[arg(long, value_name = "TIME", value_parser = second)]
    pub end: Option<u64>,
    /// Taken branches of the program for each second of CPU time, if you know them (planish stat);
    /// `fleet merge --executions` weighs samples that are taken by time with it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub branch_rate: Option<u64>,
    /// Count paths too, for a layout with cloned blocks
    #[arg(long)]
    pub paths: bool,
    /// How to print what was written; text goes to standard error
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Runs the tool.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let one = args.inputs.len() == 1;
    if args.output.is_some() && !one {
        bail!("-o takes the shard of one recording; give --into DIR for several");
    }
    if args.id.is_some() && !one {
        bail!("--id names one recording, and {} are given", args.inputs.len());
    }
    let to_stream = args.output.as_deref() == Some(Path::new("-"));
    if args.format == Format::Json && to_stream {
        bail!("-o - and --format json both want standard output; write the shard to a file");
    }
    if let Some(into) = &args.into {
        std::fs::create_dir_all(into).with_context(|| into.display().to_string())?;
    }
    let images = inputs::open_images(&args.binary)?;
    // Few samples of many machines are enough.
    let selection = Selection { dedup: None, pid: None, allow_few: true, paths: args.paths };
    let mut written = Vec::new();
    for path in &args.inputs {
        let (input, mut recording) = described(args, path)?;
        let place = match (&args.output, &args.into) {
            (Some(output), _) => output.clone(),
            (None, Some(into)) => into.join(format!("{}.counts", recording.id)),
            (None, None) => bail!("-o FILE or --into DIR says where to write"),
        };
        let read = args.binary.iter().chain(&args.inputs).map(PathBuf::as_path);
        output::refuse_inputs([place.as_path()], read)?;
        let found = inputs::read(path, &images, selection, global)?;
        recording.law = origin::law(&input, &found.counts.ledger, args.branch_rate)?;
        output::write_file(&place, |out| {
            Ok(fleet::write(&place, &found.counts, recording.clone(), out)?)
        })?;
        if !global.quiet {
            print_ledger(&found, global);
            if recording.end.is_none() {
                eprintln!(
                    "note: {} does not say when it was made, so --since leaves it out; --end says it",
                    path.display()
                );
            }
        }
        written.push((place, recording));
    }
    if args.format == Format::Json {
        print_json(&report::fleet::written_json(&written))?;
    } else if !global.quiet && !to_stream {
        report::fleet::written_lines(&written).iter().for_each(|line| eprintln!("{line}"));
    }
    Ok(FINE)
}

/// What the recording says of itself, and what the user does.
fn described(args: &Args, path: &Path) -> anyhow::Result<(Input, Recording)> {
    if path == Path::new("-") || !(path.is_file() || path.is_dir()) {
        bail!(
            "{}: a shard is made of a recording that is a file or a directory; `planish aggregate` \
             counts other inputs",
            path.display()
        );
    }
    let input = Input::open(path)?;
    let id = match &args.id {
        Some(id) => id.clone(),
        None => origin::id(path).with_context(|| path.display().to_string())?,
    };
    let mut recording = origin::described(&input, id);
    let texts = [
        (&args.host, &mut recording.host),
        (&args.host_class, &mut recording.host_class),
        (&args.region, &mut recording.region),
        (&args.program, &mut recording.program),
    ];
    for (given, place) in texts {
        if let Some(given) = given {
            place.clone_from(given);
        }
    }
    recording.begin = args.begin.or(recording.begin);
    recording.end = args.end.or(recording.end);
    Ok((input, recording))
}
