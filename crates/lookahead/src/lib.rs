//! Interprets x86-64 code ahead of a stopped thread, to see which branches it will take.
//!
//! A thread is stopped for an instant, its registers are read, and [`Engine::run`] goes on from
//! there on copies of its registers and of the memory it touches, until enough branches were taken.
//! What the code writes goes into the copies. The thread then goes on untouched, and takes the same
//! branches, unless another thread or the clock decides otherwise.
//!
//! Integer instructions and branches have models; vector, floating-point and rare integer
//! instructions run on the processor itself, in stubs that load and store only the registers they
//! name (modules `native` and `processor`). What can do neither ends the look-ahead, and is reported by its
//! mnemonic, so that nothing is ever guessed.

#![cfg(target_arch = "x86_64")]

mod allowed;
mod arithmetic;
mod bits;
mod code;
mod control;
mod cpu;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod differential;
mod engine;
mod family;
mod flags;
mod lower;
mod memory;
mod native;
mod op;
mod processor;
mod saved;
mod state;
mod string;
mod sys;
mod vectors;
mod word;

pub use engine::{Engine, Limits, Outcome, Registers};
pub use memory::{Fetched, Page, Source, Text};
use perfdata::RuntimeAddr;

/// A taken branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Branch {
    /// Address of the branch instruction.
    pub from: RuntimeAddr,
    /// Address it goes to.
    pub to: RuntimeAddr,
}

/// Why a look-ahead ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// As many branches as asked for.
    Depth,
    /// The thread asks the kernel for something: what comes then is unknown.
    SystemCall,
    /// As many instructions as allowed, with fewer branches.
    Long,
    /// An instruction that divides by 0, traps, or is none.
    Fault,
    /// Memory or code that cannot be read; or more of it than one look-ahead may copy.
    Memory {
        /// The address.
        address: RuntimeAddr,
    },
    /// An instruction without a model that cannot run in a stub.
    Unmodelled {
        /// Which.
        mnemonic: Mnemonic,
    },
}

/// A mnemonic; `Debug` and `Display` show its name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mnemonic(pub(crate) u16);

impl std::fmt::Display for Mnemonic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match iced_x86::Mnemonic::try_from(usize::from(self.0)) {
            Ok(name) => write!(f, "{}", format!("{name:?}").to_lowercase()),
            Err(_) => write!(f, "mnemonic {}", self.0),
        }
    }
}

impl std::fmt::Debug for Mnemonic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
