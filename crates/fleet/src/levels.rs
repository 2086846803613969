//! How are more files merged than memory and open files allow at once? In levels: as many at a time
//! as fit are merged into files for a while, and those again. Sums do not depend on the order, so
//! that the result is the same.

use crate::kway::{self, Kept};
use crate::plan::{Chosen, Options, Plan};
use crate::recording::KEY;
use crate::tree::Source;
use crate::{Error, Weight, digest};
use beside::scratch::Scratch;
use counts::Ledger;
use counts::artefact::rows::{BATCH_BYTES, Rows};
use counts::artefact::writer::{GROUP_BYTES, Writer};
use counts::artefact::{self};
use sha2::{Digest as _, Sha256};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Files that are open at once.
const MOST_OPEN: usize = 256;
/// Memory that is needed beside that of inputs and output, in bytes.
const BASE_BYTES: u64 = 64 << 20;
/// Least memory that a merge can be held to, in bytes.
pub const LEAST_MEMORY: u64 = 256 << 20;

/// What a merge did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Rows of the shards.
    pub rows_read: u64,
    /// Rows of the result.
    pub rows_written: u64,
    /// Files merged for a while, because not all fit into memory at once.
    pub intermediate: u64,
    /// Of which taken from a merge that was broken off.
    pub reused: u64,
}

/// A file to be merged.
enum Part<'s> {
    Shard(Chosen<'s>),
    /// Of a level before: its name, what it takes to read it, and what it was made of.
    Made(PathBuf, u64, String),
}

impl Part<'_> {
    /// Memory that reading it takes.
    fn bytes(&self) -> u64 {
        let held = match self {
            Part::Shard(chosen) => chosen.shard.about.held_bytes,
            Part::Made(_, held, _) => *held,
        };
        held.saturating_add(BATCH_BYTES)
    }

    fn path(&self) -> &Path {
        match self {
            Part::Shard(chosen) => &chosen.shard.path,
            Part::Made(path, _, _) => path,
        }
    }

    /// Its rows, if it is a shard.
    fn shard_rows(&self) -> u64 {
        match self {
            Part::Shard(chosen) => chosen.shard.about.rows,
            Part::Made(..) => 0,
        }
    }

    /// Its bytes, if it is a shard.
    fn shard_bytes(&self) -> u64 {
        match self {
            Part::Shard(chosen) => chosen.shard.bytes,
            Part::Made(..) => 0,
        }
    }

    fn source(&self) -> Result<Source, Error> {
        match self {
            Part::Shard(Chosen { shard, weight }) => {
                let (bytes, rows) = (shard.bytes, shard.about.rows);
                let source = Source::new(shard.path.clone(), shard.rows()?, *weight, bytes, rows);
                Ok(source.claiming(shard.claim()))
            }
            Part::Made(path, _, _) => {
                let file = beside::given::open(path)?;
                let (_, rows) = Rows::open(path, file, "")?;
                Ok(Source::new(path.clone(), rows, Weight::ONE, 0, 0))
            }
        }
    }
}

/// Where files of levels lie.
struct Folder<'f> {
    kept: Option<&'f Path>,
    scratch: Option<Scratch>,
    /// Those in the directory that is kept.
    made: Vec<PathBuf>,
}

impl Folder<'_> {
    fn path(&mut self) -> Result<&Path, Error> {
        if let Some(kept) = self.kept {
            return Ok(kept);
        }
        let scratch = match self.scratch.take() {
            Some(scratch) => scratch,
            None => Scratch::new()?,
        };
        Ok(self.scratch.insert(scratch).path())
    }

    /// Removes what was kept once the result is there; what cannot be removed is left.
    fn clear(&self) {
        for name in &self.made {
            let _ = std::fs::remove_file(name);
        }
    }
}

/// What a file of a level is made of, as a name: its shards with their weights, and what of the rows is
/// kept.
fn key(group: &[Part<'_>], kept: Kept) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("{} {:?} ", kept.halves, kept.partition));
    for part in group {
        match part {
            Part::Shard(chosen) => {
                hash.update(chosen.shard.footer);
                hash.update(chosen.weight.bits().to_le_bytes());
                // The same bytes under another architecture have other rows.
                hash.update(chosen.shard.description.architecture());
                hash.update([0]);
            }
            Part::Made(_, _, key) => hash.update(key),
        }
    }
    digest::hex(&hash.finalize().into())
}

/// Merges what is planned into `out`, which `path` names in messages; `tell` hears of the bytes of
/// shards as they are read.
///
/// # Errors
/// Where a shard is damaged ([`Error::shard`] names it), a sum is too large, or `out` refuses.
pub fn merge(
    plan: &Plan<'_>,
    options: &Options,
    path: &Path,
    out: impl Write + Send,
    tell: &(dyn Fn(u64) + Sync),
) -> Result<Merged, Error> {
    let budget = options.memory.saturating_sub(GROUP_BYTES + BASE_BYTES);
    let kept = Kept { halves: plan.description.halves, partition: options.partition };
    let mut parts: Vec<Part<'_>> = plan.chosen.iter().map(|chosen| Part::Shard(*chosen)).collect();
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        asked => asked,
    };
    let mut folder = Folder { kept: options.keep.as_deref(), scratch: None, made: Vec::new() };
    if let Some(kept) = folder.kept {
        std::fs::create_dir_all(kept)?;
    }
    let mut done = Merged { rows_read: 0, rows_written: 0, intermediate: 0, reused: 0 };
    loop {
        let groups = groups(parts, budget)?;
        let last = match <[Vec<Part<'_>>; 1]>::try_from(groups) {
            Ok([last]) => last,
            Err(groups) => {
                parts = Vec::new();
                for group in groups {
                    let key = key(&group, kept);
                    let name = folder.path()?.join(format!("{key}.counts"));
                    done.intermediate += 1;
                    // Files are there whole or not at all.
                    if folder.kept.is_some() && is_whole(&name) {
                        done.reused += 1;
                        done.rows_read += group.iter().map(Part::shard_rows).sum::<u64>();
                        tell(group.iter().map(Part::shard_bytes).sum());
                    } else {
                        done.rows_read += made(&group, plan, kept, threads, &name, tell)?;
                    }
                    if folder.kept.is_some() {
                        folder.made.push(name.clone());
                    } else {
                        for part in &group {
                            if let Part::Made(path, ..) = part {
                                std::fs::remove_file(path)?;
                            }
                        }
                    }
                    let about = artefact::about(&name, beside::given::open(&name)?)?;
                    parts.push(Part::Made(name, about.held_bytes, key));
                }
                continue;
            }
        };
        let more = vec![(KEY.to_owned(), plan.description.text())];
        let mut writer = Writer::new(path, out, plan.form, &plan.ledger, more)?;
        let (read, shards) =
            add_up(&last, kept, threads, tell, |image, row| Ok(writer.push(image, row)?))?;
        done.rows_read += if shards { read } else { 0 };
        done.rows_written = writer.finish()?;
        folder.clear();
        return Ok(done);
    }
}

/// Whether a file that an earlier merge made is there and undamaged.
fn is_whole(name: &Path) -> bool {
    let Ok(file) = beside::given::open(name) else { return false };
    let Ok((_, mut rows)) = Rows::open(name, file, "") else { return false };
    let mut spare = Vec::new();
    loop {
        match rows.next_block(spare) {
            Ok(Some(block)) => spare = block.rows,
            end => return end.is_ok(),
        }
    }
}

/// Merges a group into a file; the rows of shards read.
fn made(
    group: &[Part<'_>],
    plan: &Plan<'_>,
    kept: Kept,
    threads: usize,
    path: &Path,
    tell: &(dyn Fn(u64) + Sync),
) -> Result<u64, Error> {
    let mut rows = 0;
    beside::named::write(path, |out| {
        let mut writer = Writer::new(path, out, plan.form, &Ledger::default(), Vec::new())?;
        let (read, shards) =
            add_up(group, kept, threads, tell, |image, row| Ok(writer.push(image, row)?))?;
        rows = if shards { read } else { 0 };
        writer.finish()?;
        Ok::<_, Error>(())
    })?;
    Ok(rows)
}

/// The rows read, and whether they are of shards.
fn add_up(
    group: &[Part<'_>],
    kept: Kept,
    threads: usize,
    tell: &(dyn Fn(u64) + Sync),
    emit: impl FnMut(&std::sync::Arc<artefact::row::ImageKey>, artefact::row::Row) -> Result<(), Error>,
) -> Result<(u64, bool), Error> {
    let shards = matches!(group.first(), Some(Part::Shard(_)));
    let parts = group.iter().collect();
    Ok((kway::merge(parts, Part::source, kept, threads, tell, emit)?, shards))
}

/// Divides files into groups that fit into memory, in their order; one group where all fit.
fn groups<'s>(parts: Vec<Part<'s>>, budget: u64) -> Result<Vec<Vec<Part<'s>>>, Error> {
    let mut groups: Vec<Vec<Part<'s>>> = Vec::new();
    let (mut held, mut last) = (0u64, 0u64);
    for part in parts {
        let bytes = part.bytes();
        let fits = held.saturating_add(bytes) <= budget;
        match groups.last_mut() {
            Some(group) if fits && group.len() < MOST_OPEN => {
                group.push(part);
                held = held.saturating_add(bytes);
            }
            // A group of one makes no progress.
            Some(group) if group.len() < 2 => {
                let needed = last.saturating_add(bytes).saturating_add(GROUP_BYTES + BASE_BYTES);
                let path = part.path().to_owned();
                return Err(Error::Memory { path, needed_mib: needed.div_ceil(1 << 20) });
            }
            _ => {
                groups.push(vec![part]);
                held = bytes;
            }
        }
        last = bytes;
    }
    Ok(groups)
}
