//! What stands around a planish.toml: its directory, the compilers it asks for, and what they can?

use crate::composed::{Meant, Said};
use crate::config::{Build, Compiler, Config};
use crate::gnu_link;
use crate::optimization::Alternative;
use crate::plan::{self, Files};
use crate::target::{Knowledge, LayoutFiles, Target, absolute, build_step};
use crate::toolchain::compiler_of;
use crate::{Error, Plan, Rust, Toolchain};
use programs::Surroundings;
use record::Branches;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A planish.toml with its surroundings.
#[derive(Clone, Debug)]
pub struct Project {
    /// What it says.
    pub config: Config,
    /// Its absolute directory.
    pub directory: PathBuf,
    /// Its name there.
    pub file: String,
    /// The user's own file, where --set made another of it.
    given: Option<PathBuf>,
    /// The compilers it asks for.
    pub tools: Toolchain,
    /// What its build command says of rustc.
    pub rust: Rust,
    /// What a run may find that was not looked at, in plain sentences.
    pub notes: Vec<String>,
}

/// What a project is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// To be looked at: nothing that it names or holds is run.
    Reading,
    /// To be built: its own commands run anyway, and its toolchain is the one that counts.
    Running,
}

impl Project {
    /// Opens a configuration; a directory stands for the planish.toml in it.
    ///
    /// # Errors
    /// Where it cannot be read, is wrong, or asks for a compiler that is not there.
    pub fn open(path: &Path, asking: Asking) -> Result<Project, Error> {
        Project::of(Said::default().meant(path)?, asking)
    }

    /// Opens what a command line and a file mean together; written down where it is to be built.
    ///
    /// # Errors
    /// As [`Project::open`], and where it cannot be written.
    pub fn of(meant: Meant, asking: Asking) -> Result<Project, Error> {
        if asking == Asking::Running {
            meant.write()?;
        }
        let Meant { mut config, path, said_in, notes, .. } = meant;
        let wrong = |problem: String| Error::Config { path: said_in.clone(), problem };
        // The CPU's branch records come first whatever else there is; without them, how long the
        // training takes decides when it runs.
        if config.record.branches == Branches::Auto && record::live::has_hardware_branches() {
            config.record.branches = Branches::Hardware;
        }
        let mut tools = Toolchain::find(&config.build, &std::env::var("PATH").unwrap_or_default())?;
        let unreadable = |source| Error::Read { path: path.clone(), source };
        let full = std::path::absolute(&path).map_err(unreadable)?;
        let Some((directory, file)) = crate::composed::place(&full) else {
            return Err(wrong("not a file".into()));
        };
        let directory = &directory.canonicalize().map_err(unreadable)?;
        let probes = Probes::new(asking, directory);
        if config.optimize.also.contains(&Alternative::Pgo) {
            tools.no_counters = probes.missing_counters(&compiler_of(&tools.cc));
        }
        config.check_paths(directory, &said_in)?;
        if let Some(problem) = launched_in_cmake(&config.build) {
            return Err(wrong(problem));
        }
        let by_gcc = config.build.compiler == Compiler::Gcc && config.evaluate.layouts > 0;
        if by_gcc && asking == Asking::Running {
            gnu_link::name_linker(directory)?;
        }
        let linked = by_gcc.then(|| {
            "[evaluate] layouts: lld links these programs, as only it repeats a link in other layouts; \
             without the key it is the linker that gcc takes by itself"
                .to_owned()
        });
        let rust = Rust::of(&config.build, directory);
        // A compiler that the project names is not the one that answers here.
        tools.rust_takes_z = rust.takes_z || probes.rust_takes_z();
        if rust.used && config.optimize.linker_compiles_rust(&config.build) {
            tools.llvm_of_rust = probes.release("rustc", "-vV", "LLVM version:");
            tools.llvm_of_clang =
                probes.release(&compiler_of(&tools.cc), "--version", "clang version");
        }
        let flags = unused_flags(&config.build);
        Ok(Project {
            notes: notes.into_iter().chain(probes.notes()).chain(flags).chain(linked).collect(),
            config,
            directory: directory.to_owned(),
            file: file.to_string_lossy().into_owned(),
            given: said_in
                .canonicalize()
                .ok()
                .and_then(|given| given.strip_prefix(directory).ok().map(Path::to_owned)),
            tools,
            rust,
        })
    }

    /// The steps of `planish optimize`.
    ///
    /// # Errors
    /// Where the project asks for what cannot be planned.
    pub fn plan(&self) -> Result<Plan, Error> {
        let mut plan = plan::optimize(&self.config, &self.tools, &self.directory, &self.file)?;
        plan.steps.iter_mut().for_each(|step| step.not_inputs.extend(self.given.clone()));
        Ok(plan)
    }

    /// The one step that builds the program with what is given: a layout goes with the profile of
    /// the last rebuild, unless another is named. Also where the program is kept: `output`, or a
    /// place in the state directory.
    ///
    /// # Errors
    /// Where the compiler takes no profile, a path cannot be named in flags, or a file is missing.
    pub fn build(
        &self,
        profile: Option<&Path>,
        layout: Option<&Path>,
        output: Option<&Path>,
    ) -> Result<(Plan, PathBuf), Error> {
        let files = Files::of(&self.config);
        let layout = layout.map(LayoutFiles::open).transpose()?;
        let last = layout.as_ref().map(|_| plan::last_profile(&self.config));
        let profile = profile.map(absolute).transpose()?.or(last);
        let (name, default) = match (&layout, &profile) {
            (Some(_), _) => ("relink", files.program("layout")),
            (None, Some(_)) => ("rebuild", files.opt),
            (None, None) => ("build", files.base),
        };
        let kept = output.map(absolute).transpose()?.unwrap_or(default);
        // A baseline is built to be recorded, which would be for nothing.
        self.rust.check(&self.tools, &self.config)?;
        let knowledge = profile.as_deref().map_or(Knowledge::None, Knowledge::Profile);
        let reuses = layout.is_some() || profile.is_some() && self.config.optimize.lays_out();
        let plain = Target::plain(name, knowledge, &kept);
        let address_map = self.config.optimize.lays_out();
        let optimize = &self.config.optimize;
        let relocations = layout.is_some() && optimize.places_rest()
            || profile.is_some() && optimize.bolts_profiled();
        let target = Target { reuses, address_map, relocations, layout: layout.as_ref(), ..plain };
        let mut step = build_step(&self.config, &self.tools, &self.directory, target)?;
        step.not_inputs.extend([self.file.clone().into()].into_iter().chain(self.given.clone()));
        Ok((Plan { steps: vec![step] }, kept))
    }
}

/// Asks the compilers of a project.
struct Probes<'a> {
    asking: Asking,
    directory: &'a Path,
    around: Surroundings,
}

/// Flags of the environment that no build of planish's takes, unless the build command does.
fn unused_flags(build: &Build) -> Option<String> {
    let command = build.command.words().join(" ");
    let is_set = |name: &&str| {
        let value = std::env::var(name).unwrap_or_default();
        // `${CFLAGS}` and `$CFLAGS` take it; `CFLAGS="$PLANISH_CFLAGS"` replaces it.
        let taken =
            command.contains(&format!("${name}")) || command.contains(&format!("${{{name}"));
        let value = value.trim();
        !value.is_empty() && !taken && !build.flags.contains(value)
    };
    let names: Vec<&str> = ["CFLAGS", "CXXFLAGS", "LDFLAGS"].into_iter().filter(is_set).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{} of your environment may not reach the builds: what the project needs of it belongs in \
             [build] flags",
            names.join(", ")
        )
    })
}

impl<'a> Probes<'a> {
    fn new(asking: Asking, directory: &'a Path) -> Probes<'a> {
        let around = match asking {
            Asking::Reading => Surroundings::around(directory),
            Asking::Running => Surroundings::running(),
        };
        Probes { asking, directory, around }
    }

    /// What a run may find that was not looked at.
    fn notes(&self) -> Vec<String> {
        if self.asking == Asking::Running {
            return Vec::new();
        }
        let names = ["rust-toolchain.toml", "rust-toolchain"];
        let mut files = self.directory.ancestors().flat_map(|at| names.map(|name| at.join(name)));
        let file = files.find(|file| file.symlink_metadata().is_ok()).map(|file| {
            format!(
                "{}: not obeyed here, since it can name a program; a run asks the rustc that it \
                 names",
                file.display()
            )
        });
        let left_out: Vec<String> =
            self.around.left_out().iter().map(ToString::to_string).collect();
        let path = (!left_out.is_empty())
            .then(|| format!("PATH: nothing is asked in {}", left_out.join(", ")));
        file.into_iter().chain(path).collect()
    }

    /// What a compiler answers; none where it is not there, or where only the project's own word
    /// stands for it.
    fn output(&self, program: &str, arguments: &[&str]) -> Option<Output> {
        let mut command = match self.asking {
            Asking::Reading => self.around.ask(&self.around.find(program)?),
            Asking::Running => {
                let mut command = Command::new(program);
                command.current_dir(self.directory).stdin(Stdio::null());
                command
            }
        };
        command.args(arguments).output().ok()
    }

    /// Sample profiles are handed to rustc with `-Z`, which nightly builds take, and others with
    /// RUSTC_BOOTSTRAP=1.
    fn rust_takes_z(&self) -> bool {
        self.output("rustc", &["-Zhelp"]).is_some_and(|said| said.status.success())
    }

    /// The first number behind `words` in what a compiler says of itself.
    fn release(&self, program: &str, asked: &str, words: &str) -> Option<u32> {
        let said = self.output(program, &[asked])?;
        let said = String::from_utf8_lossy(&said.stdout);
        let (_, version) = said.split_once(words)?;
        version.trim_start().split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }

    /// The library that clang would link an instrumented program with, where it is not there.
    /// Debian packs it apart.
    fn missing_counters(&self, cc: &str) -> Option<PathBuf> {
        let dry = ["-fprofile-generate", "-###", "-x", "c", "/dev/null", "-o", "-"];
        let said = self.output(cc, &dry)?;
        let said = String::from_utf8_lossy(&said.stderr);
        let mut libraries =
            said.split_whitespace().map(|word| PathBuf::from(word.trim_matches('"')));
        let is_library = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("libclang_rt.profile"))
        };
        libraries.find(|path| is_library(path) && !path.is_file())
    }
}

/// What is wrong where CMake, which takes one program, is to use a compiler behind a launcher.
fn launched_in_cmake(build: &Build) -> Option<String> {
    let is_cmake = build.command.words().iter().any(|word| word.contains("CMAKE_C_COMPILER"));
    let mut lines = build.cc.iter().chain(&build.cxx);
    let (line, first) = lines.find_map(|line| {
        let first = crate::words::split_words(line).ok()?.into_iter().next()?;
        (first != compiler_of(line)).then_some((line, first))
    })?;
    is_cmake.then(|| {
        format!(
            "[build] {line:?}: CMake takes one program as its compiler; name that, and set \
             CMAKE_C_COMPILER_LAUNCHER={first} and CMAKE_CXX_COMPILER_LAUNCHER={first} in the environment"
        )
    })
}
