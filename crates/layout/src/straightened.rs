//! Which branches does a layout straighten: taken in the recorded image, fall-throughs as laid out?
//!
//! Input: a plan. Output: jumps within functions by how often they were executed, with the source line
//! that they belong to where the debug information says so. Functions with clones are left out, since
//! each copy of a block goes on elsewhere. Cost: linear in the edges; lines of the heaviest alone.

use crate::{Function, FunctionIndex, FunctionLayout, Plan};
use image::debug::{DebugInfo, SourceFile};
use image::debug_files::DebugSearch;
use image::{ImageAddr, blocks::BlockId};
use std::collections::HashMap;

/// A jump within a function that no longer is a taken branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Straightened {
    /// The function.
    pub function: FunctionIndex,
    /// The block that is left.
    pub block: BlockId,
    /// The last byte of that block in the recorded image.
    pub at: ImageAddr,
    /// How often it was executed.
    pub executions: u64,
    /// File and line, where they are known.
    pub place: Option<(String, u32)>,
}

/// The jumps that a layout turns over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turned {
    /// Those that fall through now, the most executed first, as many as were asked for.
    pub straightened: Vec<Straightened>,
    /// How many fall through now, and their executions.
    pub to_fall_through: (u64, u64),
    /// How many fell through and are taken now, and their executions.
    pub to_taken: (u64, u64),
    /// Functions, those that executed most first, as many as were asked for.
    pub functions: Vec<FunctionTurned>,
    /// What all functions executed, in bytes.
    pub executed_bytes: u128,
}

/// Where a function stands before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionTurned {
    /// The function.
    pub function: FunctionIndex,
    /// Bytes of its blocks, each as often as it was executed.
    pub executed_bytes: u128,
    /// Executions of its jumps that were taken branches as recorded, and that are as laid out; not
    /// known of functions with clones.
    pub taken: Option<(u64, u64)>,
}

impl Plan {
    /// The jumps that the layout turns over, the `most` heaviest of the straightened ones one by one,
    /// and the `most` functions that executed most.
    pub fn turned(&self, most: usize) -> Turned {
        let mut turned = Turned::default();
        for laid_out in &self.layout.functions {
            let Some(function) = self.cfg.function(laid_out.function) else { continue };
            let bytes = function
                .blocks
                .iter()
                .map(|block| u128::from(block.frequency).saturating_mul(u128::from(block.size)));
            let taken =
                laid_out.clones.is_empty().then(|| self.turn(laid_out, function, &mut turned));
            turned.functions.push(FunctionTurned {
                function: laid_out.function,
                executed_bytes: bytes.fold(0, u128::saturating_add),
                taken,
            });
        }
        turned.executed_bytes = turned
            .functions
            .iter()
            .fold(0, |sum: u128, one| sum.saturating_add(one.executed_bytes));
        turned.functions.sort_by_key(|one| (std::cmp::Reverse(one.executed_bytes), one.function));
        turned.functions.truncate(most);
        let key = |one: &Straightened| (std::cmp::Reverse(one.executions), one.function, one.at);
        turned.straightened.sort_by_key(key);
        turned.straightened.truncate(most);
        self.place(&mut turned.straightened);
        turned
    }

    /// The jumps of one function; executions of taken branches before and after.
    fn turn(
        &self,
        laid_out: &FunctionLayout,
        function: &Function,
        turned: &mut Turned,
    ) -> (u64, u64) {
        let scoring = &self.params.scoring;
        let pairs = laid_out.clusters.iter().flat_map(|cluster| {
            cluster.iter().zip(cluster.iter().skip(1)).map(|(one, next)| (one.block, next.block))
        });
        let next: HashMap<_, _> = pairs.collect();
        let mut taken = (0u64, 0u64);
        for edge in &function.edges {
            let block = |index: crate::BlockIndex| function.blocks.get(index.0 as usize);
            let (Some(from), Some(to)) = (block(edge.from), block(edge.to)) else { continue };
            let direct = !from.flags.has_indirect_branch() || scoring.indirect_falls_through;
            // As in the totals: what fills the gap before a loop is fallen through.
            let gap = to.address.0.checked_sub(from.end().0);
            let is_next =
                edge.from.0.checked_add(1) == Some(edge.to.0) && from.flags.can_fall_through();
            let padding = if is_next { u64::from(scoring.padding) } else { 0 };
            let fell = direct && gap.is_some_and(|gap| gap <= padding);
            let falls = direct && next.get(&edge.from) == Some(&edge.to);
            if !fell {
                taken.0 = taken.0.saturating_add(edge.weight);
            }
            if !falls {
                taken.1 = taken.1.saturating_add(edge.weight);
            }
            let sum = match (fell, falls) {
                (false, true) => &mut turned.to_fall_through,
                (true, false) => &mut turned.to_taken,
                _ => continue,
            };
            sum.0 += 1;
            sum.1 = sum.1.saturating_add(edge.weight);
            if falls {
                turned.straightened.push(Straightened {
                    function: laid_out.function,
                    block: from.id,
                    at: ImageAddr(from.end().0.saturating_sub(1).max(from.address.0)),
                    executions: edge.weight,
                    place: None,
                });
            }
        }
        taken
    }

    /// Looks up the lines.
    fn place(&self, jumps: &mut [Straightened]) {
        let Ok(debug) = DebugInfo::load(&self.image, &DebugSearch::default()) else { return };
        let mut addresses: Vec<ImageAddr> = jumps.iter().map(|jump| jump.at).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let found = debug.source_lines(&addresses);
        for jump in jumps {
            let Ok(at) = addresses.binary_search(&jump.at) else { continue };
            let line = found.lines.get(at).copied().flatten();
            jump.place = line.filter(|line| line.line > 0).and_then(|line| {
                let SourceFile(file) = line.file;
                Some((found.files.get(file as usize)?.clone(), line.line))
            });
        }
    }
}
