//! Which requests lead from recordings to a profile and to a check of the build that used it?

use crate::call::{Call, Input, Output};
use profile::format::Format;

/// Count recordings, per address.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// The recordings.
    pub recordings: Vec<Input>,
    /// The program that was recorded.
    pub binary: Input,
    /// What the counts of each recording are multiplied by against the others; empty: nothing.
    pub weights: Vec<f64>,
    /// Whether paths of two branches are counted too: clones of a layout are chosen by them.
    pub paths: bool,
    /// The counts.
    pub counts: Output,
    /// What each recording gave to them.
    pub found: Output,
}

impl Aggregate {
    pub(super) fn call(&self) -> Call {
        let mut call = Call::planish(["aggregate"]).with_all(&self.recordings);
        for weight in &self.weights {
            call = call.with_option("--weight", weight);
        }
        call.with("--binary")
            .with(&self.binary)
            .with("-o")
            .with(&self.counts)
            .with_if(self.paths, "--paths")
            .with_json(&self.found)
    }
}

/// Make a sample profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Counts, or a recording.
    pub counts: Input,
    /// The program that was recorded.
    pub binary: Input,
    /// For which compiler; absent: the usual form.
    pub emit: Option<Format>,
    /// Whether it lists all functions of the program.
    pub symbol_list: bool,
    /// The profile.
    pub profile: Output,
    /// What it rests on, where that is wanted.
    pub summary: Option<Output>,
}

impl Profile {
    pub(super) fn call(&self) -> Call {
        let mut call =
            Call::planish(["profile"]).with(&self.counts).with("--binary").with(&self.binary);
        if let Some(format) = self.emit {
            call = call.with_option("--emit", format.word());
        }
        call = call.with("-o").with(&self.profile).with_if(self.symbol_list, "--symbol-list");
        match &self.summary {
            Some(summary) => call.with_json(summary),
            None => call,
        }
    }
}

/// Check that a program was built with its profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verify {
    /// The program.
    pub binary: Input,
    /// The program without it.
    pub baseline: Input,
    /// The profile.
    pub profile: Input,
    /// What was found.
    pub found: Output,
}

impl Verify {
    pub(super) fn call(&self) -> Call {
        Call::planish(["build", "verify"])
            .with_json(&self.found)
            .with("--binary")
            .with(&self.binary)
            .with("--baseline")
            .with(&self.baseline)
            .with("--profile")
            .with(&self.profile)
    }
}
