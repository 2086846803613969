//! Which branches does a layout straighten: taken in the recorded image, fall-throughs as laid out?
//!
//! Input: a plan. Output: jumps within functions by how often they were executed, with the source line
//! that they belong to where the debug information says so. Functions with clones are left out, since
//! each copy of a block goes on elsewhere. Cost: linear in the edges; lines of the heaviest alone.

use crate::{FunctionIndex, Plan};
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
}

impl Plan {
    /// The jumps that the layout turns over, the `most` heaviest of the straightened ones by name.
    pub fn turned(&self, most: usize) -> Turned {
        let mut turned = Turned::default();
        for laid_out in self.layout.functions.iter().filter(|one| one.clones.is_empty()) {
            let Some(function) = self.cfg.function(laid_out.function) else { continue };
            let pairs = laid_out.clusters.iter().flat_map(|cluster| {
                cluster
                    .iter()
                    .zip(cluster.iter().skip(1))
                    .map(|(one, next)| (one.block, next.block))
            });
            let next: HashMap<_, _> = pairs.collect();
            for edge in &function.edges {
                let block = |index: crate::BlockIndex| function.blocks.get(index.0 as usize);
                let (Some(from), Some(to)) = (block(edge.from), block(edge.to)) else { continue };
                let end = from.address.0.saturating_add(u64::from(from.size));
                let (fell, falls) = (to.address.0 == end, next.get(&edge.from) == Some(&edge.to));
                let sum = match (fell, falls) {
                    (false, true) => &mut turned.to_fall_through,
                    (true, false) => &mut turned.to_taken,
                    _ => continue,
                };
                sum.0 += 1;
                sum.1 = sum.1.saturating_add(edge.weight);
                if !fell {
                    turned.straightened.push(Straightened {
                        function: laid_out.function,
                        block: from.id,
                        at: ImageAddr(end.saturating_sub(1).max(from.address.0)),
                        executions: edge.weight,
                        place: None,
                    });
                }
            }
        }
        let key = |one: &Straightened| (std::cmp::Reverse(one.executions), one.function, one.at);
        turned.straightened.sort_by_key(key);
        turned.straightened.truncate(most);
        self.place(&mut turned.straightened);
        turned
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
