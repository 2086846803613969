//! Live collection into perf.data: hardware branch stacks, clock samples, software and emulated
//! branch stacks.
//!
//! Three ways lead to a perf.data: [`live`] asks the kernel (`perf_event_open`) for hardware branch
//! stacks or clock samples; [`software`] stops the program's threads and looks ahead for the
//! branches that they are about to take; [`emulate`] runs the program under qemu-user with a plugin
//! that keeps a branch stack, on any machine. [`kernel`] records the kernel of a whole emulated machine, which
//! [`machine`] runs. All write the same file: beside its final name, renamed when it is complete.
//! [`code_metrics`] records nothing, but has a program or a kernel counted under the same emulators.
//!
//! The modules of a live recording, from below: what is asked for (`options`, `settings`,
//! `streaming`, `target`); events (`event`, `planned`, `plan`) and which of them the kernel gives
//! (`events`, `refusal`, `open`); files (`place`, `file`) and what is seen of the records on their
//! way there (`watch`, `seen`, `stream`); the readers and the thread that leads them (`readers`,
//! `rotate`, `follow`, `session`); the states that a recording goes through ([`live`],
//! [`software`]); and which way of recording a request means ([`branches`], [`request`]).

mod added;
pub mod arm_spe;
mod attr;
mod aux;
mod backlog;
pub mod branches;
mod cgroups;
mod child;
pub mod code_metrics;
mod control;
mod cpus;
mod descriptors;
mod effort;
mod elf;
pub mod emulate;
mod error;
pub mod event;
mod events;
mod features;
mod file;
mod follow;
mod gathered;
mod hotplug;
pub mod kernel;
mod leftovers;
pub mod live;
mod losses;
pub mod machine;
mod merge;
mod modules;
mod open;
mod options;
mod place;
mod placement;
pub mod plan;
mod planned;
mod plugin;
mod processes;
mod processor;
mod readers;
mod refusal;
pub mod request;
mod rings;
mod rotate;
mod sample_cost;
mod seen;
mod session;
pub mod settings;
mod sink;
pub mod software;
mod span;
pub mod stat;
mod stream;
pub mod streaming;
mod summary;
mod synthesize;
mod sys;
mod target;
mod topology;
mod tracing;
mod watch;

pub use attr::Trace;
pub use aux::AuxSeen;
pub use branches::Branches;
pub use child::{Stdout, Workload};
pub use elf::{Architecture, Program, program};
pub use error::Error;
pub use hotplug::Hotplug;
pub use losses::{Losses, RingLosses};
pub use modules::running_kernel_id;
pub use placement::Placement;
pub use plugin::{emulator, plugin};
pub use sample_cost::sample_cost;
pub use summary::{Counted, Ending, LookAhead, Streamed, Summary};
