//! Which requests run a command of the user's: a build, a test, an instrumented program.

use crate::call::{Call, Input, Output, Word, Wrapper};
use crate::described::Described;
use crate::pages::Pages;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Which shared libraries of its own project a program may run with. All builds share one directory, so
/// that a library there is that of the last build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum LibraryRule {
    /// Any: nothing is built after it, or it is the user's to take away.
    #[default]
    Any,
    /// Those that are kept with it.
    Kept,
    /// None: programs alone are kept.
    Never,
}

/// Run the user's build command, and keep what it makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildCommand {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The compilers, flags and directories that it is handed.
    pub environment: BTreeMap<String, String>,
    /// What stands in the compilers' place, so that objects are kept or reused.
    pub wrappers: Vec<Wrapper>,
    /// What the program is built from.
    pub sources: Vec<Input>,
    /// The profile or the merged counters that the flags name.
    pub knowledge: Option<Input>,
    /// The files of the layout that the flags name.
    pub layout: Vec<Input>,
    /// Directories emptied before.
    pub fresh_directories: Vec<PathBuf>,
    /// Where the command leaves the program.
    pub made: PathBuf,
    /// Where the program is kept.
    pub program: Output,
    /// How it is written there.
    pub pages: Pages,
    /// What the program must say of itself.
    pub described: Described,
    /// Which libraries of the project the program may run with.
    pub libraries: LibraryRule,
    /// What else is kept: (made, output).
    pub more: Vec<(PathBuf, Output)>,
    /// What of it is kept only if it is the link of this program, else an empty file.
    pub may_lack: Vec<PathBuf>,
    /// How the program is made without the command, where that can be done.
    pub by_link: Option<LinkAgain>,
}

/// Link a program again in a layout, and run the build command only where that cannot be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkAgain {
    /// The archive of its link.
    pub archive: Input,
    /// What the names of the layout's files begin with.
    pub prefix: PathBuf,
}

impl BuildCommand {
    pub(super) fn call(&self) -> Call {
        let mut call = match &self.by_link {
            None => {
                let (program, arguments) = self.command.split_first().unzip();
                let call = Call::named(program.map_or("", String::as_str));
                call.with_all(arguments.unwrap_or_default())
            }
            Some(link) => {
                let call = Call::planish(["layout", "link", "--objects"]).with(&link.archive);
                let call = call.with("--prefix").with(link.prefix.as_path());
                let call = call.with("-o").with(self.made.as_path());
                call.with("--").with_all(&self.command)
            }
        };
        call.environment = self.environment.clone();
        call.wrappers = self.wrappers.clone();
        let built_from = self.sources.iter().chain(&self.knowledge).chain(&self.layout);
        call.reads = built_from.cloned().collect();
        call.fresh_directories = self.fresh_directories.clone();
        let kept = (self.made.clone(), self.program.clone());
        call.collect = std::iter::once(kept).chain(self.more.iter().cloned()).collect();
        call.may_lack = self.may_lack.clone();
        call.described = self.described;
        call.linked_program = Some((self.made.clone(), self.libraries));
        call.with_pages(&self.program, self.pages)
    }
}

/// Run a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserCommand {
    /// The program, found through PATH.
    pub program: String,
    /// Its arguments.
    pub words: Vec<Word>,
    /// Variables added to the environment.
    pub environment: BTreeMap<String, String>,
    /// What it reads without being told.
    pub reads: Vec<Input>,
    /// Directories emptied before.
    pub fresh_directories: Vec<PathBuf>,
}

impl UserCommand {
    pub(super) fn call(&self) -> Call {
        let mut call = Call::named(&self.program).with_all(self.words.iter().cloned());
        call.environment = self.environment.clone();
        call.reads = self.reads.clone();
        call.fresh_directories = self.fresh_directories.clone();
        call
    }
}
