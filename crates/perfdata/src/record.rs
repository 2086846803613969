//! Records with their types: kernel kinds 1 to 22, perf's own from 64.

use crate::bytes::Cursor;
use crate::counter_values::ReadValues;
use crate::error::RecordError;
use crate::kernel_records::{self, MmapEvent, TaskEvent};
use crate::kinds::kind;
use crate::raw::{RawRecord, SampleId};
use crate::sample::Sample;
use crate::table::LayoutTable;
use crate::user_records::{self, UserRecord};
use crate::{RuntimeAddr, Words};

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
