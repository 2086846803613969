//! The emulated machine that kernels boot on: its options, and what is shown of its console.

use crate::progress::Ticker;
use anyhow::{Context, bail};
use kernel::workload;
use record::machine::{Execution, Failure, Guest, Statement};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Memory, in MiB, and wall time, in seconds, where no other is asked for.
const MEMORY: u32 = 512;
const TIMEOUT: u64 = 600;

/// The most CPUs of a machine that is recorded; each is a thread of qemu.
const MOST_CPUS: i64 = 8;

/// Reads a number of CPUs.
pub fn cpus() -> impl clap::builder::TypedValueParser<Value = u8> {
    clap::value_parser!(u8).range(1..=MOST_CPUS)
}

/// Options of the machine.
#[derive(Clone, Debug, clap::Args)]
pub struct MachineArgs {
    /// Memory of the machine
    #[arg(long, value_name = "MIB", default_value_t = MEMORY, value_parser = clap::value_parser!(u32).range(64..=65536))]
    memory: u32,
    /// What is added to the kernel's command line, such as mitigations=off or PLANISH_ROUNDS=50
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    append: Option<String>,
    /// End the machine when it has not ended by itself after this time
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
}

impl MachineArgs {
    /// The options as words, for a command that passes them on.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        words.extend((self.memory != MEMORY).then(|| format!("--memory={}", self.memory)));
        words.extend((self.timeout != TIMEOUT).then(|| format!("--timeout={}", self.timeout)));
        words.extend(self.append.iter().map(|append| format!("--append={append}")));
        words
    }

    /// How long the machine may take.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// The machine with a kernel and one CPU; `sections` are those that the workload runs.
    pub fn guest(
        &self,
        kernel: &Path,
        initrd: &Path,
        sections: &str,
        execution: Execution,
    ) -> Guest {
        let append =
            format!("PLANISH_SECTIONS={sections} {}", self.append.as_deref().unwrap_or_default());
        Guest {
            kernel: kernel.to_owned(),
            initrd: Some(initrd.to_owned()),
            memory_mib: self.memory,
            cpus: 1,
            append: append.trim_end().to_owned(),
            execution,
        }
    }
}

/// Whether a recording ended because the user wanted it to.
pub fn is_interrupted(error: Option<&record::Error>) -> bool {
    matches!(error, Some(record::Error::Machine { failure: Failure::Interrupted, .. }))
}

/// The boot image that a name stands for: a bzImage, or the directory of a build.
pub fn boot_image(path: &Path) -> anyhow::Result<PathBuf> {
    let image = if path.is_dir() { path.join("arch/x86/boot/bzImage") } else { path.to_owned() };
    let mut start = vec![0; 0x206];
    let read = beside::given::open(&image)
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut start));
    read.with_context(|| {
        format!(
            "{}: expected a kernel's boot image; `planish kernel build` makes one in its build \
             directory",
            image.display()
        )
    })?;
    // The magic number of the boot protocol (Documentation/arch/x86/boot.rst).
    if start.get(0x202..0x206) != Some(b"HdrS") {
        bail!(
            "{}: not a boot image of Linux for x86 (no `HdrS` at offset 0x202); give \
             arch/x86/boot/bzImage of a build",
            image.display()
        );
    }
    Ok(image)
}

/// An initrd to boot: the one that was named, or planish's workload in a temporary directory, which
/// lives as long.
pub struct Initrd {
    /// Where it lies.
    pub path: PathBuf,
    _own: Option<tempfile::TempDir>,
}

impl Initrd {
    /// Finds or makes it.
    pub fn of(named: Option<&Path>) -> anyhow::Result<Initrd> {
        if let Some(path) = named {
            crate::input::regular(path)?;
            return Ok(Initrd { path: path.to_owned(), _own: None });
        }
        let own = tempfile::Builder::new().prefix("planish-workload-").tempdir()?;
        let path = workload::build(None, own.path())?;
        Ok(Initrd { path, _own: Some(own) })
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
