//! As what are kernels built: images for a machine, or processes of the host?

use super::native;
use super::variant::KernelVariant;
use crate::architecture::Architecture;
use crate::{Error, requirements, workload};
use std::path::{Path, PathBuf};

/// As what kernels are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Boot images for an emulated machine of this processor, whose events are counted.
    Image(Architecture),
    /// Processes of the host (the architecture `um`) with the workload inside, whose CPU time is measured.
    Process,
}

impl Form {
    /// Where builds of this form lie in the directory of the experiment.
    pub(super) fn directory(self, directory: &Path) -> PathBuf {
        match self {
            Form::Image(_) => directory.to_owned(),
            Form::Process => directory.join("native"),
        }
    }

    /// The tree that is built: the user's, or one beside it, which links to it.
    pub(super) fn tree(self, tree: PathBuf, directory: &Path) -> Result<PathBuf, Error> {
        match self {
            Form::Image(_) => Ok(tree),
            Form::Process => native::tree::of(&tree, &directory.join(".tree")),
        }
    }

    /// The configuration of all variants where the user gives none.
    pub(super) fn configuration(self) -> String {
        match self {
            Form::Image(architecture) => {
                workload::small_config(requirements::Purpose::Autofdo, architecture)
            }
            Form::Process => native::CONFIG.to_owned(),
        }
    }

    /// Where the linker lies that make calls.
    pub(super) fn linker(self, directory: &Path) -> PathBuf {
        match self {
            Form::Image(_) => directory.join("ld"),
            // Compilers look for this name.
            Form::Process => directory.join(".linker/ld.lld"),
        }
    }

    /// The architecture, as make names it.
    pub(super) fn architecture(self) -> &'static str {
        match self {
            Form::Image(architecture) => architecture.make_word(),
            Form::Process => "um",
        }
    }

    /// How make is told of the linker.
    pub(super) fn link_words(self, directory: &Path) -> String {
        let linker = self.linker(directory);
        match self {
            Form::Image(_) => format!("LD={}", linker.display()),
            Form::Process => native::link_words(linker.parent().unwrap_or(directory)),
        }
    }

    /// What the compiler is told of all variants, where functions have sections of their own or not.
    pub(super) fn flags(self, by_function: bool) -> Option<&'static str> {
        match self {
            Form::Image(_) => by_function.then_some("-ffunction-sections"),
            Form::Process => Some(native::FLAGS),
        }
    }

    /// Linker scripts of this form take functions that have sections of their own, whatever the tree.
    pub(super) fn always_by_function(self) -> bool {
        self == Form::Process
    }

    /// What make makes.
    pub(super) fn targets(self) -> &'static [&'static str] {
        match self {
            Form::Image(architecture) => architecture.targets(),
            Form::Process => &["vmlinux"],
        }
    }

    /// What boots, in a build.
    pub(super) fn made(self, build: &Path) -> Result<PathBuf, Error> {
        match self {
            Form::Image(architecture) => Ok(build.join(architecture.image())),
            Form::Process => Ok(build.join("vmlinux")),
        }
    }

    /// How a kept kernel is called, after the number of its order.
    pub(super) fn ending(self) -> &'static str {
        match self {
            Form::Image(architecture) => architecture.image_target(),
            Form::Process => native::ENDING,
        }
    }

    /// Why this form cannot say what a variant changes, if it cannot.
    pub fn refused(self, variant: &KernelVariant) -> Option<String> {
        (self == Form::Process).then(|| native::refused(variant)).flatten()
    }
}
