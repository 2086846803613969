//! The choice of paths: candidates, what each would save, and who gets the bytes.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::order::{ClonedFunction, Params, order};
use crate::{CallKind, Cfg, FunctionIndex};

use super::flow::{Flow, Step};
use super::{CloneParams, CloneReport, PathCounts};

/// Executions of a path behind its first jump, in percent of these; below it the path is not made
/// longer, since most executions of a copy would leave it.
const LEAST_KEPT_PCT: u64 = 30;

/// A path that was found worth its bytes.
struct Found {
    function: FunctionIndex,
    path: Vec<u32>,
    /// Position among the paths of the function: later ones build upon earlier ones.
    position: usize,
    saved: u64,
    bytes: u64,
}

/// What a path has to save.
struct Bar {
    saved: f64,
    per_byte: f64,
}

/// Chooses the clones of a program for functions ordered by `order_params`. Without path counts
/// there are none.
pub fn choose_clones(
    cfg: &Cfg,
    counts: &PathCounts,
    params: &CloneParams,
    order_params: &Params,
) -> (Vec<ClonedFunction>, CloneReport) {
    let mut report = CloneReport::default();
    if counts.is_empty() {
        return (Vec::new(), report);
    }
    let blocks = || cfg.functions.iter().flat_map(|function| &function.blocks);
    let hot_bytes: u64 =
        blocks().filter(|b| b.frequency > 0).map(|block| u64::from(block.size)).sum();
    report.budget_bytes = (hot_bytes as f64 * params.budget_pct.max(0.0) / 100.0) as u64;
    let jumps: f64 =
        cfg.functions.iter().flat_map(|f| &f.edges).map(|edge| edge.weight as f64).sum();
    let bar = Bar {
        saved: jumps * params.least_saved_ppm / 1e6,
        per_byte: jumps * params.least_saved_per_byte_ppm / 1e6,
    };
    // Merged chains tell what a clone is worth; the search for what they miss is for the final
    // order.
    let order_params = &Params { search_steps: 0, exact_blocks: 0, ..*order_params };
    let calls = calling_blocks(cfg);
    let mut found = Vec::new();
    for (function, calls) in (0u32..).map(FunctionIndex).zip(&calls) {
        if let Some(flow) = Flow::new(cfg, function, calls) {
            found.extend(Search { counts, params, order_params, bar: &bar }.function(flow));
        }
    }
    let mut chosen = within_budget(found, &mut report);
    chosen.sort_by_key(|found| (found.function, found.position));
    let mut cloned = Vec::new();
    for paths in chosen.chunk_by(|a, b| a.function == b.function) {
        let Some(function) = paths.first().map(|found| found.function) else { continue };
        let calls = calls.get(function.0 as usize).map_or(&[][..], Vec::as_slice);
        let Some(mut flow) = Flow::new(cfg, function, calls) else { continue };
        let before = report.paths;
        for found in paths {
            // A path may need one before it that the budget did not allow.
            if !flow.apply(&found.path, counts) {
                report.over_budget += 1;
                continue;
            }
            report.paths += 1;
            report.clones += found.path.len() as u64 - 1;
            report.bytes += found.bytes;
            report.saved = report.saved.saturating_add(found.saved);
        }
        if report.paths > before {
            report.functions += 1;
            cloned.push(flow.cloned());
        }
    }
    (cloned, report)
}

/// For each function which of its blocks call.
fn calling_blocks(cfg: &Cfg) -> Vec<Vec<bool>> {
    let mut calls: Vec<Vec<bool>> =
        cfg.functions.iter().map(|f| vec![false; f.blocks.len()]).collect();
    for call in cfg.calls.iter().filter(|call| call.kind == CallKind::Call) {
        let of = calls.get_mut(call.from.function.0 as usize);
        if let Some(calling) = of.and_then(|blocks| blocks.get_mut(call.from.block.0 as usize)) {
            *calling = true;
        }
    }
    calls
}

/// The paths that save most per byte, as many as the budget allows.
fn within_budget(mut found: Vec<Found>, report: &mut CloneReport) -> Vec<Found> {
    found.sort_by(|a, b| {
        let worth = |found: &Found| found.saved as f64 / found.bytes.max(1) as f64;
        worth(b)
            .total_cmp(&worth(a))
            .then_with(|| (a.function, a.position).cmp(&(b.function, b.position)))
    });
    let mut left = report.budget_bytes;
    found.retain(|found| {
        let fits = found.bytes <= left;
        left -= if fits { found.bytes } else { 0 };
        report.over_budget += u64::from(!fits);
        fits
    });
    found
}

/// Who stands next to whom in an order, by nodes of a [`Flow`].
struct Neighbours {
    next: Vec<Option<u32>>,
    previous: Vec<Option<u32>>,
    score: f64,
}

impl Neighbours {
    fn of(flow: &Flow, params: &Params) -> Self {
        let (problem, nodes) = flow.problem();
        let positions = order(&problem, params);
        let score = problem.score(&positions, params);
        let ordered: Vec<u32> = positions
            .iter()
            .filter_map(|&position| nodes.get(position as usize).copied())
            .collect();
        let (mut next, mut previous) = (vec![None; flow.nodes.len()], vec![None; flow.nodes.len()]);
        for pair in ordered.windows(2) {
            if let [a, b] = *pair {
                next.get_mut(a as usize).into_iter().for_each(|next| *next = Some(b));
                previous.get_mut(b as usize).into_iter().for_each(|previous| *previous = Some(a));
            }
        }
        Neighbours { next, previous, score }
    }

    fn next(&self, node: u32) -> Option<u32> {
        self.next.get(node as usize).copied().flatten()
    }

    fn previous(&self, node: u32) -> Option<u32> {
        self.previous.get(node as usize).copied().flatten()
    }

    /// Executions that fall through from a node to the one behind it.
    fn falling(&self, flow: &Flow, from: u32) -> u64 {
        let jump = || {
            let next = self.next(from)?;
            let out = flow
                .out
                .get(from as usize)
                .filter(|_| flow.node(from).is_some_and(|n| !n.indirect))?;
            out.values().find(|target| target.node == next)
        };
        jump().map_or(0, |target| target.weight)
    }
}

/// A path that may be worth cloning.
#[derive(Debug, Clone, PartialEq)]
struct Candidate {
    path: Vec<u32>,
    saved: i128,
    bytes: u64,
}

struct Search<'a> {
    counts: &'a PathCounts,
    params: &'a CloneParams,
    order_params: &'a Params,
    bar: &'a Bar,
}

impl Search<'_> {
    /// The paths of a function that raise its score by enough.
    fn function(&self, mut flow: Flow) -> Vec<Found> {
        let mut found = Vec::new();
        let mut refused: BTreeSet<Vec<u32>> = BTreeSet::new();
        // Every path of a function that matters begins with a jump that matters.
        let weights = flow.out.iter().flat_map(|out| out.values()).map(|target| target.weight);
        if weights.max().is_none_or(|most| (most as f64) < self.bar.saved) {
            return found;
        }
        let mut now = Neighbours::of(&flow, self.order_params);
        let mut together = usize::MAX;
        for _ in 0..self.params.rounds {
            let mut batch = self.candidates(&flow, &now, &refused);
            batch.truncate(together);
            if batch.is_empty() {
                break;
            }
            let mut next = flow.clone();
            batch.retain(|candidate| next.apply(&candidate.path, self.counts));
            let then = Neighbours::of(&next, self.order_params);
            let expected: f64 = batch.iter().map(|candidate| candidate.saved as f64).sum();
            let worth = self.order_params.scoring.fall_through - self.order_params.scoring.forward;
            let saved = (then.score - now.score) / worth.max(f64::MIN_POSITIVE);
            let bytes: u64 = batch.iter().map(|candidate| candidate.bytes).sum();
            if saved < self.bar.saved || saved < self.bar.per_byte * bytes as f64 {
                if batch.len() == 1 {
                    refused.extend(batch.into_iter().map(|candidate| candidate.path));
                    together = usize::MAX;
                } else {
                    together = batch.len() / 2;
                }
                continue;
            }
            for candidate in batch {
                let saved = (saved * candidate.saved as f64 / expected.max(1.0)) as u64;
                let (function, position) = (flow.function, found.len());
                found.push(Found {
                    function,
                    position,
                    path: candidate.path,
                    saved,
                    bytes: candidate.bytes,
                });
            }
            (flow, now, together) = (next, then, usize::MAX);
        }
        found
    }

    /// Paths that promise enough, the best per byte first, no two of which share a block.
    fn candidates(
        &self,
        flow: &Flow,
        now: &Neighbours,
        refused: &BTreeSet<Vec<u32>>,
    ) -> Vec<Candidate> {
        let mut all = Vec::new();
        for head in 0..flow.blocks() {
            if flow.node(head).is_none_or(|node| node.indirect) {
                continue;
            }
            for (&to, target) in flow.out.get(head as usize).into_iter().flatten() {
                let light = (target.weight as f64) < self.bar.saved;
                if light || target.node != to || now.next(head) == Some(to) {
                    continue;
                }
                self.longer(flow, now, vec![head, to], target.weight, &mut all);
            }
        }
        all.retain(|candidate| !refused.contains(&candidate.path));
        let worth = |candidate: &Candidate| candidate.saved as f64 / candidate.bytes.max(1) as f64;
        all.sort_by(|a, b| {
            worth(b)
                .total_cmp(&worth(a))
                .then_with(|| (Reverse(a.saved), &a.path).cmp(&(Reverse(b.saved), &b.path)))
        });
        let mut touched: BTreeSet<u32> = BTreeSet::new();
        all.retain(|candidate| {
            let free = candidate.path.iter().all(|block| !touched.contains(block));
            if free {
                touched.extend(&candidate.path);
            }
            free
        });
        all
    }

    /// Whether the copy of a block goes one way nearly always. An indirect branch may go anywhere.
    fn is_settled(&self, flow: &Flow, step: &Step) -> bool {
        let weights = || step.out.iter().map(|(_, target)| u128::from(target.weight));
        let all: u128 = weights().sum();
        flow.node(step.block).is_none_or(|node| node.indirect)
            || weights().max().unwrap_or(0) * 100 >= all * u128::from(self.params.min_bias_pct)
    }

    /// Considers a path and those that continue it.
    fn longer(
        &self,
        flow: &Flow,
        now: &Neighbours,
        path: Vec<u32>,
        first: u64,
        all: &mut Vec<Candidate>,
    ) {
        let Some(&last) = path.last() else { return };
        if flow.node(last).is_none_or(|node| node.size > self.params.block_bytes) {
            return;
        }
        let Some(steps) = flow.steps(&path, self.counts) else { return };
        // Neither this path nor one that continues it; the blocks before were looked at before.
        let Some(step) = steps.last().filter(|step| self.is_settled(flow, step)) else { return };
        let bytes: u64 =
            steps.iter().filter_map(|s| flow.node(s.block)).map(|node| u64::from(node.size)).sum();
        let saved = saved(flow, now, &path, &steps);
        if saved as f64 >= self.bar.saved && saved as f64 >= self.bar.per_byte * bytes as f64 {
            all.push(Candidate { path: path.clone(), saved, bytes });
        }
        if path.len() > self.params.path_blocks as usize {
            return;
        }
        for (to, target) in &step.out {
            if u128::from(target.weight) * 100 >= u128::from(first) * u128::from(LEAST_KEPT_PCT) {
                let mut path = path.clone();
                path.push(*to);
                self.longer(flow, now, path, first, all);
            }
        }
    }
}

/// Taken branches that a path saves if its clones follow its first block and everything else stays
/// in its place.
fn saved(flow: &Flow, now: &Neighbours, path: &[u32], steps: &[Step]) -> i128 {
    let Some(&head) = path.first() else { return 0 };
    let wide = |count: u64| i128::from(count);
    let mut saved =
        steps.first().map_or(0, |step| wide(step.entered)) - wide(now.falling(flow, head));
    for (at, step) in steps.iter().enumerate() {
        if flow.node(step.block).is_none_or(|node| node.indirect) {
            continue;
        }
        let next = now.next(step.block);
        let shares = || step.out.iter().map(|(to, target)| (*to, target.node, wide(target.weight)));
        // What fell through from the block and now comes from the clone.
        saved -= shares()
            .filter(|(_, node, _)| Some(*node) == next)
            .map(|(.., share)| share)
            .sum::<i128>();
        saved += match path.get(at + 2) {
            Some(&following) => {
                shares().find(|(to, ..)| *to == following).map_or(0, |(.., share)| share)
            }
            // Something may follow the last clone, instead of what it follows now.
            None => shares()
                .map(|(_, node, share)| {
                    let before = now.previous(node).map_or(0, |previous| {
                        let falling = wide(now.falling(flow, previous));
                        if previous == step.block { falling - share } else { falling }
                    });
                    share - before
                })
                .fold(0, i128::max),
        };
    }
    saved
}
