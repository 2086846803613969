//! Whether a recorded branch is an edge, a call or a return, and of which blocks.
//!
//! A branch stack entry has two addresses and no kind. Where the image has the instruction, its
//! kind is known. Where it has not (another image, code that was patched at boot), flags and
//! addresses must do, as they do for llvm-propeller: what arrives at an entry block is a call, what
//! comes from a returning block or another function is a return.
//!
//! A return that arrives at the start of a block comes after a call that ends the block before. It
//! is a return to that block, and control then falls from it into the next: that fall-through is in
//! no recorded range, so it is added here.

use counts::Branch;
use image::code::{InstructionKind, instructions};
use image::{Image, ImageAddr};
use rustc_hash::FxHashMap;

use crate::CallKind;
use crate::evidence::Evidence;
use crate::report::Unused;
use crate::rules::Rules;
use crate::selection::Selection;
use crate::table::{End, Spot, Table};

/// What the instruction at the source does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transfer {
    Call,
    Return,
    Jump,
    Unknown,
}

/// Sorts branches into edges, calls and returns.
pub(crate) struct Classifier<'b> {
    image: &'b Image,
    table: &'b Table,
    selection: &'b Selection,
    rules: Rules,
    /// The last decoded source; branches come sorted by it.
    last_source: Option<(ImageAddr, InstructionKind, Option<ImageAddr>)>,
    /// Whether a block ends with a call that returns to its end.
    ends_with_call: FxHashMap<Spot, bool>,
}

/// Where a branch arrives.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    spot: Spot,
    address: ImageAddr,
    at_start: bool,
    at_entry: bool,
}

impl<'b> Classifier<'b> {
    pub(crate) fn new(
        image: &'b Image,
        table: &'b Table,
        selection: &'b Selection,
        rules: Rules,
    ) -> Self {
        let ends_with_call = FxHashMap::default();
        Classifier { image, table, selection, rules, last_source: None, ends_with_call }
    }

    /// Enters a branch into the evidence; says why where it makes no edge.
    pub(crate) fn branch(
        &mut self,
        branch: &Branch,
        evidence: &mut Evidence,
    ) -> Result<(), Unused> {
        let (selection, table) = (self.selection, self.table);
        let find = |address, side, unmapped| selection.find(table, address, side, unmapped);
        let source = branch.from.ok_or(Unused::SourceOutside);
        let source =
            source.and_then(|from| Ok((find(from, End::Source, Unused::SourceUnmapped)?, from)));
        let target = branch.to.ok_or(Unused::TargetOutside);
        let target = target
            .and_then(|to| Ok(self.arrival(find(to, End::Target, Unused::TargetUnmapped)?, to)));
        if self.rules == Rules::Upstream {
            return self.upstream(source.map(|(spot, _)| spot), target?, branch.count, evidence);
        }
        let transfer = self.transfer(branch);
        match (source, target) {
            (Ok((from, site)), Ok(to)) => {
                self.inside(from, site, to, transfer, branch.count, evidence)
            }
            (Ok((from, site)), Err(reason)) => {
                match transfer {
                    Transfer::Call => evidence.call_site(from, site, branch.count),
                    Transfer::Return | Transfer::Jump => evidence.left(from, branch.count),
                    // An interrupt can come anywhere.
                    Transfer::Unknown => {}
                }
                Err(reason)
            }
            (Err(reason), Ok(to)) => self.arriving(to, transfer, reason, branch.count, evidence),
            (Err(_), Err(reason)) => Err(reason),
        }
    }

    fn arrival(&self, spot: Spot, address: ImageAddr) -> Arrival {
        let at_start = self.table.block(spot).is_some_and(|block| block.address == address);
        Arrival { spot, address, at_start, at_entry: at_start && spot.block == 0 }
    }

    fn has_return(&self, spot: Spot) -> bool {
        self.table.block(spot).is_some_and(|block| block.flags.has_return())
    }

    /// From code that is not in the graph.
    fn arriving(
        &mut self,
        to: Arrival,
        transfer: Transfer,
        reason: Unused,
        count: u64,
        evidence: &mut Evidence,
    ) -> Result<(), Unused> {
        let returns = matches!(transfer, Transfer::Return | Transfer::Unknown);
        if to.at_start
            && !to.at_entry
            && returns
            && let Some(caller) = self.caller(to)
        {
            evidence.edge(caller, to.spot, count);
            return Ok(());
        }
        if to.at_start {
            evidence.entered(to.spot, count);
        } else if transfer != Transfer::Call {
            evidence.return_site(to.spot, to.address, count);
        }
        Err(reason)
    }

    /// From a block of the graph to a block of the graph.
    fn inside(
        &mut self,
        from: Spot,
        site: ImageAddr,
        to: Arrival,
        transfer: Transfer,
        count: u64,
        evidence: &mut Evidence,
    ) -> Result<(), Unused> {
        let same = from.candidate == to.spot.candidate;
        let transfer = match transfer {
            Transfer::Unknown if to.at_entry => Transfer::Call,
            Transfer::Unknown if self.has_return(from) || !same => Transfer::Return,
            Transfer::Unknown => Transfer::Jump,
            known => known,
        };
        match transfer {
            Transfer::Call => {
                evidence.call_site(from, site, count);
                if !to.at_entry {
                    return Err(Unused::IntoBlock);
                }
                evidence.call(from, to.spot, CallKind::Call, count);
            }
            Transfer::Return if !to.at_start => {
                evidence.return_site(to.spot, to.address, count);
                evidence.call(from, to.spot, CallKind::Return, count);
            }
            Transfer::Return if !to.at_entry && self.caller(to).is_some() => {
                let caller = self.caller(to).unwrap_or(to.spot);
                evidence.call(from, caller, CallKind::Return, count);
                evidence.edge(caller, to.spot, count);
            }
            _ if !to.at_start => {
                evidence.left(from, count);
                return Err(Unused::IntoBlock);
            }
            _ if same && !(to.at_entry && self.is_tail_call(from)) => {
                evidence.edge(from, to.spot, count)
            }
            _ => evidence.call(from, to.spot, CallKind::TailCall, count),
        }
        Ok(())
    }

    fn is_tail_call(&self, spot: Spot) -> bool {
        self.table.block(spot).is_some_and(|block| block.flags.has_tail_call())
    }

    /// llvm-propeller's rule.
    fn upstream(
        &mut self,
        from: Result<Spot, Unused>,
        to: Arrival,
        count: u64,
        evidence: &mut Evidence,
    ) -> Result<(), Unused> {
        let same = from.is_ok_and(|from| from.candidate == to.spot.candidate);
        let has_return = from.is_ok_and(|from| self.has_return(from));
        let mut sink = to.spot;
        if (!same || has_return)
            && !to.at_entry
            && to.at_start
            && let Some(block) = sink.block.checked_sub(1)
        {
            sink.block = block;
            evidence.edge(sink, to.spot, count);
        }
        let from = match from {
            Ok(from) => from,
            Err(_) if sink != to.spot => return Ok(()),
            Err(reason) => return Err(reason),
        };
        let at_start = to.at_start && sink == to.spot;
        if to.at_entry {
            evidence.call(from, sink, CallKind::Call, count);
        } else if !at_start && same && !has_return {
            return Err(Unused::IntoBlock);
        } else if !at_start || has_return {
            evidence.call(from, sink, CallKind::Return, count);
        } else if same {
            evidence.edge(from, sink, count);
        } else {
            evidence.call(from, sink, CallKind::TailCall, count);
        }
        Ok(())
    }

    fn transfer(&mut self, branch: &Branch) -> Transfer {
        use InstructionKind::{
            Call, ConditionalBranch, IndirectBranch, IndirectCall, Return, Syscall,
            UnconditionalBranch,
        };
        let Some(from) = branch.from else { return Transfer::Unknown };
        let decoded = match self.last_source {
            Some((address, kind, target)) if address == from => Some((kind, target)),
            _ => instructions(self.image, from).next().map(|i| (i.kind, i.target)),
        };
        let Some((kind, target)) = decoded else { return Transfer::Unknown };
        self.last_source = Some((from, kind, target));
        match kind {
            Call | IndirectCall | Syscall => Transfer::Call,
            Return => Transfer::Return,
            // Another target than the instruction states: it was patched, as kernels do with their
            // return thunks. Those of modules lie in the kernel, so that their target is none here.
            UnconditionalBranch | ConditionalBranch if target != branch.to => Transfer::Unknown,
            UnconditionalBranch | ConditionalBranch | IndirectBranch => Transfer::Jump,
            _ => Transfer::Unknown,
        }
    }

    /// The block whose call a return to the start of a block comes back from.
    fn caller(&mut self, to: Arrival) -> Option<Spot> {
        // Only unwinding arrives at a landing pad, also where it stands behind a call that does not
        // return.
        if self.table.block(to.spot).is_some_and(|block| block.flags.is_landing_pad()) {
            return None;
        }
        let previous = self.table.previous(to.spot)?;
        if let Some(&known) = self.ends_with_call.get(&previous) {
            return known.then_some(previous);
        }
        let ends = self.ends_with_call_at(previous, to.address);
        self.ends_with_call.insert(previous, ends);
        ends.then_some(previous)
    }

    fn ends_with_call_at(&self, spot: Spot, end: ImageAddr) -> bool {
        let Some(block) = self.table.block(spot) else { return false };
        if block.end() != end {
            return false;
        }
        let inside = instructions(self.image, block.address).take_while(|i| i.address < end);
        match inside.last() {
            Some(last) => {
                matches!(last.kind, InstructionKind::Call | InstructionKind::IndirectCall)
            }
            // No decoder for this processor.
            None => !block.flags.has_return(),
        }
    }
}
