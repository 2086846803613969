//! What a command is given to count from: perf.data, counts artefacts, perf script text or
//! pre-aggregated text.

use crate::cli::{Choice, Global};
use crate::input::STREAM_BYTES;
use crate::progress;
use anyhow::{Context, bail};
use beside::given::Bounded;
use counts::aggregate::{Aggregated, CountOptions, aggregate};
use counts::input::{HEAD_BYTES, Kind};
use counts::resolve::Rules;
use counts::{artefact, preaggregated, script};
use fleet::Description;
use image::Image;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How doubled and impossible branch stack entries are told from real ones.
const DEDUP: Choice<Rules> = Choice(&[
    (
        "auto",
        Rules::Auto,
        "Ranges must be straight-line code; doubled and wrong-path entries are dropped",
    ),
    ("profgen", Rules::Profgen, "As llvm-profgen: ranges must be straight-line code"),
    (
        "autofdo",
        Rules::Autofdo,
        "As create_llvm_prof: a newest pair of equal far branches is skipped, ranges up to 1 MiB",
    ),
    ("none", Rules::None, "Count everything that does not run backwards"),
]);

/// Which samples and entries of the inputs count.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Selection {
    /// How doubled and impossible branch stack entries are told from real ones [default: auto]
    #[arg(long, value_parser = DEDUP)]
    pub dedup: Option<Rules>,
    /// Count only samples of this process
    #[arg(long)]
    pub pid: Option<i32>,
    /// Go on even if fewer than 1000 branches, and less than 1 % of them, could be counted
    #[arg(long)]
    pub allow_few: bool,
    /// Whether recordings are counted with their paths; for the command to say.
    #[arg(skip)]
    pub paths: bool,
}

impl Selection {
    /// Counts that were made before cannot be selected from any more.
    fn refuse_for(self, path: &Path) -> anyhow::Result<()> {
        let refused = match self {
            Selection { pid: Some(_), .. } => "--pid",
            Selection { dedup: Some(_), .. } => "--dedup",
            _ => return Ok(()),
        };
        bail!(
            "{}: {refused} selects from recordings, and these are counts already",
            path.display()
        );
    }
}

/// Opens the images named with `--binary`.
pub fn open_images(paths: &[PathBuf]) -> anyhow::Result<Vec<Arc<Image>>> {
    paths.iter().map(|p| Ok(Arc::new(Image::open(p)?))).collect()
}

/// Counts of one input file, whatever its kind.
pub fn read(
    path: &Path,
    images: &[Arc<Image>],
    selection: Selection,
    global: &Global,
) -> anyhow::Result<Aggregated> {
    let rules = selection.dedup.unwrap_or_default();
    let options = CountOptions {
        rules,
        threads: global.threads(),
        pid: selection.pid,
        paths: selection.paths,
    };
    if path == Path::new("-") {
        return read_stream(path, std::io::stdin().lock(), images, options, global);
    }
    if path.is_dir() {
        return from_recording(path, &perfdata::Input::open(path)?, images, options, global);
    }
    if path.exists() && !path.is_file() {
        // A pipe, as in `planish aggregate <(perf script …)`, gives its bytes only once.
        return read_stream(path, crate::input::open(path)?, images, options, global);
    }
    let kind = Kind::of(path, &first_bytes(&mut crate::input::open(path)?, path)?)?;
    if matches!(kind, Kind::Artefact | Kind::Preaggregated) {
        selection.refuse_for(path)?;
    }
    let text =
        || Ok::<_, anyhow::Error>(BufReader::with_capacity(1 << 18, crate::input::open(path)?));
    Ok(match kind {
        Kind::Artefact => artefact::read(path, crate::input::regular(path)?)?.into(),
        Kind::Script => script::aggregate(path, text()?, images, options)?,
        Kind::Preaggregated => preaggregated::aggregate(path, text()?, images)?,
        Kind::Recording => {
            from_recording(path, &perfdata::Input::open(path)?, images, options, global)?
        }
    })
}

/// Counts of an input that can be read only once, whatever its kind.
fn read_stream(
    path: &Path,
    stream: impl Read,
    images: &[Arc<Image>],
    options: CountOptions,
    global: &Global,
) -> anyhow::Result<Aggregated> {
    let mut stream = Bounded::new(stream, STREAM_BYTES);
    let head = first_bytes(&mut stream, path)?;
    let kind = Kind::of(path, &head)?;
    let mut whole = BufReader::with_capacity(1 << 18, std::io::Cursor::new(head).chain(stream));
    Ok(match kind {
        Kind::Artefact => {
            let named = || path.display().to_string();
            // Parquet is read from its end.
            let mut spool = tempfile::NamedTempFile::new().context("temporary file")?;
            std::io::copy(&mut whole, &mut spool).with_context(named)?;
            artefact::read(path, spool.reopen()?)?.into()
        }
        Kind::Script => script::aggregate(path, whole, images, options)?,
        Kind::Preaggregated => preaggregated::aggregate(path, whole, images)?,
        Kind::Recording => {
            let input = perfdata::Input::from_pipe(whole)?;
            from_recording(path, &input, images, options, global)?
        }
    })
}

fn from_recording(
    path: &Path,
    input: &perfdata::Input,
    images: &[Arc<Image>],
    options: CountOptions,
    global: &Global,
) -> anyhow::Result<Aggregated> {
    let bar = progress::Bytes::new("aggregate", input.data_bytes(), global.quiet);
    Ok(aggregate(path, input, images, options, &|bytes| bar.add(bytes))?)
}

/// What an input begins with, by which it is recognised.
pub fn first_bytes(stream: &mut impl Read, path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut head = Vec::new();
    stream.take(HEAD_BYTES).read_to_end(&mut head).with_context(|| path.display().to_string())?;
    Ok(head)
}

/// Whether all inputs are counts that an earlier command made, which told what became of the
/// recording's samples.
pub fn are_counted(paths: &[PathBuf]) -> bool {
    let counted = |path: &PathBuf| {
        let mut start = [0; artefact::MAGIC.len()];
        path.is_file()
            && File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
            && start == *artefact::MAGIC
    };
    paths.iter().all(counted)
}

/// Refuses some parts of a divided result without the others: they say nothing about the program.
fn refuse_parts(paths: &[PathBuf]) -> anyhow::Result<()> {
    let mut found: BTreeMap<String, (&Path, u32, BTreeSet<u32>)> = BTreeMap::new();
    for path in paths.iter().filter(|path| path.is_file()) {
        // What is wrong with a file is told when it is read.
        let Ok(about) = artefact::about(path, crate::input::regular(path)?) else { continue };
        let said = about.value(fleet::recording::KEY).map(Description::read);
        let Some(Ok(description)) = said else { continue };
        let (of, parts) = description.parts();
        let first = description.recordings.first().map_or("", |one| &one.id);
        let entry = found.entry(format!("{of} {first}"));
        entry.or_insert((path, of, BTreeSet::new())).2.extend(parts);
    }
    for (path, of, parts) in found.into_values() {
        if parts.len() < usize::try_from(of).unwrap_or(usize::MAX) {
            let part = parts.first().map_or(0, |part| part.saturating_add(1));
            bail!("{}: is part {part} of {of} of a result; give all parts", path.display());
        }
    }
    Ok(())
}

/// Counts of several inputs, added up; notes of all of them, each once.
pub fn read_all(
    paths: &[PathBuf],
    images: &[Arc<Image>],
    selection: Selection,
    global: &Global,
) -> anyhow::Result<Aggregated> {
    refuse_parts(paths)?;
    let parts = paths.iter().map(|path| read(path, images, selection, global));
    let all = Aggregated::sum(parts.collect::<anyhow::Result<Vec<_>>>()?)?;
    if !selection.allow_few {
        counts::refuse_too_few(&all, paths)?;
    }
    Ok(all)
}
