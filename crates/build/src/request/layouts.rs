//! Which requests compute a layout and check that a program has it, and which optimise a program in
//! another way, for comparison?

use crate::call::{Call, Input, Output};
use crate::pages::Pages;
use std::path::{Path, PathBuf};

/// What is written for a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutKind {
    /// The cc profile and the ld profile, for clang and lld.
    Propeller,
    /// Counts as BOLT reads them.
    Preaggregated,
    /// Functions that a layout cannot reach, as BOLT reads them: branch profile and names.
    Rest,
}

impl LayoutKind {
    /// What the names of the files end in, behind the prefix.
    pub(crate) fn endings(self) -> &'static [&'static str] {
        match self {
            LayoutKind::Propeller => &["_cc_profile.txt", "_ld_profile.txt"],
            LayoutKind::Preaggregated => &["_preaggregated.txt"],
            LayoutKind::Rest => &["_rest.fdata", "_rest_functions.txt"],
        }
    }
}

/// Compute a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Counts, or a recording.
    pub counts: Input,
    /// The program that was recorded.
    pub binary: Input,
    /// What is written.
    pub kind: LayoutKind,
    /// What the names of the files begin with until they are whole.
    pub prefix: PathBuf,
    /// Whether the prefix's directory is this request's alone, and is emptied before.
    pub own_directory: bool,
    /// Whether it may clone blocks along paths.
    pub clone: bool,
    /// The files, one for each of [`LayoutKind`]'s endings.
    pub files: Vec<Output>,
    /// What the layout is worth, where that is wanted.
    pub summary: Option<Output>,
}

impl Layout {
    pub(super) fn call(&self) -> Call {
        let mut call = Call::planish(["layout"])
            .with(&self.counts)
            .with("--binary")
            .with(&self.binary)
            .with("--prefix")
            .with(self.prefix.as_path())
            .with_if(self.clone, "--clone");
        call = match self.kind {
            LayoutKind::Propeller => call,
            LayoutKind::Preaggregated => call.with_option("--emit", "preaggregated"),
            LayoutKind::Rest => call.with_option("--emit", "rest"),
        };
        if let Some(summary) = &self.summary {
            call = call.with_json(summary);
        }
        let directory = self.prefix.parent().filter(|_| self.own_directory);
        call.fresh_directories.extend(directory.map(Path::to_owned));
        let made = self.kind.endings().iter().map(|ending| {
            let mut name = self.prefix.clone().into_os_string();
            name.push(ending);
            PathBuf::from(name)
        });
        call.collect = made.zip(self.files.iter().cloned()).collect();
        call
    }
}

/// Check that a program has its layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutVerify {
    /// What the layout was computed from.
    pub counts: Input,
    /// The program that was recorded.
    pub binary: Input,
    /// Whether the layout may have cloned blocks.
    pub clone: bool,
    /// The program with the layout.
    pub new: Input,
    /// What was found.
    pub found: Output,
}

impl LayoutVerify {
    pub(super) fn call(&self) -> Call {
        let mut call = Call::planish(["layout", "verify"])
            .with(&self.counts)
            .with("--binary")
            .with(&self.binary)
            .with_if(self.clone, "--clone")
            .with("--new")
            .with(&self.new)
            .with_json(&self.found);
        // A few sections at another place are no reason to stop; the report tells them.
        call.negative_is_fine = true;
        call
    }
}

/// What BOLT is told of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoltKnowledge {
    /// Pre-aggregated counts of the program itself: all functions are laid out.
    Counts(Input),
    /// A branch profile of some functions, and their names: the others stay where they are.
    Functions {
        /// The branch profile (fdata).
        profile: Input,
        /// The names, one a line.
        names: Input,
    },
}

/// Lay a program out with BOLT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bolt {
    /// llvm-bolt.
    pub tool: String,
    /// The program, with its relocations.
    pub binary: Input,
    /// What is known of its runs, and of which functions.
    pub knowledge: BoltKnowledge,
    /// The program with the layout.
    pub output: Output,
    /// How it is written.
    pub pages: Pages,
}

impl Bolt {
    pub(super) fn call(&self) -> Call {
        let call = Call::named(&self.tool).with(&self.binary).with("-o").with(&self.output);
        let call = match &self.knowledge {
            BoltKnowledge::Counts(counts) => call.with_all(["-pa", "-p"]).with(counts),
            BoltKnowledge::Functions { profile, names } => {
                call.with("-data").with(profile).with("-funcs-file-no-regex").with(names)
            }
        };
        call
            // What BOLT's own documentation recommends.
            .with_all([
                "-reorder-blocks=ext-tsp",
                "-reorder-functions=cdsort",
                "-split-functions",
                "-split-all-cold",
            ])
            .with_pages(&self.output, self.pages)
    }
}

/// Merge what clang's instrumented programs counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeCounters {
    /// llvm-profdata.
    pub tool: String,
    /// The folders that they counted into.
    pub folders: Vec<Input>,
    /// The merged counters.
    pub output: Output,
}

impl MergeCounters {
    pub(super) fn call(&self) -> Call {
        Call::named(&self.tool).with_all(["merge", "-o"]).with(&self.output).with_all(&self.folders)
    }
}
