//! Records: cutting a buffer into raw records, and giving one its type (kernel kinds 1 to 22,
//! perf's own from 64).

use crate::bytes::{Cursor, Endian};
use crate::error::RecordError;
use crate::kernel_records::{self, MmapEvent, TaskEvent};
use crate::sample::{ReadValues, Sample};
use crate::table::LayoutTable;
use crate::user_records::{self, UserRecord};
use crate::{RuntimeAddr, Words};

pub use crate::kinds::{kind, misc};

/// Which privilege level the processor ran at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum CpuMode {
    /// Not stated.
    #[default]
    Unknown,
    /// The kernel of this machine.
    Kernel,
    /// A process of this machine.
    User,
    /// The hypervisor.
    Hypervisor,
    /// The kernel of a virtual machine.
    GuestKernel,
    /// A process of a virtual machine.
    GuestUser,
}

impl CpuMode {
    /// The mode in a record's `misc`.
    #[inline]
    pub fn of(misc: u16) -> CpuMode {
        match misc & misc::CPUMODE_MASK {
            misc::KERNEL => CpuMode::Kernel,
            misc::USER => CpuMode::User,
            misc::HYPERVISOR => CpuMode::Hypervisor,
            misc::GUEST_KERNEL => CpuMode::GuestKernel,
            misc::GUEST_USER => CpuMode::GuestUser,
            _ => CpuMode::Unknown,
        }
    }

    /// The bits of `misc` that state this mode.
    pub fn bits(self) -> u16 {
        match self {
            CpuMode::Unknown => 0,
            CpuMode::Kernel => misc::KERNEL,
            CpuMode::User => misc::USER,
            CpuMode::Hypervisor => misc::HYPERVISOR,
            CpuMode::GuestKernel => misc::GUEST_KERNEL,
            CpuMode::GuestUser => misc::GUEST_USER,
        }
    }
}

/// One record as it lies in the buffer: header taken apart, body untouched.
#[derive(Clone, Copy, Debug)]
pub struct RawRecord<'a> {
    /// The record type ([`kind`]).
    pub kind: u32,
    /// The header's flag bits ([`misc`]).
    pub misc: u16,
    /// Everything after the 8 bytes of header.
    pub body: &'a [u8],
    /// Where the record starts, in bytes from the start of the file (for messages; of compressed
    /// data it is the place of the compressed record).
    pub offset: u64,
}

/// The records of a buffer that holds whole records only, such as [`crate::Chunk::bytes`].
#[inline]
pub fn raw_records(chunk_bytes: &[u8], base_offset: u64, endian: Endian) -> RawRecords<'_> {
    RawRecords { rest: chunk_bytes, offset: base_offset, endian }
}

/// Iterates over the records of a buffer; it stops at a header that does not fit (the walk that
/// filled the buffer has already reported such a thing).
#[derive(Clone, Debug)]
pub struct RawRecords<'a> {
    rest: &'a [u8],
    offset: u64,
    endian: Endian,
}

impl<'a> RawRecords<'a> {
    /// What is left of the buffer; after the last record it is empty unless a header was wrong.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for RawRecords<'a> {
    type Item = RawRecord<'a>;

    #[inline]
    fn next(&mut self) -> Option<RawRecord<'a>> {
        let &[k0, k1, k2, k3, m0, m1, s0, s1] = self.rest.first_chunk::<8>()?;
        let size = usize::from(self.endian.u16([s0, s1]));
        let body = self.rest.get(8..size)?;
        let record = RawRecord {
            kind: self.endian.u32([k0, k1, k2, k3]),
            misc: self.endian.u16([m0, m1]),
            body,
            offset: self.offset,
        };
        self.rest = self.rest.get(size..)?;
        self.offset = self.offset.wrapping_add(size as u64);
        Some(record)
    }
}

/// Who, when and where a record speaks about: from the trailer that `sample_id_all` adds, or from
/// the sample itself. A field that was not recorded is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SampleId {
    /// Process.
    pub pid: Option<i32>,
    /// Thread.
    pub tid: Option<i32>,
    /// Time in ns of the recording's clock.
    pub time: Option<u64>,
    /// Id of the counter.
    pub id: Option<u64>,
    /// Id of the counter before inheritance.
    pub stream_id: Option<u64>,
    /// Processor.
    pub cpu: Option<u32>,
}

/// A record with its type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A process (or the kernel: pid −1) mapped part of a file: MMAP and MMAP2.
    Mmap(MmapEvent<'a>),
    /// A thread got a name.
    Comm {
        /// Process.
        pid: i32,
        /// Thread.
        tid: i32,
        /// The name comes from an exec.
        exec: bool,
        /// The name, at most 15 bytes when the kernel gave it.
        name: &'a [u8],
    },
    /// A process or thread was made.
    Fork(TaskEvent),
    /// A thread ended.
    Exit(TaskEvent),
    /// The kernel could not deliver records.
    Lost {
        /// Id of the counter.
        id: u64,
        /// Number of records.
        lost: u64,
    },
    /// The kernel or the processor could not deliver samples.
    LostSamples {
        /// Number of samples.
        lost: u64,
    },
    /// The kernel stopped an event that came too often, or let it go on.
    Throttle {
        /// It goes on again.
        on: bool,
        /// Time in ns.
        time: u64,
        /// Id of the counter.
        id: u64,
        /// Id of the counter before inheritance.
        stream_id: u64,
    },
    /// A counter's value when its thread ended.
    Read {
        /// Process.
        pid: i32,
        /// Thread.
        tid: i32,
        /// The value, when the layout is known.
        values: ReadValues<'a>,
    },
    /// A sample.
    Sample(Box<Sample<'a>>),
    /// New data in the AUX area.
    Aux {
        /// Offset in the AUX stream, in bytes.
        offset_bytes: u64,
        /// Size, in bytes.
        size_bytes: u64,
        /// `PERF_AUX_FLAG_…`.
        flags: u64,
    },
    /// Instruction tracing of a thread began.
    ItraceStart {
        /// Process.
        pid: i32,
        /// Thread.
        tid: i32,
    },
    /// The thread of the trailer went off or came on a processor.
    Switch {
        /// It went off.
        out: bool,
        /// It went off though it could have run on.
        preempt: bool,
    },
    /// The same, for a processor-wide recording.
    SwitchCpuWide {
        /// It went off.
        out: bool,
        /// It went off though it could have run on.
        preempt: bool,
        /// The process that follows (out) or went before (in).
        next_prev_pid: i32,
        /// The thread that follows (out) or went before (in).
        next_prev_tid: i32,
    },
    /// The namespaces of a thread.
    Namespaces {
        /// Process.
        pid: i32,
        /// Thread.
        tid: i32,
        /// Pairs of device and inode, in the order net, uts, ipc, pid, user, mnt, cgroup.
        namespaces: Words<'a>,
    },
    /// Kernel code came or went (BPF programs, out-of-line code).
    Ksymbol {
        /// Its address.
        address: RuntimeAddr,
        /// Its size, in bytes.
        len: u32,
        /// `PERF_RECORD_KSYMBOL_TYPE_…`: BPF 1, out of line 2.
        symbol_type: u16,
        /// It went.
        unregister: bool,
        /// Its name.
        name: &'a [u8],
    },
    /// A BPF program was loaded or unloaded.
    BpfEvent {
        /// `PERF_BPF_EVENT_PROG_…`: load 1, unload 2.
        event_type: u16,
        /// Flags.
        flags: u16,
        /// The program's id.
        id: u32,
        /// The program's tag.
        tag: [u8; 8],
    },
    /// A control group came to be.
    Cgroup {
        /// Its id.
        id: u64,
        /// Its path below the mount point.
        path: &'a [u8],
    },
    /// The kernel changed its own code.
    TextPoke {
        /// Where.
        address: RuntimeAddr,
        /// The code before.
        old: &'a [u8],
        /// The code after.
        new: &'a [u8],
    },
    /// What the AUX data's hardware calls this event.
    AuxOutputHwId {
        /// The id.
        hw_id: u64,
    },
    /// The user part of call chains that carry the same cookie.
    CallchainDeferred {
        /// Joins chain and samples.
        cookie: u64,
        /// The addresses, innermost first.
        ips: Words<'a>,
    },
    /// A record that perf adds itself.
    User(UserRecord<'a>),
    /// A kind this crate does not know.
    Unknown {
        /// Its kind.
        kind: u32,
        /// Its bytes.
        body: &'a [u8],
    },
}

impl<'a> Record<'a> {
    /// Gives a record its type, and says who, when and where.
    pub fn parse(
        raw: &RawRecord<'a>,
        layouts: &LayoutTable,
    ) -> Result<(Record<'a>, SampleId), RecordError> {
        let endian = layouts.endian();
        if raw.kind == kind::SAMPLE {
            let sample = layouts.for_sample(raw.body)?.parse(raw)?;
            let id = sample.sample_id();
            return Ok((Record::Sample(Box::new(sample)), id));
        }
        if raw.kind >= kind::USER {
            let record = user_records::parse(raw, endian)?;
            return Ok((record, SampleId::default()));
        }
        let (id, trailer_bytes, read_format) = match layouts.for_trailer(raw.body) {
            Ok(layout) => {
                let (id, bytes) = layout.trailer(raw.body)?;
                (id, bytes, layout.read_format())
            }
            // Side-band records without any event (a recording of only synthesised events) have no
            // trailer.
            Err(RecordError::NoAttr) => (SampleId::default(), 0, 0),
            Err(error) => return Err(error),
        };
        let body_bytes = raw.body.len().saturating_sub(trailer_bytes);
        let body = raw.body.get(..body_bytes).unwrap_or_default();
        let record = kernel_records::parse(raw, Cursor::new(body, endian), read_format)?;
        Ok((record, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_cut_where_their_headers_say_and_the_rest_is_kept() {
        let mut bytes = vec![9, 0, 0, 0, 2, 0, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        bytes.extend([3, 0, 0, 0, 0, 0, 8, 0]);
        bytes.extend([3, 0, 0, 0, 0, 0, 80, 0]);
        let mut records = raw_records(&bytes, 1000, Endian::Little);
        let first = records.next().unwrap();
        assert_eq!((first.kind, first.misc, first.body.len(), first.offset), (9, 2, 8, 1000));
        assert_eq!(records.next().map(|r| (r.kind, r.body.len(), r.offset)), Some((3, 0, 1016)));
        assert!(records.next().is_none());
        assert_eq!(records.rest().len(), 8);
    }

    #[test]
    fn a_record_size_below_8_ends_the_iteration() {
        let bytes = [9, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 2, 0, 8, 0];
        assert_eq!(raw_records(&bytes, 0, Endian::Little).count(), 0);
    }
}
