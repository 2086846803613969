//! The options of the machine that kernels boot on, and what is shown of its console.

use crate::cli::Format;
use crate::progress::Ticker;
use anyhow::bail;
use kernel::machine::{BootImage, BootMachine, Initrd, MEMORY_MIB, MOST_CPUS, TIMEOUT_S};
use record::machine::Statement;
use std::path::{Path, PathBuf};

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
    /// (./NAME.ko). KERNEL= before it says for which of several kernels it is. Repeatable
    #[arg(long = "module", value_name = "[KERNEL=]MODULE")]
    modules: Vec<String>,
}

impl ModuleArgs {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }

    /// The initrd of a kernel that is booted alone, where it loads modules.
    ///
    /// # Errors
    /// As of [`Initrd::with_modules`], and where one is for a kernel of a name.
    pub fn alone(&self, initrd: &Initrd, kernel: &BootImage) -> anyhow::Result<Option<Initrd>> {
        if let Some((name, _)) = self.modules.iter().find_map(|word| for_kernel(word)) {
            bail!("--module {name}=…: there is one kernel; leave out {name}=");
        }
        Ok(initrd.with_modules(kernel, &self.modules)?)
    }

    /// The initrds of several kernels, where they load modules.
    ///
    /// # Errors
    /// As of [`Initrd::with_modules`], and where one is for none of these kernels.
    pub fn each(
        &self,
        initrd: &Initrd,
        kernels: &[(String, BootImage)],
    ) -> anyhow::Result<Vec<Option<Initrd>>> {
        let known = |name: &str| kernels.iter().any(|(kernel, _)| kernel == name);
        for (name, module) in self.modules.iter().filter_map(|word| for_kernel(word)) {
            if !known(name) {
                let names: Vec<&str> = kernels.iter().map(|(kernel, _)| kernel.as_str()).collect();
                let names = names.join(", ");
                bail!("--module {name}={module}: no kernel is called {name}; they are {names}");
            }
        }
        let with =
            |(name, image): &(String, BootImage)| Ok(initrd.with_modules(image, &self.of(name))?);
        kernels.iter().map(with).collect()
    }

    /// Those of a kernel of this name: a module for it stands in place of one for all.
    fn of(&self, kernel: &str) -> Vec<String> {
        let named = self.modules.iter().filter_map(|word| for_kernel(word));
        let own: Vec<&str> =
            named.filter(|(name, _)| *name == kernel).map(|(_, module)| module).collect();
        let name = |word: &str| kernel::modules::name_of(Path::new(word));
        let replaced = |word: &str| own.iter().any(|own| name(own) == name(word));
        let all = self.modules.iter().map(String::as_str).filter(|word| for_kernel(word).is_none());
        let all = all.filter(|word| !replaced(word));
        all.chain(own.iter().copied()).map(str::to_owned).collect()
    }
}

/// A kernel's name, and the module that is for it. Paths may have a `=` of their own.
fn for_kernel(word: &str) -> Option<(&str, &str)> {
    word.split_once('=').filter(|(name, _)| !name.contains('/'))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_for_a_kernel_stands_in_place_of_one_for_all() {
        let given = ["ext4", "old/my-core.ko", "new=new/my_core.ko", "./a=b/c.ko", "new=brd"];
        let modules = ModuleArgs { modules: given.map(str::to_owned).to_vec() };
        assert_eq!(modules.of("base"), ["ext4", "old/my-core.ko", "./a=b/c.ko"]);
        assert_eq!(modules.of("new"), ["ext4", "./a=b/c.ko", "new/my_core.ko", "brd"]);
    }
}
