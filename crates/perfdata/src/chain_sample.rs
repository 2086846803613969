//! The fields of a sample that summing up call chains needs, read at known places.

use crate::RuntimeAddr;
use crate::attr::sample_type as st;
use crate::bytes::{Cursor, Endian, Words, eight};
use crate::error::RecordError;
use crate::layout::SampleLayout;
use crate::raw::{CpuMode, RawRecord};

/// Where a thread was and how it came there, and what the sample weighs.
#[derive(Clone, Copy, Debug)]
pub struct ChainSample<'a> {
    /// Where the thread was; none when not recorded.
    pub ip: Option<RuntimeAddr>,
    /// Process (−1 when not recorded).
    pub pid: i32,
    /// Thread (−1 when not recorded).
    pub tid: i32,
    /// Time in ns; none when not recorded.
    pub time: Option<u64>,
    /// Index of the event in [`crate::Input::attrs`].
    pub attr_index: u32,
    /// Kernel or user.
    pub cpumode: CpuMode,
    /// Processor.
    pub cpu: Option<u32>,
    /// What the sample stands for; none where the event's attribute says it.
    pub period: Option<u64>,
    /// The call chain with its context marks, innermost first; none when not recorded.
    pub callchain: Option<Words<'a>>,
    /// Number of the control group; none when not recorded.
    pub cgroup: Option<u64>,
}

impl SampleLayout {
    /// Whether samples carry the user's registers and a copy of the stack, from which callers are
    /// unwound: [`SampleLayout::parse`] reads them.
    pub fn has_stack_copies(&self) -> bool {
        self.sample_type() & (st::REGS_USER | st::STACK_USER) == st::REGS_USER | st::STACK_USER
    }

    /// Reads what call chains need and nothing else.
    ///
    /// # Errors
    /// Where the record ends before a field that its event records.
    #[inline]
    pub fn chain<'a>(&self, raw: &RawRecord<'a>) -> Result<ChainSample<'a>, RecordError> {
        let fast = self.fast(raw)?;
        let has = |bit: u64| self.sample_type() & bit != 0;
        // PERIOD is the last of the fields of fixed size, and CPU the one before.
        let end = self.fixed_bytes();
        let word = |bit: u64, before: usize| {
            let at = end.checked_sub(before).filter(|_| has(bit))?;
            eight(raw.body, at).map(|bytes| self.endian.u64(bytes))
        };
        let period = word(st::PERIOD, 8);
        // The number is the first half of its word.
        let shift = if self.endian == Endian::Little { 0 } else { 32 };
        let cpu = word(st::CPU, if has(st::PERIOD) { 16 } else { 8 });
        let callchain = if !has(st::CALLCHAIN) {
            None
        } else if has(st::READ) {
            self.parse(raw)?.callchain
        } else {
            let mut c = Cursor::new(raw.body.get(end..).unwrap_or_default(), self.endian);
            let nr = c.u64("callchain nr")?;
            Some(c.words(nr, "callchain")?)
        };
        // It lies behind fields whose sizes differ from sample to sample.
        let cgroup = if has(st::CGROUP) { self.parse(raw)?.cgroup } else { None };
        Ok(ChainSample {
            ip: Some(fast.ip).filter(|_| has(st::IP)),
            pid: fast.pid,
            tid: fast.tid,
            time: Some(fast.time).filter(|_| has(st::TIME)),
            attr_index: fast.attr_index,
            cpumode: fast.cpumode,
            cpu: cpu.map(|word| (word >> shift) as u32),
            period,
            callchain,
            cgroup,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::EventAttr;
    use crate::kinds::misc;

    proptest::proptest! {
        /// Whatever fields stand beside them, and in either byte order.
        #[test]
        fn the_short_way_reads_what_the_long_one_does(
            fields in 0u64..(1 << 22), words in proptest::collection::vec(0u64..6, 24..60), big in 0u8..2,
        ) {
            let wanted = st::IP | st::TID | st::TIME | st::ADDR | st::READ | st::CALLCHAIN | st::ID | st::CPU
                | st::PERIOD | st::STREAM_ID | st::IDENTIFIER | st::CGROUP;
            let attr = EventAttr { sample_type: fields & wanted, ..EventAttr::default() };
            let endian = if big == 1 { Endian::Big } else { Endian::Little };
            let put = |word: &u64| endian.put_u64(*word);
            let body: Vec<u8> = words.iter().flat_map(put).collect();
            let layout = SampleLayout::new(&attr, 0, endian);
            let raw = RawRecord { kind: 9, misc: misc::USER, body: &body, offset: 0 };
            let (short, long) = (layout.chain(&raw), layout.parse(&raw));
            // A field that the short way leaves out may be what does not fit.
            let Ok(long) = long else { return Ok(()) };
            let short = short.map_err(|error| proptest::test_runner::TestCaseError::fail(error.to_string()))?;
            proptest::prop_assert_eq!(
                (short.ip, short.pid, short.tid, short.time, short.cpu, short.period, short.callchain, short.cgroup),
                (long.ip, long.pid.unwrap_or(-1), long.tid.unwrap_or(-1), long.time, long.cpu, long.period, long.callchain, long.cgroup)
            );
        }
    }
}
