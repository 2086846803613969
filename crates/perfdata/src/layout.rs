//! Where each field of a sample lies, worked out once per event; and the hot path that reads only
//! what counts need.

use crate::attr::{EventAttr, branch_sample, sample_type as st};
use crate::branch::BranchStack;
use crate::bytes::{Cursor, Endian, RuntimeAddr, eight};
use crate::counter_values::{ReadFormat, read_values};
use crate::error::RecordError;
use crate::raw::{CpuMode, RawRecord, SampleId};

/// The fields of a sample that counting branches and addresses needs; the branch stack stays in the
/// record.
#[derive(Clone, Copy, Debug)]
pub struct FastSample<'a> {
    /// Where the thread was (0 when not recorded).
    pub ip: RuntimeAddr,
    /// Process (−1 when not recorded).
    pub pid: i32,
    /// Thread (−1 when not recorded).
    pub tid: i32,
    /// Time in ns (0 when not recorded).
    pub time: u64,
    /// Id of the counter.
    pub id: Option<u64>,
    /// Index of the event in [`crate::Input::attrs`].
    pub attr_index: u32,
    /// Kernel or user.
    pub cpumode: CpuMode,
    /// The last taken branches, newest first; empty when not recorded.
    pub branches: BranchStack<'a>,
}

/// Position of a field that is not recorded.
const ABSENT: usize = usize::MAX;

/// Precomputed positions of the fields of one event's samples.
#[derive(Clone, Debug)]
pub struct SampleLayout {
    pub(crate) endian: Endian,
    pub(crate) attr_index: u32,
    pub(crate) sample_type: u64,
    pub(crate) read_format: ReadFormat,
    pub(crate) branch_sample_type: u64,
    pub(crate) regs_user: u64,
    pub(crate) regs_intr: u64,
    sample_id_all: bool,
    ip_at: usize,
    tid_at: usize,
    time_at: usize,
    id_at: usize,
    /// Bytes of the fields before READ, which all have fixed sizes.
    fixed_bytes: usize,
    /// Where the branch stack's `nr` lies; `ABSENT` when fields of variable size come before it.
    branch_at: usize,
    /// Trailer fields counted from its start, and its size.
    trailer_bytes: usize,
}

impl SampleLayout {
    /// The layout of the samples of `attr`, which is number `attr_index` of the recording.
    pub fn new(attr: &EventAttr, attr_index: u32, endian: Endian) -> SampleLayout {
        let has = |bit: u64| attr.sample_type & bit != 0;
        let mut at = 0;
        let mut place = |bit: u64| {
            if !has(bit) {
                return ABSENT;
            }
            at += 8;
            at - 8
        };
        let identifier_at = place(st::IDENTIFIER);
        let ip_at = place(st::IP);
        let tid_at = place(st::TID);
        let time_at = place(st::TIME);
        place(st::ADDR);
        let id_at = place(st::ID);
        for bit in [st::STREAM_ID, st::CPU, st::PERIOD] {
            place(bit);
        }
        let format = ReadFormat(attr.read_format);
        let read_bytes = if !has(st::READ) { Some(0) } else { format.fixed_bytes() };
        let branch_at = match read_bytes {
            Some(bytes) if has(st::BRANCH_STACK) && !has(st::CALLCHAIN) && !has(st::RAW) => {
                at + bytes
            }
            _ => ABSENT,
        };
        let trailer_fields = attr.sample_type
            & (st::TID | st::TIME | st::ID | st::STREAM_ID | st::CPU | st::IDENTIFIER);
        SampleLayout {
            endian,
            attr_index,
            sample_type: attr.sample_type,
            read_format: format,
            branch_sample_type: attr.branch_sample_type,
            regs_user: attr.sample_regs_user,
            regs_intr: attr.sample_regs_intr,
            sample_id_all: attr.sample_id_all(),
            ip_at,
            tid_at,
            time_at,
            id_at: if identifier_at == ABSENT { id_at } else { identifier_at },
            fixed_bytes: at,
            branch_at,
            trailer_bytes: if attr.sample_id_all() {
                trailer_fields.count_ones() as usize * 8
            } else {
                0
            },
        }
    }

    /// Index of the event in [`crate::Input::attrs`].
    pub fn attr_index(&self) -> u32 {
        self.attr_index
    }

    /// Bits of [`crate::sample_type`].
    pub fn sample_type(&self) -> u64 {
        self.sample_type
    }

    /// Byte order of the samples.
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Bytes of the fields before READ.
    pub(crate) fn fixed_bytes(&self) -> usize {
        self.fixed_bytes
    }

    pub(crate) fn read_format(&self) -> u64 {
        self.read_format.0
    }

    /// Where the counter's id lies in a sample, in bytes from the start of its body.
    pub(crate) fn id_position(&self) -> Option<usize> {
        (self.id_at != ABSENT).then_some(self.id_at)
    }

    /// Where the counter's id lies in a trailer, in bytes from the end of the record.
    pub(crate) fn id_position_from_end(&self) -> Option<usize> {
        if !self.sample_id_all {
            return None;
        }
        if self.sample_type & st::IDENTIFIER != 0 {
            return Some(8);
        }
        let after = (self.sample_type & (st::STREAM_ID | st::CPU)).count_ones() as usize * 8;
        (self.sample_type & st::ID != 0).then_some(after + 8)
    }

    /// Reads what counting needs and nothing else. The hot path: a few loads at known places.
    #[inline]
    pub fn fast<'a>(&self, raw: &RawRecord<'a>) -> Result<FastSample<'a>, RecordError> {
        let body = raw.body;
        if body.len() < self.fixed_bytes {
            return Err(short("fields of fixed size", self.fixed_bytes as u64, body.len()));
        }
        let word = |at: usize| eight(body, at).map(|b| self.endian.u64(b));
        let (pid, tid) = match eight(body, self.tid_at) {
            Some([p0, p1, p2, p3, t0, t1, t2, t3]) => {
                (self.endian.u32([p0, p1, p2, p3]) as i32, self.endian.u32([t0, t1, t2, t3]) as i32)
            }
            None => (-1, -1),
        };
        Ok(FastSample {
            ip: RuntimeAddr(word(self.ip_at).unwrap_or(0)),
            pid,
            tid,
            time: word(self.time_at).unwrap_or(0),
            id: word(self.id_at),
            attr_index: self.attr_index,
            cpumode: CpuMode::of(raw.misc),
            branches: self.branches(body)?,
        })
    }

    #[inline]
    fn branches<'a>(&self, body: &'a [u8]) -> Result<BranchStack<'a>, RecordError> {
        if self.sample_type & st::BRANCH_STACK == 0 {
            return Ok(BranchStack::EMPTY);
        }
        let at = if self.branch_at != ABSENT { self.branch_at } else { self.find_branches(body)? };
        let rest = body.get(at..).unwrap_or_default();
        self.branch_stack(&mut Cursor::new(rest, self.endian))
    }

    /// Walks over READ, CALLCHAIN and RAW, whose sizes differ from sample to sample.
    #[cold]
    fn find_branches(&self, body: &[u8]) -> Result<usize, RecordError> {
        let mut c = Cursor::new(body, self.endian);
        c.take(self.fixed_bytes as u64, "fields of fixed size")?;
        if self.sample_type & st::READ != 0 {
            read_values(&mut c, self.read_format)?;
        }
        if self.sample_type & st::CALLCHAIN != 0 {
            let nr = c.u64("callchain nr")?;
            c.words(nr, "callchain")?;
        }
        if self.sample_type & st::RAW != 0 {
            let size = c.u32("raw size")?;
            c.take(u64::from(size), "raw data")?;
        }
        Ok(body.len() - c.rest().len())
    }

    /// Reads nr, the hardware index, the entries and the counters, as far as the event records
    /// them.
    #[inline]
    pub(crate) fn branch_stack<'a>(
        &self,
        c: &mut Cursor<'a>,
    ) -> Result<BranchStack<'a>, RecordError> {
        let nr = c.u64("branch stack nr")?;
        let hw_idx = match self.branch_sample_type & branch_sample::HW_INDEX {
            0 => None,
            _ => Some(c.u64("branch stack hw_idx")?),
        };
        let raw =
            c.take(nr.saturating_mul(BranchStack::ENTRY_BYTES as u64), "branch stack entries")?;
        let counters = match self.branch_sample_type & branch_sample::COUNTERS {
            0 => None,
            _ => Some(c.take(nr.saturating_mul(8), "branch counters")?),
        };
        Ok(BranchStack::new(raw, hw_idx, self.endian, counters))
    }

    /// Reads only the time of a sample.
    pub(crate) fn sample_time(&self, body: &[u8]) -> Option<u64> {
        eight(body, self.time_at).map(|b| self.endian.u64(b))
    }

    /// The trailer of a record that is not a sample, and its size in bytes (0 without
    /// sample_id_all).
    pub fn trailer(&self, body: &[u8]) -> Result<(SampleId, usize), RecordError> {
        let mut id = SampleId::default();
        if self.trailer_bytes == 0 {
            return Ok((id, 0));
        }
        let Some(start) = body.len().checked_sub(self.trailer_bytes) else {
            return Err(short("sample id trailer", self.trailer_bytes as u64, body.len()));
        };
        let mut c = Cursor::new(body.get(start..).unwrap_or_default(), self.endian);
        let has = |bit: u64| self.sample_type & bit != 0;
        if has(st::TID) {
            id.pid = Some(c.i32("pid")?);
            id.tid = Some(c.i32("tid")?);
        }
        if has(st::TIME) {
            id.time = Some(c.u64("time")?);
        }
        if has(st::ID) {
            id.id = Some(c.u64("id")?);
        }
        if has(st::STREAM_ID) {
            id.stream_id = Some(c.u64("stream_id")?);
        }
        if has(st::CPU) {
            id.cpu = Some(c.u32("cpu")?);
            c.u32("reserved")?;
        }
        if has(st::IDENTIFIER) {
            id.id = Some(c.u64("identifier")?);
        }
        Ok((id, self.trailer_bytes))
    }

    /// Only the time of a trailer.
    pub(crate) fn trailer_time(&self, body: &[u8]) -> Option<u64> {
        if self.trailer_bytes == 0 || self.sample_type & st::TIME == 0 {
            return None;
        }
        let start = body.len().checked_sub(self.trailer_bytes)?;
        let before = if self.sample_type & st::TID != 0 { 8 } else { 0 };
        eight(body, start.checked_add(before)?).map(|b| self.endian.u64(b))
    }
}

#[cold]
fn short(field: &'static str, need_bytes: u64, left: usize) -> RecordError {
    RecordError::Short { field, need_bytes, left_bytes: left as u64 }
}
