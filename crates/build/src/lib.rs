//! Plan, run and verify builds that use a profile.
//!
//! A [`Config`] (planish.toml) says how a program is built, fed and judged. [`plan::optimize`]
//! turns it into a [`Plan`]: each step holds a typed [`Request`], which is rendered to a command
//! line that can be typed by hand, so that a dry run can print exactly what would run.
//! [`execute::run`] runs the steps that are not up to date and remembers each finished one in a
//! [`state::State`], so that an interrupted or repeated run goes on where it has to. [`verify`]
//! says whether the compiler could have used the profile at all.

mod again;
pub mod around;
pub mod bounded_log;
pub mod call;
mod cargo_config;
mod child;
pub mod commands;
pub mod comparison;
pub mod composed;
pub mod config;
mod configure;
pub mod described;
pub mod disk;
pub mod error;
pub mod execute;
mod files;
pub mod flags;
mod gnu_link;
mod image_paths;
pub mod images;
pub mod kept_rounds;
mod kernel_table;
pub mod linux;
pub mod lock;
pub mod measured;
pub mod optimization;
mod outputs;
mod outside;
mod own_libraries;
pub mod pages;
mod plain;
pub mod plan;
pub mod program_log;
pub mod progress;
pub mod project;
pub mod recognise;
pub mod recording;
pub mod request;
pub mod reuse;
pub mod rounds;
pub mod rust;
pub mod shared_names;
mod small_file;
mod sources;
mod stages;
mod startable;
pub mod state;
pub mod step;
mod sys;
pub mod target;
pub mod telling;
pub mod toolchain;
pub mod training;
pub mod trial;
mod unchanged;
pub mod used;
pub mod variant_plan;
pub mod variants;
pub mod verified;
pub mod verify;
mod words;

pub use call::{Call, Program};
pub use child::wait;
pub use config::Config;
pub use error::Error;
pub use kernel_table::KernelTable;
pub use lock::{Lock, state_directory};
pub use processes::adopt_orphans;
pub use project::Project;
pub use request::Request;
pub use rust::Rust;
pub use step::{Outlook, Plan, Step};
pub use toolchain::Toolchain;
pub use words::{quoted, split_words};

/// Where everything goes that planish makes, beside planish.toml.
pub const STATE_DIRECTORY: &str = ".planish";

/// Which planish does the steps: its version, and the commit where the build names one by
/// `PLANISH_COMMIT`. What another one made is made anew.
const PLANISH: [&str; 2] = [
    env!("CARGO_PKG_VERSION"),
    match option_env!("PLANISH_COMMIT") {
        Some(commit) => commit,
        None => "",
    },
];
