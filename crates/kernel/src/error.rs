//! What can be wrong with a tree, a configuration or a build.

use std::path::{Path, PathBuf};

/// Why a tree was not prepared, taken back or checked. Nothing was written when one is returned,
/// unless it says so.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The directory is no kernel tree.
    #[error(
        "{tree}: not a kernel tree: {missing} is missing there; give the top directory of the \
         Linux sources"
    )]
    NotATree {
        /// The directory.
        tree: PathBuf,
        /// What a tree would have.
        missing: &'static str,
    },
    /// The top Makefile does not state a version.
    #[error(
        "{path}: expected `VERSION = …` and `PATCHLEVEL = …` in its first lines, found {found}"
    )]
    NoVersion {
        /// The Makefile.
        path: PathBuf,
        /// What stood there.
        found: String,
    },
    /// The edits are made for other versions.
    #[error(
        "{tree}: Linux {version} is not known here: edits exist for 6.1, 6.6 and 6.12; from 6.13 \
         on Linux has the options itself"
    )]
    UnknownVersion {
        /// The tree.
        tree: PathBuf,
        /// Its version.
        version: String,
    },
    /// One of the two options is there, the other is not.
    #[error(
        "{tree}: arch/Kconfig has {there} but not {missing}, from somebody else's patch; take \
         that patch back, then prepare the tree"
    )]
    HalfAFeature {
        /// The tree.
        tree: PathBuf,
        /// The option it has.
        there: &'static str,
        /// The option it lacks.
        missing: &'static str,
    },
    /// The options of this tree are not ours to take back.
    #[error("{tree}: nothing to take back: {reason}")]
    NothingToRevert {
        /// The tree.
        tree: PathBuf,
        /// Why not.
        reason: &'static str,
    },
    /// An anchor does not match exactly once, or a macro has not the lines that are known.
    #[error(
        "{path}: {construct}: expected `{expected}` exactly once, found it {found} times; nothing \
         was written. The file differs from a plain 6.1, 6.6 or 6.12: restore it, or say what it \
         is patched with"
    )]
    Anchor {
        /// The file.
        path: PathBuf,
        /// What was to be edited.
        construct: &'static str,
        /// The text that is looked for.
        expected: String,
        /// How often it was found.
        found: usize,
    },
    /// Something that must not be in the file is.
    #[error("{path}: {construct}: found `{found}`; nothing was written. {reason}")]
    Unfit {
        /// The file.
        path: PathBuf,
        /// What was looked at.
        construct: &'static str,
        /// What stands there.
        found: &'static str,
        /// Why that is a hindrance, and what to do.
        reason: &'static str,
    },
    /// The file is in the middle of a merge or a patch.
    #[error(
        "{path}: {what}; nothing was written. Finish or take back the patch or merge, then run \
         this again"
    )]
    Dirty {
        /// The file.
        path: PathBuf,
        /// What shows it.
        what: &'static str,
    },
    /// Some files hold the edits, others do not.
    #[error(
        "{tree}: half prepared: {done} hold the edits, {open} do not; nothing was written. Take \
         all back with `planish kernel prepare --revert {tree}`, or restore these files from \
         their source"
    )]
    HalfPrepared {
        /// The tree.
        tree: PathBuf,
        /// Files with the edits, comma separated.
        done: String,
        /// Files without.
        open: String,
    },
    /// A file holds a part of our edits, changed ones, or one twice.
    #[error(
        "{path}: the edits are in it in part, changed or more than once (there: {there}; missing: \
         {missing}); nothing was written. Restore the file from its source (git checkout, or the \
         tarball), then run this again"
    )]
    HalfEdited {
        /// The file.
        path: PathBuf,
        /// Which are there.
        there: String,
        /// Which are not.
        missing: String,
    },
    /// A new file would overwrite another.
    #[error(
        "{path}: exists and is not the file of planish; nothing was written. Move it away first"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A file of the tree is not text.
    #[error("{path}: expected UTF-8 text; is this the file that came with the kernel?")]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// The tree cannot be written to.
    #[error(
        "{path}: cannot be written: {source}; nothing was changed. Copy the tree to where you may \
         write, or make it writable"
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Renaming failed in the middle, and going back failed too.
    #[error(
        "{path}: {source}, in the middle of writing, and what was written could not be put back; \
         run `planish kernel prepare --revert` on the tree"
    )]
    Torn {
        /// The file at which it happened.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A configuration has a line that Kconfig does not write.
    #[error(
        "{path}, line {line}: expected `CONFIG_NAME=value` or `# CONFIG_NAME is not set`, found \
         `{found}`"
    )]
    Config {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The line, shortened.
        found: String,
    },
    /// A kernel could not be read.
    #[error("{path}: {reason}")]
    Vmlinux {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A build directory has nothing to check.
    #[error(
        "{path}: no commands of a kernel build there (.*.o.cmd); build something first, such as \
         `make LLVM=-22 kernel/sched/core.o`, and give the directory of the build (O=)"
    )]
    NoBuild {
        /// The directory.
        path: PathBuf,
    },
    /// A profile or a layout is not of this build.
    #[error(
        "{path}: only {per_cent} % of its {what} belong to functions of this build: it is of \
         another tree or another configuration. Record a kernel of this build and make it anew"
    )]
    ForeignProfile {
        /// The file.
        path: PathBuf,
        /// What was looked for: samples or functions.
        what: &'static str,
        /// How many of a hundred were found.
        per_cent: u32,
    },
    /// A profile is of a kernel that another compiler made.
    #[error(
        "{path}: taken from a kernel compiled by {profile}, and this build compiles with {build}: \
         counts can be of other code there. Either {next} a kernel of this build and make the \
         profile anew, or use it all the same with --any-compiler"
    )]
    ForeignCompiler {
        /// The profile.
        path: PathBuf,
        /// The compiler that it names.
        profile: String,
        /// The compiler of the build.
        build: String,
        /// What to do first.
        next: String,
    },
    /// make cannot take this name.
    #[error(
        "{path}: make cannot take a name with blanks, quotes, `$`, `#` or `\\` in it; build \
         elsewhere"
    )]
    Path {
        /// The name.
        path: PathBuf,
    },
    /// What was asked for cannot be had, and why.
    #[error("{0}")]
    Wanted(String),
    /// Something failed in the course of it.
    #[error("{doing}: {source}")]
    Failed {
        /// What was being done.
        doing: String,
        /// Why it failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A measurement that could not be made or kept.
    #[error("{0}")]
    Compare(#[from] compare::Error),
    /// A kernel or a module that cannot be read.
    #[error("{0}")]
    Image(#[from] image::Error),
    /// Branches that could not be counted in the kernel.
    #[error("{0}")]
    Counts(counts::Error),
    /// A machine that could not be run.
    #[error("{0}")]
    Record(#[from] record::Error),
    /// make failed.
    #[error("make failed ({status}); {next}: {log}\n{tail}")]
    Make {
        /// How it ended.
        status: String,
        /// What to do next.
        next: &'static str,
        /// Where all that it said stands.
        log: PathBuf,
        /// The last lines of that.
        tail: String,
    },
    /// Kernels cannot be timed without KVM.
    #[error(
        "{}: kernels are timed on the CPU by KVM, which is not available here, and an emulator's \
         time says nothing about a CPU's. Measure on a machine with KVM, as a user who may open \
         that file; or count with `planish kernel measure`, which needs no CPU; or give --emulated \
         to compare an emulator's times all the same",
        kvm.display()
    )]
    NoKvm {
        /// The device.
        kvm: PathBuf,
        /// Why it cannot be opened.
        source: std::io::Error,
    },
    /// No compiler for the workload.
    #[error("no C compiler for the workload: {tried} not found; install clang or gcc, or name one")]
    NoCompiler {
        /// The names, comma separated.
        tried: String,
    },
    /// The workload does not compile or link.
    #[error(
        "{compiler} ({status}) could not make a static program of the workload: {said}; it needs \
         the C library's headers and its static form libc.a ({c_library})"
    )]
    Workload {
        /// The compiler.
        compiler: String,
        /// How it ended.
        status: String,
        /// The line of its messages that tells most, shortened.
        said: String,
        /// Packages that have the C library.
        c_library: &'static str,
    },
}

impl Error {
    /// An error of the system about a file.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { path, source }
    }

    /// An error with what was being done.
    pub fn doing<E>(doing: impl Into<String>) -> impl FnOnce(E) -> Error
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let doing = doing.into();
        move |source| Error::Failed { doing, source: source.into() }
    }

    /// What is wrong with a file.
    pub fn of_file(path: &Path, problem: &str) -> Error {
        Error::Wanted(format!("{}: {problem}", path.display()))
    }
}
