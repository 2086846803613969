//! Which call of the older source is which call of the newer one: the best common subsequence of
//! two lists of calls.
//!
//! Input: two lists in source order and a score for each pair, 0 where they cannot be the same
//! call. Output: pairs that rise in both lists, with the largest sum of scores. Cost: the product
//! of the lengths up to [`MOST_CELLS`]; longer lists are first cut at calls that are unique in
//! both.

use rustc_hash::FxHashMap;

/// The largest product of lengths that is compared pair by pair (64 MiB of scores).
const MOST_CELLS: usize = 1 << 24;

/// One list's part of an alignment.
pub(super) struct Sequence<'s> {
    /// A key of each element by which it can be recognised when it is unique; `None` for elements
    /// of several names.
    pub(super) keys: &'s [Option<u32>],
}

/// An alignment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Alignment {
    /// Positions in the first and in the second list, rising in both.
    pub(super) pairs: Vec<(usize, usize)>,
    /// Elements of the first list that were too many to compare.
    pub(super) skipped: usize,
}

/// Aligns two lists.
pub(super) fn align(
    old: &Sequence<'_>,
    new: &Sequence<'_>,
    score: &impl Fn(usize, usize) -> u32,
    most_cells: Option<usize>,
) -> Alignment {
    let most = most_cells.unwrap_or(MOST_CELLS);
    let (old_len, new_len) = (old.keys.len(), new.keys.len());
    let mut found = Alignment::default();
    if old_len.saturating_mul(new_len) <= most {
        table(0..old_len, 0..new_len, score, &mut found.pairs);
        return found;
    }
    let (mut old_at, mut new_at) = (0, 0);
    let fixed = unique_in_both(old.keys, new.keys);
    for (old_next, new_next) in fixed.into_iter().chain([(old_len, new_len)]) {
        let cells = (old_next - old_at).saturating_mul(new_next - new_at);
        if cells <= most {
            table(old_at..old_next, new_at..new_next, score, &mut found.pairs);
        } else {
            found.skipped += old_next - old_at;
        }
        if old_next < old_len {
            if score(old_next, new_next) > 0 {
                found.pairs.push((old_next, new_next));
            }
            (old_at, new_at) = (old_next + 1, new_next + 1);
        }
    }
    found
}

/// Elements whose key stands once in each list, in the longest chain that rises in both.
fn unique_in_both(old: &[Option<u32>], new: &[Option<u32>]) -> Vec<(usize, usize)> {
    let once = |keys: &[Option<u32>]| {
        let mut places: FxHashMap<u32, Option<usize>> = FxHashMap::default();
        for (at, key) in keys.iter().enumerate() {
            if let Some(key) = key {
                places.entry(*key).and_modify(|place| *place = None).or_insert(Some(at));
            }
        }
        places
    };
    let (in_old, in_new) = (once(old), once(new));
    let mut pairs: Vec<(usize, usize)> = in_old
        .iter()
        .filter_map(|(key, place)| Some(((*place)?, in_new.get(key).copied().flatten()?)))
        .collect();
    pairs.sort_unstable();
    rising(&pairs)
}

/// The longest chain of pairs, sorted by their first part, whose second parts rise.
fn rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // For each length of a chain the pair with the smallest end, and for each pair the one before
    // it in its chain.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    let second = |at: usize| pairs.get(at).map_or(0, |pair| pair.1);
    for (number, pair) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| second(*end) < pair.1);
        before.push(length.checked_sub(1).and_then(|last| ends.get(last).copied()));
        match ends.get_mut(length) {
            Some(end) => *end = number,
            None => ends.push(number),
        }
    }
    let mut chain = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(number) = next {
        chain.extend(pairs.get(number).copied());
        next = before.get(number).copied().flatten();
    }
    chain.reverse();
    chain
}

/// Compares every pair of two stretches.
fn table(
    old: std::ops::Range<usize>,
    new: std::ops::Range<usize>,
    score: &impl Fn(usize, usize) -> u32,
    pairs: &mut Vec<(usize, usize)>,
) {
    let (rows, columns) = (old.len(), new.len());
    if rows == 0 || columns == 0 {
        return;
    }
    // best[r][c]: the best sum for what follows position r of the old and position c of the new
    // stretch.
    let width = columns + 1;
    let mut best = vec![0u32; (rows + 1) * width];
    let at = |best: &[u32], row: usize, column: usize| {
        best.get(row * width + column).copied().unwrap_or(0)
    };
    let taken = |best: &[u32], row: usize, column: usize| match score(
        old.start + row,
        new.start + column,
    ) {
        0 => None,
        score => Some(score.saturating_add(at(best, row + 1, column + 1))),
    };
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            let without = at(&best, row + 1, column).max(at(&best, row, column + 1));
            let value = taken(&best, row, column).map_or(without, |with| with.max(without));
            if let Some(slot) = best.get_mut(row * width + column) {
                *slot = value;
            }
        }
    }
    let (mut row, mut column) = (0, 0);
    while row < rows && column < columns {
        let value = at(&best, row, column);
        if taken(&best, row, column) == Some(value) {
            pairs.push((old.start + row, new.start + column));
            (row, column) = (row + 1, column + 1);
        } else if at(&best, row + 1, column) == value {
            row += 1;
        } else {
            column += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Sequence, align};

    fn pairs(old: &str, new: &str, most_cells: Option<usize>) -> (Vec<(usize, usize)>, usize) {
        let keys = |text: &str| text.bytes().map(|byte| Some(u32::from(byte))).collect::<Vec<_>>();
        let (old, new) = (keys(old), keys(new));
        let score = |o: usize, n: usize| if old[o] == new[n] { 8 } else { 0 };
        let found = align(&Sequence { keys: &old }, &Sequence { keys: &new }, &score, most_cells);
        (found.pairs, found.skipped)
    }

    #[test]
    fn the_longest_common_subsequence_is_found() {
        assert_eq!(pairs("abcd", "abcd", None).0, [(0, 0), (1, 1), (2, 2), (3, 3)]);
        assert_eq!(pairs("abcd", "xaybzd", None).0, [(0, 1), (1, 3), (3, 5)]);
        assert_eq!(pairs("aab", "bab", None).0.len(), 2);
        assert_eq!(pairs("abc", "xyz", None).0, []);
        assert_eq!(pairs("", "abc", None).0, []);
    }

    #[test]
    fn long_lists_are_cut_at_unique_elements() {
        // x, y and z stand once in each list.
        let found = pairs("aaaxbbbyccz", "aaxxbbbbyccz", Some(20));
        assert_eq!(found.1, 7, "all before y is one stretch, and too long");
        assert_eq!(found.0, [(7, 8), (8, 9), (9, 10), (10, 11)]);
        let found = pairs("aaxbbybb", "bxaayb", Some(12));
        assert_eq!((found.0, found.1), (vec![(2, 1), (5, 4), (6, 5)], 0));
    }
}
