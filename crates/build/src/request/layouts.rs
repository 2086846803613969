//! Which requests compute a layout and check that a program has it, and which optimise a program in
//! another way, for comparison?

use crate::call::{Call, Input, Output};
use crate::pages::Pages;
use crate::words::quoted;
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

    /// The files of a prefix.
    fn named(self, prefix: &Path) -> impl Iterator<Item = PathBuf> {
        self.endings().iter().map(move |ending| {
            let mut name = prefix.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        })
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
    /// Whether the program may have no samples: the files are then empty.
    pub allow_empty: bool,
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
            .with_if(self.clone, "--clone")
            .with_if(self.allow_empty, "--allow-empty");
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
        let made = self.kind.named(&self.prefix);
        call.collect = made.zip(self.files.iter().cloned()).collect();
        call
    }
}

/// Put the layouts of several images into one, for a build command that makes all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeLayouts {
    /// What the names of the layouts' files begin with; some of them may be empty.
    pub parts: Vec<PathBuf>,
    /// What the names of the merged files begin with until they are whole: in a directory of this
    /// request's own, which is emptied before.
    pub prefix: PathBuf,
    /// The files, one for each ending of [`LayoutKind::Propeller`].
    pub files: Vec<Output>,
    /// Which functions several images have.
    pub found: Output,
}

impl MergeLayouts {
    pub(super) fn call(&self) -> Call {
        let mut call = Call::planish(["layout", "merge"])
            .with_all(self.parts.iter().map(PathBuf::as_path))
            .with("--prefix")
            .with(self.prefix.as_path())
            .with_json(&self.found);
        let kind = LayoutKind::Propeller;
        let read = self.parts.iter().flat_map(|part| kind.named(part).collect::<Vec<_>>());
        call.reads = read.map(|path| Input::from(&path)).collect();
        call.fresh_directories.extend(self.prefix.parent().map(Path::to_owned));
        call.collect = kind.named(&self.prefix).zip(self.files.iter().cloned()).collect();
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
    /// Whether the program may have no samples, and so no layout.
    pub allow_empty: bool,
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
            .with_if(self.allow_empty, "--allow-empty")
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
    /// What it knows, by the names of functions, for other links of the program; nowhere where
    /// there are none.
    pub named: Option<Output>,
    /// How it is written.
    pub pages: Pages,
}

/// What BOLT's own documentation recommends.
const BOLT_OPTIONS: [&str; 4] =
    ["-reorder-blocks=ext-tsp", "-reorder-functions=cdsort", "-split-functions", "-split-all-cold"];

impl Bolt {
    pub(super) fn call(&self) -> Call {
        let call = Call::named(&self.tool).with(&self.binary).with("-o").with(&self.output);
        let call = match &self.knowledge {
            BoltKnowledge::Counts(counts) => call.with_all(["-pa", "-p"]).with(counts),
            BoltKnowledge::Functions { profile, names } => {
                call.with("-data").with(profile).with("-funcs-file-no-regex").with(names)
            }
        };
        let call = match &self.named {
            Some(named) => call.with("-w").with(named),
            None => call,
        };
        call.with_all(BOLT_OPTIONS).with_pages(&self.output, self.pages)
    }

    /// The shell line that does the same to another link of the program, `{in}`, and makes `{out}`
    /// of it; what it reads. Counts are of addresses, which another link has not.
    pub fn line(&self) -> Option<(String, Vec<Input>)> {
        let name = |path: &Path| quoted(&path.to_string_lossy());
        let (knowledge, reads) = match (&self.knowledge, &self.named) {
            (BoltKnowledge::Functions { profile, names }, _) => (
                format!(
                    "-data={} -funcs-file-no-regex={}",
                    name(profile.as_ref()),
                    name(names.as_ref())
                ),
                vec![profile.clone(), names.clone()],
            ),
            (BoltKnowledge::Counts(_), named) => {
                let named = named.as_ref()?.as_ref();
                (format!("-data={}", name(named)), vec![Input::from(named)])
            }
        };
        let (tool, options) = (quoted(&self.tool), BOLT_OPTIONS.join(" "));
        Some((format!("{tool} {{in}} -o {{out}} {knowledge} {options}"), reads))
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
