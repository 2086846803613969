//! A sample with every field it can have, in the order of the kernel's `perf_output_sample`
//! (kernel/events/core.c).

use crate::RuntimeAddr;
use crate::attr::sample_type as st;
use crate::branch::BranchStack;
use crate::bytes::{Cursor, Words};
use crate::counter_values::{ReadValues, read_values};
use crate::error::RecordError;
use crate::kinds::misc;
use crate::layout::SampleLayout;
use crate::raw::{CpuMode, RawRecord, SampleId};

/// Register values of a sample.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Registers<'a> {
    /// `PERF_SAMPLE_REGS_ABI_…`: none 0, 32 bit 1, 64 bit 2.
    pub abi: u64,
    /// Which registers there are (bit numbers of asm/perf_regs.h).
    pub mask: u64,
    /// Their values, lowest bit first; empty when the abi is 0.
    pub values: Words<'a>,
}

impl Registers<'_> {
    /// The value of register `number` (asm/perf_regs.h).
    pub fn get(&self, number: u32) -> Option<u64> {
        let bit = 1u64.checked_shl(number)?;
        (self.mask & bit != 0)
            .then(|| self.values.get((self.mask & (bit - 1)).count_ones() as usize))
            .flatten()
    }

    fn read<'a>(c: &mut Cursor<'a>, mask: u64) -> Result<Registers<'a>, RecordError> {
        let abi = c.u64("register abi")?;
        let count = if abi == 0 { 0 } else { u64::from(mask.count_ones()) };
        Ok(Registers { abi, mask, values: c.words(count, "registers")? })
    }
}

/// A copy of the top of the user stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UserStack<'a> {
    /// The bytes that were really copied, from the stack pointer upwards.
    pub bytes: &'a [u8],
    /// The room that the record gives them, in bytes.
    pub room_bytes: u64,
}

/// A sample with all its fields; what was not recorded is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(
    missing_docs,
    reason = "plain fields are named as in include/uapi/linux/perf_event.h, PERF_RECORD_SAMPLE"
)]
pub struct Sample<'a> {
    /// Index of the event in [`crate::Input::attrs`].
    pub attr_index: u32,
    /// Kernel or user.
    pub cpumode: CpuMode,
    /// The address is that of the instruction that caused the event.
    pub exact_ip: bool,
    pub ip: Option<RuntimeAddr>,
    pub pid: Option<i32>,
    pub tid: Option<i32>,
    /// Time in ns.
    pub time: Option<u64>,
    /// The data address (or other value) of the event.
    pub addr: Option<RuntimeAddr>,
    /// Id of the counter (field ID or IDENTIFIER).
    pub id: Option<u64>,
    pub stream_id: Option<u64>,
    pub cpu: Option<u32>,
    pub period: Option<u64>,
    pub read: Option<ReadValues<'a>>,
    /// The call chain with its context marks, innermost first.
    pub callchain: Option<Words<'a>>,
    /// The event's own data (tracepoints).
    pub raw: Option<&'a [u8]>,
    /// The last taken branches, newest first.
    pub branches: Option<BranchStack<'a>>,
    pub regs_user: Option<Registers<'a>>,
    pub stack_user: Option<UserStack<'a>>,
    /// Field WEIGHT, or WEIGHT_STRUCT as one word (its three parts depend on the processor).
    pub weight: Option<u64>,
    pub data_src: Option<u64>,
    pub transaction: Option<u64>,
    pub regs_intr: Option<Registers<'a>>,
    pub phys_addr: Option<u64>,
    pub cgroup: Option<u64>,
    pub data_page_size: Option<u64>,
    pub code_page_size: Option<u64>,
    /// AUX data that belongs to the sample.
    pub aux: Option<&'a [u8]>,
    /// Bytes after the last known field; a newer kernel's fields, kept as they are.
    pub rest: &'a [u8],
}

impl Sample<'_> {
    /// Who, when and where.
    pub fn sample_id(&self) -> SampleId {
        SampleId {
            pid: self.pid,
            tid: self.tid,
            time: self.time,
            id: self.id,
            stream_id: self.stream_id,
            cpu: self.cpu,
        }
    }
}

impl SampleLayout {
    /// Reads a sample with everything in it.
    pub fn parse<'a>(&self, raw: &RawRecord<'a>) -> Result<Sample<'a>, RecordError> {
        let mut cursor = Cursor::new(raw.body, self.endian);
        let c = &mut cursor;
        let mut sample = Sample {
            attr_index: self.attr_index,
            cpumode: CpuMode::of(raw.misc),
            exact_ip: raw.misc & misc::EXACT_IP != 0,
            ..Sample::default()
        };
        self.fixed_fields(c, &mut sample)?;
        self.variable_fields(c, &mut sample)?;
        self.late_fields(c, &mut sample)?;
        sample.rest = c.rest();
        Ok(sample)
    }

    fn has(&self, bit: u64) -> bool {
        self.sample_type & bit != 0
    }

    fn word(
        &self,
        c: &mut Cursor<'_>,
        bit: u64,
        field: &'static str,
    ) -> Result<Option<u64>, RecordError> {
        if self.has(bit) { c.u64(field).map(Some) } else { Ok(None) }
    }

    fn fixed_fields<'a>(
        &self,
        c: &mut Cursor<'a>,
        sample: &mut Sample<'a>,
    ) -> Result<(), RecordError> {
        let identifier = self.word(c, st::IDENTIFIER, "identifier")?;
        sample.ip = self.word(c, st::IP, "ip")?.map(RuntimeAddr);
        if self.has(st::TID) {
            sample.pid = Some(c.i32("pid")?);
            sample.tid = Some(c.i32("tid")?);
        }
        sample.time = self.word(c, st::TIME, "time")?;
        sample.addr = self.word(c, st::ADDR, "addr")?.map(RuntimeAddr);
        sample.id = self.word(c, st::ID, "id")?.or(identifier);
        sample.stream_id = self.word(c, st::STREAM_ID, "stream_id")?;
        if self.has(st::CPU) {
            sample.cpu = Some(c.u32("cpu")?);
            c.u32("reserved")?;
        }
        sample.period = self.word(c, st::PERIOD, "period")?;
        Ok(())
    }

    fn variable_fields<'a>(
        &self,
        c: &mut Cursor<'a>,
        sample: &mut Sample<'a>,
    ) -> Result<(), RecordError> {
        if self.has(st::READ) {
            sample.read = Some(read_values(c, self.read_format)?);
        }
        if self.has(st::CALLCHAIN) {
            let nr = c.u64("callchain nr")?;
            sample.callchain = Some(c.words(nr, "callchain")?);
        }
        if self.has(st::RAW) {
            let size = c.u32("raw size")?;
            sample.raw = Some(c.take(u64::from(size), "raw data")?);
        }
        if self.has(st::BRANCH_STACK) {
            sample.branches = Some(self.branch_stack(c)?);
        }
        if self.has(st::REGS_USER) {
            sample.regs_user = Some(Registers::read(c, self.regs_user)?);
        }
        if self.has(st::STACK_USER) {
            sample.stack_user = Some(user_stack(c)?);
        }
        Ok(())
    }

    fn late_fields<'a>(
        &self,
        c: &mut Cursor<'a>,
        sample: &mut Sample<'a>,
    ) -> Result<(), RecordError> {
        sample.weight = self.word(c, st::WEIGHT | st::WEIGHT_STRUCT, "weight")?;
        sample.data_src = self.word(c, st::DATA_SRC, "data_src")?;
        sample.transaction = self.word(c, st::TRANSACTION, "transaction")?;
        if self.has(st::REGS_INTR) {
            sample.regs_intr = Some(Registers::read(c, self.regs_intr)?);
        }
        sample.phys_addr = self.word(c, st::PHYS_ADDR, "phys_addr")?;
        sample.cgroup = self.word(c, st::CGROUP, "cgroup")?;
        sample.data_page_size = self.word(c, st::DATA_PAGE_SIZE, "data_page_size")?;
        sample.code_page_size = self.word(c, st::CODE_PAGE_SIZE, "code_page_size")?;
        if self.has(st::AUX) {
            let size = c.u64("aux size")?;
            sample.aux = Some(c.take(size, "aux data")?);
        }
        Ok(())
    }
}

fn user_stack<'a>(c: &mut Cursor<'a>) -> Result<UserStack<'a>, RecordError> {
    let room_bytes = c.u64("stack size")?;
    if room_bytes == 0 {
        return Ok(UserStack::default());
    }
    let room = c.take(room_bytes, "stack data")?;
    let filled = c.u64("stack dyn_size")?.min(room_bytes);
    let bytes = usize::try_from(filled).ok().and_then(|filled| room.get(..filled)).unwrap_or(room);
    Ok(UserStack { bytes, room_bytes })
}
