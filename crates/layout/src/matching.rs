//! Which block of an older build of a function is which block of a newer one.
//!
//! Input: two lists of blocks in address order, each block with two hashes of its content and one
//! of its neighbours. Output: for each old block the new one it most likely is; no new block twice.
//! In five steps, each among what the steps before left: the entry is the entry; blocks equal in
//! content and neighbours; in content; in operations without operands; and runs of blocks that
//! stand between the same two matched ones, where both runs have the same length. Equal blocks of
//! equal number are matched in their order, others to the nearest relative place. Cost: linear but
//! for sorting.
//!
//! Source: Ayupov, Panchenko, Pupyrev, "Stale Profile Matching" (CC 2024, arXiv 2401.17168).

use rustc_hash::FxHashMap;

/// What a block is recognised by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Signature {
    /// Of its instructions with operands.
    pub(crate) exact: u64,
    /// Of its operations alone.
    pub(crate) loose: u64,
    /// Of the blocks around it.
    pub(crate) neighbours: u64,
}

/// How a block was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum MatchedBy {
    /// It is the entry block.
    Entry,
    /// Same instructions between the same neighbours.
    ContentAndNeighbours,
    /// Same instructions.
    Content,
    /// Same operations with other operands.
    Operations,
    /// The same place between two blocks that were recognised.
    Place,
}

/// Per old block, the position of the new one and how it was recognised.
pub(crate) fn match_blocks(old: &[Signature], new: &[Signature]) -> Vec<Option<(u32, MatchedBy)>> {
    let mut matching =
        Matching { old, new, found: vec![None; old.len()], taken: vec![false; new.len()] };
    matching.take(0, 0, MatchedBy::Entry);
    matching.by_key(|s| (s.exact, s.neighbours), MatchedBy::ContentAndNeighbours);
    matching.by_key(|s| (s.exact, 0), MatchedBy::Content);
    matching.by_key(|s| (s.loose, s.neighbours), MatchedBy::Operations);
    matching.by_key(|s| (s.loose, 0), MatchedBy::Operations);
    matching.by_place();
    matching.found
}

struct Matching<'s> {
    old: &'s [Signature],
    new: &'s [Signature],
    found: Vec<Option<(u32, MatchedBy)>>,
    taken: Vec<bool>,
}

impl Matching<'_> {
    fn take(&mut self, old: u32, new: u32, by: MatchedBy) {
        let slots = (self.found.get_mut(old as usize), self.taken.get_mut(new as usize));
        if let (Some(found @ None), Some(taken @ false)) = slots {
            *found = Some((new, by));
            *taken = true;
        }
    }

    fn is_taken(&self, new: u32) -> bool {
        self.taken.get(new as usize).copied().unwrap_or(true)
    }

    /// Matches what has the same key: in order where both sides have as many, else by relative
    /// place.
    fn by_key(&mut self, key: impl Fn(&Signature) -> (u64, u64), by: MatchedBy) {
        let mut groups: FxHashMap<(u64, u64), (Vec<u32>, Vec<u32>)> = FxHashMap::default();
        for ((signature, found), index) in self.old.iter().zip(&self.found).zip(0u32..) {
            if found.is_none() {
                groups.entry(key(signature)).or_default().0.push(index);
            }
        }
        for ((signature, taken), index) in self.new.iter().zip(&self.taken).zip(0u32..) {
            if let (false, Some(group)) = (*taken, groups.get_mut(&key(signature))) {
                group.1.push(index);
            }
        }
        for (old, new) in groups.into_values() {
            if old.len() == new.len() {
                old.iter().zip(&new).for_each(|(&old, &new)| self.take(old, new, by));
            } else {
                self.nearest(&old, &new, by);
            }
        }
    }

    /// Walks two sorted lists side by side and matches what is nearest in relative place, without
    /// crossing.
    fn nearest(&mut self, old: &[u32], new: &[u32], by: MatchedBy) {
        let (old_len, new_len) = (self.old.len() as u64, self.new.len() as u64);
        let distance =
            |old: u32, new: u32| (u64::from(old) * new_len).abs_diff(u64::from(new) * old_len);
        let (fewer, more, swapped) =
            if old.len() < new.len() { (old, new, false) } else { (new, old, true) };
        let gap =
            |few: u32, many: u32| if swapped { distance(many, few) } else { distance(few, many) };
        let mut position = 0;
        for (&few, left) in fewer.iter().zip((0..fewer.len()).rev()) {
            // As many must stay as there are still to be matched.
            let limit = more.len().saturating_sub(left);
            while position + 1 < limit
                && let (Some(&here), Some(&next)) = (more.get(position), more.get(position + 1))
                && gap(few, next) < gap(few, here)
            {
                position += 1;
            }
            let Some(&many) = more.get(position) else { break };
            let (old, new) = if swapped { (many, few) } else { (few, many) };
            self.take(old, new, by);
            position += 1;
        }
    }

    /// Matches runs between two matched neighbours where both have the same length.
    fn by_place(&mut self) {
        let mut index = 1u32;
        while (index as usize) < self.found.len() {
            let before = self.found.get(index as usize - 1).copied().flatten();
            let open = self.found.get(index as usize..).unwrap_or(&[]);
            let length = open.iter().take_while(|found| found.is_none()).count() as u32;
            if length == 0 {
                index += 1;
                continue;
            }
            let after = self.found.get((index + length) as usize).copied().flatten();
            if let Some((before, _)) = before {
                let run = before.saturating_add(1)..before.saturating_add(1).saturating_add(length);
                let closed = match after {
                    Some((after, _)) => after == run.end,
                    None => {
                        run.end as usize == self.new.len()
                            && (index + length) as usize == self.found.len()
                    }
                };
                if closed && run.clone().all(|new| !self.is_taken(new)) {
                    for (old, new) in (index..).zip(run) {
                        self.take(old, new, MatchedBy::Place);
                    }
                }
            }
            index += length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signatures(list: &[(u64, u64)]) -> Vec<Signature> {
        let around = |index: usize| {
            let at = |index: Option<usize>| {
                index.and_then(|index| list.get(index)).map_or(0, |pair| pair.0)
            };
            at(index.checked_sub(1)) * 1000 + at(Some(index + 1))
        };
        let signature =
            |(index, &(exact, loose))| Signature { exact, loose, neighbours: around(index) };
        list.iter().enumerate().map(signature).collect()
    }

    fn positions(old: &[(u64, u64)], new: &[(u64, u64)]) -> Vec<Option<u32>> {
        let found = match_blocks(&signatures(old), &signatures(new));
        found.into_iter().map(|found| found.map(|(new, _)| new)).collect()
    }

    #[test]
    fn blocks_follow_their_content_when_one_is_put_in_and_two_change_places() {
        let old = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)];
        let new = [(1, 1), (9, 9), (2, 2), (4, 4), (3, 3), (5, 5)];
        assert_eq!(positions(&old, &new), [Some(0), Some(2), Some(4), Some(3), Some(5)]);
    }

    #[test]
    fn changed_operands_and_changed_blocks_between_known_ones_are_still_found() {
        let old = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)];
        let new = [(1, 1), (20, 2), (3, 3), (44, 44), (5, 5)];
        let found = match_blocks(&signatures(&old), &signatures(&new));
        assert_eq!(found[1], Some((1, MatchedBy::Operations)));
        assert_eq!(found[3], Some((3, MatchedBy::Place)));
    }

    #[test]
    fn equal_blocks_are_told_apart_by_neighbours_and_then_by_place() {
        let old = [(1, 1), (7, 7), (2, 2), (7, 7), (3, 3)];
        let new = [(1, 1), (2, 2), (7, 7), (3, 3)];
        assert_eq!(positions(&old, &new), [Some(0), None, Some(1), Some(2), Some(3)]);
    }

    #[test]
    fn no_new_block_is_given_twice() {
        let old = vec![(1, 1); 9];
        let new = vec![(1, 1); 5];
        let mut found: Vec<u32> = positions(&old, &new).into_iter().flatten().collect();
        found.sort_unstable();
        assert_eq!(found, [0, 1, 2, 3, 4]);
    }
}
