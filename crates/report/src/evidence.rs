//! What does a profile or a layout rest on?

use serde::{Deserialize, Serialize};

/// Whether the samples are enough; `docs/reference/numbers.md` says how each number is made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Samples in the program; 0 where executions were counted one by one.
    pub samples: u64,
    /// Whether they are branch stacks.
    pub branch_stacks: bool,
    /// Executions of branches seen.
    pub executions: u64,
    /// The fewest functions that hold 90 % of what was seen.
    pub functions_90: u64,
    /// The same for 99 %.
    pub functions_99: u64,
    /// How far two halves of the samples agree, 0 to 1.
    pub split_half_overlap: Option<f64>,
    /// How far the whole can be expected to agree with an endless recording of the same work.
    pub expected_overlap: Option<f64>,
    /// The taken branches that a layout is expected to lose at most because there are not more
    /// samples, as a share of all.
    #[serde(default)]
    pub expected_loss: Option<f64>,
    /// False where there are too few samples.
    pub enough: Option<bool>,
    /// How many times as many samples are needed.
    pub times_more: Option<u64>,
    /// All of it in words.
    pub line: String,
    /// What too few samples mean, and what to do about them.
    pub warning: Option<String>,
}

impl Evidence {
    /// Of an image in which nothing was counted.
    pub fn nothing() -> Evidence {
        Evidence { line: "no sample".to_owned(), ..Evidence::default() }
    }
}

impl From<&counts::evidence::Evidence> for Evidence {
    fn from(of: &counts::evidence::Evidence) -> Evidence {
        Evidence {
            samples: of.samples,
            branch_stacks: of.branch_stacks,
            executions: of.executions,
            functions_90: of.functions_90,
            functions_99: of.functions_99,
            split_half_overlap: of.split_half_overlap,
            expected_overlap: of.expected_overlap,
            expected_loss: of.expected_loss,
            enough: of.enough,
            times_more: of.times_more,
            line: of.line(),
            warning: of.warning(),
        }
    }
}
