//! How many threads may be born traced.

use crate::sys;

const SECOND_NS: f64 = 1e9;

/// How many threads may be born traced: so many at once, and as many again in a second.
#[derive(Debug)]
pub(crate) struct Allowance {
    per_second: Option<f64>,
    left: f64,
    at_ns: u64,
}

impl Allowance {
    pub(crate) fn new(per_second: Option<u32>) -> Allowance {
        let per_second = per_second.map(f64::from);
        Allowance { per_second, left: per_second.unwrap_or_default(), at_ns: sys::now_ns() }
    }

    /// What is left; none where there is no limit.
    fn refill(&mut self, now_ns: u64) -> Option<f64> {
        let most = self.per_second?;
        let passed = now_ns.saturating_sub(self.at_ns) as f64 / SECOND_NS;
        self.left = (self.left + passed * most).min(most);
        self.at_ns = now_ns;
        Some(self.left)
    }

    /// Takes one of it; false where it is spent.
    pub(crate) fn take(&mut self, now_ns: u64) -> bool {
        match self.refill(now_ns) {
            None => true,
            Some(left) if left >= 1.0 => {
                self.left -= 1.0;
                true
            }
            Some(_) => false,
        }
    }

    /// Whether there is not one left.
    pub(crate) fn is_spent(&mut self, now_ns: u64) -> bool {
        self.refill(now_ns).is_some_and(|left| left < 1.0)
    }

    /// Whether nothing of it is used.
    pub(crate) fn is_full(&mut self, now_ns: u64) -> bool {
        let most = self.per_second;
        self.refill(now_ns).zip(most).is_none_or(|(left, most)| left >= most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_is_for_so_many_at_once_and_in_a_second() {
        let mut allowance = Allowance::new(Some(50));
        let now = allowance.at_ns;
        assert_eq!((0..200).filter(|_| allowance.take(now)).count(), 50);
        assert!(allowance.is_spent(now) && !allowance.is_full(now));
        let later = now + 500_000_000;
        assert_eq!((0..200).filter(|_| allowance.take(later)).count(), 25);
        assert!(allowance.is_full(later + 60_000_000_000));
        assert_eq!((0..200).filter(|_| allowance.take(later + 60_000_000_000)).count(), 50);
        assert!((0..1000).all(|_| Allowance::new(None).take(now)));
    }
}
