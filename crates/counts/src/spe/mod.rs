//! Arm SPE: records of single operations, out of AUX data, to the same tables that samples fill.
//!
//! A record's instruction counts as a sample. A branch that was taken counts as a branch, as if it
//! were the one entry of a branch stack; where the processor wrote down the target of the branch
//! before (FEAT_SPE_PBT), the range from there to this branch is a fall-through range. Without it
//! the code behind the target is known to have run up to the next instruction that can transfer
//! control, and only that far; see [`crate::resolve::Sums::add_targets`].
//!
//! Buffers are read in blocks, and each is decoded for itself, so worker threads share them out.
//!
//! Source: Arm Architecture Reference Manual, "The Statistical Profiling Extension"
//! (<https://developer.arm.com/documentation/ddi0487>).

mod notes;
mod owners;

pub(crate) use notes::notes;
pub(crate) use owners::{AuxSideband, Buffer, Owners};

use crate::by_space::{self, BySpace};
use crate::halves;
use crate::ledger::{Reason, SpeLedger};
use crate::programs::SumsOf;
use crate::resolve::{Rules, Sums};
use crate::traces::{Trace, TraceCount, TraceTable};
use crate::workers::Shared;
use address_spaces::KERNEL_PID;
use perfdata::spe::{Decoder, SpeRecord};
use perfdata::{AuxSpan, CpuMode};

/// Decodes and counts all buffers; `progress` is told the bytes read.
pub(crate) fn count_records<'t>(
    shared: &Shared<'t>,
    owners: &Owners,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<SumsOf<'t>, perfdata::Error> {
    let groups = shared.options.threads.clamp(1, owners.buffers.len().max(1));
    let parts = jobs::try_run(groups, groups, |group| {
        let mut counter = Counter::new(shared, owners);
        for buffer in owners.buffers.iter().skip(group).step_by(groups) {
            counter.buffer(buffer, progress)?;
        }
        Ok::<_, perfdata::Error>(counter.finish())
    })?;
    let mut total = SumsOf::new(shared);
    parts.into_iter().for_each(|part| total.merge(part));
    total.rest().ledger.spe.add(&owners.losses);
    Ok(total)
}

/// Tables of one version of one address space.
#[derive(Default)]
struct Tables {
    addresses: TraceTable,
    branches: TraceTable,
    /// From the target of the branch before to the branch.
    ranges: TraceTable,
    /// Targets of branches before which nothing is known.
    targets: TraceTable,
}

impl by_space::Tables for Tables {
    fn slots(&self) -> usize {
        self.addresses.slots() + self.branches.slots() + self.ranges.slots() + self.targets.slots()
    }
}

struct Counter<'s, 't> {
    shared: &'s Shared<'t>,
    owners: &'s Owners,
    tables: BySpace<'t, Tables>,
    /// What is of no process that is known, and what the data was made of.
    rest: Sums<'t>,
    sums: SumsOf<'t>,
}

impl<'s, 't> Counter<'s, 't> {
    fn new(shared: &'s Shared<'t>, owners: &'s Owners) -> Self {
        let (rest, sums) = (shared.sums(), SumsOf::new(shared));
        Counter { shared, owners, tables: BySpace::new(), rest, sums }
    }

    fn buffer(
        &mut self,
        buffer: &Buffer,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), perfdata::Error> {
        let span =
            AuxSpan { stream: buffer.stream, offset: buffer.offset, size_bytes: buffer.size_bytes };
        let mut data = self.shared.input.aux_data(span);
        let mut decoder = Decoder::new(buffer.aux_offset);
        let mut bytes = Vec::new();
        let mut more = true;
        while more {
            let before = bytes.len();
            more = data.next_block(&mut bytes)?;
            let got = (bytes.len() - before) as u64;
            let used = decoder.decode(&bytes, !more, |record| self.record(buffer, &record));
            bytes.drain(..used);
            self.rest.ledger.spe.bytes += got;
            progress(got);
            if self.tables.is_full() {
                self.translate();
            }
        }
        let decoded = decoder.decoded();
        let in_file = |aux: u64| buffer.offset.saturating_add(aux.wrapping_sub(buffer.aux_offset));
        self.rest.ledger.spe.add(&SpeLedger {
            buffers: 1,
            incomplete: decoded.incomplete,
            damaged: decoded.damaged,
            first_damage: decoded.first_damage.map(in_file),
            ..SpeLedger::default()
        });
        self.rest.ledger.samples.write_off(Reason::Malformed, decoded.incomplete);
        Ok(())
    }

    fn record(&mut self, buffer: &Buffer, record: &SpeRecord) {
        let Some(address) = record.address else { return };
        let branch = record.branch();
        let spe = &mut self.rest.ledger.spe;
        spe.records += 1;
        match (record.is_branch(), branch) {
            (_, Some(_)) => spe.taken += 1,
            (true, None) => spe.not_taken += 1,
            (false, None) => spe.other_operations += 1,
        }
        spe.with_previous_target += u64::from(branch.is_some() && record.previous_target.is_some());
        let rules = self.shared.options.rules;
        if !record.retired() && matches!(rules, Rules::Auto | Rules::Autofdo) {
            return self.write_off(Reason::WrongPath, record);
        }
        let (owner, time) = self.owners.owner(buffer, record);
        let wanted = self.shared.options.pid;
        if wanted.is_some() && wanted != owner {
            owner.into_iter().for_each(|pid| self.rest.note_other_process(pid));
            return self.write_off(Reason::OtherProcess, record);
        }
        let pid = match owner {
            Some(pid) => pid,
            // What the kernel runs is the same whatever process it runs for.
            None if address.cpumode() != CpuMode::User => KERNEL_PID,
            None => return self.write_off(Reason::NoProcess, record),
        };
        // Records have no place of their own in the file; their times differ.
        let half = halves::of(time.wrapping_add(self.rest.ledger.spe.records));
        self.tables.count(self.shared.timeline, (pid, time), |tables| {
            tables.addresses.add_in(address.runtime().0, 0, 0, 0, half);
            if let Some(branch) = branch {
                let (from, to) = (branch.from.runtime().0, branch.to.runtime().0);
                tables.branches.add_in(
                    from,
                    to,
                    Trace::NONE.0,
                    u64::from(branch.mispredicted),
                    half,
                );
                match record.previous_target {
                    Some(first) => tables.ranges.add(first.runtime().0, from, 0, 0),
                    None => tables.targets.add(to, 0, 0, 0),
                }
            }
        });
    }

    /// Books everything that the record would have given.
    fn write_off(&mut self, reason: Reason, record: &SpeRecord) {
        let ledger = &mut self.rest.ledger;
        ledger.samples.write_off(reason, 1);
        if record.branch().is_some() {
            ledger.branches.write_off(reason, 1);
            ledger.fall_throughs.write_off(reason, u64::from(record.previous_target.is_some()));
        }
    }

    /// Translates all tables into sums of image addresses and empties them.
    fn translate(&mut self) {
        for (spaces, tables) in self.tables.drain() {
            let first = |counted: TraceCount| (counted.trace.from, counted.count);
            let sums = self.sums.of(spaces);
            sums.add_halved_samples(spaces, tables.addresses.iter_halves());
            sums.add_halved_traces(spaces, tables.branches.iter_halves());
            let ranges = tables.ranges.iter().map(|c| (c.trace.from, c.trace.to, c.count));
            sums.add_ranges(spaces, ranges);
            sums.add_targets(spaces, tables.targets.iter().map(first));
        }
    }

    fn finish(mut self) -> SumsOf<'t> {
        self.translate();
        self.sums.rest().merge(self.rest);
        self.sums
    }
}
