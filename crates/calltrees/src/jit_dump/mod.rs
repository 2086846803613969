//! The code that a program made while it ran, from the dump that it wrote (`jit-PID.dump`): names
//! and source lines by address and time.
//!
//! Input: a stream, read once from its begin; code and unwinding tables are passed over, so that
//! memory holds names and lines alone. Output: who holds an address at a time ([`Owners`]), since
//! programs put new code where old code was. Source: `jitdump-specification.txt` in Linux's
//! `tools/perf/Documentation`; that a name of the one byte 0xff is the name before:
//! `tools/perf/util/jitdump.h`.

use crate::owners::Owners;
use perfdata::RuntimeAddr;
use std::borrow::Cow;
use std::io::{self, Read};

mod reading;
#[cfg(test)]
mod tests;

/// Bytes of names of functions and files at most.
const MOST_TEXT: usize = 1 << 28;

/// What of a dump was not used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpLedger {
    /// Records that say nothing usable.
    pub damaged: u64,
    /// Records of kinds that nobody knows.
    pub unknown: u64,
    /// Tables for unwinding, which are not used.
    pub unwinding: u64,
    /// Functions and line tables for which there was no room.
    pub left_out: u64,
    /// Whether it ends within a record.
    pub is_cut: bool,
}

/// Code that was loaded.
#[derive(Clone, Copy, Debug)]
struct Code {
    /// Where in the text its name stands.
    name: (u32, u32),
    /// Its lines, as positions in the list of all.
    lines: (u32, u32),
}

/// From an offset in the code on, a line of a file.
#[derive(Clone, Copy, Debug)]
struct LineFrom {
    offset: u32,
    line: u32,
    file: u32,
}

/// A program's dump.
#[derive(Clone, Debug, Default)]
pub struct JitDump {
    pid: u32,
    arch_times: bool,
    text: Vec<u8>,
    files: Vec<(u32, u32)>,
    codes: Vec<Code>,
    lines: Vec<LineFrom>,
    owners: Owners,
    ledger: DumpLedger,
}

/// Makes, of a process and the path of the dump that it mapped (none: no record tells of one), the
/// dump; none where there is none, else why it is not used.
pub type DumpOpener<'o> = dyn Fn(i32, Option<&str>) -> Option<Result<JitDump, String>> + 'o;

/// A piece of the code of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Number of the code.
    pub code: u32,
    /// Where in it.
    pub offset: u64,
}

impl JitDump {
    /// Reads a dump.
    ///
    /// # Errors
    /// Where the stream cannot be read, or does not begin as a dump.
    pub fn read(mut stream: impl Read) -> io::Result<JitDump> {
        reading::read(&mut stream)
    }

    /// The process, as it numbered itself.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether its times are of the processor's counter, and of no clock.
    pub fn has_arch_times(&self) -> bool {
        self.arch_times
    }

    /// What was not used.
    pub fn ledger(&self) -> DumpLedger {
        self.ledger
    }

    /// The function at an address at a time, in ns of its clock.
    pub fn find(&self, address: RuntimeAddr, time: u64) -> Option<Cow<'_, str>> {
        Some(self.name(self.piece(address.0, Some(time))?.code))
    }

    /// The source file and line at an address at a time.
    pub fn line(&self, address: RuntimeAddr, time: u64) -> Option<(Cow<'_, str>, u32)> {
        self.line_of(self.piece(address.0, Some(time))?)
    }

    /// How many pieces of code it tells of.
    pub(crate) fn codes(&self) -> usize {
        self.codes.len()
    }

    /// The piece that lies at an address at a time; without a time, the last one that lay there.
    pub(crate) fn piece(&self, address: u64, time: Option<u64>) -> Option<Piece> {
        let claim = self.owners.at(address, time)?;
        Some(Piece { code: claim.owner?, offset: address.saturating_sub(claim.start) })
    }

    pub(crate) fn name(&self, code: u32) -> Cow<'_, str> {
        self.codes.get(code as usize).map_or(Cow::Borrowed(""), |code| self.string(code.name))
    }

    pub(crate) fn line_of(&self, piece: Piece) -> Option<(Cow<'_, str>, u32)> {
        let (begin, end) = self.codes.get(piece.code as usize)?.lines;
        let lines = self.lines.get(begin as usize..end as usize)?;
        let after = lines.partition_point(|line| u64::from(line.offset) <= piece.offset);
        let found = lines.get(after.checked_sub(1)?)?;
        Some((self.string(*self.files.get(found.file as usize)?), found.line))
    }

    fn string(&self, (begin, end): (u32, u32)) -> Cow<'_, str> {
        String::from_utf8_lossy(self.text.get(begin as usize..end as usize).unwrap_or_default())
    }

    /// Puts text in, if there is room.
    fn add_text(&mut self, text: &[u8]) -> Option<(u32, u32)> {
        let begin = self.text.len();
        let end = begin.checked_add(text.len()).filter(|end| *end <= MOST_TEXT)?;
        self.text.extend_from_slice(text);
        Some((begin as u32, end as u32))
    }
}
