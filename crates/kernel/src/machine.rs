//! What does a kernel boot on? A machine with a boot image and an initrd.

use crate::architecture::Architecture;
use crate::config::Config;
use crate::modules::{self, Module};
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
        kernel: &BootImage,
        initrd: &Path,
        sections: &str,
        execution: Execution,
    ) -> Guest {
        let append =
            format!("PLANISH_SECTIONS={sections} {}", self.append.as_deref().unwrap_or_default());
        Guest {
            board: kernel.architecture.board(),
            kernel: kernel.path.clone(),
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

/// What a machine boots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootImage {
    /// Where it lies.
    pub path: PathBuf,
    /// For which processor it is.
    pub architecture: Architecture,
    /// The directory of the build that it was found in.
    pub build: Option<PathBuf>,
}

/// The boot image that a name stands for: a bzImage, an Image of arm64, or the directory of a build.
///
/// # Errors
/// Where there is none.
pub fn boot_image(path: &Path) -> Result<BootImage, Error> {
    let image = if path.is_dir() { built_image(path) } else { path.to_owned() };
    let mut start = vec![0; Architecture::HEADER];
    let read = beside::given::open(&image).and_then(|mut file| file.read_exact(&mut start));
    read.map_err(Error::doing(format!(
        "{}: expected a kernel's boot image; `planish kernel build` makes one in its build \
         directory",
        image.display()
    )))?;
    match Architecture::of_image(&start) {
        Some(architecture) => {
            let build = path.is_dir().then(|| path.to_owned());
            Ok(BootImage { path: image, architecture, build })
        }
        None => Err(Error::of_file(
            &image,
            "not a boot image of Linux for x86-64 (no `HdrS` at offset 0x202) or arm64 (no `ARMd` \
             at offset 0x38); give arch/x86/boot/bzImage or arch/arm64/boot/Image of a build",
        )),
    }
}

/// The boot image in a build's directory, for the processor that its `.config` names; without one,
/// whichever is there.
fn built_image(build: &Path) -> PathBuf {
    let configured = Config::read(&build.join(".config")).ok();
    let configured = configured.as_ref().and_then(Architecture::of_config);
    let there = |architecture: &Architecture| build.join(architecture.image()).is_file();
    let found = configured.or_else(|| Architecture::ALL.into_iter().find(there));
    build.join(found.unwrap_or_default().image())
}

/// Kernels with their names and boot images, each given as a build's directory or a boot image,
/// after `NAME=` where it has one. All are for one processor, which is given too.
///
/// # Errors
/// Where two have one name, one is no kernel, or they are for different processors.
pub fn named(kernels: &[String]) -> Result<(Vec<(String, BootImage)>, Architecture), Error> {
    let mut named: Vec<(String, BootImage)> = Vec::new();
    for word in kernels {
        let (name, path) = word.split_once('=').unwrap_or((word, word));
        if named.iter().any(|(known, _)| known == name) {
            return Err(Error::Wanted(format!(
                "{name}: two kernels have this name; write ANOTHER-NAME={path}"
            )));
        }
        named.push((name.to_owned(), boot_image(Path::new(path))?));
    }
    let base = named.first().map(|(_, image)| image.architecture).unwrap_or_default();
    if let Some((name, image)) = named.iter().find(|(_, image)| image.architecture != base) {
        return Err(Error::Wanted(format!(
            "{name}: a kernel for {}, and the first is for {}; kernels for different processors \
             cannot be set side by side",
            image.architecture.name(),
            base.name()
        )));
    }
    Ok((named, base))
}

/// An initrd to boot: the one that was named, or planish's workload in a temporary directory, which
/// lives as long.
#[derive(Debug)]
pub struct Initrd {
    /// Where it lies.
    pub path: PathBuf,
    /// The modules in it that a guest loads, in this order.
    pub modules: Vec<Module>,
    _own: Option<tempfile::TempDir>,
}

impl Initrd {
    /// Finds or makes it, for kernels of a processor.
    ///
    /// # Errors
    /// Where there is none of that name, or the workload cannot be compiled.
    pub fn of(named: Option<&Path>, architecture: Architecture) -> Result<Initrd, Error> {
        if let Some(path) = named {
            beside::given::open(path).map_err(Error::io(path))?;
            return Ok(Initrd { path: path.to_owned(), modules: Vec::new(), _own: None });
        }
        let own = scratch()?;
        let path = workload::build(architecture, None, own.path())?;
        Ok(Initrd { path, modules: Vec::new(), _own: Some(own) })
    }

    /// The same with modules of a kernel behind it; nothing where none is wanted.
    ///
    /// # Errors
    /// As [`modules::find`], and where it cannot be written.
    pub fn with_modules(
        &self,
        kernel: &BootImage,
        wanted: &[String],
    ) -> Result<Option<Initrd>, Error> {
        /// The kernel looks for a further archive where a word begins.
        const WORD: usize = 4;
        let modules = modules::find(kernel.build.as_deref(), wanted)?;
        if modules.is_empty() {
            return Ok(None);
        }
        let mut bytes =
            beside::given::read(&self.path, beside::given::DATA).map_err(Error::io(&self.path))?;
        bytes.resize(bytes.len().next_multiple_of(WORD), 0);
        bytes.extend(modules::archive(&modules)?);
        let own = scratch()?;
        let path = own.path().join(workload::INITRD);
        beside::write(&path, bytes).map_err(Error::io(&path))?;
        Ok(Some(Initrd { path, modules, _own: Some(own) }))
    }
}

fn scratch() -> Result<tempfile::TempDir, Error> {
    let own = tempfile::Builder::new().prefix("planish-workload-").tempdir();
    own.map_err(Error::io(std::env::temp_dir()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    fn image(path: &Path, architecture: Architecture) {
        let (at, magic) = architecture.magic();
        let mut bytes = vec![0; at];
        bytes.extend(magic);
        bytes.resize(Architecture::HEADER, 0);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    #[test]
    fn a_build_has_the_image_of_its_configuration_and_without_one_whichever_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let of = || boot_image(dir.path()).map(|found| found.architecture);
        assert!(of().unwrap_err().to_string().contains("arch/x86/boot/bzImage"));
        image(&dir.path().join("arch/arm64/boot/Image"), Architecture::Arm64);
        assert_eq!(of().unwrap(), Architecture::Arm64);
        image(&dir.path().join("arch/x86/boot/bzImage"), Architecture::X86_64);
        assert_eq!(of().unwrap(), Architecture::X86_64);
        std::fs::write(dir.path().join(".config"), "CONFIG_ARM64=y\n").unwrap();
        assert_eq!(of().unwrap(), Architecture::Arm64);
    }

    #[test]
    fn kernels_for_different_processors_are_not_set_side_by_side() {
        let dir = tempfile::tempdir().unwrap();
        let word = |name: &str| format!("{name}={}", dir.path().join(name).display());
        image(&dir.path().join("a"), Architecture::Arm64);
        image(&dir.path().join("b"), Architecture::Arm64);
        image(&dir.path().join("c"), Architecture::X86_64);
        let (found, architecture) = named(&[word("a"), word("b")]).unwrap();
        assert_eq!((found.len(), architecture), (2, Architecture::Arm64));
        let refused = named(&[word("a"), word("c")]).unwrap_err().to_string();
        assert!(refused.starts_with("c: ") && refused.contains("arm64"), "{refused}");
    }
}
