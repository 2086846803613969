//! Which steps lead from planish.toml to a measured, faster program?

use crate::config::{Branches, Build, Command, Compiler, Config};
use crate::flags::{self, Phase};
use crate::toolchain::Toolchain;
use crate::{Error, Plan, Program, Step};
use std::path::{Path, PathBuf};

/// Where everything goes that planish makes, beside planish.toml.
pub const STATE_DIRECTORY: &str = ".planish";

/// Names of the files a plan makes, relative to the directory of planish.toml.
#[derive(Clone, Debug)]
pub struct Files {
    /// The directory handed to both builds as PLANISH_OUT.
    ///
    /// One directory for both: names of static functions hold a hash of the source path, so a generated source file
    /// in a directory of another name would lose its profile.
    pub out: PathBuf,
    /// The baseline program.
    pub base: PathBuf,
    /// The rebuilt program.
    pub opt: PathBuf,
    /// Counts per image address.
    pub counts: PathBuf,
    /// The profile for the compiler.
    pub profile: PathBuf,
    /// What the check of the rebuild found.
    pub verify: PathBuf,
    /// The report for people.
    pub report_markdown: PathBuf,
    /// The report for programs.
    pub report_json: PathBuf,
    /// Evaluation commands.
    pub evaluations: usize,
}

impl Files {
    /// The names for a configuration.
    pub fn of(config: &Config) -> Files {
        let folder = Path::new(STATE_DIRECTORY);
        let name =
            Path::new(&config.build.binary).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let suffix = if config.build.compiler == Compiler::Gcc { "gcov" } else { "afdo" };
        Files {
            out: folder.join("build"),
            base: folder.join(format!("{name}.base")),
            opt: folder.join(format!("{name}.opt")),
            counts: folder.join("run.counts"),
            profile: folder.join(format!("{name}.{suffix}")),
            verify: folder.join("verify.json"),
            report_markdown: folder.join("report.md"),
            report_json: folder.join("report.json"),
            evaluations: config.evaluate.command.all().len(),
        }
    }

    /// The recording of the n-th training command.
    pub fn recording(&self, n: usize) -> PathBuf {
        Path::new(STATE_DIRECTORY).join(format!("train-{}.data", n + 1))
    }

    /// The comparison on the n-th evaluation command, as JSON.
    pub fn comparison(&self, n: usize) -> PathBuf {
        Path::new(STATE_DIRECTORY).join(format!("compare-{}.json", n + 1))
    }

    /// The raw runs of the n-th comparison.
    pub fn runs(&self, n: usize) -> PathBuf {
        Path::new(STATE_DIRECTORY).join(format!("runs-{}.jsonl", n + 1))
    }

    /// Taken branches of a program (`base` or `opt`) on the n-th evaluation command.
    pub fn branches(&self, which: &str, n: usize) -> PathBuf {
        Path::new(STATE_DIRECTORY).join(format!("branches-{which}-{}.json", n + 1))
    }
}

/// What [`build_step`] builds.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Name of the step.
    pub name: &'a str,
    /// The profile to use, if one; relative to the directory of planish.toml, or absolute.
    pub profile: Option<&'a Path>,
    /// Where the program is kept.
    pub kept: &'a Path,
}

/// The step that builds a program. `directory` is the absolute directory of planish.toml.
pub fn build_step(
    config: &Config,
    tools: &Toolchain,
    directory: &Path,
    target: Target,
) -> Result<Step, Error> {
    build_step_of(&config.build, tools, directory, target)
}

/// The same from the table `[build]` alone.
pub fn build_step_of(
    build: &Build,
    tools: &Toolchain,
    directory: &Path,
    target: Target,
) -> Result<Step, Error> {
    let folder = Path::new(STATE_DIRECTORY).join("build");
    let profile = target.profile.map(|path| one_word(directory, path)).transpose()?;
    let phase = profile.as_deref().map_or(Phase::Baseline, Phase::Profiled);
    let out = text(&directory.join(&folder));
    let words = match &build.command {
        Command::Line(line) => vec!["sh".to_owned(), "-c".to_owned(), line.clone()],
        Command::Words(words) => words.clone(),
    };
    let mut step = Step::new(target.name, Program::Named(words.first().cloned().unwrap_or_default()));
    step.arguments = words.into_iter().skip(1).collect();
    step.environment = flags::variables(build, tools, phase, &out);
    step.inputs = build.sources.iter().map(PathBuf::from).collect();
    step.inputs.extend(target.profile.map(Path::to_owned));
    step.collect = vec![(folder.join(&build.binary), target.kept.to_owned())];
    step.fresh_directory = Some(folder);
    step.outputs = vec![target.kept.to_owned()];
    Ok(step)
}

/// The profile's path as the flags name it. Build commands cut flags at blanks, so a directory with a blank in its name
/// is left out: the path is then relative to where the build command starts.
fn one_word(directory: &Path, profile: &Path) -> Result<String, Error> {
    let full = directory.join(profile);
    let apart =
        |path: &Path| text(path).contains(|c: char| c.is_whitespace() || "*?[]\\'\"$`;&|<>()#".contains(c));
    if !apart(&full) {
        return Ok(text(&full));
    }
    match full.strip_prefix(directory) {
        Ok(relative) if !apart(relative) => Ok(text(relative)),
        _ => Err(Error::Path(full)),
    }
}

/// The whole way: build, record, aggregate, profile, rebuild, verify, count branches, compare, report.
///
/// `directory` is the absolute directory of the configuration, `file` its name there.
pub fn optimize(config: &Config, tools: &Toolchain, directory: &Path, file: &str) -> Result<Plan, Error> {
    let files = Files::of(config);
    let words = |lines: &crate::config::Lines| {
        lines.words().map_err(|problem| Error::Config { path: directory.join(file), problem })
    };
    let training = words(&config.workload.train)?;
    let evaluation = words(&config.evaluate.command)?;
    let baseline = Target { name: "build", profile: None, kept: &files.base };
    let mut steps = vec![build_step(config, tools, directory, baseline)?];
    for (n, command) in training.iter().enumerate() {
        steps.push(record_step(config, &files, n, command));
    }
    steps.push(aggregate_step(&files, training.len()));
    steps.push(profile_step(config, &files));
    let rebuild = Target { name: "rebuild", profile: Some(&files.profile), kept: &files.opt };
    steps.push(build_step(config, tools, directory, rebuild)?);
    steps.push(verify_step(&files));
    for (n, command) in evaluation.iter().enumerate() {
        steps.push(compare_step(config, &files, n, command));
    }
    if config.record.count_branches {
        for (n, command) in evaluation.iter().enumerate() {
            steps.push(count_step(config, &files, "base", n, command));
            steps.push(count_step(config, &files, "opt", n, command));
        }
    }
    steps.push(report_step(config, &files, file));
    steps.iter_mut().for_each(|step| step.not_inputs.push(file.into()));
    Ok(Plan { steps })
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn bound(command: &[String], binary: &Path) -> Vec<String> {
    // With a slash, so that it is not looked for in PATH.
    let path = format!("./{}", binary.display());
    command.iter().map(|word| word.replace("{bin}", &path)).collect()
}

fn paths(names: &[String]) -> impl Iterator<Item = PathBuf> + '_ {
    names.iter().map(PathBuf::from)
}

fn record_step(config: &Config, files: &Files, n: usize, command: &[String]) -> Step {
    let mut step = Step::new(format!("record-{}", n + 1), Program::Planish);
    let output = files.recording(n);
    step.arguments = vec!["record".into(), "-o".into(), text(&output)];
    step.arguments.push(format!("--branches={}", config.record.branches.word()));
    // Under emulation time means nothing and a period of 1,000 taken branches costs little. Elsewhere record knows a
    // rate that the machine bears.
    let period = config.record.period.or((config.record.branches == Branches::Emulated).then_some(1000));
    step.arguments.extend(period.into_iter().flat_map(|n| ["-c".to_owned(), n.to_string()]));
    step.arguments.push("--".into());
    step.arguments.extend(bound(command, &files.base));
    step.inputs = std::iter::once(files.base.clone()).chain(paths(&config.workload.inputs)).collect();
    step.outputs = vec![output];
    step
}

fn aggregate_step(files: &Files, recordings: usize) -> Step {
    let mut step = Step::new("aggregate", Program::Planish);
    let inputs: Vec<PathBuf> = (0..recordings).map(|n| files.recording(n)).collect();
    step.arguments.push("aggregate".into());
    step.arguments.extend(inputs.iter().map(|p| text(p)));
    step.arguments.extend(["--binary".into(), text(&files.base), "-o".into(), text(&files.counts)]);
    step.inputs = inputs;
    step.inputs.push(files.base.clone());
    step.outputs = vec![files.counts.clone()];
    step
}

fn profile_step(config: &Config, files: &Files) -> Step {
    let mut step = Step::new("profile", Program::Planish);
    let format = if config.build.compiler == Compiler::Gcc { "gcov" } else { "extbinary" };
    step.arguments =
        ["profile", &text(&files.counts), "--binary", &text(&files.base), "--format", format, "-o"]
            .map(str::to_owned)
            .to_vec();
    step.arguments.push(text(&files.profile));
    step.inputs = vec![files.counts.clone(), files.base.clone()];
    step.outputs = vec![files.profile.clone()];
    step
}

fn verify_step(files: &Files) -> Step {
    let mut step = Step::new("verify", Program::Planish);
    step.arguments = ["build", "--verify", "--format", "json", "--binary"].map(str::to_owned).to_vec();
    step.arguments.extend([text(&files.opt), "--baseline".into(), text(&files.base)]);
    step.arguments.extend(["--profile".into(), text(&files.profile)]);
    step.inputs = vec![files.opt.clone(), files.base.clone(), files.profile.clone()];
    step.outputs = vec![files.verify.clone()];
    step.stdout = Some(files.verify.clone());
    step
}

fn compare_step(config: &Config, files: &Files, n: usize, command: &[String]) -> Step {
    let mut step = Step::new(format!("compare-{}", n + 1), Program::Planish);
    let evaluate = &config.evaluate;
    step.arguments = vec!["compare".into(), "--format".into(), "json".into()];
    step.arguments.extend(["--rounds".into(), evaluate.rounds.to_string()]);
    step.arguments.extend(["--seed".into(), evaluate.seed.to_string()]);
    step.arguments.extend(["--metric".into(), evaluate.metric.clone()]);
    if evaluate.ignore_output {
        step.arguments.push("--ignore-output".into());
    }
    step.arguments.extend(["--raw".into(), text(&files.runs(n))]);
    step.arguments.extend([&files.base, &files.opt].map(|p| text(p)));
    step.arguments.push("--".into());
    step.arguments.extend(command.iter().cloned());
    step.inputs = vec![files.base.clone(), files.opt.clone(), files.verify.clone()];
    step.inputs.extend(paths(&evaluate.inputs));
    step.outputs = vec![files.comparison(n), files.runs(n)];
    step.stdout = Some(files.comparison(n));
    step.also_fine = vec![1];
    step.interactive = true;
    step
}

fn count_step(config: &Config, files: &Files, which: &str, n: usize, command: &[String]) -> Step {
    let mut step = Step::new(format!("branches-{which}-{}", n + 1), Program::Planish);
    let binary = if which == "base" { &files.base } else { &files.opt };
    // What is wanted is the number of taken branches that the summary tells; the samples are so far apart that the
    // recording is small.
    let data = files.branches(which, n).with_extension("data");
    step.arguments = ["record", "--branches=emulated", "-c", "100003", "--format", "json", "-o"]
        .map(str::to_owned)
        .to_vec();
    step.arguments.extend([text(&data), "--".into()]);
    step.arguments.extend(bound(command, binary));
    step.inputs = std::iter::once(binary.clone()).chain(paths(&config.evaluate.inputs)).collect();
    step.outputs = vec![files.branches(which, n), data];
    step.stdout = Some(files.branches(which, n));
    // Not every machine has the emulator, and the measurement stands without it.
    step.optional = true;
    step
}

fn report_step(config: &Config, files: &Files, file: &str) -> Step {
    let mut step = Step::new("report", Program::Planish);
    step.arguments = ["report", "--collect", file, "-o"].map(str::to_owned).to_vec();
    step.arguments.extend([text(&files.report_markdown), "--json".into(), text(&files.report_json)]);
    step.inputs = vec![PathBuf::from(file), files.verify.clone()];
    for n in 0..files.evaluations {
        step.inputs.push(files.comparison(n));
        if config.record.count_branches {
            step.inputs.extend([files.branches("base", n), files.branches("opt", n)]);
        }
    }
    step.outputs = vec![files.report_markdown.clone(), files.report_json.clone()];
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        let config = Config::parse(text, Path::new("planish.toml")).unwrap();
        let tools =
            Toolchain { cc: "clang".into(), cxx: "clang++".into(), ld: "ld.lld".into(), nightly_rust: false };
        optimize(&config, &tools, Path::new("/src/app"), "planish.toml").unwrap()
    }

    const TWO: &str = "[build]\ncommand = 'make'\nbinary = 'bin/app'\n[workload]\ntrain = ['{bin} a', '{bin} b']\n\
                       [evaluate]\ncommand = '{bin} c'\n";

    #[test]
    fn every_step_reads_what_an_earlier_one_made() {
        let plan = plan(TWO);
        let names: Vec<&str> = plan.steps.iter().map(|s| s.name.as_str()).collect();
        let expected = "build record-1 record-2 aggregate profile rebuild verify compare-1 branches-base-1 branches-opt-1 report";
        assert_eq!(names.join(" "), expected);
        let mut made: Vec<&PathBuf> = Vec::new();
        for step in &plan.steps {
            for input in step.inputs.iter().filter(|i| i.starts_with(STATE_DIRECTORY)) {
                assert!(made.contains(&input), "{} reads {input:?} before it is made", step.name);
            }
            made.extend(&step.outputs);
        }
    }

    #[test]
    fn a_profile_in_a_directory_with_a_blank_stays_one_word_of_the_flags() {
        let word = |directory: &str, profile: &str| one_word(Path::new(directory), Path::new(profile));
        assert_eq!(word("/src/app", ".planish/a.afdo").unwrap(), "/src/app/.planish/a.afdo");
        assert_eq!(word("/my src", ".planish/a.afdo").unwrap(), ".planish/a.afdo");
        assert_eq!(word("/my src", "/my src/a.afdo").unwrap(), "a.afdo");
        let message = word("/my src", "/my profiles/a.afdo").unwrap_err().to_string();
        assert!(message.contains("/my profiles/a.afdo") && message.contains("blank"), "{message}");
    }

    #[test]
    fn the_steps_are_commands_a_user_can_type() {
        let plan = plan(TWO);
        let line = |n: usize| plan.steps[n].command_line();
        assert_eq!(
            line(1),
            "planish record -o .planish/train-1.data --branches=auto -- ./.planish/app.base a"
        );
        assert_eq!(
            line(3),
            "planish aggregate .planish/train-1.data .planish/train-2.data --binary .planish/app.base -o .planish/run.counts"
        );
        assert_eq!(
            line(4),
            "planish profile .planish/run.counts --binary .planish/app.base --format extbinary -o .planish/app.afdo"
        );
        let printed = plan.describe(|_| String::new());
        assert!(
            printed.contains("# step 1 of 11: build")
                && printed.contains("export PLANISH_OUT=/src/app/.planish/build")
        );
    }
}
