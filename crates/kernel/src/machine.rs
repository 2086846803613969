//! What does a kernel boot on? A machine with a boot image and an initrd.

use crate::{Error, workload};
use record::machine::{Execution, Failure, Guest};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Memory of a machine, in MiB, where no other is asked for.
pub const MEMORY_MIB: u32 = 512;
/// Longest time of a machine's run, in seconds, where no other is asked for.
pub const TIMEOUT_S: u64 = 600;
/// The most CPUs of a machine that is recorded; each is a thread of qemu.
pub const MOST_CPUS: u8 = 8;

/// A machine for kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootMachine {
    /// Memory, in MiB.
    pub memory_mib: u32,
    /// What is added to the kernel's command line.
    pub append: Option<String>,
    /// It is ended when it has not ended by itself after this time, in seconds.
    pub timeout_s: u64,
}

impl BootMachine {
    /// How long it may take.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_s)
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
            memory_mib: self.memory_mib,
            cpus: 1,
            append: append.trim_end().to_owned(),
            execution,
        }
    }
}

/// Whether a machine's run ended because the user wanted it to.
pub fn is_interrupted(error: &record::Error) -> bool {
    matches!(error, record::Error::Machine { failure: Failure::Interrupted, .. })
}

/// The boot image that a name stands for: a bzImage, or the directory of a build.
///
/// # Errors
/// Where there is none.
pub fn boot_image(path: &Path) -> Result<PathBuf, Error> {
    let image = if path.is_dir() { path.join("arch/x86/boot/bzImage") } else { path.to_owned() };
    let mut start = vec![0; 0x206];
    let read = beside::given::open(&image).and_then(|mut file| file.read_exact(&mut start));
    read.map_err(Error::doing(format!(
        "{}: expected a kernel's boot image; `planish kernel build` makes one in its build \
         directory",
        image.display()
    )))?;
    // The magic number of the boot protocol (Documentation/arch/x86/boot.rst).
    if start.get(0x202..0x206) != Some(b"HdrS") {
        return Err(Error::of_file(
            &image,
            "not a boot image of Linux for x86 (no `HdrS` at offset 0x202); give \
             arch/x86/boot/bzImage of a build",
        ));
    }
    Ok(image)
}

/// Kernels with their names and boot images, each given as a build's directory or a bzImage, after
/// `NAME=` where it has one.
///
/// # Errors
/// Where two have one name, or one is no kernel.
pub fn named(kernels: &[String]) -> Result<Vec<(String, PathBuf)>, Error> {
    let mut named: Vec<(String, PathBuf)> = Vec::new();
    for word in kernels {
        let (name, path) = word.split_once('=').unwrap_or((word, word));
        if named.iter().any(|(known, _)| known == name) {
            return Err(Error::Wanted(format!(
                "{name}: two kernels have this name; write ANOTHER-NAME={path}"
            )));
        }
        named.push((name.to_owned(), boot_image(Path::new(path))?));
    }
    Ok(named)
}

/// An initrd to boot: the one that was named, or planish's workload in a temporary directory, which
/// lives as long.
#[derive(Debug)]
pub struct Initrd {
    /// Where it lies.
    pub path: PathBuf,
    _own: Option<tempfile::TempDir>,
}

impl Initrd {
    /// Finds or makes it.
    ///
    /// # Errors
    /// Where there is none of that name, or the workload cannot be compiled.
    pub fn of(named: Option<&Path>) -> Result<Initrd, Error> {
        if let Some(path) = named {
            beside::given::open(path).map_err(Error::io(path))?;
            return Ok(Initrd { path: path.to_owned(), _own: None });
        }
        let own = tempfile::Builder::new().prefix("planish-workload-").tempdir();
        let own = own.map_err(Error::io(std::env::temp_dir()))?;
        let path = workload::build(None, own.path())?;
        Ok(Initrd { path, _own: Some(own) })
    }
}
