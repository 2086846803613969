//! The steps of each stage: observe a program, rebuild it with a profile, relink it in a layout,
//! measure it.

mod record;

use crate::config::{Command, Compiler, Config};
use crate::plan::{
    Files, Measured, STATE_DIRECTORY, last_profile, last_summary, last_verify, text,
};
use crate::step::quoted;
use crate::target::{Knowledge, LayoutFiles, Target, build_step};
use crate::toolchain::Toolchain;
use crate::{Error, Program, Step};
use std::path::{Path, PathBuf};

/// Which program is recorded: 1 the baseline, then what the round before made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    /// From 1.
    pub number: usize,
}

impl Round {
    pub(crate) const FIRST: Round = Round { number: 1 };

    pub(crate) fn next(self) -> Round {
        Round { number: self.number + 1 }
    }

    /// The ending of the program that is recorded.
    pub(crate) fn recorded(self) -> &'static str {
        match self.number {
            1 => "base",
            2 => "opt",
            _ => "opt2",
        }
    }

    /// The ending of the program that a rebuild with its profile makes.
    fn rebuilt(self) -> &'static str {
        Round::next(self).recorded()
    }

    /// Begins the names of its steps of observation.
    pub(crate) fn prefix(self) -> String {
        if self == Round::FIRST { String::new() } else { format!("{}-", self.recorded()) }
    }

    /// Begins the names of its steps of rebuilding.
    fn ordinal(self) -> &'static str {
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

    fn counts(self) -> PathBuf {
        self.file("run.counts")
    }
}

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
        build_step(self.config, self.tools, self.directory, target)
    }

    /// Records the program of a round and counts.
    pub(crate) fn observe(&self, round: Round) -> Vec<Step> {
        let program = self.files.program(round.recorded());
        let mut steps = self.record_all(round, &program);
        let mut step = Step::planish(format!("{}aggregate", round.prefix()), &["aggregate"]);
        step.inputs = (0..self.training.len()).map(|n| round.recording(n)).collect();
        step.arguments.extend(step.inputs.iter().map(|p| text(p)));
        step.arguments.extend([
            "--binary".into(),
            text(&program),
            "-o".into(),
            text(&round.counts()),
        ]);
        // Clones are chosen by paths of two branches, which nothing else needs.
        let optimize = &self.config.optimize;
        if optimize.lays_out() && optimize.clone && round.number > optimize.profile_rounds() {
            step.arguments.push("--paths".into());
        }
        step.inputs.push(program);
        step.outputs = vec![round.counts()];
        steps.push(step);
        steps
    }

    /// Makes the profile of a round and rebuilds with it.
    pub(crate) fn rebuild(
        &self,
        round: Round,
        reuses: bool,
        relocations: bool,
    ) -> Result<Vec<Step>, Error> {
        let (files, ordinal) = (self.files, round.ordinal());
        let (recorded, rebuilt) = (files.program(round.recorded()), files.program(round.rebuilt()));
        let (made, found) = (round.named(&files.profile), round.named(&files.verify));
        let format = if self.config.build.compiler == Compiler::Gcc { "gcov" } else { "extbinary" };
        let mut profile = Step::planish(format!("{ordinal}profile"), &["profile"]);
        profile.arguments.extend([text(&round.counts()), "--binary".into(), text(&recorded)]);
        profile.arguments.extend(["--emit", format, "-o"].map(str::to_owned));
        profile.arguments.push(text(&made));
        if self.config.record.symbol_list {
            profile.arguments.push("--symbol-list".into());
        }
        profile.arguments.extend(["--format", "json"].map(str::to_owned));
        let summary = round.named(&files.profile_summary);
        profile.inputs = vec![round.counts(), recorded];
        profile.outputs = vec![made.clone(), summary.clone()];
        profile.stdout = Some(summary);

        let name = format!("{ordinal}rebuild");
        let plain = Target::plain(&name, Knowledge::Profile(&made), &rebuilt);
        let build = self.build(Target { reuses, relocations, ..plain })?;

        let mut verify = Step::planish(
            format!("{ordinal}verify"),
            &["build", "verify", "--format", "json", "--binary"],
        );
        verify.arguments.extend([text(&rebuilt), "--baseline".into(), text(&files.base)]);
        verify.arguments.extend(["--profile".into(), text(&made)]);
        verify.inputs = vec![rebuilt, files.base.clone(), made];
        verify.outputs = vec![found.clone()];
        verify.stdout = Some(found);
        let test = self.test(round.rebuilt());
        Ok([profile, build, verify].into_iter().chain(test).collect())
    }

    /// Computes the layout of a round's program, applies it, and checks that it was applied.
    pub(crate) fn relink(&self, round: Round) -> Result<Vec<Step>, Error> {
        let files = self.files;
        let (recorded, kept) = (files.program(round.recorded()), files.program("layout"));
        let made = LayoutFiles::of(&files.layout_prefix());
        let mut layout = self.written(
            round,
            "layout",
            Path::new("layout"),
            &[("_cc_profile.txt", &made.cc_profile), ("_ld_profile.txt", &made.ld_profile)],
        );
        let clone = self.config.optimize.clone.then(|| "--clone".to_owned());
        layout.arguments.extend(clone.clone());
        layout.arguments.extend(["--format", "json"].map(str::to_owned));
        layout.outputs.push(files.layout.clone());
        layout.stdout = Some(files.layout.clone());

        let profile = last_profile(self.config);
        let plain = Target::plain("relink", Knowledge::Profile(&profile), &kept);
        let build = self.build(Target { reuses: true, layout: Some(&made), ..plain })?;

        let mut verify = Step::planish("layout-verify", &["layout", "verify"]);
        verify.arguments.extend([text(&round.counts()), "--binary".into(), text(&recorded)]);
        verify.arguments.extend(clone);
        verify.arguments.extend(["--new".into(), text(&kept), "--format".into(), "json".into()]);
        verify.inputs = vec![round.counts(), recorded, kept];
        verify.outputs = vec![files.layout_verify.clone()];
        verify.stdout = Some(files.layout_verify.clone());
        // A few sections at another place are no reason to stop; the report tells them.
        verify.also_fine = vec![1];
        Ok([layout, build, verify].into_iter().chain(self.test("layout")).collect())
    }

    /// A call of `planish layout`, which writes files of a common prefix into `folder`, from where
    /// they are collected.
    fn written(&self, round: Round, name: &str, folder: &Path, files: &[(&str, &PathBuf)]) -> Step {
        let recorded = self.files.program(round.recorded());
        let folder = Path::new(STATE_DIRECTORY).join(folder);
        let prefix = folder.join(&self.files.name);
        let mut step = Step::planish(name, &["layout"]);
        step.arguments.extend([text(&round.counts()), "--binary".into(), text(&recorded)]);
        step.arguments.extend(["--prefix".into(), text(&prefix)]);
        step.inputs = vec![round.counts(), recorded];
        step.fresh_directories.push(folder);
        for (suffix, kept) in files {
            step.collect.push((PathBuf::from(text(&prefix) + suffix), kept.to_path_buf()));
            step.outputs.push(kept.to_path_buf());
        }
        step
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
        let mut step = Step::new(format!("test-{ending}"), Program::Named(words.first()?.clone()));
        step.arguments = words.into_iter().skip(1).collect();
        step.inputs = self.config.build.sources.iter().map(PathBuf::from).collect();
        step.inputs.push(program);
        Some(step)
    }

    /// The program of a round under BOLT.
    pub(crate) fn bolt(&self, round: Round) -> Vec<Step> {
        let files = self.files;
        let (recorded, kept) = (files.program(round.recorded()), files.program("bolt"));
        let text_counts = Path::new(STATE_DIRECTORY).join("bolt-counts.txt");
        let found = [("_preaggregated.txt", &text_counts)];
        let mut counts = self.written(round, "bolt-counts", Path::new("bolt"), &found);
        counts.arguments.extend(["--emit", "preaggregated"].map(str::to_owned));
        let tool = self.tools.bolt.clone().unwrap_or_default();
        let mut bolt = Step::new("bolt", Program::Named(tool));
        bolt.arguments = vec![text(&recorded), "-o".into(), text(&kept), "-pa".into(), "-p".into()];
        bolt.arguments.push(text(&text_counts));
        // What BOLT's own documentation recommends.
        bolt.arguments.extend(
            [
                "-reorder-blocks=ext-tsp",
                "-reorder-functions=cdsort",
                "-split-functions",
                "-split-all-cold",
            ]
            .map(str::to_owned),
        );
        bolt.inputs = vec![recorded, text_counts];
        bolt.kept_program = self.config.build.pages.kept(&kept);
        bolt.outputs = vec![kept];
        [counts, bolt].into_iter().map(optional).collect()
    }

    /// The program built with its own counters, and rebuilt with what they counted.
    pub(crate) fn counted(&self) -> Result<Vec<Step>, Error> {
        let instrumented = self.files.program("instrumented");
        let folder = Path::new(STATE_DIRECTORY).join("pgo");
        let knowledge = Knowledge::Instrumented(&folder);
        let mut steps = vec![self.build(Target::plain("pgo-build", knowledge, &instrumented))?];
        let counters = match self.config.build.compiler {
            Compiler::Clang => {
                steps.extend(self.merged_counters(&instrumented, &folder));
                self.files.program("profdata")
            }
            Compiler::Gcc => {
                steps.push(self.train_in_one(&instrumented, &folder));
                folder
            }
        };
        let kept = self.files.program("pgo");
        steps.push(self.build(Target::plain(
            "pgo-rebuild",
            Knowledge::Counters(&counters),
            &kept,
        ))?);
        Ok(steps.into_iter().map(optional).collect())
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
        let mut step = Step::new("pgo-train", Program::Named("sh".into()));
        step.arguments = vec!["-c".into(), line];
        step.inputs = std::iter::once(instrumented.to_owned())
            .chain(paths(&self.config.workload.inputs))
            .collect();
        step.fresh_directories = vec![folder.to_owned()];
        step
    }

    /// Runs clang's instrumented program on each training command, and merges what it counted.
    fn merged_counters(&self, instrumented: &Path, folder: &Path) -> Vec<Step> {
        let mut steps = Vec::new();
        let counters = self.files.program("profdata");
        // Only what today's training counted is merged: folders of other commands may lie beside
        // these.
        let mut counted = Vec::new();
        for (n, command) in self.training.iter().enumerate() {
            let own = folder.join((n + 1).to_string());
            let words = bound(command, &self.directory.join(instrumented));
            let Some((program, arguments)) = words.split_first() else { continue };
            let mut step =
                Step::new(format!("pgo-train-{}", n + 1), Program::Named(program.clone()));
            step.arguments = arguments.to_vec();
            // %m: one file for a program, in which all of its processes add up.
            let file = text(&self.directory.join(&own).join("%m.profraw"));
            step.environment.insert("LLVM_PROFILE_FILE".into(), file);
            step.inputs = std::iter::once(instrumented.to_owned())
                .chain(paths(&self.config.workload.inputs))
                .collect();
            step.fresh_directories = vec![own.clone()];
            counted.push(own);
            steps.push(step);
        }
        let tool = self.tools.profdata.clone().unwrap_or_default();
        let mut merge = Step::new("pgo-merge", Program::Named(tool));
        merge.arguments = vec!["merge".into(), "-o".into(), text(&counters)];
        merge.arguments.extend(counted.iter().map(|own| text(own)));
        merge.inputs = counted;
        merge.outputs = vec![counters];
        steps.push(merge);
        steps
    }

    pub(crate) fn compare(&self, measured: &[Measured], n: usize, command: &[String]) -> Step {
        let (files, evaluate) = (self.files, &self.config.evaluate);
        let mut step =
            Step::planish(format!("compare-{}", n + 1), &["compare", "--format", "json"]);
        step.arguments.extend(["--rounds".into(), evaluate.rounds.to_string()]);
        step.arguments.extend(["--seed".into(), evaluate.seed.to_string()]);
        step.arguments.extend(["--metric".into(), evaluate.metric.clone()]);
        // Claims of one run are corrected together, and one that decides the exit code is measured
        // twice.
        let rows = measured.len().saturating_sub(1) * evaluate.command.all().len();
        step.arguments.extend(["--among".into(), rows.max(1).to_string(), "--confirm".into()]);
        if evaluate.ignore_output {
            step.arguments.push("--ignore-output".into());
        }
        step.arguments.extend(["--raw".into(), text(&files.runs(n))]);
        step.arguments.extend(measured.iter().map(|program| text(&program.path)));
        step.arguments.push("--".into());
        step.arguments.extend(command.iter().cloned());
        step.inputs = measured.iter().map(|program| program.path.clone()).collect();
        step.not_there = measured.iter().filter(|p| p.optional).map(|p| p.path.clone()).collect();
        step.inputs.push(last_verify(self.config));
        step.inputs.extend(paths(&evaluate.inputs));
        step.outputs = vec![files.comparison(n), files.runs(n)];
        step.stdout = Some(files.comparison(n));
        // Slower, or undecided.
        step.also_fine = vec![1, 4];
        step.interactive = true;
        step
    }

    pub(crate) fn count(&self, program: &Measured, n: usize, command: &[String]) -> Step {
        let found = self.files.branches(program.ending, n);
        // What is wanted is the number of taken branches that the summary tells; the samples are so
        // far apart that the recording is small.
        let data = found.with_extension("data");
        let mut step = Step::planish(
            format!("branches-{}-{}", program.ending, n + 1),
            &["record", "--branches=emulated", "-c", "100003", "--format", "json", "-o"],
        );
        step.arguments.push(text(&data));
        self.keep_output(&mut step);
        step.arguments.push("--".into());
        step.arguments.extend(bound(command, &program.path));
        step.inputs = std::iter::once(program.path.clone())
            .chain(paths(&self.config.evaluate.inputs))
            .collect();
        step.outputs = vec![found.clone(), data];
        step.stdout = Some(found);
        // Not every machine has the emulator, and the measurement stands without it.
        optional(step)
    }

    pub(crate) fn report(&self, measured: &[Measured], file: &str) -> Step {
        let files = self.files;
        let mut step = Step::planish("report", &["report", "--collect", file, "-o"]);
        step.arguments.extend([
            text(&files.report_markdown),
            "--json".into(),
            text(&files.report_json),
        ]);
        step.inputs = vec![PathBuf::from(file), files.verify.clone(), last_summary(self.config)];
        if self.config.optimize.profile_rounds() > 1 {
            step.inputs.push(last_verify(self.config));
        }
        if self.config.optimize.lays_out() {
            step.inputs
                .extend([&files.layout, &files.objects, &files.layout_verify].map(Clone::clone));
        }
        for n in 0..files.evaluations {
            step.inputs.push(files.comparison(n));
            if self.config.record.count_branches {
                step.inputs
                    .extend(measured.iter().map(|program| files.branches(program.ending, n)));
            }
        }
        step.outputs = vec![files.report_markdown.clone(), files.report_json.clone()];
        step
    }
}

fn optional(mut step: Step) -> Step {
    step.optional = true;
    step
}

fn bound(command: &[String], binary: &Path) -> Vec<String> {
    // With a slash, so that it is not looked for in PATH.
    let path = if binary.is_absolute() { text(binary) } else { format!("./{}", binary.display()) };
    command.iter().map(|word| word.replace("{bin}", &path)).collect()
}

fn paths(names: &[String]) -> impl Iterator<Item = PathBuf> + '_ {
    names.iter().map(PathBuf::from)
}
