//! Who holds an address at a time, of many who claim ranges of addresses from a time on.
//!
//! Input: claims in the order of their times. Output: a segment tree over the places where ranges
//! begin and end; each claim stands in the nodes that its range is made of, and each node has its
//! claims in the order of time, so that a look-up asks O(log n) nodes by binary search. Ranges of
//! code hardly overlap but are reused, so that most claims stand in one or two nodes. Source: Bentley,
//! "Solutions to Klee's rectangle problems" (1977).

/// A range of addresses that somebody holds from a time on, until somebody else claims it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub since: u64,
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Whose it is; none: nobody's.
    pub owner: Option<u32>,
}

/// The claims, for look-ups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owners {
    claims: Vec<Claim>,
    /// Where ranges begin or end, sorted; a leaf of the tree is what lies between two of them.
    bounds: Vec<u64>,
    /// Number of leaves, a power of two; node 1 is the root, the children of n are 2n and 2n + 1.
    leaves: usize,
    /// Positions of claims by node.
    nodes: Vec<Vec<u32>>,
}

impl Owners {
    /// Of claims in any order; of the same time, later ones hold.
    pub(crate) fn new(mut claims: Vec<Claim>) -> Owners {
        claims.retain(|claim| claim.start < claim.end);
        claims.sort_by_key(|claim| claim.since);
        let mut bounds: Vec<u64> =
            claims.iter().flat_map(|claim| [claim.start, claim.end]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let leaves = bounds.len().next_power_of_two();
        let mut owners =
            Owners { claims: Vec::new(), bounds, leaves, nodes: vec![Vec::new(); 2 * leaves] };
        for (claim, number) in claims.iter().zip(0u32..) {
            owners.insert(claim, number);
        }
        owners.claims = claims;
        owners
    }

    fn insert(&mut self, claim: &Claim, number: u32) {
        let leaf = |address: u64| self.bounds.partition_point(|bound| *bound < address);
        let (mut from, mut to) = (leaf(claim.start) + self.leaves, leaf(claim.end) + self.leaves);
        let mut put = |node: usize| {
            if let Some(list) = self.nodes.get_mut(node) {
                list.push(number);
            }
        };
        while from < to {
            if from % 2 == 1 {
                put(from);
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                put(to);
            }
            (from, to) = (from / 2, to / 2);
        }
    }

    /// The claim that holds an address at a time; without a time, the last one that says whose it is.
    pub(crate) fn at(&self, address: u64, time: Option<u64>) -> Option<Claim> {
        let leaf = self.bounds.partition_point(|bound| *bound <= address).checked_sub(1)?;
        let mut node = leaf + self.leaves;
        let mut latest = None;
        while node > 0 {
            let list = self.nodes.get(node).map_or(&[][..], Vec::as_slice);
            let claim = |number: &u32| self.claims.get(*number as usize);
            let after = match time {
                Some(time) => list.partition_point(|number| {
                    claim(number).is_some_and(|claim| claim.since <= time)
                }),
                None => {
                    let owned = |number: &u32| claim(number).is_some_and(|one| one.owner.is_some());
                    list.iter().rposition(owned).map_or(0, |last| last + 1)
                }
            };
            let last = after.checked_sub(1).and_then(|last| list.get(last).copied());
            latest = latest.max(last);
            node /= 2;
        }
        self.claims.get(latest? as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_last_claim_of_an_address_before_a_time_holds(
            claims in prop::collection::vec((0u64..9, 0u64..40, 0u64..15, 0u32..3), 0..40),
        ) {
            let claim = |(number, (since, start, size, kind)): (u32, &(u64, u64, u64, u32))| Claim {
                since: *since,
                start: *start,
                end: start + size,
                owner: (*kind > 0).then_some(number),
            };
            let mut claims: Vec<Claim> = (0u32..).zip(&claims).map(claim).collect();
            let owners = Owners::new(claims.clone());
            claims.sort_by_key(|claim| claim.since);
            for address in 0..60 {
                for time in 0..10 {
                    let holds = |claim: &&Claim| {
                        claim.since <= time && (claim.start..claim.end).contains(&address)
                    };
                    let wanted = claims.iter().rfind(holds).copied();
                    prop_assert_eq!(owners.at(address, Some(time)), wanted, "{} {}", address, time);
                }
                let holds = |claim: &&Claim| {
                    claim.owner.is_some() && (claim.start..claim.end).contains(&address)
                };
                let wanted = claims.iter().rfind(holds).copied();
                prop_assert_eq!(owners.at(address, None), wanted, "{}", address);
            }
        }
    }
}
