//! The kernel's side-band records (kinds 1 to 22 but SAMPLE), read from a body whose trailer is
//! already cut off.

use crate::RuntimeAddr;
use crate::bytes::{Cursor, until_nul};
use crate::counter_values::{ReadFormat, read_values};
use crate::error::RecordError;
use crate::kinds::{kind, misc};
use crate::raw::{CpuMode, RawRecord};
use crate::record::Record;

/// A process or the kernel mapped part of a file into memory (MMAP, MMAP2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MmapEvent<'a> {
    /// Process; −1 for the kernel.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// First address.
    pub start: RuntimeAddr,
    /// Size, in bytes.
    pub len: u64,
    /// Offset in the file, in bytes (for the kernel: an address).
    pub pgoff: u64,
    /// The mapping can run: `prot` has PROT_EXEC, or an MMAP record without the data bit.
    pub executable: bool,
    /// The file's build ID, when the kernel was asked for it. 1 to 20 bytes.
    pub build_id: Option<&'a [u8]>,
    /// The file as device major, device minor, inode, inode generation; not with a build ID, nor
    /// in MMAP.
    pub inode: Option<(u32, u32, u64, u64)>,
    /// `PROT_…` (0 in MMAP records).
    pub prot: u32,
    /// `MAP_…` (0 in MMAP records).
    pub flags: u32,
    /// Path of the file, or a name in brackets.
    pub path: &'a [u8],
    /// Kernel or user.
    pub cpumode: CpuMode,
}

/// A thread began or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TaskEvent {
    /// Process.
    pub pid: i32,
    /// The process it comes from.
    pub parent_pid: i32,
    /// Thread.
    pub tid: i32,
    /// The thread it comes from.
    pub parent_tid: i32,
    /// Time in ns.
    pub time: u64,
}

const PROT_EXEC: u32 = 4;

pub(crate) fn parse<'a>(
    raw: &RawRecord<'a>,
    mut c: Cursor<'a>,
    read_format: u64,
) -> Result<Record<'a>, RecordError> {
    let c = &mut c;
    Ok(match raw.kind {
        kind::MMAP => mmap(raw, c)?,
        kind::MMAP2 => mmap2(raw, c)?,
        kind::COMM => Record::Comm {
            pid: c.i32("pid")?,
            tid: c.i32("tid")?,
            exec: raw.misc & misc::COMM_EXEC != 0,
            name: until_nul(c.rest()),
        },
        kind::FORK => Record::Fork(task(c)?),
        kind::EXIT => Record::Exit(task(c)?),
        kind::LOST => Record::Lost { id: c.u64("id")?, lost: c.u64("lost")? },
        kind::LOST_SAMPLES => Record::LostSamples { lost: c.u64("lost")? },
        kind::THROTTLE | kind::UNTHROTTLE => Record::Throttle {
            on: raw.kind == kind::UNTHROTTLE,
            time: c.u64("time")?,
            id: c.u64("id")?,
            stream_id: c.u64("stream_id")?,
        },
        kind::READ => Record::Read {
            pid: c.i32("pid")?,
            tid: c.i32("tid")?,
            values: read_values(c, ReadFormat(read_format))?,
        },
        kind::AUX => Record::Aux {
            offset_bytes: c.u64("aux_offset")?,
            size_bytes: c.u64("aux_size")?,
            flags: c.u64("flags")?,
        },
        kind::ITRACE_START => Record::ItraceStart { pid: c.i32("pid")?, tid: c.i32("tid")? },
        kind::SWITCH => Record::Switch { out: switch_out(raw), preempt: preempt(raw) },
        kind::SWITCH_CPU_WIDE => Record::SwitchCpuWide {
            out: switch_out(raw),
            preempt: preempt(raw),
            next_prev_pid: c.i32("next_prev_pid")?,
            next_prev_tid: c.i32("next_prev_tid")?,
        },
        kind::NAMESPACES => namespaces(c)?,
        kind::KSYMBOL => Record::Ksymbol {
            address: RuntimeAddr(c.u64("addr")?),
            len: c.u32("len")?,
            symbol_type: c.u16("ksym_type")?,
            unregister: c.u16("flags")? & 1 != 0,
            name: until_nul(c.rest()),
        },
        kind::BPF_EVENT => bpf_event(c)?,
        kind::CGROUP => Record::Cgroup { id: c.u64("id")?, path: until_nul(c.rest()) },
        kind::TEXT_POKE => text_poke(c)?,
        kind::AUX_OUTPUT_HW_ID => Record::AuxOutputHwId { hw_id: c.u64("hw_id")? },
        kind::CALLCHAIN_DEFERRED => {
            let cookie = c.u64("cookie")?;
            let nr = c.u64("nr")?;
            Record::CallchainDeferred { cookie, ips: c.words(nr, "ips")? }
        }
        other => Record::Unknown { kind: other, body: raw.body },
    })
}

fn switch_out(raw: &RawRecord<'_>) -> bool {
    raw.misc & misc::SWITCH_OUT != 0
}

fn preempt(raw: &RawRecord<'_>) -> bool {
    raw.misc & misc::SWITCH_OUT_PREEMPT != 0
}

fn mmap<'a>(raw: &RawRecord<'a>, c: &mut Cursor<'a>) -> Result<Record<'a>, RecordError> {
    Ok(Record::Mmap(MmapEvent {
        pid: c.i32("pid")?,
        tid: c.i32("tid")?,
        start: RuntimeAddr(c.u64("addr")?),
        len: c.u64("len")?,
        pgoff: c.u64("pgoff")?,
        executable: raw.misc & misc::MMAP_DATA == 0,
        path: until_nul(c.rest()),
        cpumode: CpuMode::of(raw.misc),
        ..MmapEvent::default()
    }))
}

fn mmap2<'a>(raw: &RawRecord<'a>, c: &mut Cursor<'a>) -> Result<Record<'a>, RecordError> {
    let mut event = MmapEvent {
        pid: c.i32("pid")?,
        tid: c.i32("tid")?,
        start: RuntimeAddr(c.u64("addr")?),
        len: c.u64("len")?,
        pgoff: c.u64("pgoff")?,
        cpumode: CpuMode::of(raw.misc),
        ..MmapEvent::default()
    };
    if raw.misc & misc::MMAP_BUILD_ID != 0 {
        let size = usize::from(c.u8("build_id_size")?);
        c.take(3, "reserved")?;
        let room = c.take(20, "build_id")?;
        // The kernel writes at most 20; a larger size byte cannot be believed, so the whole field
        // is taken.
        event.build_id = Some(room.get(..size).unwrap_or(room)).filter(|id| !id.is_empty());
    } else {
        event.inode = Some((c.u32("maj")?, c.u32("min")?, c.u64("ino")?, c.u64("ino_generation")?));
    }
    event.prot = c.u32("prot")?;
    event.flags = c.u32("flags")?;
    event.executable = event.prot & PROT_EXEC != 0;
    event.path = until_nul(c.rest());
    Ok(Record::Mmap(event))
}

fn task(c: &mut Cursor<'_>) -> Result<TaskEvent, RecordError> {
    Ok(TaskEvent {
        pid: c.i32("pid")?,
        parent_pid: c.i32("ppid")?,
        tid: c.i32("tid")?,
        parent_tid: c.i32("ptid")?,
        time: c.u64("time")?,
    })
}

fn namespaces<'a>(c: &mut Cursor<'a>) -> Result<Record<'a>, RecordError> {
    let (pid, tid) = (c.i32("pid")?, c.i32("tid")?);
    let pairs = c.u64("nr_namespaces")?;
    Ok(Record::Namespaces { pid, tid, namespaces: c.words(pairs.saturating_mul(2), "link_info")? })
}

fn bpf_event<'a>(c: &mut Cursor<'a>) -> Result<Record<'a>, RecordError> {
    let (event_type, flags, id) = (c.u16("type")?, c.u16("flags")?, c.u32("id")?);
    let bytes = c.take(8, "tag")?;
    let mut tag = [0; 8];
    tag.copy_from_slice(bytes);
    Ok(Record::BpfEvent { event_type, flags, id, tag })
}

fn text_poke<'a>(c: &mut Cursor<'a>) -> Result<Record<'a>, RecordError> {
    let address = RuntimeAddr(c.u64("addr")?);
    let (old_len, new_len) = (c.u16("old_len")?, c.u16("new_len")?);
    Ok(Record::TextPoke {
        address,
        old: c.take(u64::from(old_len), "old bytes")?,
        new: c.take(u64::from(new_len), "new bytes")?,
    })
}
