//! Flow repair: counts that fit together.
//!
//! Input: a function with observed frequencies and edges, and the ways control can take. Output:
//! the same with every block entered as often as it runs and left as often, and none negative.
//! Blocks where control may come from or go to other functions may be entered or left more often
//! than their edges say: entry blocks, landing pads, blocks that return, and blocks to or from
//! which no way is known. Counts that fit stay as they are.
//!
//! A block is two nodes with an arc between them that carries its frequency; what comes from and
//! goes to other functions is an arc from or to one more node. The rest is the nearest flow
//! (`flow`).

use image::Image;
use rustc_hash::FxHashMap;

use crate::flow::{Arc, Network};
use crate::successors::{Way, ways};
use crate::{Block, BlockIndex, Cfg, Edge, Function, Observed};

/// How flow is repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InferOptions {
    /// What was observed: edges, or only how often blocks were sampled.
    pub observed: Observed,
    /// Bound on the work, in looks at each arc of a function. Beyond it the counts still fit, but
    /// are not the nearest.
    pub work_per_arc: u64,
}

impl Default for InferOptions {
    fn default() -> Self {
        InferOptions { observed: Observed::Branches, work_per_arc: 300 }
    }
}

/// What flow repair changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InferReport {
    /// Functions that were looked at.
    pub functions: u64,
    /// Functions in which a number changed.
    pub changed_functions: u64,
    /// Functions where the bound on work was met, so that the numbers fit but are not the nearest.
    pub bounded_functions: u64,
    /// Sum of all block frequencies before.
    pub frequency_before: u64,
    /// Sum of what was added to block frequencies.
    pub raised: u64,
    /// Sum of what was taken from block frequencies.
    pub lowered: u64,
    /// Edges that got a weight although none was seen.
    pub edges_added: u64,
    /// Edges that lost all their weight.
    pub edges_removed: u64,
}

impl InferReport {
    pub(crate) fn add(&mut self, other: &InferReport) {
        for (sum, more) in [
            (&mut self.functions, other.functions),
            (&mut self.changed_functions, other.changed_functions),
            (&mut self.bounded_functions, other.bounded_functions),
            (&mut self.frequency_before, other.frequency_before),
            (&mut self.raised, other.raised),
            (&mut self.lowered, other.lowered),
            (&mut self.edges_added, other.edges_added),
            (&mut self.edges_removed, other.edges_removed),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// What it costs to change a number by one. Recordings miss rather than invent, so that lowering is
/// dearer than raising.
#[derive(Debug, Clone, Copy)]
struct Costs {
    /// Raise and lower something that was observed.
    seen: (u64, u64),
    /// Raise the frequency of a block that was not observed.
    unseen_block: u64,
    /// Raise a fall-through, a branch, that was not observed.
    unseen_fall: u64,
    unseen_branch: u64,
    /// Raise and lower what enters a function at its entry block.
    entry: (u64, u64),
    /// Raise and lower what leaves it at a return.
    exit: (u64, u64),
    /// Raise what enters at a landing pad, and what enters and leaves where no way is known.
    elsewhere: u64,
}

impl Costs {
    fn of(observed: Observed) -> Costs {
        match observed {
            Observed::Branches => Costs {
                seen: (10, 20),
                unseen_block: 11,
                unseen_fall: 11,
                unseen_branch: 13,
                entry: (15, 10),
                exit: (5, 5),
                elsewhere: 100,
            },
            // Edges are free to take what the blocks say; every unit of a way costs a little, so
            // that none circles.
            Observed::SamplesOnly => Costs {
                unseen_fall: 1,
                unseen_branch: 2,
                entry: (3, 1),
                exit: (1, 1),
                ..Costs::of(Observed::Branches)
            },
        }
    }
}

/// Repairs all functions of a graph that was made of this image. Calls stay as they are.
pub fn infer(cfg: &mut Cfg, image: &Image, options: &InferOptions) -> InferReport {
    let mut report = InferReport::default();
    for function in &mut cfg.functions {
        let ways = ways(image, function);
        report.add(&repair(function, &ways, options));
    }
    report
}

/// Repairs one function. Ways that its edges show need not be in `ways`.
pub fn repair(function: &mut Function, ways: &[Way], options: &InferOptions) -> InferReport {
    let model = Model::new(function, ways, Costs::of(options.observed));
    let mut report = InferReport { functions: 1, ..InferReport::default() };
    let work = options.work_per_arc.saturating_mul(model.arcs.len() as u64);
    let blocks = function.blocks.len();
    let edges = model.edges;
    let mut network = Network::new(blocks as u32 * 2 + 1, blocks as u32 * 2, model.arcs);
    report.bounded_functions = u64::from(!network.balance(work));
    let number = |flow: u128| u64::try_from(flow).unwrap_or(u64::MAX);
    for (block, &flow) in function.blocks.iter_mut().zip(network.flows()) {
        let new = number(flow);
        report.frequency_before = report.frequency_before.saturating_add(block.frequency);
        report.raised = report.raised.saturating_add(new.saturating_sub(block.frequency));
        report.lowered = report.lowered.saturating_add(block.frequency.saturating_sub(new));
        block.frequency = new;
    }
    let flows = network.flows().iter().skip(blocks);
    let mut edges_changed = false;
    function.edges.clear();
    for (edge, &flow) in edges.iter().zip(flows) {
        let weight = number(flow);
        edges_changed |= weight != edge.weight;
        report.edges_added += u64::from(edge.weight == 0 && weight != 0);
        report.edges_removed += u64::from(edge.weight != 0 && weight == 0);
        if weight != 0 {
            function.edges.push(Edge { weight, ..*edge });
        }
    }
    let changed = edges_changed || report.raised != 0 || report.lowered != 0;
    report.changed_functions = u64::from(changed);
    report
}

/// The arcs of a function: first one per block, then one per edge, then those from and to other
/// functions.
struct Model {
    arcs: Vec<Arc>,
    /// Seen and possible edges by (from, to); weight 0 where not seen.
    edges: Vec<Edge>,
}

impl Model {
    fn new(function: &Function, ways: &[Way], costs: Costs) -> Model {
        let count = function.blocks.len() as u32;
        let inside = |edge: &Edge| edge.from.0 < count && edge.to.0 < count;
        let mut falls: FxHashMap<(BlockIndex, BlockIndex), bool> = FxHashMap::default();
        let mut edges: Vec<Edge> = function.edges.iter().copied().filter(inside).collect();
        for way in ways {
            falls.insert((way.from, way.to), way.falls);
            edges.push(Edge { from: way.from, to: way.to, weight: 0 });
        }
        edges.retain(inside);
        edges.sort_unstable_by_key(|edge| (edge.from, edge.to, u64::MAX - edge.weight));
        edges.dedup_by_key(|edge| (edge.from, edge.to));
        let mut arcs = Vec::new();
        for (block, index) in function.blocks.iter().zip(0u32..) {
            let raise = if block.frequency == 0 { costs.unseen_block } else { costs.seen.0 };
            let observed = u128::from(block.frequency);
            arcs.push(Arc {
                from: index * 2,
                to: index * 2 + 1,
                observed,
                raise,
                lower: costs.seen.1,
            });
        }
        for edge in &edges {
            let falls = falls.get(&(edge.from, edge.to)).copied().unwrap_or(false);
            let raise = match (edge.weight, falls) {
                (0, true) => costs.unseen_fall,
                (0, false) => costs.unseen_branch,
                _ => costs.seen.0,
            };
            let observed = u128::from(edge.weight);
            let (from, to) = (edge.from.0 * 2 + 1, edge.to.0 * 2);
            arcs.push(Arc { from, to, observed, raise, lower: costs.seen.1 });
        }
        let mut model = Model { arcs, edges };
        model.connect(function, costs);
        model
    }

    /// Adds the arcs from and to other functions, so that every block can be entered and left.
    fn connect(&mut self, function: &Function, costs: Costs) {
        let blocks = function.blocks.len();
        let mut arriving = vec![0u128; blocks];
        let mut leaving = vec![0u128; blocks];
        let mut onward: Vec<Vec<usize>> = vec![Vec::new(); blocks];
        let mut backward: Vec<Vec<usize>> = vec![Vec::new(); blocks];
        for edge in &self.edges {
            let (from, to) = (edge.from.0 as usize, edge.to.0 as usize);
            for (sums, block) in [(&mut leaving, from), (&mut arriving, to)] {
                if let Some(sum) = sums.get_mut(block) {
                    *sum += u128::from(edge.weight);
                }
            }
            for (lists, block, other) in [(&mut onward, from, to), (&mut backward, to, from)] {
                if let Some(list) = lists.get_mut(block) {
                    list.push(other);
                }
            }
        }
        let root = blocks as u32 * 2;
        let is_entry = |block: &Block, index: usize| index == 0 || block.flags.is_landing_pad();
        let entries = opened(function, is_entry, &backward, &onward);
        let exits = opened(function, |block, _| block.flags.has_return(), &onward, &backward);
        for (block, index) in function.blocks.iter().zip(0usize..) {
            let missing = |sums: &[u128]| {
                u128::from(block.frequency).saturating_sub(sums.get(index).copied().unwrap_or(0))
            };
            if entries.get(index) == Some(&true) {
                let (raise, lower) =
                    if index == 0 { costs.entry } else { (costs.elsewhere, costs.entry.1) };
                let observed = missing(&arriving);
                self.arcs.push(Arc { from: root, to: index as u32 * 2, observed, raise, lower });
            }
            if exits.get(index) == Some(&true) {
                let returns = block.flags.has_return();
                let (raise, lower) =
                    if returns { costs.exit } else { (costs.elsewhere, costs.exit.1) };
                let observed = missing(&leaving);
                self.arcs.push(Arc {
                    from: index as u32 * 2 + 1,
                    to: root,
                    observed,
                    raise,
                    lower,
                });
            }
        }
    }
}

/// Marks the blocks where control may enter (or leave): those that `is_open` says, those without a
/// way `into` them, and, of those that none of these reaches by `ways`, the first, until all are
/// reached.
fn opened(
    function: &Function,
    is_open: impl Fn(&Block, usize) -> bool,
    into: &[Vec<usize>],
    ways: &[Vec<usize>],
) -> Vec<bool> {
    let blocks = function.blocks.len();
    let mut open = vec![false; blocks];
    let mut reached = vec![false; blocks];
    let mut visit = |start: usize| {
        let mut todo = vec![start];
        let mut fresh = false;
        while let Some(block) = todo.pop() {
            match reached.get_mut(block) {
                Some(reached) if !*reached => *reached = true,
                _ => continue,
            }
            fresh = true;
            todo.extend(ways.get(block).into_iter().flatten());
        }
        fresh
    };
    for (block, index) in function.blocks.iter().zip(0usize..) {
        if is_open(block, index) || into.get(index).is_none_or(Vec::is_empty) {
            visit(index);
            if let Some(open) = open.get_mut(index) {
                *open = true;
            }
        }
    }
    for (index, open) in open.iter_mut().enumerate() {
        *open |= visit(index);
    }
    open
}
