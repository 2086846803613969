//! What a command is given to count from: perf.data, counts artefacts, perf script text or pre-aggregated text.

use crate::cli::Global;
use crate::progress;
use anyhow::{Context, bail};
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

/// Opens the images named with `--binary`.
pub fn open_images(paths: &[PathBuf]) -> anyhow::Result<Vec<Arc<Image>>> {
    paths.iter().map(|p| Ok(Arc::new(Image::open(p)?))).collect()
}

/// Counts of one input file, whatever its kind.
pub fn read(
    path: &Path,
    images: &[Arc<Image>],
    dedup: Dedup,
    pid: Option<i32>,
    global: &Global,
) -> anyhow::Result<Aggregated> {
    let options = Options { rules: dedup.into(), threads: global.threads(), pid };
    if path == Path::new("-") {
        let input = perfdata::Input::from_pipe(std::io::stdin().lock()).context("standard input")?;
        return from_recording(path, &input, images, options, global);
    }
    if path.is_dir() {
        return from_recording(path, &perfdata::Input::open(path)?, images, options, global);
    }
    let head = first_bytes(path)?;
    if head.starts_with(artefact::MAGIC) {
        let counts = artefact::read(path)?;
        let samples = counts.ledger.samples.entered;
        return Ok(Aggregated { counts, samples, notes: Vec::new(), elsewhere: Vec::new() });
    }
    match text_kind(&head) {
        Some(TextKind::Script) => Ok(script::aggregate(path, open_text(path)?, images, options)?),
        Some(TextKind::Preaggregated) => from_preaggregated(path, images),
        None => from_recording(path, &perfdata::Input::open(path)?, images, options, global),
    }
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

fn from_preaggregated(path: &Path, images: &[Arc<Image>]) -> anyhow::Result<Aggregated> {
    let [image] = images else {
        bail!("{}: pre-aggregated addresses belong to one image; name it with --binary", path.display());
    };
    let default =
        DefaultImage { build_id: image.build_id().copied(), path: image.path().display().to_string() };
    let counts = preaggregated::read(path, open_text(path)?, &default)?;
    let samples = counts.ledger.samples.entered;
    Ok(Aggregated { counts, samples, notes: Vec::new(), elsewhere: Vec::new() })
}

fn open_text(path: &Path) -> anyhow::Result<impl BufRead> {
    Ok(BufReader::with_capacity(1 << 18, File::open(path).with_context(|| path.display().to_string())?))
}

fn first_bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut head = Vec::new();
    let file = File::open(path).with_context(|| path.display().to_string())?;
    file.take(1 << 16).read_to_end(&mut head).with_context(|| path.display().to_string())?;
    Ok(head)
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

/// Counts of several inputs, added up; notes of all of them.
pub fn read_all(
    paths: &[PathBuf],
    images: &[Arc<Image>],
    dedup: Dedup,
    pid: Option<i32>,
    global: &Global,
) -> anyhow::Result<Aggregated> {
    let mut parts: Vec<Counts> = Vec::new();
    let mut all =
        Aggregated { counts: Counts::default(), samples: 0, notes: Vec::new(), elsewhere: Vec::new() };
    for path in paths {
        let one = read(path, images, dedup, pid, global)?;
        all.samples += one.samples;
        all.notes.extend(one.notes);
        all.elsewhere.extend(one.elsewhere);
        parts.push(one.counts);
    }
    all.counts = counts::merge(parts)?;
    Ok(all)
}
