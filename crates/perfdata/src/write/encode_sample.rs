//! Samples as bytes, in the field order of the kernel's `perf_output_sample`
//! (kernel/events/core.c).

use super::encode::{Body, Encoder, MOST_BYTES};
use super::values::{SampleValues, StackValues};
use crate::attr::{branch_sample, read_format, sample_type as st};
use crate::error::Error;
use crate::kinds::{kind, misc};

impl Encoder {
    /// A sample. Values that do not fit the event are an error, and nothing is appended.
    pub fn sample(&self, out: &mut Vec<u8>, values: &SampleValues<'_>) -> Result<(), Error> {
        let start = out.len();
        let result = self.sample_record(out, values);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    fn sample_record(&self, out: &mut Vec<u8>, values: &SampleValues<'_>) -> Result<(), Error> {
        let exact = if values.exact_ip { misc::EXACT_IP } else { 0 };
        let mut body = Body::begin(out, self.endian, kind::SAMPLE, values.cpumode.bits() | exact);
        let b = &mut body;
        let id = &values.id;
        self.word(b, st::IDENTIFIER, id.id.unwrap_or(0));
        self.word(b, st::IP, values.ip);
        if self.has(st::TID) {
            b.i32(id.pid.unwrap_or(0));
            b.i32(id.tid.unwrap_or(0));
        }
        self.word(b, st::TIME, id.time.unwrap_or(0));
        self.word(b, st::ADDR, values.addr);
        self.word(b, st::ID, id.id.unwrap_or(0));
        self.word(b, st::STREAM_ID, id.stream_id.unwrap_or(0));
        if self.has(st::CPU) {
            b.u32(id.cpu.unwrap_or(0));
            b.u32(0);
        }
        self.word(b, st::PERIOD, values.period);
        self.stacks(b, &values.stacks)?;
        self.word(b, st::WEIGHT | st::WEIGHT_STRUCT, values.weight);
        self.word(b, st::DATA_SRC, values.data_src);
        self.word(b, st::TRANSACTION, values.transaction);
        if self.has(st::REGS_INTR) {
            registers(b, self.regs_intr, values.stacks.regs_intr)?;
        }
        self.word(b, st::PHYS_ADDR, values.phys_addr);
        self.word(b, st::CGROUP, values.cgroup);
        self.word(b, st::DATA_PAGE_SIZE, values.data_page_size);
        self.word(b, st::CODE_PAGE_SIZE, values.code_page_size);
        if self.has(st::AUX) {
            b.u64(values.stacks.aux.len().next_multiple_of(8) as u64);
            b.out.extend(values.stacks.aux);
            b.pad();
        }
        body.end()
    }

    fn word(&self, b: &mut Body<'_>, bits: u64, value: u64) {
        if self.has(bits) {
            b.u64(value);
        }
    }

    fn stacks(&self, b: &mut Body<'_>, values: &StackValues<'_>) -> Result<(), Error> {
        if self.has(st::READ) {
            self.check_read(values.read)?;
            b.words(values.read);
        }
        if self.has(st::CALLCHAIN) {
            b.u64(values.callchain.len() as u64);
            b.words(values.callchain);
        }
        if self.has(st::RAW) {
            // The size counts the padding, so that size and data together are a multiple of 8, as
            // the kernel has it.
            let room = (values.raw.len() + 4).next_multiple_of(8) - 4;
            b.u32(u32::try_from(room).map_err(|_| Error::write("raw data above 4 GiB"))?);
            b.out.extend(values.raw);
            b.pad();
        }
        if self.has(st::BRANCH_STACK) {
            self.branches(b, values);
        }
        if self.has(st::REGS_USER) {
            registers(b, self.regs_user, values.regs_user)?;
        }
        if self.has(st::STACK_USER) {
            user_stack(b, values);
        }
        Ok(())
    }

    fn branches(&self, b: &mut Body<'_>, values: &StackValues<'_>) {
        b.u64(values.branches.len() as u64);
        if self.branch_sample_type & branch_sample::HW_INDEX != 0 {
            b.u64(values.hw_idx);
        }
        for entry in values.branches {
            b.u64(entry.from.0);
            b.u64(entry.to.0);
            b.u64(entry.flags.to_recorded(self.endian));
        }
        if self.branch_sample_type & branch_sample::COUNTERS != 0 {
            for index in 0..values.branches.len() {
                b.u64(values.counters.get(index).copied().unwrap_or(0));
            }
        }
    }

    fn check_read(&self, words: &[u64]) -> Result<(), Error> {
        let times = (self.read_format & 3).count_ones() as usize;
        let each =
            1 + (self.read_format & (read_format::ID | read_format::LOST)).count_ones() as usize;
        let want = if self.read_format & read_format::GROUP == 0 {
            Some(times + each)
        } else {
            let nr = words.first().and_then(|&nr| usize::try_from(nr).ok());
            nr.and_then(|nr| nr.checked_mul(each)).map(|values| 1 + times + values)
        };
        if want == Some(words.len()) {
            return Ok(());
        }
        Err(Error::write(format!(
            "read format {:#x} needs {want:?} words, not {}",
            self.read_format,
            words.len()
        )))
    }
}

fn registers(b: &mut Body<'_>, mask: u64, (abi, values): (u64, &[u64])) -> Result<(), Error> {
    let want = if abi == 0 { 0 } else { mask.count_ones() as usize };
    if values.len() != want {
        return Err(Error::write(format!("{want} registers needed, {} given", values.len())));
    }
    b.u64(abi);
    b.words(values);
    Ok(())
}

fn user_stack(b: &mut Body<'_>, values: &StackValues<'_>) {
    let bytes = values.stack_user;
    let room =
        (values.stack_room_bytes as usize).max(bytes.len()).next_multiple_of(8).min(MOST_BYTES + 1);
    b.u64(room as u64);
    if room > 0 {
        let end = b.out.len() + room;
        b.out.extend(bytes);
        b.out.resize(end.max(b.out.len()), 0);
        b.u64(bytes.len() as u64);
    }
}
