//! Whose a record is, and of when: what the rest of the recording says about a place in an AUX
//! buffer.
//!
//! The process, from the surest source to the least:
//!
//! 1. the record's context packet, which holds the thread where the kernel puts it into the context
//!    register (`CONFIG_PID_IN_CONTEXTIDR`);
//! 2. the thread of the buffer, where each thread has one (perf names a thread of processors'
//!    buffers too: the first that was recorded, whoever ran there, so that of those it is the last
//!    resort);
//! 3. in recordings of whole processors the thread that came on the processor last, by the record's
//!    timestamp;
//! 4. in others the thread that an AUX record names: the kernel writes one whenever the recorded
//!    thread leaves a processor, and it covers the bytes since the one before.
//!
//! The time is that of the timestamp packet, converted by TIME_CONV; else that of the AUX record
//! that covers the bytes; else the end of the recording.

use crate::ledger::SpeLedger;
use address_spaces::Clock;
use perfdata::spe::SpeRecord;
use perfdata::{Record, SampleId, UserRecord, aux_flag};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The payload of one AUXTRACE record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    /// File of a directory recording.
    pub stream: u32,
    /// Where the payload begins in that file.
    pub offset: u64,
    pub size_bytes: u64,
    /// Where it begins in the AUX stream of its processor or thread.
    pub aux_offset: u64,
    /// Its thread, if it is a thread's; else −1.
    tid: i32,
    /// Its processor, if it is a processor's; else `u32::MAX`.
    cpu: u32,
}

/// What an AUX record says: these bytes of the AUX stream were written until then, and who ran
/// then.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: u64,
    end: u64,
    time: u64,
    pid: i32,
    tid: i32,
    cpu: u32,
}

/// How ticks of the generic timer become ns (perf_event.h, `struct perf_event_mmap_page`).
#[derive(Clone, Copy, Debug)]
struct Conversion {
    shift: u64,
    mult: u64,
    zero: u64,
    short: Option<(u64, u64)>,
}

impl Conversion {
    fn ns(self, ticks: u64) -> u64 {
        let ticks = self
            .short
            .map_or(ticks, |(seen, mask)| seen.wrapping_add(ticks.wrapping_sub(seen) & mask));
        let shift = self.shift.min(63) as u32;
        let (whole, part) = (ticks >> shift, ticks & ((1 << shift) - 1));
        let part = (u128::from(part) * u128::from(self.mult)) >> shift;
        self.zero.wrapping_add(whole.wrapping_mul(self.mult)).wrapping_add(part as u64)
    }
}

/// What the first pass learns for AUX data.
#[derive(Default)]
pub(crate) struct AuxSideband {
    /// Who made the AUX data.
    pub tracers: BTreeSet<u32>,
    pub buffers: Vec<Buffer>,
    pieces: Vec<Piece>,
    /// Thread → its processes, each since a time.
    threads: FxHashMap<i32, Vec<(u64, i32)>>,
    /// Processor → the processes that came on it, each at a time.
    switches: FxHashMap<u32, Vec<(u64, i32)>>,
    /// Whole processors were recorded.
    wide: bool,
    conversion: Option<Conversion>,
    losses: SpeLedger,
}

impl AuxSideband {
    /// Bytes of AUX data that the recording announces.
    pub fn bytes(&self) -> u64 {
        self.buffers.iter().fold(0, |sum, buffer| sum.saturating_add(buffer.size_bytes))
    }

    /// Takes in a record; `payload` is where its payload would begin, as (stream, offset). Nothing
    /// is kept of recordings that have no AUX data: perf announces it first of all.
    pub fn note(&mut self, time: u64, record: &Record<'_>, id: &SampleId, payload: (u32, u64)) {
        if let Record::User(UserRecord::AuxtraceInfo { tracer, .. }) = record {
            self.tracers.insert(*tracer);
        }
        if let Record::User(UserRecord::TimeConv { shift, mult, zero, short }) = record {
            self.conversion =
                Some(Conversion { shift: *shift, mult: *mult, zero: *zero, short: *short });
        }
        if self.tracers.is_empty() {
            return;
        }
        match record {
            Record::User(UserRecord::Auxtrace { size_bytes, aux_offset, tid, cpu, .. }) => {
                let ((stream, offset), size_bytes, aux_offset) =
                    (payload, *size_bytes, *aux_offset);
                self.buffers.push(Buffer {
                    stream,
                    offset,
                    size_bytes,
                    aux_offset,
                    tid: *tid,
                    cpu: *cpu,
                });
            }
            Record::Aux { offset_bytes, size_bytes, flags } => {
                self.losses.truncated += u64::from(flags & aux_flag::TRUNCATED != 0);
                self.losses.partial += u64::from(flags & aux_flag::PARTIAL != 0);
                self.losses.collided += u64::from(flags & aux_flag::COLLISION != 0);
                self.pieces.push(Piece {
                    start: *offset_bytes,
                    end: offset_bytes.saturating_add(*size_bytes),
                    time,
                    pid: id.pid.unwrap_or(-1),
                    tid: id.tid.unwrap_or(-1),
                    cpu: id.cpu.unwrap_or(u32::MAX),
                });
            }
            Record::ItraceStart { pid, tid } => {
                self.thread(time, *tid, *pid);
                self.came(time, *pid, id);
            }
            Record::Switch { out: false, .. } => self.came(time, id.pid.unwrap_or(-1), id),
            Record::SwitchCpuWide { out, .. } => {
                self.wide = true;
                if !out {
                    self.came(time, id.pid.unwrap_or(-1), id);
                }
            }
            Record::Comm { pid, tid, .. } => self.thread(time, *tid, *pid),
            Record::Fork(task) => self.thread(time, task.tid, task.pid),
            Record::Mmap(map) if map.pid >= 0 => self.thread(time, map.tid, map.pid),
            _ => {}
        }
        if let (Some(pid), Some(tid)) = (id.pid, id.tid) {
            self.thread(time, tid, pid);
        }
    }

    /// A thread is one of this process.
    fn thread(&mut self, time: u64, tid: i32, pid: i32) {
        if tid <= 0 || pid <= 0 {
            return;
        }
        let known = self.threads.entry(tid).or_default();
        if known.last().is_none_or(|&(_, last)| last != pid) {
            known.push((time, pid));
        }
    }

    /// A process came on the processor of the record's trailer.
    fn came(&mut self, time: u64, pid: i32, id: &SampleId) {
        if let (Some(cpu), true) = (id.cpu, pid >= 0) {
            self.switches.entry(cpu).or_default().push((time, pid));
        }
    }

    /// Adds what another stream of the same recording says, whose positions begin at `shift`.
    pub fn append(&mut self, other: AuxSideband, shift: u64) {
        let later = |time: u64| time.saturating_add(shift);
        self.tracers.extend(other.tracers);
        self.buffers.extend(other.buffers);
        self.pieces.extend(other.pieces.into_iter().map(|p| Piece { time: later(p.time), ..p }));
        for (key, list) in other.threads {
            let own = self.threads.entry(key).or_default();
            own.extend(list.into_iter().map(|(t, pid)| (later(t), pid)));
        }
        for (key, list) in other.switches {
            let own = self.switches.entry(key).or_default();
            own.extend(list.into_iter().map(|(t, pid)| (later(t), pid)));
        }
        self.wide |= other.wide;
        self.conversion = self.conversion.or(other.conversion);
        self.losses.add(&other.losses);
    }
}

/// Answers whose a record is.
pub(crate) struct Owners {
    pub buffers: Vec<Buffer>,
    /// By processor, or by thread where threads have buffers; sorted by where they start.
    pieces: FxHashMap<i64, Vec<Piece>>,
    threads: FxHashMap<i32, Vec<(u64, i32)>>,
    switches: FxHashMap<u32, Vec<(u64, i32)>>,
    wide: bool,
    /// Absent where the recording has no times to compare with.
    conversion: Option<Conversion>,
    /// What the kernel says was lost.
    pub losses: SpeLedger,
}

impl Owners {
    /// Sorts what the first pass brought home.
    pub fn new(sideband: AuxSideband, clock: Clock) -> Owners {
        let AuxSideband {
            buffers,
            pieces: all,
            mut threads,
            mut switches,
            wide,
            conversion,
            losses,
            ..
        } = sideband;
        let of_threads = buffers.iter().any(|buffer| buffer.cpu == u32::MAX);
        let mut pieces: FxHashMap<i64, Vec<Piece>> = FxHashMap::default();
        for piece in all {
            let key = if of_threads { i64::from(piece.tid) } else { i64::from(piece.cpu) };
            pieces.entry(key).or_default().push(piece);
        }
        pieces.values_mut().for_each(|list| list.sort_by_key(|piece| (piece.start, piece.time)));
        threads
            .values_mut()
            .chain(switches.values_mut())
            .for_each(|list| list.sort_by_key(|&(time, _)| time));
        let conversion = conversion.filter(|_| clock == Clock::Time);
        Owners { buffers, pieces, threads, switches, wide, conversion, losses }
    }

    /// The process of a record, where anything tells it, and the time at which its mappings are to
    /// be looked up.
    pub fn owner(&self, buffer: &Buffer, record: &SpeRecord) -> (Option<i32>, u64) {
        let piece = self.piece(buffer, record.aux_offset);
        let exact =
            record.timestamp.zip(self.conversion).map(|(ticks, conversion)| conversion.ns(ticks));
        // The last moment of all holds for no version of an address space, the one before for the
        // last.
        let time =
            exact.or(piece.map(|piece| piece.time)).unwrap_or(u64::MAX - 1).min(u64::MAX - 1);
        let context = record.context.and_then(|id| i32::try_from(id).ok());
        let named_thread = (buffer.tid >= 0).then_some(buffer.tid);
        let own_thread = named_thread.filter(|_| buffer.cpu == u32::MAX);
        if let Some(tid) = context.or(own_thread) {
            return (Some(self.process_of(tid, time)), time);
        }
        let switched = || latest(self.switches.get(&buffer.cpu)?, exact?);
        let named = || piece.map(|piece| piece.pid).filter(|&pid| pid > 0);
        let pid = if self.wide { switched() } else { named().or_else(switched) };
        (pid.or_else(|| Some(self.process_of(named_thread?, time))), time)
    }

    fn piece(&self, buffer: &Buffer, at: u64) -> Option<&Piece> {
        let key =
            if buffer.cpu == u32::MAX { i64::from(buffer.tid) } else { i64::from(buffer.cpu) };
        let list = self.pieces.get(&key)?;
        let after = list.partition_point(|piece| piece.start <= at);
        list.get(after.checked_sub(1)?).filter(|piece| at < piece.end)
    }

    /// The process of a thread; one that the recording does not know is taken for a process of its
    /// own.
    fn process_of(&self, tid: i32, time: u64) -> i32 {
        let known = self.threads.get(&tid);
        let first = || known?.first().map(|&(_, pid)| pid);
        known.and_then(|list| latest(list, time)).or_else(first).unwrap_or(tid)
    }
}

/// The entry that holds at `time`.
fn latest(list: &[(u64, i32)], time: u64) -> Option<i32> {
    let after = list.partition_point(|&(since, _)| since <= time);
    list.get(after.checked_sub(1)?).map(|&(_, pid)| pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_ns_also_where_the_counter_is_short() {
        // 1 GHz / 2^2: a tick is 4 ns.
        let conversion = Conversion { shift: 1, mult: 8, zero: 1000, short: None };
        assert_eq!(conversion.ns(5), 1000 + 20);
        let short = Conversion { short: Some((0x1_00f0, 0xff)), ..conversion };
        assert_eq!(short.ns(0xf5), 1000 + 4 * 0x1_00f5);
        assert_eq!(short.ns(0x02), 1000 + 4 * 0x1_0102);
        let wild =
            Conversion { shift: u64::MAX, mult: u64::MAX, zero: u64::MAX, short: Some((1, 3)) };
        let _ = wild.ns(u64::MAX);
    }
}
