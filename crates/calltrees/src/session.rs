//! What can be asked of a recording after its stacks have names: its samples one by one in time
//! order, its distinct stacks by place of code, and where code lies.
//!
//! [`read_then`](crate::read_then) gives a [`Session`]. It goes over the recording once more and
//! holds none of its samples, so that memory does not grow with them.

use crate::analysis::{Chain, Recorded, ThreadNumbers};
use crate::error::Error;
use crate::marks;
use crate::names::{FunctionId, LibraryId};
use crate::naming::{Kind, PlaceId, Places};
use crate::switching::Interval;
use crate::workers::{Shared, Worker};
use crate::{Weight, distinct::Who};
use address_spaces::{Clock, FileId, SpaceRef};
use image::{FileOffset, ImageAddr};
use perfdata::{OrderOptions, RawRecord, RuntimeAddr, raw_records};
use std::ops::Range;
use std::path::Path;

/// A frame of one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The place of code; none where the first passes did not meet it.
    pub place: Option<PlaceId>,
    /// The recorded address: of a caller, the one that the call returns to.
    pub address: RuntimeAddr,
    /// Where that lies in its file.
    pub offset: Option<FileOffset>,
}

/// A sample with its time and its stack.
#[derive(Clone, Copy, Debug)]
pub struct Timed<'s> {
    /// In ns of the recording's clock; none where it is not recorded.
    pub time: Option<u64>,
    /// Processor, where it is recorded.
    pub cpu: Option<u32>,
    /// Index of the event.
    pub event: u32,
    /// Index of the thread in [`Recorded::threads`].
    pub thread: u32,
    /// Number of the control group; 0 where it is not recorded.
    pub cgroup: u64,
    /// Nanoseconds of clocks, else events.
    pub period: u64,
    /// Whether it was recorded with a call chain.
    pub has_chain: bool,
    /// Innermost first; never empty.
    pub frames: &'s [Frame],
    /// The wait that it began.
    pub wait: Option<&'s Interval>,
    /// The wait of another thread that it ended.
    pub woke: Option<&'s Interval>,
}

/// A distinct stack of a thread, by places of code.
#[derive(Clone, Copy, Debug)]
pub struct Distinct<'s> {
    /// Index of the event.
    pub event: u32,
    /// Index of the thread in [`Recorded::threads`].
    pub thread: u32,
    /// Number of the control group; 0 where it is not recorded.
    pub cgroup: u64,
    /// Innermost first.
    pub places: &'s [PlaceId],
    /// What its samples weigh.
    pub weight: Weight,
}

/// Which part of a library is code: as its first executable segment says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Its addresses.
    pub addresses: Range<ImageAddr>,
    /// Where they begin in the file.
    pub offset: FileOffset,
}

/// A recording whose stacks have names.
pub struct Session<'s> {
    /// How messages name the recording.
    path: &'s Path,
    shared: &'s Shared<'s>,
    places: &'s Places<'s>,
    of_places: &'s [Vec<FunctionId>],
    chains: &'s [Chain],
    threads: &'s ThreadNumbers,
}

impl<'s> Session<'s> {
    pub(crate) fn new(
        path: &'s Path,
        shared: &'s Shared<'s>,
        places: &'s Places<'s>,
        of_places: &'s [Vec<FunctionId>],
        chains: &'s [Chain],
        threads: &'s ThreadNumbers,
    ) -> Session<'s> {
        Session { path, shared, places, of_places, chains, threads }
    }

    /// The functions of a place, innermost first: several where calls were inlined and
    /// [`Options::inlined`](crate::Options::inlined) asks for them.
    pub fn functions(&self, place: PlaceId) -> &'s [FunctionId] {
        self.of_places.get(place.index()).map_or(&[], Vec::as_slice)
    }

    /// Where a place lies in its image, if that is at hand. Of a caller it is the byte before the
    /// address that the call returns to.
    pub fn address(&self, place: PlaceId) -> Option<ImageAddr> {
        self.places.address(place)
    }

    /// Whose code a place is.
    pub fn kind(&self, place: PlaceId) -> Kind {
        self.places.kind(place)
    }

    /// How many places there are: their numbers are smaller.
    pub fn place_count(&self) -> usize {
        self.of_places.len()
    }

    /// The code of a library whose file is at hand.
    pub fn code(&self, library: LibraryId) -> Option<Code> {
        let image = self.shared.files.opened(FileId(library.0))?;
        let segment = image.segments().iter().find(|segment| segment.executable)?;
        let end = segment.address.0.saturating_add(segment.memory_bytes);
        Some(Code { addresses: segment.address..ImageAddr(end), offset: segment.offset })
    }

    /// Where the function at an address of a library begins, and how many bytes it has.
    pub fn function_at(&self, library: LibraryId, at: ImageAddr) -> Option<(ImageAddr, u64)> {
        let image = self.shared.files.opened(FileId(library.0))?;
        image.functions().find_shown(at).map(|function| (function.address, function.size))
    }

    /// The distinct stacks, those of waits too, in an order that does not depend on threads.
    pub fn distinct(&self) -> impl Iterator<Item = Distinct<'s>> {
        self.chains.iter().map(|chain| Distinct {
            event: chain.event,
            thread: self.threads.get(&chain.thread).copied().unwrap_or_default(),
            cgroup: chain.cgroup,
            places: &chain.places,
            weight: chain.weight,
        })
    }

    /// Shows all samples that count in time order, or, where they have no times, in the order in
    /// which they were recorded. `recorded` is what came with this session; `progress` is told the
    /// bytes read.
    ///
    /// # Errors
    /// Where the recording cannot be read. What `visit` refuses ends it, and stands inside.
    pub fn each<E>(
        &self,
        recorded: &Recorded,
        progress: &dyn Fn(u64),
        visit: &mut dyn FnMut(&Timed<'_>) -> Result<(), E>,
    ) -> Result<Result<(), E>, Error> {
        let fault = |source| Error::Recording { path: self.path.to_owned(), source };
        let mut walk = Walk {
            session: self,
            recorded,
            worker: Worker::new(self.shared, None),
            frames: Vec::new(),
            visit,
        };
        let input = self.shared.input;
        if self.shared.clock == Clock::Time {
            let mut ordered = input.ordered(OrderOptions::default()).map_err(fault)?;
            while let Some(record) = ordered.next() {
                let record = record.map_err(fault)?;
                progress(record.raw.body.len() as u64 + HEADER_BYTES);
                if let Err(refused) = walk.record(record.time, &record.raw) {
                    return Ok(Err(refused));
                }
            }
            return Ok(Ok(()));
        }
        for stream in 0..input.stream_count() {
            let mut position = self.shared.bases.get(stream).copied().unwrap_or(0);
            let mut chunks = input.stream_chunks(stream).map_err(fault)?;
            while let Some(chunk) = chunks.next() {
                let chunk = chunk.map_err(fault)?;
                for raw in raw_records(&chunk.bytes, chunk.offset, input.endian()) {
                    let at = position.wrapping_add(raw.offset.wrapping_sub(chunk.offset));
                    if let Err(refused) = walk.record(at, &raw) {
                        return Ok(Err(refused));
                    }
                }
                position += chunk.bytes.len() as u64;
                progress(chunk.bytes.len() as u64);
                chunks.recycle(chunk.bytes);
            }
        }
        Ok(Ok(()))
    }
}

/// Bytes of a record before its body.
const HEADER_BYTES: u64 = 8;

struct Walk<'w, 's, E> {
    session: &'w Session<'s>,
    recorded: &'w Recorded,
    worker: Worker<'w, 's>,
    frames: Vec<Frame>,
    visit: &'w mut dyn FnMut(&Timed<'_>) -> Result<(), E>,
}

impl<E> Walk<'_, '_, E> {
    fn record(&mut self, position: u64, raw: &RawRecord<'_>) -> Result<(), E> {
        if raw.kind != perfdata::kind::SAMPLE {
            return Ok(());
        }
        let Some((sample, who)) = self.worker.stack_of(position, raw) else { return Ok(()) };
        let key = (who.pid, who.tid, who.name);
        // Without a number, no chain of the thread found room.
        let Some(thread) = self.session.threads.get(&key).copied() else { return Ok(()) };
        let shared = self.session.shared;
        self.find_frames(who, shared.timeline.version(who.pid, who.version));
        let switching = self.recorded.switching.as_ref();
        let began = switching.filter(|_| shared.is_switch(&sample));
        let wait = began.and_then(|all| all.began_with(sample.tid, sample.time?));
        let ended = switching.filter(|_| shared.wakes.is(sample.attr_index));
        let woke = ended
            .and_then(|all| all.ended_by(shared.wakes.woken_in(shared.input, raw)?, sample.time?));
        let timed = Timed {
            time: sample.time,
            cpu: sample.cpu,
            event: sample.attr_index,
            thread,
            cgroup: who.cgroup,
            period: shared.period(&sample),
            has_chain: sample.callchain.is_some(),
            frames: &self.frames,
            wait,
            woke,
        };
        (self.visit)(&timed)
    }

    fn find_frames(&mut self, who: Who, space: SpaceRef<'_>) {
        let session = self.session;
        self.frames.clear();
        let words = &self.worker.words;
        for (step, address) in marks::steps(words).zip(marks::addresses(words)) {
            let place = session.places.known(who.pid, space, step);
            let is_process = step.owner == marks::Owner::Process;
            let address = RuntimeAddr(address);
            let offset = is_process.then(|| session.shared.files.offset(space, address)).flatten();
            self.frames.push(Frame { place, address, offset });
        }
    }
}
