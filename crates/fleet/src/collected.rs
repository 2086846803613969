//! What does a shard say of the collector that made it? Which window of time it is of, what recording
//! it cost, and what was not recorded before it.

use serde::{Deserialize, Serialize};

/// How a collector made a recording. All shards of one window say the same of it, but for
/// `executable` and `samples`; to add up costs and losses, take each window of a host once.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Collected {
    /// Path of the program's executable; empty for the kernel's own threads and for processes of
    /// which nothing is known.
    pub executable: String,
    /// Its build ID in hex; empty where it has none.
    pub build_id: String,
    /// Number of the window, from 1; windows of a spool are numbered in turn, those that gave nothing
    /// included.
    pub window: u64,
    /// How long it was recorded, in milliseconds of a clock that never jumps.
    pub length_ms: u64,
    /// Samples of all programs in the window.
    pub samples: u64,
    /// CPU time that the collector used since it last told, in microseconds: recording, counting,
    /// and what samples took from the programs, as far as that is known.
    pub cost_us: u64,
    /// In so much time, in milliseconds of the same clock.
    pub since_ms: u64,
    /// What it may cost, in millionths of a CPU; 0 where there is no limit.
    pub budget_ppm: u64,
    /// By how much less often samples were taken than asked for: 1 for as asked, 2 for half.
    pub slower: u64,
    /// Whether the machine was so busy that the collector took less than its budget.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub busy: bool,
    /// Whether the collector left the host behind this window, since even the least that it does
    /// costs more than its budget.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
    /// Windows that gave nothing since those that shards told of before.
    #[serde(skip_serializing_if = "Missed::is_empty")]
    pub missed: Missed,
}

/// Windows that gave no shard, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Missed {
    /// The collector was killed in them.
    #[serde(skip_serializing_if = "is_zero")]
    pub killed: u64,
    /// The disk had no room.
    #[serde(skip_serializing_if = "is_zero")]
    pub disk_full: u64,
    /// The spool was as large as it may be.
    #[serde(skip_serializing_if = "is_zero")]
    pub spool_full: u64,
    /// No sample came: nothing ran.
    #[serde(skip_serializing_if = "is_zero")]
    pub idle: u64,
    /// They could not be recorded or counted.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Missed {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Missed::default()
    }

    /// All, whatever the reason.
    pub fn total(&self) -> u64 {
        self.each().into_iter().fold(0, |sum, (_, number)| sum.saturating_add(number))
    }

    /// Each reason in words, with its number.
    pub fn each(&self) -> [(&'static str, u64); 5] {
        [
            ("killed", self.killed),
            ("disk full", self.disk_full),
            ("spool full", self.spool_full),
            ("idle", self.idle),
            ("failed", self.failed),
        ]
    }

    /// Adds others.
    pub fn add(&mut self, other: &Missed) {
        let sums = [
            (&mut self.killed, other.killed),
            (&mut self.disk_full, other.disk_full),
            (&mut self.spool_full, other.spool_full),
            (&mut self.idle, other.idle),
            (&mut self.failed, other.failed),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
    }
}
