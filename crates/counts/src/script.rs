//! Reads what `perf script` prints of branch stacks, with mapping events where they are shown.
//!
//! Lines understood: those of `perf script --show-mmap-events -F [comm,][pid,]ip,brstack`. A sample
//! line holds at least one `0xFROM/0xTO/…` token; the last plain hex number before it is the
//! instruction pointer, and a decimal number before that the pid. A mapping line holds
//! `PERF_RECORD_MMAP` or `PERF_RECORD_MMAP2`. Without mapping lines the addresses are taken to be
//! those of the one image given, which is right for programs that are not position-independent.

use crate::aggregate::{Aggregated, CountOptions, Part};
use crate::binding::Bindings;
use crate::by_name;
use crate::error::Error;
use crate::halves;
use crate::path_table::PathTable;
use crate::resolve::{Spaces, Sums};
use crate::straight_line::Unrecorded;
use crate::traces::{Trace, TraceTable};
use address_spaces::{Change, KERNEL_PID, MappedFile, Side, Timeline};
use image::Image;
use perfdata::RuntimeAddr;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

/// Whether `line` could be of this format.
pub fn looks_like(line: &str) -> bool {
    line.contains("PERF_RECORD_MMAP")
        || without_file_names(line).split_whitespace().any(|token| parse_entry(token).is_some())
}

/// Counts of one process between two changes of its mappings.
struct Stretch {
    position: u64,
    traces: TraceTable,
    addresses: TraceTable,
    paths: PathTable,
}

/// Pid of samples and mappings in a listing that shows no pids.
pub(crate) const ANY_PID: i32 = 0;

/// Counts the branch stacks of `text` in `images`.
///
/// # Errors
/// Where `text` cannot be read, holds no branch stack, or nothing in it belongs to `images`.
pub fn aggregate(
    path: &Path,
    text: impl BufRead,
    images: &[Arc<Image>],
    options: CountOptions,
) -> Result<Aggregated, Error> {
    let mut reader = Reader { count_paths: options.paths, ..Reader::default() };
    crate::lines::each(path, text, |position, line| {
        reader.line(position, &String::from_utf8_lossy(line));
        Ok(())
    })?;
    if reader.samples == 0 {
        return Err(Error::NoSamples { path: path.to_owned() });
    }
    let mapped = !reader.changes.is_empty();
    if !mapped {
        let pids: std::collections::BTreeSet<i32> =
            reader.stretches.keys().map(|(pid, _)| *pid).collect();
        reader.changes =
            pids.into_iter().flat_map(|pid| preferred_addresses(pid, images)).collect();
    } else if reader.pids_shown {
        reader.changes.retain(|(_, _, replica)| !replica);
    }
    let timeline = Timeline::build(reader.changes.into_iter().map(|(t, c, _)| (t, c)).collect());
    let bindings = Bindings::new(timeline.files(), images, Vec::new());
    let mut sums = Sums::new(&timeline, &bindings, options.rules);
    let mut stretches: Vec<_> = reader.stretches.into_iter().collect();
    stretches.sort_by_key(|((pid, n), _)| (*pid, *n));
    for ((pid, _), stretch) in stretches {
        let spaces = Spaces::at(&timeline, pid, stretch.position);
        sums.add_halved_samples(spaces, stretch.addresses.iter_halves());
        sums.add_halved_traces(spaces, stretch.traces.iter_halves());
        sums.add_paths(spaces, stretch.paths.iter());
    }
    sums.ledger.samples.write_off(crate::Reason::Malformed, reader.malformed);
    let samples = reader.samples;
    let by_name = sums.by_name();
    let counts = sums.finish(Unrecorded::default());
    if counts.images.is_empty() {
        return Err(Error::NothingMatches {
            path: path.to_owned(),
            samples,
            images: crate::aggregate::names_of(images),
            cause: "no address lies there; show the mappings (perf script --show-mmap-events) and \
                    give the recorded build with --binary"
                .into(),
        });
    }
    let notes = if mapped {
        by_name::notes(&by_name, &counts.ledger)
    } else {
        vec![format!(
            "{}: no mappings shown, so all addresses are taken to be those of {}; perf script \
             --show-mmap-events shows them",
            path.display(),
            crate::aggregate::names_of(images)
        )]
    };
    let parts = vec![Part { path: path.to_owned(), samples, used: counts.ledger.samples.used }];
    Ok(Aggregated { samples, notes, parts, ..Aggregated::from(counts) })
}

#[derive(Default)]
struct Reader {
    /// Time, change, and whether it only serves a listing without pids.
    changes: Vec<(u64, Change, bool)>,
    /// Mapping changes so far, by pid.
    versions: FxHashMap<i32, u32>,
    stretches: FxHashMap<(i32, u32), Stretch>,
    pids_shown: bool,
    samples: u64,
    malformed: u64,
    count_paths: bool,
}

impl Reader {
    fn line(&mut self, position: u64, line: &str) {
        if let Some(at) = line.find("PERF_RECORD_MMAP") {
            match parse_mapping(line.get(at..).unwrap_or("")) {
                Some((pid, change, any)) => {
                    *self.versions.entry(pid).or_default() += 1;
                    *self.versions.entry(ANY_PID).or_default() += 1;
                    self.changes.push((position, change, false));
                    self.changes.extend(any.map(|c| (position, c, true)));
                }
                None => self.malformed += 1,
            }
            return;
        }
        let line = &without_file_names(line);
        let mut entries = line.split_whitespace().filter_map(parse_entry).peekable();
        if entries.peek().is_none() {
            return;
        }
        let (pid, ip) = leading_numbers(line);
        self.pids_shown |= pid.is_some();
        let pid = pid.unwrap_or(ANY_PID);
        let version = self.versions.get(&pid).copied().unwrap_or(0);
        let stretch = self.stretches.entry((pid, version)).or_insert_with(|| Stretch {
            position,
            traces: TraceTable::default(),
            addresses: TraceTable::default(),
            paths: PathTable::default(),
        });
        self.samples += 1;
        let half = halves::of(position);
        if let Some(ip) = ip {
            stretch.addresses.add_in(ip, 0, 0, 0, half);
        }
        let mut next: Option<Entry> = None;
        for entry in entries.filter(|e| !e.wrong_path) {
            let next_from = next.as_ref().map_or(Trace::NONE.0, |next| next.from);
            stretch.traces.add_in(
                entry.from,
                entry.to,
                next_from,
                u64::from(entry.mispredicted),
                half,
            );
            if let Some(next) = next.filter(|_| self.count_paths) {
                stretch.paths.add(entry.from, entry.to, next.from, next.to);
            }
            next = Some(entry);
        }
    }
}

/// One entry of a branch stack as printed.
pub(crate) struct Entry {
    pub from: u64,
    pub to: u64,
    mispredicted: bool,
    pub wrong_path: bool,
}

pub(crate) fn parse_entry(token: &str) -> Option<Entry> {
    let mut parts = token.split('/');
    let from = u64::from_str_radix(parts.next()?.strip_prefix("0x")?, 16).ok()?;
    let to = u64::from_str_radix(parts.next()?.strip_prefix("0x")?, 16).ok()?;
    let mispredicted = parts.next()?.starts_with('M');
    Some(Entry { from, to, mispredicted, wrong_path: token.contains("SPEC_WRONG_PATH") })
}

/// The line without what stands in parentheses: perf puts file names there, behind each address
/// where it shows them. Most listings show none, and need no copy.
pub(crate) fn without_file_names(line: &str) -> Cow<'_, str> {
    if !line.contains('(') {
        return Cow::Borrowed(line);
    }
    let mut depth = 0usize;
    let kept = line
        .chars()
        .filter(|&c| {
            let inside = depth > 0 || c == '(';
            depth = match c {
                '(' => depth + 1,
                ')' => depth.saturating_sub(1),
                _ => depth,
            };
            !inside
        })
        .collect();
    Cow::Owned(kept)
}

/// The pid and the instruction pointer that stand before the first entry. With a time
/// (`12.345678:`) the pid stands before it; without one it is the last decimal number before the
/// instruction pointer.
pub(crate) fn leading_numbers(line: &str) -> (Option<i32>, Option<u64>) {
    let before: Vec<&str> =
        line.split_whitespace().take_while(|t| parse_entry(t).is_none()).collect();
    let ip_at = before.iter().rposition(|t| u64::from_str_radix(t, 16).is_ok());
    let ip = ip_at.and_then(|at| u64::from_str_radix(before.get(at)?, 16).ok());
    let time_at = before.iter().position(|t| t.ends_with(':') && t.contains('.'));
    let names = before.get(..time_at.or(ip_at).unwrap_or(0)).unwrap_or_default();
    (names.iter().rev().find_map(|t| t.split('/').next()?.parse().ok()), ip)
}

/// `PERF_RECORD_MMAP2 12/12: [0x55e0(0x1000) @ 0x40 08:01 7 0]: r-xp /usr/bin/x`. Also gives the
/// same change for a listing that shows no pids.
pub(crate) fn parse_mapping(text: &str) -> Option<(i32, Change, Option<Change>)> {
    let mut words = text.split_whitespace();
    words.next()?;
    let pid: i32 = words.next()?.split('/').next()?.parse().ok()?;
    let inside = text.get(text.find('[')? + 1..)?;
    let (range, rest) = inside.split_once(']')?;
    let (start, more) = range.split_once('(')?;
    let (len, tail) = more.split_once(')')?;
    let pgoff = tail.trim_start().strip_prefix('@')?.split_whitespace().next()?;
    let rest = rest.strip_prefix(':')?.trim_start();
    let (protection, name) = rest.split_once(' ')?;
    if !protection.contains('x') {
        return None;
    }
    let build_id =
        range.split_once('<').and_then(|(_, id)| hex::decode(id.split('>').next()?).ok());
    let piece = (RuntimeAddr(number(start)?), number(len)?, number(pgoff)?);
    let map = |pid| Change::mapping(pid, piece, name.trim().to_owned(), build_id.clone());
    Some((pid, map(pid), (pid != KERNEL_PID).then(|| map(ANY_PID))))
}

fn number(text: &str) -> Option<u64> {
    match text.trim().strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.trim().parse().ok(),
    }
}

/// Mappings that put each image where its headers ask for.
pub(crate) fn preferred_addresses(pid: i32, images: &[Arc<Image>]) -> Vec<(u64, Change, bool)> {
    let mut out = Vec::new();
    for image in images {
        let file = Arc::new(MappedFile {
            path: image.path().display().to_string(),
            build_id: None,
            side: Side::Process,
        });
        for s in image.segments().iter().filter(|s| s.executable) {
            let (start, len, pgoff) = (RuntimeAddr(s.address.0), s.file_bytes, s.offset.0);
            let file = Arc::clone(&file);
            out.push((0, Change::Map { pid, start, len, pgoff, file }, false));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pid_and_address_are_found_whatever_fields_stand_beside_them() {
        assert_eq!(leading_numbers("10 50001010 0x1/0x2/P/-/-/0"), (Some(10), Some(0x5000_1010)));
        assert_eq!(leading_numbers("50001010 0x1/0x2/P/-/-/0"), (None, Some(0x5000_1010)));
        let default = "my app 77 [000] 12.5: 1000 branches:u: 401136 main+0x6 0x1/0x2/P/-/-/0";
        assert_eq!(leading_numbers(default), (Some(77), Some(0x40_1136)));
    }

    #[test]
    fn file_names_behind_addresses_are_no_part_of_them() {
        let line = without_file_names("401136 main+0x6 (/a b/c) 0x1(/a b/c)/0x2(/a b/c)/P/-/-/0");
        let entry = line.split_whitespace().find_map(parse_entry).expect("an entry");
        assert_eq!((entry.from, entry.to), (1, 2));
    }
}
