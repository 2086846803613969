//! The options of the machine that kernels boot on, and what is shown of its console.

use crate::cli::Format;
use crate::progress::Ticker;
use kernel::machine::{BootMachine, MEMORY_MIB, MOST_CPUS, TIMEOUT_S};
use record::machine::Statement;
use std::path::PathBuf;

/// Reads a number of CPUs.
pub fn cpus() -> impl clap::builder::TypedValueParser<Value = u8> {
    clap::value_parser!(u8).range(1..=i64::from(MOST_CPUS))
}

/// Which kernels boot, with what, and how the result is printed.
#[derive(Clone, Debug, clap::Args)]
pub struct Booted {
    /// Directories of builds, bzImages or Images of arm64, the base first; NAME= before one names it
    #[arg(required = true, value_name = "[NAME=]KERNEL")]
    pub kernels: Vec<String>,
    /// The initrd with the workload [default: planish's own]
    #[arg(long, value_name = "FILE")]
    pub initrd: Option<PathBuf>,
    #[command(flatten)]
    pub machine: MachineArgs,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Options of the machine.
#[derive(Clone, Debug, clap::Args)]
pub struct MachineArgs {
    /// Memory of the machine
    #[arg(long, value_name = "MIB", default_value_t = MEMORY_MIB, value_parser = clap::value_parser!(u32).range(64..=65536))]
    memory: u32,
    /// Words to add to the kernel's command line, such as mitigations=off or PLANISH_ROUNDS=50
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    append: Option<String>,
    /// End the machine if it has not ended by itself after this time
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT_S, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
}

impl MachineArgs {
    /// As the library has it.
    pub fn machine(&self) -> BootMachine {
        let (memory_mib, timeout_s) = (self.memory, self.timeout);
        BootMachine { memory_mib, append: self.append.clone(), timeout_s }
    }
}

/// Shows what the console says: the section that runs, where there is a terminal.
pub fn watcher(label: &str, quiet: bool) -> impl FnMut(&str, Option<&Statement>) + use<> {
    let ticker = Ticker::new(label, quiet);
    move |line: &str, statement: Option<&Statement>| match statement {
        Some(Statement::Section(section)) => ticker.tell(&section.name),
        Some(_) => {}
        None => ticker.tell(line),
    }
}
