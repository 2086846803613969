//! Which files does a plan make, and what are they called?

use crate::STATE_DIRECTORY;
use crate::config::{Compiler, Config};
use crate::images::{self, ProjectImage};
use crate::shared_names;
use std::path::{Path, PathBuf};

/// The ending of the program of the project's own release build.
pub const RELEASE: &str = "release";

/// In there: what the relink did with each object.
pub(crate) const OBJECTS_LOG: &str = "relink.objects";

/// Names of the files a plan makes, relative to the directory of planish.toml.
#[derive(Clone, Debug)]
pub struct Files {
    /// The directory handed to all builds as PLANISH_OUT.
    ///
    /// One directory for all: names of static functions hold a hash of the source path, so a
    /// generated source file in a directory of another name would lose its profile.
    pub out: PathBuf,
    /// The baseline program.
    pub base: PathBuf,
    /// The program rebuilt with its profile.
    pub opt: PathBuf,
    /// Counts per image address.
    pub counts: PathBuf,
    /// How the training was timed, where it was.
    pub training: PathBuf,
    /// What each recording gave to the counts.
    pub counted: PathBuf,
    /// The profile for the compiler.
    pub profile: PathBuf,
    /// What the profile rests on.
    pub profile_summary: PathBuf,
    /// What the check of the rebuild found.
    pub verify: PathBuf,
    /// What the layout is worth.
    pub layout: PathBuf,
    /// What the relink did with each object.
    pub objects: PathBuf,
    /// What the check of the relink found.
    pub layout_verify: PathBuf,
    /// The report for people.
    pub report_markdown: PathBuf,
    /// The report for programs.
    pub report_json: PathBuf,
    /// The same as a page.
    pub report_page: PathBuf,
    /// Evaluation commands.
    pub evaluations: usize,
    /// Name of the program.
    pub name: String,
    /// The libraries of the project, and where the variants have them.
    build: crate::config::Build,
}

impl Files {
    /// The names for a configuration.
    pub fn of(config: &Config) -> Files {
        let folder = Path::new(STATE_DIRECTORY);
        let name = Path::new(&config.build.binary)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let suffix = if config.build.compiler == Compiler::Gcc { "gcov" } else { "afdo" };
        Files {
            out: folder.join("build"),
            base: images::program(&config.build, "base"),
            opt: images::program(&config.build, "opt"),
            counts: folder.join("run.counts"),
            training: Round::FIRST.training(),
            counted: Round::FIRST.counted(),
            profile: folder.join(format!("{name}.{suffix}")),
            profile_summary: folder.join("profile.json"),
            verify: folder.join("verify.json"),
            layout: folder.join("layout.json"),
            objects: folder.join(OBJECTS_LOG),
            layout_verify: folder.join("layout-verify.json"),
            report_markdown: folder.join("report.md"),
            report_json: folder.join("report.json"),
            report_page: folder.join("report.html"),
            evaluations: config.evaluate.command.all().len(),
            name,
            build: config.build.clone(),
        }
    }

    /// A program by its ending ([`Measured::ending`]).
    pub fn program(&self, ending: &str) -> PathBuf {
        images::program(&self.build, ending)
    }

    /// An image of a variant, by the variant's ending.
    pub fn image(&self, ending: &str, image: &ProjectImage) -> PathBuf {
        images::kept(&self.build, ending, image)
    }

    /// The file of one image, given that of the program: `verify.json` becomes
    /// `libapp.so.verify.json`.
    pub fn of_image(&self, image: &ProjectImage, of_program: &Path) -> PathBuf {
        if image.is_program {
            return of_program.to_owned();
        }
        let name = of_program.file_name().unwrap_or_default().to_string_lossy();
        of_program.with_file_name(format!("{}.{name}", image.name))
    }

    /// What the checks of the layout on the program that was rebuilt with its own counters found,
    /// one for each image.
    pub fn counted_layout_verifies(&self) -> Vec<PathBuf> {
        let of = |image| Round::COUNTED.path_of_relink(&self.of_image(image, &self.layout_verify));
        images::images(&self.build).iter().map(of).collect()
    }

    /// What the names of the layout's two files begin with.
    pub fn layout_prefix(&self) -> PathBuf {
        Path::new(STATE_DIRECTORY).join(&self.name)
    }

    /// The profile of one image alone; that of all where there is only the program.
    pub fn profile_of(&self, image: &ProjectImage) -> PathBuf {
        match self.build.libraries.is_empty() {
            true => self.profile.clone(),
            false => shared_names::part(&self.profile, &image.name),
        }
    }

    /// Which functions several images have, where layouts were merged.
    pub fn merged_layouts(&self) -> PathBuf {
        Path::new(STATE_DIRECTORY).join("merged-layouts.json")
    }

    /// The recording of the n-th training command.
    pub fn recording(&self, n: usize) -> PathBuf {
        Round::FIRST.recording(n)
    }

    /// The comparison on the n-th evaluation command, as JSON.
    pub fn comparison(&self, n: usize) -> PathBuf {
        Path::new(STATE_DIRECTORY).join(format!("compare-{}.json", n + 1))
    }

    /// The raw runs of the n-th comparison.
    pub fn runs(&self, n: usize) -> PathBuf {
        Path::new(STATE_DIRECTORY).join(format!("runs-{}.jsonl", n + 1))
    }

    /// Taken branches of a program (by its ending) on the n-th evaluation command.
    pub fn branches(&self, which: &str, n: usize) -> PathBuf {
        Path::new(STATE_DIRECTORY).join(format!("branches-{which}-{}.json", n + 1))
    }
}

/// A program that a plan measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Its ending: `base`, `opt`, `opt2`, `layout`, `rest`, `pgo`, `bolt`, `pgo-bolt`, `pgo-layout`,
    /// `release`.
    pub ending: &'static str,
    /// Its file.
    pub path: PathBuf,
    /// Name of the step that makes it.
    pub step: &'static str,
    /// True when the rest is worth measuring without it.
    pub optional: bool,
}

impl Measured {
    /// Whether it is the project's own release build, which is there to be measured and for nothing
    /// else.
    pub fn is_release(&self) -> bool {
        self.ending == RELEASE
    }
}

/// The profile that the last rebuild of [`crate::plan::optimize`] uses.
pub fn last_profile(config: &Config) -> PathBuf {
    last_round(config).named(&Files::of(config).profile)
}

/// What the last profile of [`crate::plan::optimize`] rests on.
pub fn last_summary(config: &Config) -> PathBuf {
    last_round(config).named(&Files::of(config).profile_summary)
}

/// What the check of the last rebuild of [`crate::plan::optimize`] found.
pub fn last_verify(config: &Config) -> PathBuf {
    last_round(config).named(&Files::of(config).verify)
}

/// The file of the last round, given that of the first.
pub fn last(config: &Config, first: &Path) -> PathBuf {
    last_round(config).named(first)
}

pub(crate) fn last_round(config: &Config) -> Round {
    Round { number: config.optimize.profile_rounds() }
}

/// Which program is recorded: 1 the baseline, then what the round before made. The program that was
/// rebuilt with its own counters stands beside them ([`Round::COUNTED`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    /// From 1; 0 is [`Round::COUNTED`].
    pub number: usize,
}

impl Round {
    pub(crate) const FIRST: Round = Round { number: 1 };
    pub(crate) const COUNTED: Round = Round { number: 0 };

    pub(crate) fn next(self) -> Round {
        Round { number: self.number + 1 }
    }

    /// The ending of the program that is recorded.
    pub(crate) fn recorded(self) -> &'static str {
        match self.number {
            0 => "pgo",
            1 => "base",
            2 => "opt",
            _ => "opt2",
        }
    }

    /// The ending of the program that a rebuild with its profile makes.
    pub(crate) fn rebuilt(self) -> &'static str {
        Round::next(self).recorded()
    }

    /// The name of a step or a file of its relink, or the ending of the program that is made, given
    /// that of the result's.
    pub(crate) fn of_relink(self, name: &str) -> String {
        if self == Round::COUNTED { self.prefix() + name } else { name.to_owned() }
    }

    /// The same of a path.
    pub(crate) fn path_of_relink(self, path: &Path) -> PathBuf {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.with_file_name(self.of_relink(&name))
    }

    /// Begins the names of its steps of observation.
    pub(crate) fn prefix(self) -> String {
        if self == Round::FIRST { String::new() } else { format!("{}-", self.recorded()) }
    }

    /// Begins the names of its steps of rebuilding.
    pub(crate) fn ordinal(self) -> &'static str {
        if self == Round::FIRST { "" } else { "second-" }
    }

    /// The name of a file of its rebuild, given that of the first round.
    pub(crate) fn named(self, first: &Path) -> PathBuf {
        let name = first.file_name().unwrap_or_default().to_string_lossy();
        first.with_file_name(format!("{}{name}", self.ordinal()))
    }

    pub(crate) fn file(self, name: &str) -> PathBuf {
        Path::new(STATE_DIRECTORY).join(format!("{}{name}", self.prefix()))
    }

    pub(crate) fn recording(self, n: usize) -> PathBuf {
        self.file(&format!("train-{}.data", n + 1))
    }

    /// How its training was timed.
    pub(crate) fn training(self) -> PathBuf {
        self.file("training.json")
    }

    /// What each of its recordings gave to the counts.
    pub(crate) fn counted(self) -> PathBuf {
        self.file("counted.json")
    }

    pub(crate) fn counts(self) -> PathBuf {
        self.file("run.counts")
    }
}

pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
