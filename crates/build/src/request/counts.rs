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
    /// The libraries of the project, that were recorded with it; other copies of them, and of the
    /// program, are refused.
    pub libraries: Vec<Input>,
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
        for binary in [&self.binary].into_iter().chain(&self.libraries) {
            call = call.with("--binary").with(binary);
        }
        call.with_if(!self.libraries.is_empty(), "--no-copies")
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
    /// Whether the program may have no samples: the profile is then empty.
    pub allow_empty: bool,
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
        call = call.with_if(self.allow_empty, "--allow-empty");
        match &self.summary {
            Some(summary) => call.with_json(summary),
            None => call,
        }
    }
}

/// Add the profiles of several images up, for a build command that makes all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeProfiles {
    /// The profiles; some of them may be empty.
    pub parts: Vec<Input>,
    /// Their sum.
    pub profile: Output,
}

impl MergeProfiles {
    pub(super) fn call(&self) -> Call {
        Call::planish(["profile", "merge"])
            .with_all(&self.parts)
            .with("--allow-empty")
            .with("-o")
            .with(&self.profile)
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
    /// The profile of all images, which the compiler was given; absent where that is `profile`,
    /// which may else be empty.
    pub used: Option<Input>,
    /// What was found.
    pub found: Output,
}

impl Verify {
    pub(super) fn call(&self) -> Call {
        let call = Call::planish(["build", "verify"])
            .with_json(&self.found)
            .with("--binary")
            .with(&self.binary)
            .with("--baseline")
            .with(&self.baseline)
            .with("--profile")
            .with(&self.profile);
        match &self.used {
            Some(used) => call.with("--used").with(used).with("--allow-empty"),
            None => call,
        }
    }
}
