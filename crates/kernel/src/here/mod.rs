//! How fast are kernels on the machine itself? It boots one after another, each into the kernel that
//! is due, and measures once a boot; `compare` judges.
//!
//! Everything lies in a directory that outlives the boots: what is to be measured ([`begin`] writes
//! it), the runs so far, and what the next boot is to be. [`step`] is called after every boot, and
//! goes on from there. A boot is the unit of observation: runs of one boot share where the kernel's
//! memory happened to lie.

mod boot_once;
mod identity;
mod plan;
mod step;

pub use boot_once::{BootOnce, entry};
pub use identity::{Booted, Identity};
pub use plan::{Begin, Plan, begin, service};
pub use step::{Stepped, step};

use std::path::{Path, PathBuf};

/// What is measured.
const PLAN: &str = "plan.json";
/// Where it stands.
const STATE: &str = "state.json";
/// A unit of systemd that goes on after each boot.
const SERVICE: &str = "planish-here.service";

/// Where the runs of a directory are, which `planish compare show` reads.
pub fn runs(directory: &Path) -> PathBuf {
    directory.join("runs.jsonl")
}

/// Where the unit of systemd of a directory is.
pub fn unit(directory: &Path) -> PathBuf {
    directory.join(SERVICE)
}
