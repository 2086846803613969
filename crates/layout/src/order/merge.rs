//! How can two chains become one, and what is it worth?
//!
//! A chain S may be split into S1 and S2 to take in another chain U. With the score of jumps
//! between S and U, which today is 0, and of the jumps of S that cross the split, the gain of each
//! way is computed without looking at anything else: positions within S1, S2 and U do not change
//! against each other.

use super::graph::{Graph, Link};

/// The way in which the pieces follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// S U.
    Append,
    /// S1 U S2.
    Insert,
    /// S2 S1 U.
    SwapAppend,
    /// U S2 S1.
    PrependSwap,
    /// S2 U S1.
    SwapAround,
}

/// A way to merge and its worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Merge {
    pub gain: f64,
    pub way: Way,
    /// Position in S of the first block of S2.
    pub split: u32,
}

/// A chain of blocks.
#[derive(Debug, Default)]
pub(super) struct Chain {
    pub nodes: Vec<u32>,
    /// Bytes.
    pub size: i64,
    /// Sum of executions.
    pub frequency: u128,
    /// Jumps within the chain, as positions in [`Graph::links`].
    pub within: Vec<u32>,
}

impl Chain {
    /// Whether the executions per byte of two chains differ by no more than a factor. What never
    /// runs is as dense as anything.
    pub fn is_about_as_dense_as(&self, other: &Chain, factor: f64) -> bool {
        let density = |chain: &Chain| chain.frequency as f64 / chain.size.max(1) as f64;
        let (one, two) = (density(self), density(other));
        let (less, more) = (one.min(two), one.max(two));
        less == 0.0 || more <= less * factor
    }
}

/// Where each block is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Position {
    pub chain: u32,
    /// Position in the chain.
    pub index: u32,
    /// Bytes from the start of the chain.
    pub offset: i64,
}

/// A pair of chains under consideration: S may be split, U stays whole.
pub(super) struct Pair<'a> {
    pub graph: &'a Graph<'a>,
    pub positions: &'a [Position],
    /// Whether a block is glued to the one before it.
    pub glued: &'a [bool],
    pub s: &'a Chain,
    pub u: &'a Chain,
    /// The identity of S in positions.
    pub s_id: u32,
    /// Jumps between the two.
    pub between: &'a [u32],
}

/// By how much each piece moves.
struct Shifts {
    split: u32,
    first: i64,
    second: i64,
    other: i64,
}

/// Which ways and places to try.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub try_all_splits: u32,
    pub swap_halves: u32,
}

impl Pair<'_> {
    /// The best way that keeps the entry first; `None` if no way gains.
    pub fn best(&self, entry: Option<u32>, limits: Limits) -> Option<Merge> {
        let starts = |chain: &Chain| entry.is_some() && chain.nodes.first().copied() == entry;
        let (s_first, u_first) = (starts(self.s), starts(self.u));
        let mut best: Option<Merge> = None;
        if !u_first {
            self.consider(Way::Append, self.s.nodes.len() as u32, &mut best);
        }
        let length = self.s.nodes.len() as u32;
        let may_swap = length <= limits.swap_halves;
        let mut try_split = |ways: &[Way], split: u32| {
            let inside = split > 0
                && self.s.nodes.get(split as usize).is_some_and(|&n| !self.glued[n as usize]);
            if !inside {
                return;
            }
            for &way in ways {
                let allowed = match way {
                    Way::Append => false,
                    Way::Insert => !u_first,
                    Way::SwapAppend | Way::SwapAround => may_swap && !s_first && !u_first,
                    Way::PrependSwap => may_swap && !s_first,
                };
                if allowed {
                    self.consider(way, split, &mut best);
                }
            }
        };
        if length <= limits.try_all_splits {
            for split in 1..length {
                try_split(
                    &[Way::Insert, Way::SwapAppend, Way::PrependSwap, Way::SwapAround],
                    split,
                );
            }
            return best;
        }
        let (Some(&u_head), Some(&u_tail)) = (self.u.nodes.first(), self.u.nodes.last()) else {
            return best;
        };
        for &link in self.between {
            let link = &self.graph.links[link as usize];
            if link.from == u_tail {
                let split = self.positions[link.to as usize].index;
                try_split(&[Way::Insert, Way::PrependSwap], split);
            }
            if link.to == u_head {
                let split = self.positions[link.from as usize].index + 1;
                try_split(&[Way::Insert, Way::SwapAppend], split);
            }
        }
        best
    }

    fn consider(&self, way: Way, split: u32, best: &mut Option<Merge>) {
        let shifts = self.shifts(way, split);
        let mut gain = self.gain_between(&shifts);
        if gain <= 0.0 {
            return;
        }
        // Taking U in only moves the halves of S apart, so that the rest of the gain cannot be
        // positive.
        let known = best.map_or(0.0, |best| best.gain);
        if way == Way::Insert && gain < known {
            return;
        }
        gain += match way {
            Way::Append => 0.0,
            Way::Insert => self.loss_at(&shifts),
            Way::SwapAppend | Way::PrependSwap | Way::SwapAround => self.change_within(&shifts),
        };
        let merge = Merge { gain, way, split };
        let better = |best: &Merge| (gain, way, split) > (best.gain, best.way, best.split);
        if gain > 0.0 && best.as_ref().is_none_or(better) {
            *best = Some(merge);
        }
    }

    fn shifts(&self, way: Way, split: u32) -> Shifts {
        let (s, u) = (self.s.size, self.u.size);
        let first = self
            .s
            .nodes
            .get(split as usize)
            .map_or(s, |&node| self.positions[node as usize].offset);
        let second = s - first;
        // The offsets of blocks in S2 count from the start of S, hence `- first`.
        let (first, second, other) = match way {
            Way::Append => (0, 0, s),
            Way::Insert => (0, u, first),
            Way::SwapAppend => (second, -first, s),
            Way::PrependSwap => (u + second, u - first, 0),
            Way::SwapAround => (second + u, -first, second),
        };
        Shifts { split, first, second, other }
    }

    /// Address of a block after merging.
    fn after(&self, node: u32, shifts: &Shifts) -> i64 {
        let position = self.positions[node as usize];
        let shift = match position.chain == self.s_id {
            false => shifts.other,
            true if position.index < shifts.split => shifts.first,
            true => shifts.second,
        };
        position.offset + shift
    }

    fn gain_between(&self, shifts: &Shifts) -> f64 {
        let links = self.between.iter().map(|&link| &self.graph.links[link as usize]);
        links.map(|link| self.value_after(link, shifts)).sum()
    }

    fn value_after(&self, link: &Link, shifts: &Shifts) -> f64 {
        self.graph.value(link, self.after(link.from, shifts), self.after(link.to, shifts))
    }

    fn value_now(&self, link: &Link) -> f64 {
        let offset = |node: u32| self.positions[node as usize].offset;
        self.graph.value(link, offset(link.from), offset(link.to))
    }

    /// Change of all jumps of S that cross the split.
    fn change_within(&self, shifts: &Shifts) -> f64 {
        let index = |node: u32| self.positions[node as usize].index;
        let links = self.s.within.iter().map(|&link| &self.graph.links[link as usize]);
        let crossing = links
            .filter(|link| (index(link.from) < shifts.split) != (index(link.to) < shifts.split));
        crossing.map(|link| self.value_after(link, shifts) - self.value_now(link)).sum()
    }

    /// The same where U comes between the halves: only jumps near the split lose anything, so that
    /// blocks within the window after it tell all.
    fn loss_at(&self, shifts: &Shifts) -> f64 {
        let window = self.graph.window();
        if self.s.within.len() < 64 {
            return self.change_within(shifts);
        }
        let Some(rest) = self.s.nodes.get(shifts.split as usize..) else { return 0.0 };
        let Some(&head) = rest.first() else { return 0.0 };
        let begin = self.positions[head as usize].offset;
        let mut change = 0.0;
        for &node in rest {
            if self.positions[node as usize].offset - begin > window {
                break;
            }
            for &link in self.graph.touching(node) {
                let link = &self.graph.links[link as usize];
                let other =
                    self.positions[if link.from == node { link.to } else { link.from } as usize];
                if other.chain == self.s_id && other.index < shifts.split {
                    change += self.value_after(link, shifts) - self.value_now(link);
                }
            }
        }
        change
    }
}
