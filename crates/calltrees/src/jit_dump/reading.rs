//! The records of a dump, one after another.

use super::{Code, JitDump, LineFrom};
use crate::owners::{Claim, Owners};
use rustc_hash::FxHashMap;
use std::io::{self, Read};

/// `JiTD`, in the writer's byte order.
pub(super) const MAGIC: u32 = 0x4a69_5444;
const HEADER_BYTES: u32 = 40;
const RECORD_BYTES: u32 = 16;
/// `JITDUMP_FLAGS_ARCH_TIMESTAMP`: times are of the processor's counter.
const ARCH_TIMESTAMP: u64 = 1;
pub(super) const CODE_LOAD: u32 = 0;
pub(super) const CODE_MOVE: u32 = 1;
pub(super) const CODE_DEBUG_INFO: u32 = 2;
pub(super) const CODE_CLOSE: u32 = 3;
pub(super) const CODE_UNWINDING_INFO: u32 = 4;
/// Functions and moves of a dump that are used at most; each takes about 150 bytes.
const MOST_FUNCTIONS: usize = 1 << 20;
/// Lines that are used at most, of 12 bytes.
const MOST_LINES: usize = 1 << 24;
/// Bytes of a name at most; what is longer is cut.
const LONGEST_NAME: usize = 1 << 16;

/// Reads a dump to its end, or to where it is damaged.
pub(super) fn read(stream: &mut impl Read) -> io::Result<JitDump> {
    let (dump, swapped) = header(stream)?;
    let mut state = State { dump, ..State::default() };
    loop {
        match state.record(stream, swapped) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                state.dump.ledger.is_cut = true;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    state.dump.owners = Owners::new(state.claims);
    Ok(state.dump)
}

/// What is left of a record's body.
struct Body<'r, R> {
    stream: &'r mut R,
    left: u64,
    swapped: bool,
}

impl<R: Read> Body<'_, R> {
    fn bytes<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        if self.left < N as u64 {
            return Ok(None);
        }
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        self.left -= N as u64;
        Ok(Some(bytes))
    }

    fn u32(&mut self) -> io::Result<Option<u32>> {
        let number = self.bytes()?.map(u32::from_ne_bytes);
        Ok(number.map(|number| if self.swapped { number.swap_bytes() } else { number }))
    }

    fn u64(&mut self) -> io::Result<Option<u64>> {
        let number = self.bytes()?.map(u64::from_ne_bytes);
        Ok(number.map(|number| if self.swapped { number.swap_bytes() } else { number }))
    }

    /// A text with the zero at its end; none where that is not there. Cut if it is long.
    fn text(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut text = Vec::new();
        while let Some([byte]) = self.bytes()? {
            match byte {
                0 => return Ok(Some(text)),
                byte if text.len() < LONGEST_NAME => text.push(byte),
                _ => {}
            }
        }
        Ok(None)
    }

    fn skip(&mut self) -> io::Result<()> {
        let skipped = io::copy(&mut self.stream.by_ref().take(self.left), &mut io::sink())?;
        let is_whole = skipped == self.left;
        self.left = 0;
        if is_whole { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// What was read so far.
#[derive(Default)]
struct State {
    dump: JitDump,
    claims: Vec<Claim>,
    files: FxHashMap<Vec<u8>, u32>,
    /// The lines of the code that is loaded next: its address, and their positions.
    pending: Option<(u64, (u32, u32))>,
    /// The number of each code, by the index that the program gave it.
    placed: FxHashMap<u64, u32>,
}

/// Reads a header: what the dump says of itself, and whether its bytes are swapped.
fn header(stream: &mut impl Read) -> io::Result<(JitDump, bool)> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut bytes = [0u8; HEADER_BYTES as usize];
    stream.read_exact(&mut bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => wrong("shorter than the header of a jitdump, 40 bytes"),
        _ => error,
    })?;
    let (magic, mut rest) = bytes.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
    let magic = u32::from_ne_bytes(*magic);
    let swapped = magic == MAGIC.swap_bytes();
    if magic != MAGIC && !swapped {
        return Err(wrong("no jitdump: it does not begin with JiTD"));
    }
    let mut body = Body { left: rest.len() as u64, stream: &mut rest, swapped };
    let (version, size) = (body.u32()?.unwrap_or(0), body.u32()?.unwrap_or(0));
    // The machine, and a word that means nothing.
    body.u64()?;
    let pid = body.u32()?.unwrap_or(0);
    // When it was begun.
    body.u64()?;
    let flags = body.u64()?.unwrap_or(0);
    if version != 1 {
        return Err(wrong(&format!("version {version} of a jitdump, where 1 is known")));
    }
    let Some(more) = size.checked_sub(HEADER_BYTES) else {
        return Err(wrong(&format!("a jitdump whose header says that it has {size} bytes")));
    };
    Body { left: more.into(), stream, swapped }.skip()?;
    let arch_times = flags & ARCH_TIMESTAMP != 0;
    Ok((JitDump { pid, arch_times, ..JitDump::default() }, swapped))
}

impl State {
    /// Reads a record; false at the end.
    fn record(&mut self, stream: &mut impl Read, swapped: bool) -> io::Result<bool> {
        let mut first = [0u8; 1];
        if stream.read(&mut first)? == 0 {
            return Ok(false);
        }
        let mut head = first.as_slice().chain(&mut *stream);
        let mut head = Body { stream: &mut head, left: RECORD_BYTES.into(), swapped };
        let (Some(kind), Some(size), Some(time)) = (head.u32()?, head.u32()?, head.u64()?) else {
            return Ok(false);
        };
        let Some(left) = size.checked_sub(RECORD_BYTES) else {
            // Where the next one begins is not known.
            self.dump.ledger.damaged += 1;
            self.dump.ledger.is_cut = true;
            return Ok(false);
        };
        let mut body = Body { stream, left: left.into(), swapped };
        let done = match kind {
            CODE_LOAD => self.load(&mut body, time)?,
            CODE_MOVE => self.moved(&mut body, time)?,
            CODE_DEBUG_INFO => self.lines(&mut body)?,
            CODE_CLOSE => Some(()),
            CODE_UNWINDING_INFO => {
                self.dump.ledger.unwinding += 1;
                Some(())
            }
            _ => {
                self.dump.ledger.unknown += 1;
                Some(())
            }
        };
        self.dump.ledger.damaged += u64::from(done.is_none());
        body.skip()?;
        Ok(true)
    }

    /// Code that runs from now on; none where the record is damaged.
    fn load(&mut self, body: &mut Body<'_, impl Read>, time: u64) -> io::Result<Option<()>> {
        // Process and thread, and where the code's memory lies in the program.
        let (_, _) = (body.u64()?, body.u64()?);
        let (start, size, index) = (body.u64()?, body.u64()?, body.u64()?);
        let lines = self.pending.take();
        let name = body.text()?;
        let (Some(start), Some(size), Some(index), Some(name)) = (start, size, index, name) else {
            return Ok(None);
        };
        let Some(end) = start.checked_add(size).filter(|end| *end > start) else { return Ok(None) };
        let room = self.dump.codes.len() < MOST_FUNCTIONS && self.claims.len() < MOST_FUNCTIONS;
        let Some(name) = self.dump.add_text(&name).filter(|_| room) else {
            self.dump.ledger.left_out += 1;
            return Ok(Some(()));
        };
        let lines = lines.filter(|(of, _)| *of == start).map_or((0, 0), |(_, lines)| lines);
        let number = self.dump.codes.len() as u32;
        self.dump.codes.push(Code { name, lines });
        self.claims.push(Claim { since: time, start, end, owner: Some(number) });
        self.placed.insert(index, number);
        Ok(Some(()))
    }

    /// Code that lies elsewhere from now on.
    fn moved(&mut self, body: &mut Body<'_, impl Read>, time: u64) -> io::Result<Option<()>> {
        let (_, _) = (body.u64()?, body.u64()?);
        let (from, to, size) = (body.u64()?, body.u64()?, body.u64()?);
        let (Some(from), Some(to), Some(size), Some(index)) = (from, to, size, body.u64()?) else {
            return Ok(None);
        };
        let (Some(from_end), Some(to_end)) = (from.checked_add(size), to.checked_add(size)) else {
            return Ok(None);
        };
        let Some(owner) = self.placed.get(&index).copied() else { return Ok(None) };
        if self.claims.len() + 2 > MOST_FUNCTIONS {
            self.dump.ledger.left_out += 1;
            return Ok(Some(()));
        }
        self.claims.push(Claim { since: time, start: from, end: from_end, owner: None });
        self.claims.push(Claim { since: time, start: to, end: to_end, owner: Some(owner) });
        Ok(Some(()))
    }

    /// The lines of code that is loaded next.
    fn lines(&mut self, body: &mut Body<'_, impl Read>) -> io::Result<Option<()>> {
        let (Some(of), Some(count)) = (body.u64()?, body.u64()?) else { return Ok(None) };
        let mut own: Vec<LineFrom> = Vec::new();
        let (mut file, mut read) = (None, 0);
        while read < count {
            let (address, line) = (body.u64()?, body.u32()?);
            // The discriminator tells several pieces of code of one line apart.
            body.u32()?;
            let (Some(address), Some(line), Some(name)) = (address, line, body.text()?) else {
                break;
            };
            read += 1;
            if name != [0xff] {
                file = self.file(name);
            }
            let offset = address.checked_sub(of).and_then(|offset| u32::try_from(offset).ok());
            let room = self.dump.lines.len() + own.len() < MOST_LINES;
            match (offset, file) {
                (Some(offset), Some(file)) if room => own.push(LineFrom { offset, line, file }),
                _ => {}
            }
        }
        own.sort_by_key(|line| line.offset);
        let begin = self.dump.lines.len() as u32;
        self.dump.lines.extend(own);
        self.pending = Some((of, (begin, self.dump.lines.len() as u32)));
        Ok((read == count).then_some(()))
    }

    /// The number of a source file; none where there is no room.
    fn file(&mut self, name: Vec<u8>) -> Option<u32> {
        if let Some(known) = self.files.get(&name) {
            return Some(*known);
        }
        let Some(text) = self.dump.add_text(&name) else {
            self.dump.ledger.left_out += 1;
            return None;
        };
        let next = self.dump.files.len() as u32;
        self.dump.files.push(text);
        self.files.insert(name, next);
        Some(next)
    }
}
