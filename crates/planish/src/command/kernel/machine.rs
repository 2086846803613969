//! The options of the machine that kernels boot on, and what is shown of its console.

use crate::cli::Format;
use crate::progress::Ticker;
use anyhow::bail;
use kernel::machine::{BootImage, BootMachine, MEMORY_MIB, MOST_CPUS, TIMEOUT_S};
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
    pub modules: ModuleArgs,
    #[command(flatten)]
    pub machine: MachineArgs,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Modules that a kernel loads before the workload runs.
#[derive(Clone, Debug, clap::Args)]
pub struct ModuleArgs {
    /// A module to load first, with those that it needs: one of the build's directory by name, or a file
    /// (./NAME.ko). KERNEL= before a file says for which kernel it is. Repeatable
    #[arg(long = "module", value_name = "[KERNEL=]MODULE")]
    modules: Vec<String>,
}

impl ModuleArgs {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }

    /// Those of a kernel of this name.
    pub fn of(&self, kernel: &str) -> Vec<String> {
        let own = |word: &String| match word.split_once('=') {
            Some((name, module)) => (name == kernel).then(|| module.to_owned()),
            None => Some(word.clone()),
        };
        self.modules.iter().filter_map(own).collect()
    }

    /// Whether each is for all kernels or one of these.
    ///
    /// # Errors
    /// Where one is for another kernel.
    pub fn are_for(&self, kernels: &[(String, BootImage)]) -> anyhow::Result<()> {
        let known = |name: &str| kernels.iter().any(|(kernel, _)| kernel == name);
        for word in &self.modules {
            if let Some((name, _)) = word.split_once('=').filter(|(name, _)| !known(name)) {
                let names: Vec<&str> = kernels.iter().map(|(kernel, _)| kernel.as_str()).collect();
                bail!("--module {word}: there is no kernel {name}, but {}", names.join(", "));
            }
        }
        Ok(())
    }
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
