//! What does a collector tell, as it goes and at its end?

use fleet::{Collected, Missed};
use std::time::Duration;

/// What happened, as it happens.
#[derive(Clone, Debug)]
pub enum Told {
    /// A window gave shards.
    Window {
        /// Its number.
        number: u64,
        /// Its shards.
        shards: u64,
        /// What its shards say of it.
        collected: Collected,
        /// Files that could not be counted in, in words.
        notes: Vec<String>,
    },
    /// A window gave nothing.
    Missed {
        /// Why.
        why: String,
    },
    /// The spool is as large as it may be: nothing is recorded until there is room.
    Full {
        /// Its size in bytes.
        bytes: u64,
    },
    /// Recording goes on after that.
    Resumed,
    /// Windows of a collector that was killed are done with.
    Recovered {
        /// Shards that were made or published.
        shards: u64,
        /// Windows of which nothing was left.
        lost: u64,
    },
    /// The collector leaves the host.
    Left {
        /// What the last window cost.
        collected: Collected,
    },
}

/// What a collector did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Windows that gave shards.
    pub windows: u64,
    /// Shards in the spool that were not there before.
    pub shards: u64,
    /// Windows that gave nothing.
    pub missed: Missed,
    /// CPU time of all.
    pub cost: Duration,
    /// In so much time.
    pub elapsed: Duration,
    /// Whether it left the host since it costs too much.
    pub left: bool,
}
