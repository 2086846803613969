//! A stream: some rings, emptied into one file, compressed on the way where asked.
//!
//! Input: whole records as the kernel wrote them. Output: the same records in the same order, ring
//! by ring; of copies of user stacks only the part that the kernel filled. Cost: a few words of
//! each record are read; its bytes are touched by the compressor or by the write, straight from the
//! ring. Where stacks are cut, records are gathered in a buffer first, which costs less than
//! handing on what is cut.

use crate::Error;
use crate::aux::{self, Resuming};
use crate::backlog::Backlog;
use crate::effort::{Effort, Packing};
use crate::losses::Account;
use crate::placement::Placement;
use crate::sink::Sink;
use crate::span::{Header, Span};
use crate::streaming::Compression;
use crate::sys::aux::AuxArea;
use crate::sys::perf::Ring;
use crate::watch::{Watch, has_stack};
use perfdata::write::Compressor;
use perfdata::{EventAttr, kind};

/// So many bytes go out of a ring at a time, and then their room is the kernel's again.
const BATCH_BYTES: usize = 1 << 20;

/// A ring and what is known of it.
pub(crate) struct Emptied {
    pub ring: Ring,
    pub account: Account,
    /// Place among all rings of the recording.
    pub number: usize,
    /// The thread that AUX data is said to be of, as perf says it: the first that is recorded,
    /// else −1.
    pub thread: i32,
    /// The AUX area beside it, and whether its events are to be enabled again.
    pub aux: Option<AuxArea>,
    pub resuming: Resuming,
    /// Where its reader is to run, when that is not everywhere.
    pub near: Option<Vec<i32>>,
    /// The NUMA node of its CPU, on which the kernel puts it.
    pub node: u32,
}

/// Rings that are read together into one place.
pub(crate) struct Stream {
    pub rings: Vec<Emptied>,
    pub watch: Watch,
    out: Packer,
    gathered: Option<Vec<u8>>,
    /// Whether rounds are marked, which promises readers that nothing older follows.
    rounds: bool,
    /// Where the reader runs now.
    bound: Option<Vec<i32>>,
    /// Where it ran, and where its memory is.
    pub placement: Placement,
    /// Rings whose AUX areas were emptied, and whose events may stand still for that reason.
    pub resume: Vec<usize>,
}

/// The way of bytes from a ring into the file.
struct Packer {
    sink: Sink,
    packing: Option<Packing>,
    packed: Vec<u8>,
}

impl Packer {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(Packing { compressor, .. }) = &mut self.packing else {
            return self.sink.records(bytes);
        };
        self.packed.clear();
        let done = compressor.compress(bytes, &mut self.packed);
        done.map_err(Error::compression)?;
        self.sink.records(&self.packed)
    }

    /// Chooses the level for the next round; `ring` is how full the fullest ring was at this one.
    fn adapt(&mut self, ring: f64) -> Result<(), Error> {
        let Some(Packing { compressor, effort: Some(effort) }) = &mut self.packing else {
            return Ok(());
        };
        let Some((waiting, most)) = self.sink.backlog().map(Backlog::load) else { return Ok(()) };
        let level = effort.next(ring, waiting as f64 / most.max(1) as f64);
        compressor.set_level(level).map_err(Error::compression)
    }
}

impl Stream {
    /// Rings into a sink.
    pub(crate) fn new(
        rings: Vec<Emptied>,
        attrs: &[EventAttr],
        sink: Sink,
        compression: Compression,
        rounds: bool,
    ) -> Result<Stream, Error> {
        let compressor = compression.compressor()?;
        let effort = (compression == Compression::Adapting).then(Effort::default);
        let packing = compressor.map(|compressor| Packing { compressor, effort });
        let gathered = attrs.iter().any(has_stack).then(Vec::new);
        let out = Packer { sink, packing, packed: Vec::new() };
        Ok(Stream {
            placement: Placement::of(rings.iter().map(|emptied| emptied.account.cpu).collect()),
            rings,
            watch: Watch::new(attrs),
            out,
            gathered,
            rounds,
            bound: None,
            resume: Vec::new(),
        })
    }

    /// Empties all rings once, which makes a round. The result says whether there was anything.
    pub(crate) fn drain(&mut self) -> Result<bool, Error> {
        let mut any = false;
        let mut fullest: f64 = 0.0;
        for emptied in self.rings.iter_mut().filter(|emptied| !emptied.ring.is_backward()) {
            let truncated = self.watch.seen.aux.truncated;
            // What comes meanwhile is for the next round.
            let mut left = emptied.ring.filled().len();
            any |= left > 0;
            fullest = fullest.max(left as f64 / emptied.ring.data_bytes().max(1) as f64);
            if let Some(near) = &emptied.near
                && left > 0
                && self.bound.as_ref() != Some(near)
            {
                // The CPUs are those of the machine: it fails only when they have gone.
                let _ = crate::sys::readers::bind(near);
                self.bound = Some(near.clone());
            }
            if left > 0 {
                self.placement.takes(left, emptied.node);
            }
            while left > 0 {
                let span = emptied.ring.filled().part(0, left);
                let taken = take(
                    &span,
                    &mut emptied.account,
                    &mut self.watch,
                    &mut self.out,
                    self.gathered.as_mut(),
                )?;
                emptied.ring.free(taken);
                left = left.saturating_sub(taken);
            }
            let Some(area) = &mut emptied.aux else { continue };
            let of = aux::Origin {
                number: emptied.number,
                cpu: emptied.account.cpu,
                thread: emptied.thread,
            };
            let taken =
                aux::take(area, &emptied.ring, &of, &mut self.out.sink, &mut self.watch.seen.aux)?;
            any |= taken > 0;
            // Where there was no room at all, the kernel says nothing.
            let full = self.watch.seen.aux.truncated > truncated || taken > area.bytes() / 2;
            if emptied.resuming.round(taken, full) {
                self.resume.push(emptied.number);
            }
        }
        self.end_round(any)?;
        if any {
            self.out.adapt(fullest)?;
        }
        Ok(any)
    }

    /// Writes what is in the rings that are written over themselves, which `paused` stops
    /// meanwhile.
    pub(crate) fn dump(&mut self, mut pause: impl FnMut(usize, bool)) -> Result<(), Error> {
        for emptied in self.rings.iter_mut().filter(|emptied| emptied.ring.is_backward()) {
            pause(emptied.number, true);
            let span = emptied.ring.filled();
            let (mut at, mut done) = (0, Ok(0));
            // The oldest record is cut by the newest and has no whole place.
            let mut whole = 0;
            while let Some(header) = span.header(whole) {
                whole += header.bytes;
            }
            while at < whole && done.is_ok() {
                let rest = span.part(at, whole - at);
                done = take(
                    &rest,
                    &mut emptied.account,
                    &mut self.watch,
                    &mut self.out,
                    self.gathered.as_mut(),
                );
                at += done.as_ref().copied().unwrap_or(0);
            }
            emptied.ring.free(whole);
            pause(emptied.number, false);
            done?;
        }
        self.end_round(true)
    }

    /// How long to wait for the next round at most, for an area that was full.
    pub(crate) fn soon_ms(&self) -> Option<i32> {
        self.rings.iter().filter_map(|emptied| emptied.resuming.soon_ms()).min()
    }

    fn end_round(&mut self, any: bool) -> Result<(), Error> {
        if any && self.rounds {
            self.out.sink.finish_round()?;
        }
        if any { self.out.sink.flush() } else { Ok(()) }
    }

    /// The reader ends: it says where its memory is.
    pub(crate) fn settle(&mut self) {
        let gathered = self.gathered.iter();
        let buffers: Vec<&Vec<u8>> = gathered.chain([&self.out.packed]).collect();
        self.placement.has(&buffers);
    }

    /// Where it goes.
    pub(crate) fn sink(&mut self) -> &mut Sink {
        &mut self.out.sink
    }

    /// Goes on into another place. The result is the one so far.
    pub(crate) fn redirect(&mut self, sink: Sink) -> Sink {
        std::mem::replace(&mut self.out.sink, sink)
    }

    /// Gives up its parts: rings, what was seen, and where it went.
    pub(crate) fn into_parts(self) -> (Vec<Emptied>, Watch, Sink) {
        (self.rings, self.watch, self.out.sink)
    }

    /// Bytes before and after compression, where there was one.
    pub(crate) fn compressed(&self) -> Option<(u64, u64)> {
        self.out.packing.as_ref().map(|packing| packing.compressor.bytes())
    }

    /// The deepest level of the compression, where it adapts.
    pub(crate) fn deepest(&self) -> Option<i32> {
        self.out.packing.as_ref()?.effort.as_ref().map(Effort::deepest)
    }
}

/// Hands on the first records of a span, about as many as make a batch. The result is their bytes
/// in the span.
fn take(
    span: &Span<'_>,
    account: &mut Account,
    watch: &mut Watch,
    out: &mut Packer,
    mut gathered: Option<&mut Vec<u8>>,
) -> Result<usize, Error> {
    let most = if gathered.is_some() { BATCH_BYTES } else { Compressor::FRAME_BYTES - (1 << 16) };
    let (mut at, mut previous): (usize, Option<Header>) = (0, None);
    while let Some(header) = span.header(at).filter(|_| at < most) {
        watch.record(span, header, previous, account);
        if let Some(gathered) = &mut gathered {
            gather(span, header, watch, gathered);
        }
        previous = Some(header);
        at += header.bytes;
    }
    if let Some(last) = previous {
        account.last = watch.time(span, last).or(account.last);
    } else {
        // The kernel writes no such thing; whoever reads the file will say what is wrong.
        at = span.len();
        if let Some(gathered) = &mut gathered {
            span.append_to(gathered);
        }
    }
    match gathered {
        Some(gathered) => {
            let done = out.put(gathered);
            gathered.clear();
            done?;
        }
        None => {
            let part = span.part(0, at);
            for piece in [part.one, part.two].into_iter().filter(|piece| !piece.is_empty()) {
                out.put(piece)?;
            }
        }
    }
    Ok(at)
}

/// Appends a record; of a sample's stack the part that the kernel filled.
fn gather(span: &Span<'_>, header: Header, watch: &Watch, out: &mut Vec<u8>) {
    let record = span.part(header.at, header.bytes);
    let stack = if header.kind == kind::SAMPLE { watch.stack(&record) } else { None };
    let Some(stack) = stack else { return record.append_to(out) };
    let kept = stack.valid.next_multiple_of(8).min(stack.bytes);
    let start = out.len();
    let data = stack.size_at + 8;
    record.part(0, data + kept).append_to(out);
    record.part(data + stack.bytes, usize::MAX).append_to(out);
    let size = (header.bytes - (stack.bytes - kept)) as u16;
    let mut set = |at: usize, bytes: &[u8]| {
        if let Some(place) = out.get_mut(start + at..start + at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    };
    set(6, &size.to_ne_bytes());
    set(stack.size_at, &(kept as u64).to_ne_bytes());
}
