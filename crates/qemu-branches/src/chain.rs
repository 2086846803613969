//! Who called whom: the return addresses of the calls that a thread is in, followed call by call.
//!
//! A call adds its return address; a return takes away everything down to the address it goes to,
//! so that frames that were left by `longjmp` or an exception go with the next return. A return to
//! an address that is not there (from a signal handler, to another stack) takes nothing away. Of
//! deeper calls than [`MOST_FRAMES`] the outermost are forgotten. Tail calls leave no frame, as in
//! a chain of frame pointers.

/// Return addresses kept; as many as perf records by default (`kernel.perf_event_max_stack`), and
/// one.
pub const MOST_FRAMES: usize = 128;
const MASK: u64 = MOST_FRAMES as u64 - 1;

/// What a block's last instruction does to the chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// Nothing.
    Neither,
    /// It calls.
    Call,
    /// It returns.
    Return,
}

/// The calls that a thread is in.
pub struct Chain {
    returns: [u64; MOST_FRAMES],
    /// Calls deep; its low bits are the place in the ring of the next one.
    depth: u64,
    /// Calls below this depth are forgotten.
    floor: u64,
}

impl Chain {
    /// No call yet.
    pub const EMPTY: Chain = Chain { returns: [0; MOST_FRAMES], depth: 0, floor: 0 };

    /// Forgets all calls.
    pub fn clear(&mut self) {
        self.floor = self.depth;
    }

    /// Enters a call that returns to `address`.
    #[inline]
    pub(crate) fn call(&mut self, address: u64) {
        // The mask keeps the place inside the ring.
        self.returns[(self.depth & MASK) as usize] = address;
        self.depth += 1;
        self.floor = self.floor.max(self.depth.saturating_sub(MOST_FRAMES as u64));
    }

    /// Returns to `address`.
    #[inline]
    pub(crate) fn return_to(&mut self, address: u64) {
        let mut depth = self.depth;
        while depth > self.floor {
            depth -= 1;
            if self.returns[(depth & MASK) as usize] == address {
                self.depth = depth;
                return;
            }
        }
    }

    /// How many return addresses are known.
    pub fn len(&self) -> usize {
        (self.depth - self.floor) as usize
    }

    /// The return addresses, innermost first.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (self.floor..self.depth).rev().map(|depth| self.returns[(depth & MASK) as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(chain: &Chain) -> Vec<u64> {
        chain.iter().collect()
    }

    #[test]
    fn returns_take_away_what_they_leave() {
        let mut chain = Chain::EMPTY;
        [1, 2, 3, 4].into_iter().for_each(|address| chain.call(address));
        assert_eq!(frames(&chain), [4, 3, 2, 1]);
        chain.return_to(4);
        chain.return_to(77);
        assert_eq!(frames(&chain), [3, 2, 1], "a return to nowhere known");
        chain.return_to(2);
        assert_eq!((frames(&chain), chain.len()), (vec![1], 1), "3 was left without a return");
        chain.clear();
        assert_eq!(chain.len(), 0);
        chain.return_to(1);
        assert_eq!(chain.len(), 0);
    }

    #[test]
    fn of_deep_recursion_the_innermost_calls_stay() {
        let mut chain = Chain::EMPTY;
        (0..1000).for_each(|address| chain.call(address));
        assert_eq!(
            (chain.len(), chain.iter().next(), chain.iter().last()),
            (128, Some(999), Some(872))
        );
        (0..1000).rev().for_each(|address| chain.return_to(address));
        assert_eq!(chain.len(), 0);
    }
}
