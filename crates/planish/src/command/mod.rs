//! One file a command; each reads like a recipe, one call a stage.

pub mod aggregate;
pub mod build;
pub mod compare;
pub mod compiler;
mod copies;
pub mod doctor;
pub mod fleet;
pub mod init;
pub mod inputs;
pub mod kernel;
pub mod layout;
pub mod livepatch;
mod namespaces;
pub mod optimize;
pub mod pages;
mod percent;
pub mod profile;
mod project_args;
pub mod record;
pub mod report;
pub mod stat;
mod steps;
pub mod top;
pub mod train;
mod viewing;
pub mod weigh;
pub mod workload;

use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code after Ctrl-C, as shells tell it of a program that the signal ended.
pub const INTERRUPTED: u8 = 130;

static HANDLES_INTERRUPTS: AtomicBool = AtomicBool::new(false);

/// Says that the running command ends by itself on Ctrl-C (it forwards the signal, finishes its
/// file, keeps what it has), so that nobody must end it.
pub fn handle_interrupts() {
    HANDLES_INTERRUPTS.store(true, Ordering::Relaxed);
}

/// Takes that back: what had to end by itself has ended.
pub fn leave_interrupts() {
    HANDLES_INTERRUPTS.store(false, Ordering::Relaxed);
}

/// Whether the running command said so.
pub fn handles_interrupts() -> bool {
    HANDLES_INTERRUPTS.load(Ordering::Relaxed)
}
