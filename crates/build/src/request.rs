//! What does a stage of a plan ask for? A value for each, with what it reads, what it makes and its
//! options; [`Request::call`] renders it to a command that can be typed by hand.

mod commands;
mod counts;
pub mod kernels;
mod layouts;
mod measured;
mod recorded;

pub use commands::{BuildCommand, LibraryRule, LinkAgain, UserCommand};
pub use counts::{Aggregate, MergeProfiles, Profile, Verify};
use kernels::KernelRequest;
pub use layouts::{
    Bolt, BoltKnowledge, Layout, LayoutKind, LayoutVerify, MergeCounters, MergeLayouts,
};
pub use measured::{Again, Compare, Report};
pub(crate) use recorded::bound;
pub use recorded::{
    CountBranches, Libraries, Pace, ProgramCommand, Record, Repeat, TrainRecord, TrainTime,
    TryCommand,
};

use crate::call::Call;

/// One stage's request. Paths are relative to the directory of the plan, or absolute.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Build a program, with what the build knows of its runs.
    Build(BuildCommand),
    /// Run a command of the user's.
    Command(UserCommand),
    /// Time the training, and decide how it is recorded.
    TrainTime(TrainTime),
    /// Try an evaluation command.
    TryCommand(TryCommand),
    /// Record one training command as was decided.
    TrainRecord(TrainRecord),
    /// Record one training command.
    Record(Record),
    /// Count the branches that a command takes.
    CountBranches(CountBranches),
    /// Count what was recorded, per address.
    Aggregate(Aggregate),
    /// Make a profile for a compiler.
    Profile(Profile),
    /// Add profiles of several images up.
    MergeProfiles(MergeProfiles),
    /// Check that a program was built with its profile.
    Verify(Verify),
    /// Compute a layout, or BOLT's counts.
    Layout(Layout),
    /// Put layouts of several images into one.
    MergeLayouts(MergeLayouts),
    /// Check that a program has its layout.
    LayoutVerify(LayoutVerify),
    /// Lay a program out with BOLT.
    Bolt(Bolt),
    /// Merge what instrumented programs counted.
    MergeCounters(MergeCounters),
    /// Measure programs against the first of them.
    Compare(Compare),
    /// Collect what all steps found.
    Report(Report),
    /// A stage on the way to a faster kernel.
    Kernel(KernelRequest),
}

impl Request {
    /// The request as a process.
    pub fn call(&self) -> Call {
        match self {
            Request::Build(request) => request.call(),
            Request::Command(request) => request.call(),
            Request::TrainTime(request) => request.call(),
            Request::TryCommand(request) => request.call(),
            Request::TrainRecord(request) => request.call(),
            Request::Record(request) => request.call(),
            Request::CountBranches(request) => request.call(),
            Request::Aggregate(request) => request.call(),
            Request::Profile(request) => request.call(),
            Request::MergeProfiles(request) => request.call(),
            Request::Verify(request) => request.call(),
            Request::Layout(request) => request.call(),
            Request::MergeLayouts(request) => request.call(),
            Request::LayoutVerify(request) => request.call(),
            Request::Bolt(request) => request.call(),
            Request::MergeCounters(request) => request.call(),
            Request::Compare(request) => request.call(),
            Request::Report(request) => request.call(),
            Request::Kernel(request) => request.call(),
        }
    }
}
