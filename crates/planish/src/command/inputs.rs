//! What a command is given to count from: perf.data, counts artefacts, perf script text or
//! pre-aggregated text.

use crate::cli::Global;
use crate::input::{Bounded, STREAM_BYTES};
use crate::progress;
use anyhow::{Context, bail, ensure};
use counts::aggregate::{Aggregated, Options, aggregate};
use counts::preaggregated::DefaultImage;
use counts::resolve::Rules;
use counts::{Counts, artefact, preaggregated, script};
use image::Image;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How doubled and impossible branch stack entries are told from real ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Dedup {
    /// Ranges must be straight-line code; doubled and wrong-path entries are dropped
    #[default]
    Auto,
    /// As llvm-profgen: ranges must be straight-line code
    Profgen,
    /// As create_llvm_prof: a newest pair of equal far branches is skipped, ranges up to 1 MiB
    Autofdo,
    /// Count everything that does not run backwards
    None,
}

impl From<Dedup> for Rules {
    fn from(dedup: Dedup) -> Rules {
        match dedup {
            Dedup::Auto => Rules::Auto,
            Dedup::Profgen => Rules::Profgen,
            Dedup::Autofdo => Rules::Autofdo,
            Dedup::None => Rules::None,
        }
    }
}

/// Which samples and entries of the inputs count.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Selection {
    /// How doubled and impossible branch stack entries are told from real ones [default: auto]
    #[arg(long, value_enum)]
    pub dedup: Option<Dedup>,
    /// Only samples of this process
    #[arg(long)]
    pub pid: Option<i32>,
    /// Go on where fewer than 1000 branches and less than 1 % of them could be counted, which is
    /// an error otherwise
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
    let rules = selection.dedup.unwrap_or_default().into();
    let options =
        Options { rules, threads: global.threads(), pid: selection.pid, paths: selection.paths };
    if path == Path::new("-") {
        return read_stream(path, std::io::stdin().lock(), images, options, global);
    }
    if path.is_dir() {
        return from_recording(path, &perfdata::Input::open(path)?, images, options, global);
    }
    if path.exists() && !path.is_file() {
        // A pipe, as in `planish aggregate <(perf script …)`, gives its bytes only once.
        return read_stream(path, open(path)?, images, options, global);
    }
    let head = first_bytes(&mut open(path)?, path)?;
    ensure!(
        !head.is_empty(),
        "{}: empty input, expected a recording or counts; did the program that should write it \
         fail?",
        path.display()
    );
    if head.starts_with(artefact::MAGIC) {
        selection.refuse_for(path)?;
        return Ok(counted(artefact::read(path)?));
    }
    let text = || Ok::<_, anyhow::Error>(BufReader::with_capacity(1 << 18, open(path)?));
    match text_kind(&head) {
        Some(TextKind::Script) => Ok(script::aggregate(path, text()?, images, options)?),
        Some(TextKind::Preaggregated) => {
            selection.refuse_for(path)?;
            from_preaggregated(path, text()?, images)
        }
        None => {
            ensure!(!is_text(&head), "{}: {NO_COUNTS_IN_TEXT}", path.display());
            from_recording(path, &perfdata::Input::open(path)?, images, options, global)
        }
    }
}

/// Counts of an input that can be read only once, whatever its kind.
fn read_stream(
    path: &Path,
    stream: impl Read,
    images: &[Arc<Image>],
    options: Options,
    global: &Global,
) -> anyhow::Result<Aggregated> {
    let mut stream = Bounded::new(stream, STREAM_BYTES);
    let head = first_bytes(&mut stream, path)?;
    ensure!(
        !head.is_empty(),
        "{}: empty input, expected a recording or counts; did the program that should write it \
         fail?",
        path.display()
    );
    let (kind, is_text) = (text_kind(&head), is_text(&head));
    let artefact = head.starts_with(artefact::MAGIC);
    let mut whole = BufReader::with_capacity(1 << 18, std::io::Cursor::new(head).chain(stream));
    if artefact {
        // Parquet is read from its end.
        let mut spool = tempfile::NamedTempFile::new().context("temporary file")?;
        std::io::copy(&mut whole, &mut spool).with_context(|| path.display().to_string())?;
        return Ok(counted(
            artefact::read(spool.path()).with_context(|| path.display().to_string())?,
        ));
    }
    match kind {
        Some(TextKind::Script) => Ok(script::aggregate(path, whole, images, options)?),
        Some(TextKind::Preaggregated) => from_preaggregated(path, whole, images),
        None => {
            // Before its bytes are laid on disk.
            ensure!(!is_text, "{}: {NO_COUNTS_IN_TEXT}", path.display());
            from_recording(path, &perfdata::Input::from_pipe(whole)?, images, options, global)
        }
    }
}

/// Counts that were made before.
fn counted(counts: Counts) -> Aggregated {
    let samples = counts.ledger.samples.entered;
    Aggregated { counts, samples, notes: Vec::new(), elsewhere: Vec::new() }
}

fn from_recording(
    path: &Path,
    input: &perfdata::Input,
    images: &[Arc<Image>],
    options: Options,
    global: &Global,
) -> anyhow::Result<Aggregated> {
    let bar = progress::Bytes::new("aggregate", input.data_bytes(), global.quiet);
    Ok(aggregate(path, input, images, options, &|bytes| bar.add(bytes))?)
}

fn from_preaggregated(
    path: &Path,
    text: impl BufRead,
    images: &[Arc<Image>],
) -> anyhow::Result<Aggregated> {
    let [image] = images else {
        bail!(
            "{}: pre-aggregated addresses belong to one image; name it with --binary",
            path.display()
        );
    };
    let default = DefaultImage {
        build_id: image.build_id().copied(),
        path: image.path().display().to_string(),
    };
    Ok(counted(preaggregated::read(path, text, &default)?))
}

fn open(path: &Path) -> anyhow::Result<File> {
    crate::input::open(path)
}

fn first_bytes(stream: &mut impl Read, path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut head = Vec::new();
    stream.take(1 << 16).read_to_end(&mut head).with_context(|| path.display().to_string())?;
    Ok(head)
}

const NO_COUNTS_IN_TEXT: &str = "text, but neither branch stacks nor pre-aggregated counts; print \
                                 them with perf script -F pid,ip,brstack --show-mmap-events, or \
                                 give the perf.data itself";

/// Recordings and artefacts hold control characters within their first bytes, text does not.
fn is_text(head: &[u8]) -> bool {
    // The first bytes of a recording's magic alone are a cut recording.
    let cut = b"PERFILE2".starts_with(head) || b"2ELIFREP".starts_with(head);
    !cut && !head.iter().take(1 << 10).any(|&b| b < 0x20 && !b.is_ascii_whitespace() && b != 0x1b)
}

/// What a file holds, as far as its first bytes tell.
pub enum Kind {
    /// perf.data.
    Recording,
    /// What perf script prints.
    Script,
    /// Counts, in an artefact or as text.
    Counts,
}

/// What the file at `path` holds.
pub fn kind_of(path: &Path) -> anyhow::Result<Kind> {
    let head = first_bytes(&mut open(path)?, path)?;
    ensure!(
        !head.is_empty(),
        "empty input, expected a recording; did the program that should write it fail?"
    );
    if head.starts_with(artefact::MAGIC) {
        return Ok(Kind::Counts);
    }
    match text_kind(&head) {
        Some(TextKind::Script) => Ok(Kind::Script),
        Some(TextKind::Preaggregated) => Ok(Kind::Counts),
        None => {
            ensure!(!is_text(&head), "{NO_COUNTS_IN_TEXT}");
            Ok(Kind::Recording)
        }
    }
}

enum TextKind {
    Script,
    Preaggregated,
}

/// Recordings hold NUL bytes from their header on; text does not.
fn text_kind(head: &[u8]) -> Option<TextKind> {
    if head.is_empty() || head.contains(&0) {
        return None;
    }
    let text = String::from_utf8_lossy(head);
    let mut lines = text.lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#')).take(1000);
    lines.find_map(|line| match line {
        l if script::looks_like(l) => Some(TextKind::Script),
        l if preaggregated::looks_like(l) => Some(TextKind::Preaggregated),
        _ => None,
    })
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

/// Counts of several inputs, added up; notes of all of them, each once.
pub fn read_all(
    paths: &[PathBuf],
    images: &[Arc<Image>],
    selection: Selection,
    global: &Global,
) -> anyhow::Result<Aggregated> {
    let mut parts: Vec<Counts> = Vec::new();
    let mut all = Aggregated {
        counts: Counts::default(),
        samples: 0,
        notes: Vec::new(),
        elsewhere: Vec::new(),
    };
    for path in paths {
        let one = read(path, images, selection, global)?;
        all.samples += one.samples;
        let new =
            one.notes.into_iter().filter(|note| !all.notes.contains(note)).collect::<Vec<_>>();
        all.notes.extend(new);
        all.elsewhere.extend(one.elsewhere);
        parts.push(one.counts);
    }
    all.counts = counts::merge(parts)?;
    if !selection.allow_few {
        counts::refuse_too_few(&all, paths)?;
    }
    Ok(all)
}
