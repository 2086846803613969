//! Which candidate is next, where several are as good?
//!
//! A binary heap whose greatest element comes first, after Floyd ("Algorithm 245: Treesort 3",
//! 1964), in the bottom-up form that C++ libraries have: a hole goes down to a leaf along the
//! greater children, and the last element rises from there. Elements that are equal leave such a
//! heap in an order of its own, and a function that has grown to its limit takes only the first of
//! them; so the standard library's heap, which sifts otherwise, would decide otherwise than LLVM.
//! Cost: O(log n) an operation.

/// The candidates.
#[derive(Debug)]
pub(super) struct Queue<T> {
    heap: Vec<T>,
}

impl<T: PartialOrd> Queue<T> {
    /// None yet.
    pub(super) fn new() -> Queue<T> {
        Queue { heap: Vec::new() }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// One more.
    pub(super) fn push(&mut self, element: T) {
        self.heap.push(element);
        self.rise(self.heap.len() - 1);
    }

    /// The greatest.
    pub(super) fn pop(&mut self) -> Option<T> {
        let last = self.heap.len().checked_sub(1)?;
        // The last one waits behind the heap while the hole of the first goes down.
        let mut hole = 0;
        let mut moves = Vec::new();
        while let Some(child) = self.greater_child(hole, last) {
            moves.push(child);
            hole = child;
        }
        let mut at = 0;
        for child in moves {
            self.heap.swap(at, child);
            at = child;
        }
        // The first one is at the leaf now; the last one takes its place and rises.
        self.heap.swap(at, last);
        let first = self.heap.pop();
        if at < last {
            self.rise(at);
        }
        first
    }

    /// Of the children of `at` among the first `end` elements, the one that comes first; of equal
    /// ones the second.
    fn greater_child(&self, at: usize, end: usize) -> Option<usize> {
        let (first, second) = (2 * at + 1, 2 * at + 2);
        match (self.heap.get(..end)?.get(first), self.heap.get(..end)?.get(second)) {
            (Some(left), Some(right)) if right < left => Some(first),
            (Some(_), Some(_)) => Some(second),
            (Some(_), None) => Some(first),
            _ => None,
        }
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            match (self.heap.get(parent), self.heap.get(at)) {
                (Some(above), Some(own)) if above < own => self.heap.swap(parent, at),
                _ => break,
            }
            at = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_that_goes_in_comes_out_greatest_first(mut numbers in prop::collection::vec(0u8..9, 0..60)) {
            let mut queue = Queue::new();
            numbers.iter().for_each(|number| queue.push(*number));
            let drained: Vec<u8> = std::iter::from_fn(|| queue.pop()).collect();
            numbers.sort_unstable_by(|a, b| b.cmp(a));
            prop_assert_eq!(drained, numbers);
        }
    }
}
