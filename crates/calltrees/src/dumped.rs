//! Which process has which dump of the code that it made, and when?
//!
//! An address of such code means what was there when the sample was taken. So that only that much
//! of the time is kept, the address is replaced, in the sample's chain, by the number of the code and
//! the place in it ([`Dumps::word`]).

use crate::jit_dump::{DumpOpener, JitDump, Piece};
use address_spaces::Change;
use perfdata::{EventAttr, attr_flag};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// `CLOCK_MONOTONIC`, of which the times of dumps are.
const MONOTONIC: i32 = 1;
/// No program has addresses that begin with the bits 01.
const IS_PIECE: u64 = 1 << 62;
const OFFSET_BITS: u32 = 36;
/// Numbers of codes, of all dumps together.
const MOST_CODES: u64 = 1 << (62 - OFFSET_BITS);

/// The dump of a process for a part of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    dump: u32,
    since: u64,
    until: u64,
    /// Code that was made later is not the process's: it is a copy of the one that made it.
    latest: u64,
}

/// The dumps of a recording.
#[derive(Default)]
pub(crate) struct Dumps {
    dumps: Vec<(String, JitDump)>,
    /// The number of each dump's first code.
    bases: Vec<u64>,
    held: FxHashMap<i32, Vec<Held>>,
    refused: BTreeSet<String>,
    /// Whether the recording's times are of the dumps' clock.
    same_clock: bool,
}

/// Whether a recording has the times of `CLOCK_MONOTONIC`.
pub(crate) fn is_monotonic(attrs: &[EventAttr]) -> bool {
    attrs.iter().all(|attr| attr.flags & attr_flag::USE_CLOCKID != 0 && attr.clockid == MONOTONIC)
}

/// The name of a dump, if a path is one's: `jit-`, digits, `.dump`.
fn dump_name(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next()?;
    let number = name.strip_prefix("jit-")?.strip_suffix(".dump")?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
}

impl Dumps {
    /// Opens the dumps of all processes that `changes` tell of.
    pub(crate) fn open(
        changes: &[(u64, Change)],
        open: &DumpOpener<'_>,
        same_clock: bool,
    ) -> Dumps {
        let mut dumps = Dumps { same_clock, ..Dumps::default() };
        let mut order: Vec<&(u64, Change)> = changes.iter().collect();
        order.sort_by_key(|(time, _)| *time);
        let mut known: FxHashMap<(i32, String), Option<u32>> = FxHashMap::default();
        let mut pids = BTreeSet::new();
        for (time, change) in order {
            match change {
                Change::Map { pid, file, .. } => {
                    pids.insert(*pid);
                    if dump_name(&file.path).is_some() {
                        let key = (*pid, file.path.clone());
                        let number = *known
                            .entry(key)
                            .or_insert_with(|| dumps.add(*pid, Some(&file.path), open));
                        dumps.close(*pid, *time);
                        dumps.hold(*pid, number, *time, u64::MAX);
                    }
                }
                Change::Fork { pid, parent } if pid != parent => {
                    let copied = dumps.at(*parent, *time).0;
                    dumps.close(*pid, *time);
                    dumps.hold(*pid, copied.map(|held| held.dump), *time, *time);
                }
                Change::Fork { .. } => {}
                Change::Exec { pid } => dumps.close(*pid, *time),
            }
        }
        for pid in pids {
            if !dumps.held.contains_key(&pid) {
                let number = dumps.add(pid, None, open);
                dumps.hold(pid, number, 0, u64::MAX);
            }
        }
        dumps
    }

    fn add(&mut self, pid: i32, path: Option<&str>, open: &DumpOpener<'_>) -> Option<u32> {
        let own = format!("jit-{pid}.dump");
        let name = path.and_then(dump_name).unwrap_or(&own).to_owned();
        let base = self.bases.last().zip(self.dumps.last());
        let base = base.map_or(0, |(base, (_, last))| base + last.codes() as u64);
        match open(pid, path)? {
            Ok(dump) if base + dump.codes() as u64 <= MOST_CODES => {
                self.dumps.push((name, dump));
                self.bases.push(base);
                Some(self.dumps.len() as u32 - 1)
            }
            Ok(_) => {
                self.refused
                    .insert(format!("{name}: the dumps of the recording have too many functions"));
                None
            }
            Err(why) => {
                self.refused.insert(why);
                None
            }
        }
    }

    fn hold(&mut self, pid: i32, dump: Option<u32>, since: u64, latest: u64) {
        let held = dump.map(|dump| Held { dump, since, until: u64::MAX, latest });
        self.held.entry(pid).or_default().extend(held);
    }

    fn close(&mut self, pid: i32, time: u64) {
        if let Some(last) = self.held.get_mut(&pid).and_then(|all| all.last_mut()) {
            last.until = last.until.min(time);
        }
    }

    /// What a process has at a time, and the first time at which it may be another.
    pub(crate) fn at(&self, pid: i32, time: u64) -> (Option<Held>, u64) {
        let Some(all) = self.held.get(&pid) else { return (None, u64::MAX) };
        let after = all.partition_point(|held| held.since <= time);
        let next = all.get(after).map_or(u64::MAX, |held| held.since);
        match after.checked_sub(1).and_then(|last| all.get(last)) {
            Some(held) if time < held.until => (Some(*held), next.min(held.until)),
            _ => (None, next),
        }
    }

    /// What stands in a chain in place of an address of code that was made: the code, and where in
    /// it; none where the dump does not tell of the address.
    pub(crate) fn word(&self, held: Held, address: u64, time: u64) -> Option<u64> {
        let (_, dump) = self.dumps.get(held.dump as usize)?;
        // Without a common clock, what was there last is the best guess.
        let comparable = self.same_clock && !dump.has_arch_times();
        let time = comparable.then(|| time.min(held.latest));
        let piece = dump.piece(address, time)?;
        let number = self.bases.get(held.dump as usize)?.checked_add(piece.code.into())?;
        let fits = piece.offset < (1 << OFFSET_BITS) - 1;
        fits.then_some(IS_PIECE | number << OFFSET_BITS | piece.offset)
    }

    /// Whether a word of a chain stands for a place in such code.
    pub(crate) fn is_word(word: u64) -> bool {
        word & (0b11 << 62) == IS_PIECE
    }

    fn piece(&self, word: u64) -> Option<(&JitDump, Piece)> {
        let number = (word & !IS_PIECE) >> OFFSET_BITS;
        let at = self.bases.partition_point(|base| *base <= number).checked_sub(1)?;
        let code = u32::try_from(number - self.bases.get(at)?).ok()?;
        let (_, dump) = self.dumps.get(at)?;
        Some((dump, Piece { code, offset: word & ((1 << OFFSET_BITS) - 1) }))
    }

    /// The name of the code that a word stands for.
    pub(crate) fn name(&self, word: u64) -> Option<Cow<'_, str>> {
        let (dump, piece) = self.piece(word)?;
        ((piece.code as usize) < dump.codes()).then(|| dump.name(piece.code))
    }

    /// The source file and line that a word stands for.
    pub(crate) fn line(&self, word: u64) -> Option<(Cow<'_, str>, u32)> {
        let (dump, piece) = self.piece(word)?;
        dump.line_of(piece)
    }

    /// What of the dumps was not used, and why.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> = self.refused.iter().cloned().collect();
        for (name, dump) in &self.dumps {
            let ledger = dump.ledger();
            let counted = [
                (ledger.damaged, "damaged records"),
                (ledger.unknown, "records of unknown kinds"),
                (ledger.unwinding, "tables for unwinding, which are not used"),
                (ledger.left_out, "functions or files for which there was no room"),
            ];
            for (number, what) in counted.into_iter().filter(|(number, _)| *number > 0) {
                remarks.push(format!("{name}: {what}: {number}"));
            }
            if ledger.is_cut {
                remarks.push(format!("{name}: it ends within a record"));
            }
            if dump.has_arch_times() {
                remarks.push(format!(
                    "{name}: its times are of the processor's counter: where code was replaced, the \
                     last one's name stands"
                ));
            } else if !self.same_clock {
                remarks.push(format!(
                    "{name}: its times are of another clock than the recording's: where code was \
                     replaced, the last one's name stands (record with -k mono)"
                ));
            }
        }
        remarks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use address_spaces::{MappedFile, Side};
    use perfdata::RuntimeAddr;
    use std::sync::Arc;

    fn dump(functions: &[(u64, u64, &str)]) -> JitDump {
        let mut bytes = Vec::new();
        [0x4a69_5444u32, 1, 40, 62, 0, 7].iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes.extend([0; 16]);
        for (time, start, name) in functions {
            bytes.extend(0u32.to_ne_bytes());
            bytes.extend((16 + 40 + name.len() as u32 + 1).to_ne_bytes());
            for word in [*time, 7, *start, *start, 0x100, 1] {
                bytes.extend(word.to_ne_bytes());
            }
            bytes.extend(name.as_bytes());
            bytes.push(0);
        }
        JitDump::read(bytes.as_slice()).unwrap()
    }

    fn map(time: u64, pid: i32, path: &str) -> (u64, Change) {
        let file = MappedFile { path: path.to_owned(), build_id: None, side: Side::Process };
        let file = Arc::new(file);
        (time, Change::Map { pid, start: RuntimeAddr(0x10), len: 16, pgoff: 0, file })
    }

    fn opener(pid: i32, path: Option<&str>) -> Option<Result<JitDump, String>> {
        match (pid, path) {
            (7, Some("/tmp/jit-7.dump")) => {
                Some(Ok(dump(&[(20, 0x1000, "early"), (40, 0x1000, "late")])))
            }
            (8, None) => Some(Ok(dump(&[(0, 0x1000, "from a directory")]))),
            (9, _) => Some(Err("jit-9.dump: not yours".to_owned())),
            _ => None,
        }
    }

    #[test]
    fn a_process_has_the_code_of_its_time_and_a_copy_that_of_before() {
        let changes = [
            (50, Change::Exec { pid: 7 }),
            map(10, 7, "/tmp/jit-7.dump"),
            map(10, 7, "/usr/bin/jit-x.dump"),
            (30, Change::Fork { pid: 70, parent: 7 }),
            (31, Change::Fork { pid: 7, parent: 7 }),
            map(0, 8, "/bin/sh"),
            map(0, 9, "/tmp/jit-9.dump"),
        ];
        let dumps = Dumps::open(&changes, &opener, true);
        let name = |dumps: &Dumps, pid: i32, time: u64| {
            let held = dumps.at(pid, time).0?;
            let word = dumps.word(held, 0x1080, time)?;
            assert!(Dumps::is_word(word) && !Dumps::is_word(0x1080) && !Dumps::is_word(u64::MAX));
            dumps.name(word).map(Cow::into_owned)
        };
        let at = |pid, time| name(&dumps, pid, time);
        assert_eq!([at(7, 9), at(7, 19), at(7, 50)], [None, None, None]);
        assert_eq!(at(7, 20).as_deref(), Some("early"));
        assert_eq!(at(7, 49).as_deref(), Some("late"));
        assert_eq!(at(70, 99).as_deref(), Some("early"));
        assert_eq!(at(8, 5).as_deref(), Some("from a directory"));
        assert_eq!(at(9, 5), None);
        assert_eq!(dumps.remarks(), ["jit-9.dump: not yours"]);
        // Until when it holds.
        assert_eq!((dumps.at(7, 5).1, dumps.at(7, 10).1, dumps.at(7, 60).1), (10, 50, u64::MAX));
        let other = Dumps::open(&changes, &opener, false);
        assert_eq!(name(&other, 7, 20).as_deref(), Some("late"));
        assert!(other.remarks().iter().any(|remark| remark.contains("-k mono")));
        // Words that no dump made.
        assert_eq!(dumps.name(IS_PIECE | 77 << OFFSET_BITS), None);
        assert_eq!(Dumps::default().name(IS_PIECE), None);
    }
}
