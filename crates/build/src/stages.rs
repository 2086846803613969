//! The steps of each stage: observe a program, rebuild it with a profile, relink it in a layout,
//! measure it.

mod bolt;
mod images;
mod record;

use crate::STATE_DIRECTORY;
use crate::call::{Input, Output, Word};
use crate::config::{Command, Compiler, Config};
use crate::files::{
    Files, Measured, RELEASE, Round, last_profile, last_summary, last_verify, text,
};
use crate::request::{
    Compare, Layout, LayoutKind, MergeCounters, Report, Request, UserCommand, bound,
};
use crate::target::{
    Knowledge, Target, build_step, keeps_objects, linker_wrapper, release_request,
};
use crate::toolchain::Toolchain;
use crate::words::quoted;
use crate::{Error, Rust, Step};
use std::path::{Path, PathBuf};

/// Makes steps.
pub(crate) struct Stages<'a> {
    pub config: &'a Config,
    pub tools: &'a Toolchain,
    /// The absolute directory of planish.toml.
    pub directory: &'a Path,
    pub files: &'a Files,
    /// The training commands in words.
    pub training: Vec<Vec<String>>,
}

impl Stages<'_> {
    pub(crate) fn build(&self, target: Target) -> Result<Step, Error> {
        // What only counts is not measured.
        let counts = matches!(target.knowledge, Knowledge::Instrumented(_));
        let keeps_link = self.config.evaluate.layouts > 0 && !counts;
        let target = Target { keeps_link, ..target };
        build_step(self.config, self.tools, self.directory, target)
    }

    /// Records the program of a round and counts.
    pub(crate) fn observe(&self, round: Round) -> Vec<Step> {
        let program = self.files.program(round.recorded());
        self.record_all(round, &program)
    }

    /// Makes the profile of a round and rebuilds with it.
    pub(crate) fn rebuild(
        &self,
        round: Round,
        reuses: bool,
        relocations: bool,
    ) -> Result<Vec<Step>, Error> {
        let rebuilt = self.files.program(round.rebuilt());
        let (profiles, made) = self.profiles(round);
        let name = format!("{}rebuild", round.ordinal());
        let plain = Target::plain(&name, Knowledge::Profile(&made), &rebuilt);
        let link = if reuses { self.link_of(&rebuilt) } else { None };
        let build = self.build(Target { reuses, relocations, link: link.as_deref(), ..plain })?;
        let verified = self.verifications(round, &made);
        let test = self.test(round.rebuilt());
        Ok(profiles.into_iter().chain([build]).chain(verified).chain(test).collect())
    }

    /// Computes the layout of a round's images, applies it, and checks that it was applied.
    pub(crate) fn relink(&self, round: Round) -> Result<Vec<Step>, Error> {
        let kept = self.files.program(&round.of_relink("layout"));
        let (layouts, made) = self.layouts(round);
        let counted = round == Round::COUNTED;
        let known = if counted { self.counters() } else { last_profile(self.config) };
        let knowledge =
            if counted { Knowledge::Counters(&known) } else { Knowledge::Profile(&known) };
        let name = round.of_relink("relink");
        let plain = Target::plain(&name, knowledge, &kept);
        let relocations = !counted && self.config.optimize.places_rest();
        let link = self.link_of(&self.files.program(round.recorded()));
        let (layout, link) = (Some(&made), link.as_deref());
        let build = self.build(Target { reuses: true, relocations, layout, link, ..plain })?;
        let verified = self.layout_verifications(round);
        // Tests are for the programs of `steps`.
        let test = if counted { None } else { self.test("layout") };
        Ok(layouts.into_iter().chain([build]).chain(verified).chain(test).collect())
    }

    /// The archive of a program's link, where that alone can give it its layout: the linker compiles
    /// all that rustc makes.
    fn link_of(&self, program: &Path) -> Option<PathBuf> {
        let (build, optimize) = (&self.config.build, &self.config.optimize);
        let by_linker =
            optimize.linker_compiles_rust(build) && Rust::of(build, self.directory).used;
        // Such a link makes one program, without what BOLT needs of it, and leaves nothing to repeat.
        let repeated = self.config.evaluate.layouts > 0;
        let plain = build.libraries.is_empty() && !optimize.places_rest() && !repeated;
        let seen = linker_wrapper(self.tools, self.directory).is_some();
        (by_linker && plain && seen).then(|| compare::layouts::archive_beside(program))
    }

    /// What instrumented programs counted: one file (clang) or a folder (gcc).
    fn counters(&self) -> PathBuf {
        let state = Path::new(STATE_DIRECTORY);
        match self.config.build.compiler {
            Compiler::Clang => state.join(format!("{}.profdata", self.files.name)),
            Compiler::Gcc => state.join("pgo"),
        }
    }

    /// A layout of a round's program, which is written into `folder`; where its files are kept is
    /// the caller's to say.
    fn layout(&self, round: Round, folder: &str, kind: LayoutKind) -> Layout {
        Layout {
            counts: Input::from(&round.counts()),
            binary: Input::from(&self.files.program(round.recorded())),
            kind,
            prefix: Path::new(STATE_DIRECTORY).join(folder).join(&self.files.name),
            own_directory: true,
            clone: false,
            allow_empty: false,
            files: Vec::new(),
            summary: None,
        }
    }

    /// The project's own release build.
    pub(crate) fn release(&self) -> Option<Step> {
        let build = &self.config.build;
        let request = release_request(build, build.release.as_ref()?, self.directory);
        Some(Step::new(RELEASE, Request::Build(request)).optional())
    }

    /// The user's own tests of a program.
    fn test(&self, ending: &str) -> Option<Step> {
        let program = self.files.program(ending);
        // Absolute, because tests go to other directories.
        let path = text(&self.directory.join(&program));
        let words = match self.config.optimize.test.as_ref()? {
            Command::Line(line) => {
                vec!["sh".to_owned(), "-c".to_owned(), line.replace("{bin}", &quoted(&path))]
            }
            Command::Words(words) => {
                words.iter().map(|word| word.replace("{bin}", &path)).collect()
            }
        };
        let (first, words) = words.split_first()?;
        let sources = self.config.build.sources.iter().map(Input::from);
        let libraries = self.libraries(ending);
        let request = UserCommand {
            program: first.clone(),
            words: words.iter().map(Word::from).collect(),
            environment: libraries.environment(),
            reads: sources.chain([Input::from(&program)]).chain(libraries.files).collect(),
            ..UserCommand::default()
        };
        Some(Step::new(format!("test-{ending}"), Request::Command(request)))
    }

    /// The program built with its own counters, and rebuilt with what they counted; with
    /// `relocations` so that BOLT can lay it out, with `reuses` so that a relink can.
    pub(crate) fn counted(&self, relocations: bool, reuses: bool) -> Result<Vec<Step>, Error> {
        let instrumented = self.files.program("instrumented");
        let folder = Path::new(STATE_DIRECTORY).join("pgo");
        let knowledge = Knowledge::Instrumented(&folder);
        let mut steps = vec![self.build(Target::plain("pgo-build", knowledge, &instrumented))?];
        match self.config.build.compiler {
            Compiler::Clang => steps.extend(self.merged_counters(&instrumented, &folder)),
            Compiler::Gcc => steps.push(self.train_in_one(&instrumented, &folder)),
        }
        let (kept, counters) = (self.files.program("pgo"), self.counters());
        let plain = Target::plain("pgo-rebuild", Knowledge::Counters(&counters), &kept);
        let link = if reuses { self.link_of(&kept) } else { None };
        steps.push(self.build(Target { relocations, reuses, link: link.as_deref(), ..plain })?);
        Ok(steps.into_iter().map(Step::optional).collect())
    }

    /// Runs the instrumented program on all training commands: gcc's programs add up in one folder,
    /// which must be empty before the first of them.
    fn train_in_one(&self, instrumented: &Path, folder: &Path) -> Step {
        let lines = self.training.iter().map(|command| {
            let words = bound(command, &self.directory.join(instrumented));
            words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
        });
        // Objects named by absolute paths count into folders of these names.
        let found = format!("find {} -name '*.gcda' | grep -q .", quoted(&text(folder)));
        let line = lines.chain([found]).collect::<Vec<_>>().join(" && ");
        let libraries = self.libraries("instrumented");
        let request = UserCommand {
            program: "sh".to_owned(),
            words: vec![Word::from("-c"), Word::Naming(line, Input::from(instrumented))],
            environment: libraries.environment(),
            reads: libraries.files,
            fresh_directories: vec![folder.to_owned()],
        };
        let step = Step::new("pgo-train", Request::Command(request));
        self.of_training(step)
    }

    /// A step that runs the training commands.
    fn of_training(&self, step: Step) -> Step {
        let work = &self.config.workload;
        step.besides(paths(&work.inputs)).naming(&self.training, work.directory.as_deref())
    }

    /// A step that runs one of the evaluation commands.
    fn of_evaluation(&self, step: Step, command: &[String]) -> Step {
        let work = &self.config.evaluate;
        step.besides(paths(&work.inputs)).naming(&[command.to_vec()], work.directory.as_deref())
    }

    /// Runs clang's instrumented program on each training command, and merges what it counted.
    fn merged_counters(&self, instrumented: &Path, folder: &Path) -> Vec<Step> {
        let mut steps = Vec::new();
        // Only what today's training counted is merged: folders of other commands may lie beside
        // these.
        let mut folders = Vec::new();
        for (n, command) in self.training.iter().enumerate() {
            let own = folder.join((n + 1).to_string());
            let words = bound(command, &self.directory.join(instrumented));
            let Some((program, words)) = words.split_first() else { continue };
            // %m: one file for a program, in which all of its processes add up.
            let file = text(&self.directory.join(&own).join("%m.profraw"));
            folders.push(Input::from(&own));
            let libraries = self.libraries("instrumented");
            let mut environment = libraries.environment();
            environment.insert("LLVM_PROFILE_FILE".to_owned(), file);
            let request = UserCommand {
                program: program.clone(),
                words: words.iter().map(Word::from).collect(),
                environment,
                reads: [Input::from(instrumented)].into_iter().chain(libraries.files).collect(),
                fresh_directories: vec![own],
            };
            let step = Step::new(format!("pgo-train-{}", n + 1), Request::Command(request));
            steps.push(self.of_training(step));
        }
        let merge = MergeCounters {
            tool: self.tools.profdata.clone().unwrap_or_default(),
            folders,
            output: Output::from(&self.counters()),
        };
        steps.push(Step::new("pgo-merge", Request::MergeCounters(merge)));
        steps
    }

    pub(crate) fn compare(&self, measured: &[Measured], n: usize, command: &[String]) -> Step {
        let (files, evaluate) = (self.files, &self.config.evaluate);
        // What an optional step makes may not be there.
        let needed = measured.iter().filter(|program| !program.optional);
        let programs =
            measured.iter().map(|program| (Input::from(&program.path), program.optional));
        let request = Compare {
            rounds: evaluate.rounds(),
            layouts: evaluate.layouts,
            again: measured.iter().map(|program| self.again(program)).collect(),
            fresh_layouts: n == 0,
            seed: evaluate.seed,
            metric: evaluate.metric.clone(),
            among: crate::measured::claims(self.config, measured.len()),
            ignore_output: evaluate.ignore_output,
            cpu: evaluate.cpu,
            gauge: evaluate.gauge,
            programs: programs.collect(),
            libraries: needed.flat_map(|program| self.library_files(program.ending)).collect(),
            library_path: crate::images::from_program(&self.config.build),
            command: command.to_vec(),
            runs: Output::from(&files.runs(n)),
            result: Output::from(&files.comparison(n)),
        };
        let step = Step::new(format!("compare-{}", n + 1), Request::Compare(request));
        self.of_evaluation(step.besides([last_verify(self.config)]), command)
    }

    pub(crate) fn report(&self, measured: &[Measured], file: &str) -> Step {
        let files = self.files;
        let request = Report {
            config: Input::from(file),
            markdown: Output::from(&files.report_markdown),
            json: Output::from(&files.report_json),
            page: Output::from(&files.report_page),
        };
        let mut found = vec![files.verify.clone(), last_summary(self.config)];
        if self.config.optimize.profile_rounds() > 1 {
            found.push(last_verify(self.config));
        }
        if self.config.optimize.lays_out() {
            found.extend([&files.layout, &files.layout_verify].map(Clone::clone));
            if keeps_objects(&self.config.build, self.directory) {
                found.push(files.objects.clone());
            }
        }
        if self.config.optimize.lays_out_counted() {
            found.extend(files.counted_layout_verifies());
        }
        found.extend(self.found_of_libraries());
        for n in 0..files.evaluations {
            found.push(files.comparison(n));
            if self.config.record.count_branches && self.config.evaluate.is_emulatable(n) {
                let counted = measured.iter().filter(|program| !program.is_release());
                found.extend(counted.map(|program| files.branches(program.ending, n)));
            }
        }
        Step::new("report", Request::Report(request)).besides(found)
    }
}

fn paths(names: &[String]) -> impl Iterator<Item = PathBuf> + '_ {
    names.iter().map(PathBuf::from)
}
