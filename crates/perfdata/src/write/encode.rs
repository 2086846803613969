//! Side-band records as bytes: the mirror image of their readers, for any event layout and byte
//! order.

use crate::attr::{EventAttr, sample_type as st};
use crate::bytes::Endian;
use crate::error::Error;
use crate::kernel_records::{MmapEvent, TaskEvent};
use crate::kinds::{kind, misc};
use crate::raw::SampleId;

/// Largest record: its size has 16 bits.
pub(super) const MOST_BYTES: usize = 65_535;

/// Appends records of one event to a buffer.
#[derive(Clone, Debug)]
pub struct Encoder {
    pub(super) endian: Endian,
    sample_type: u64,
    pub(super) read_format: u64,
    pub(super) branch_sample_type: u64,
    pub(super) regs_user: u64,
    pub(super) regs_intr: u64,
    sample_id_all: bool,
}

/// Appends a record with this body, which must fit a 16-bit size.
pub(super) fn put_record(
    out: &mut Vec<u8>,
    endian: Endian,
    kind: u32,
    misc: u16,
    body: &[u8],
) -> Result<(), Error> {
    let size = u16::try_from(body.len() + 8).map_err(|_| {
        Error::write(format!("a record of {} bytes; {MOST_BYTES} fit", body.len() + 8))
    })?;
    out.extend(endian.put_u32(kind));
    out.extend(endian.put_u16(misc));
    out.extend(endian.put_u16(size));
    out.extend(body);
    Ok(())
}

/// A record's body in the making, directly in the output buffer; its header is completed at the
/// end.
pub(super) struct Body<'o> {
    pub(super) out: &'o mut Vec<u8>,
    start: usize,
    endian: Endian,
}

impl<'o> Body<'o> {
    pub(super) fn begin(out: &'o mut Vec<u8>, endian: Endian, kind: u32, misc: u16) -> Body<'o> {
        let start = out.len();
        out.extend(endian.put_u32(kind));
        out.extend(endian.put_u16(misc));
        out.extend([0, 0]);
        Body { out, start, endian }
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.out.extend(self.endian.put_u32(value));
    }

    pub(super) fn i32(&mut self, value: i32) {
        self.u32(value as u32);
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.out.extend(self.endian.put_u64(value));
    }

    pub(super) fn words(&mut self, words: &[u64]) {
        for &word in words {
            self.u64(word);
        }
    }

    /// A text with at least one zero byte behind it, padded to 8 bytes; readers built on quipper
    /// insist on that.
    fn text(&mut self, text: &[u8]) {
        self.out.extend(text.iter().take_while(|&&byte| byte != 0));
        self.out.push(0);
        self.pad();
    }

    pub(super) fn pad(&mut self) {
        while !(self.out.len() - self.start).is_multiple_of(8) {
            self.out.push(0);
        }
    }

    /// Completes the header; a record that is too large is taken back.
    pub(super) fn end(self) -> Result<(), Error> {
        let size = self.out.len() - self.start;
        match (u16::try_from(size), self.out.get_mut(self.start + 6..self.start + 8)) {
            (Ok(size), Some(field)) => {
                field.copy_from_slice(&self.endian.put_u16(size));
                Ok(())
            }
            _ => {
                self.out.truncate(self.start);
                Err(Error::write(format!("a record of {size} bytes; {MOST_BYTES} fit")))
            }
        }
    }
}

impl Encoder {
    /// For the records of this event, in this machine's byte order.
    pub fn new(attr: &EventAttr) -> Encoder {
        Encoder::with_endian(attr, Endian::NATIVE)
    }

    /// The same in a byte order of choice.
    pub fn with_endian(attr: &EventAttr, endian: Endian) -> Encoder {
        Encoder {
            endian,
            sample_type: attr.sample_type,
            read_format: attr.read_format,
            branch_sample_type: attr.branch_sample_type,
            regs_user: attr.sample_regs_user,
            regs_intr: attr.sample_regs_intr,
            sample_id_all: attr.sample_id_all(),
        }
    }

    pub(super) fn has(&self, bit: u64) -> bool {
        self.sample_type & bit != 0
    }

    fn trailer(&self, b: &mut Body<'_>, id: &SampleId) {
        if !self.sample_id_all {
            return;
        }
        if self.has(st::TID) {
            b.i32(id.pid.unwrap_or(0));
            b.i32(id.tid.unwrap_or(0));
        }
        if self.has(st::TIME) {
            b.u64(id.time.unwrap_or(0));
        }
        if self.has(st::ID) {
            b.u64(id.id.unwrap_or(0));
        }
        if self.has(st::STREAM_ID) {
            b.u64(id.stream_id.unwrap_or(0));
        }
        if self.has(st::CPU) {
            b.u32(id.cpu.unwrap_or(0));
            b.u32(0);
        }
        if self.has(st::IDENTIFIER) {
            b.u64(id.id.unwrap_or(0));
        }
    }

    /// A mapping, as MMAP2; with `build_id` in place of the inode when it has one.
    pub fn mmap2(
        &self,
        out: &mut Vec<u8>,
        event: &MmapEvent<'_>,
        id: &SampleId,
    ) -> Result<(), Error> {
        let by_id = event.build_id.is_some();
        let data = if event.executable { 0 } else { misc::MMAP_DATA };
        let flag = if by_id { misc::MMAP_BUILD_ID } else { 0 };
        let mut b = Body::begin(out, self.endian, kind::MMAP2, event.cpumode.bits() | data | flag);
        b.i32(event.pid);
        b.i32(event.tid);
        b.u64(event.start.0);
        b.u64(event.len);
        b.u64(event.pgoff);
        if let Some(build_id) = event.build_id {
            let mut room = [0u8; 24];
            let len = build_id.len().min(20);
            room[0] = len as u8;
            room[4..4 + len].copy_from_slice(&build_id[..len]);
            b.out.extend(room);
        } else {
            let (major, minor, inode, generation) = event.inode.unwrap_or_default();
            b.u32(major);
            b.u32(minor);
            b.u64(inode);
            b.u64(generation);
        }
        b.u32(event.prot);
        b.u32(event.flags);
        b.text(event.path);
        self.trailer(&mut b, id);
        b.end()
    }

    /// A mapping, as the older MMAP (no build ID, no protection).
    pub fn mmap(
        &self,
        out: &mut Vec<u8>,
        event: &MmapEvent<'_>,
        id: &SampleId,
    ) -> Result<(), Error> {
        let data = if event.executable { 0 } else { misc::MMAP_DATA };
        let mut b = Body::begin(out, self.endian, kind::MMAP, event.cpumode.bits() | data);
        b.i32(event.pid);
        b.i32(event.tid);
        b.u64(event.start.0);
        b.u64(event.len);
        b.u64(event.pgoff);
        b.text(event.path);
        self.trailer(&mut b, id);
        b.end()
    }

    /// A thread's name; `exec` when it comes from an exec.
    pub fn comm(
        &self,
        out: &mut Vec<u8>,
        pid: i32,
        tid: i32,
        name: &[u8],
        exec: bool,
        id: &SampleId,
    ) -> Result<(), Error> {
        let misc = if exec { misc::COMM_EXEC } else { 0 };
        let mut b = Body::begin(out, self.endian, kind::COMM, misc);
        b.i32(pid);
        b.i32(tid);
        b.text(name);
        self.trailer(&mut b, id);
        b.end()
    }

    /// A new process or thread.
    pub fn fork(&self, out: &mut Vec<u8>, task: &TaskEvent, id: &SampleId) -> Result<(), Error> {
        self.task(out, kind::FORK, task, id)
    }

    /// The end of a thread.
    pub fn exit(&self, out: &mut Vec<u8>, task: &TaskEvent, id: &SampleId) -> Result<(), Error> {
        self.task(out, kind::EXIT, task, id)
    }

    fn task(
        &self,
        out: &mut Vec<u8>,
        kind: u32,
        task: &TaskEvent,
        id: &SampleId,
    ) -> Result<(), Error> {
        let mut b = Body::begin(out, self.endian, kind, 0);
        b.i32(task.pid);
        b.i32(task.parent_pid);
        b.i32(task.tid);
        b.i32(task.parent_tid);
        b.u64(task.time);
        self.trailer(&mut b, id);
        b.end()
    }

    /// Samples that could not be delivered.
    pub fn lost_samples(&self, out: &mut Vec<u8>, lost: u64, id: &SampleId) -> Result<(), Error> {
        let mut b = Body::begin(out, self.endian, kind::LOST_SAMPLES, 0);
        b.u64(lost);
        self.trailer(&mut b, id);
        b.end()
    }

    /// The end of a round: no later record but those before the next such mark is older than the
    /// ones before this.
    pub fn finished_round(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        Body::begin(out, self.endian, kind::FINISHED_ROUND, 0).end()
    }

    /// The end of the synthesised records.
    pub fn finished_init(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        Body::begin(out, self.endian, kind::FINISHED_INIT, 0).end()
    }

    /// A side-band record of any kernel kind: this body and the trailer.
    pub fn other(
        &self,
        out: &mut Vec<u8>,
        kind: u32,
        misc: u16,
        body: &[u8],
        id: &SampleId,
    ) -> Result<(), Error> {
        let mut b = Body::begin(out, self.endian, kind, misc);
        b.out.extend(body);
        b.pad();
        self.trailer(&mut b, id);
        b.end()
    }
}
