//! What can go wrong between planish.toml and a rebuilt program, with the cause and the next step.

use std::path::PathBuf;

/// Why a build could not be planned, run or trusted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// planish.toml is missing.
    #[error("{path}: there is no such file; `planish init` writes one to fill in")]
    NoConfig {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// planish.toml is wrong.
    #[error("{path}: {problem}")]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the line where known.
        problem: String,
    },
    /// A file cannot be read or written.
    #[error("{path}: {action}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A tool is missing.
    #[error("{tool} is not installed or not in PATH; {next}")]
    NoTool {
        /// The tool.
        tool: String,
        /// What to do.
        next: String,
    },
    /// A step ended badly.
    #[error("step {step} failed: {found}\n  command: {command}\n{said}  whole output: {log}")]
    Step {
        /// The step's name.
        step: String,
        /// How it ended.
        found: String,
        /// The command as a shell would take it.
        command: String,
        /// Its last lines, indented, each with a line end.
        said: Box<str>,
        /// The file with all it said.
        log: PathBuf,
        /// Whether it was planish's own, and the machine lacks what it needs (its exit code 3).
        lacking: bool,
    },
    /// A step ended well but did not make what it promised.
    #[error("step {step} ended well but made no {path}; {next}")]
    NoOutput {
        /// The step's name.
        step: String,
        /// The missing file.
        path: PathBuf,
        /// What to check.
        next: String,
    },
    /// A program runs with libraries of its project that are not kept with it.
    #[error(
        "step {step} ended well, but {program} runs with shared libraries from $PLANISH_OUT: {found}. \
         Every build overwrites them, so all variants would run with those of the last build; {next}, or \
         link them statically (CMake: -DBUILD_SHARED_LIBS=OFF, autotools: --disable-shared)"
    )]
    OwnLibraries {
        /// The step's name.
        step: String,
        /// The program.
        program: PathBuf,
        /// The libraries, below the directory of the builds.
        found: String,
        /// What else can be done.
        next: String,
    },
    /// A program that is to be recorded does not say which lines its instructions are of.
    #[error(
        "step {step} ended well, but {program} has no debug information, and without it there is no \
         profile; the build command must hand PLANISH_CFLAGS and PLANISH_CXXFLAGS (Rust: \
         PLANISH_RUSTFLAGS) on to every compilation, and must not strip the program (`-s` for the \
         link, `install -s`)"
    )]
    NoLines {
        /// The step's name.
        step: String,
        /// The program.
        program: PathBuf,
    },
    /// A program that is to be laid out does not say which blocks it has.
    #[error(
        "step {step} ended well, but {program} has no map of its basic blocks \
         (.llvm_bb_addr_map), and without one there is no layout; {next}, or leave \"propeller\" \
         out of [optimize] steps"
    )]
    NoBlockMap {
        /// The step's name.
        step: String,
        /// The program.
        program: PathBuf,
        /// What to check.
        next: &'static str,
    },
    /// The user asked to stop.
    #[error(
        "interrupted in step {step}; the finished steps are kept, the same command goes on from \
         here"
    )]
    Interrupted {
        /// The step that was under way.
        step: String,
    },
    /// A source was edited while planish was at work.
    #[error(
        "{} changed after step {before} had built its program and before step {step}{}: programs of \
         different sources would be compared. Run the same command again, which builds all of them \
         anew. If the workload or the tests write this file, name in `sources` of [build] only what the \
         programs are made from", file.display(), and_more(*others)
    )]
    SourceChanged {
        /// The first of the files.
        file: PathBuf,
        /// How many others there are.
        others: usize,
        /// The step that built the program before.
        before: String,
        /// The step that was to build another.
        step: String,
    },
    /// A training command cannot be run, or ends badly.
    #[error("{0}")]
    Training(String),
    /// A training command cannot be recorded on this machine.
    #[error("{0}")]
    CannotRecord(String),
    /// A layout that was named is not there.
    #[error(
        "{file}: there is no such file; `planish layout --prefix {}` writes it", prefix.display()
    )]
    NoLayout {
        /// The missing file.
        file: PathBuf,
        /// The prefix that was given.
        prefix: PathBuf,
    },
    /// Compiler flags cannot name the profile.
    #[error(
        "{0}: the path has a blank or a sign that shells take for themselves, and compiler flags \
         are cut there; move or rename it (or the program, if its name has the blank)"
    )]
    Path(PathBuf),
    /// planish cannot stand in for both compilers.
    #[error(
        "[build] cc and cxx both name {0}, with other arguments; for a layout planish stands in for each \
         by its name: name them by two names"
    )]
    SameCompiler(String),
    /// A compiler is named that does not take the flags of the family.
    #[error(
        "[build] {named:?} is {is}, and compiler = \"{family}\", whose flags it does not take: set \
         compiler = \"{is}\" (--set build.compiler={is}), or name a {family} there"
    )]
    Family {
        /// The line that names it.
        named: String,
        /// What it is, by its name.
        is: &'static str,
        /// What `compiler` says.
        family: &'static str,
    },
    /// planish cannot stand in for what runs the compiler.
    #[error(
        "[build] {0:?}: for a layout planish stands in for the compiler, and it does not know {1}, which \
         stands before it; name the compiler alone, or leave the layout out \
         (--set 'optimize.steps=[\"autofdo\"]')"
    )]
    Launcher(String, String),
    /// Another process runs steps in the directory.
    #[error("another planish{pid} works in {directory}; wait for it, or end it")]
    Locked {
        /// The directory of planish.toml.
        directory: PathBuf,
        /// ` (pid N)` where known.
        pid: String,
    },
    /// A program cannot be written to where it is kept.
    #[error(transparent)]
    Pages(superpages::Error),
    /// The program is Rust's, and its compiler takes no profile.
    #[error(
        "the build command calls rustc, and this rustc takes no -Z flags, which sample profiles \
         need (-Zprofile-sample-use, -Zdebug-info-for-profiling); set RUSTC_BOOTSTRAP=1 in the \
         environment, which lets a stable rustc take them, or use a nightly one \
         (RUSTUP_TOOLCHAIN=nightly, or rust-toolchain.toml); nothing was built"
    )]
    NoRustProfiles,
    /// The linker is to compile rustc's code, and is older than it.
    #[error(
        "rustc writes bitcode of LLVM {rust}, which {cc} and its linker, of LLVM {clang}, cannot \
         read, and a layout reaches code of rustc only through the linker; install clang-{rust} \
         and lld-{rust}, or name such a clang with cc = … in [build], or leave the layout and \
         thinlto out (--set 'optimize.steps=[\"autofdo\"]'); nothing was built"
    )]
    LinkerBehindRust {
        /// The LLVM release of rustc.
        rust: u32,
        /// The C compiler.
        cc: String,
        /// Its LLVM release.
        clang: u32,
    },
    /// A file that was named cannot be read or written.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The profile cannot be read.
    #[error("{path}: {source}")]
    Profile {
        /// The profile.
        path: PathBuf,
        /// What is wrong with it.
        source: profile::Error,
    },
    /// gcc reads another version of profiles.
    #[error(
        "{path}: a profile of version {found}, of which gcc {major} uses nothing: it reads \
         version {wanted}; make it again with planish profile --emit gcov --gcc-version {major}"
    )]
    OtherGcc {
        /// The profile.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The major version of the gcc that built the program.
        major: u32,
        /// The version that this one reads.
        wanted: u32,
    },
    /// A program cannot be read.
    #[error(transparent)]
    Image(#[from] image::Error),
    /// A comparison cannot be read or judged.
    #[error(transparent)]
    Compare(#[from] compare::Error),
    /// A linker is missing.
    #[error(transparent)]
    Relink(#[from] relink::Error),
    /// A directory shows no build system, or not the one that was asked for.
    #[error("{directory}: no {looked_for} here; {next}", directory = directory.display())]
    NoBuildSystem {
        /// The directory.
        directory: PathBuf,
        /// Names of files.
        looked_for: String,
        /// What to do.
        next: String,
    },
    /// A project makes no such program.
    #[error(
        "{directory}: its files for {kind} name no program{wanted}; there: {there}; give one as \
         --program NAME, or with --build 'COMMAND' by its path below $PLANISH_OUT",
        directory = directory.display()
    )]
    NoSuchProgram {
        /// The directory.
        directory: PathBuf,
        /// Its build system.
        kind: crate::recognise::Kind,
        /// The name, quoted and with a blank before it; empty where any would do.
        wanted: String,
        /// Those that there are.
        there: String,
    },
    /// `--set` says what no planish.toml can.
    #[error("--set {setting}: {problem}")]
    Setting {
        /// As given.
        setting: String,
        /// What is wrong.
        problem: String,
    },
    /// The rebuilt program cannot have used the profile.
    #[error("{0}")]
    Unused(String),
}

fn and_more(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => " (and 1 more file)".to_owned(),
        others => format!(" (and {others} more files)"),
    }
}
