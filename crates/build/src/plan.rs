//! Which steps lead from planish.toml to a measured, faster program?

use crate::config::{Compiler, Config};
use crate::optimization::{Alternative, Stage};
use crate::stages::{Round, Stages};
use crate::target::{Knowledge, Target};
use crate::toolchain::Toolchain;
use crate::{Error, Plan, Step};
use std::path::{Path, PathBuf};

/// Where everything goes that planish makes, beside planish.toml.
pub const STATE_DIRECTORY: &str = ".planish";
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
    /// Evaluation commands.
    pub evaluations: usize,
    /// Name of the program.
    pub name: String,
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
            base: folder.join(format!("{name}.base")),
            opt: folder.join(format!("{name}.opt")),
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
            evaluations: config.evaluate.command.all().len(),
            name,
        }
    }

    /// A program by its ending: `base`, `opt`, `opt2`, `layout`, `rest`, `pgo`, `bolt`.
    pub fn program(&self, ending: &str) -> PathBuf {
        Path::new(STATE_DIRECTORY).join(format!("{}.{ending}", self.name))
    }

    /// What the names of the layout's two files begin with.
    pub fn layout_prefix(&self) -> PathBuf {
        Path::new(STATE_DIRECTORY).join(&self.name)
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
    /// Its ending: `base`, `opt`, `opt2`, `layout`, `rest`, `pgo`, `bolt`.
    pub ending: &'static str,
    /// Its file.
    pub path: PathBuf,
    /// Name of the step that makes it.
    pub step: &'static str,
    /// True when the rest is worth measuring without it.
    pub optional: bool,
}

/// The programs that are measured, the base first, and those that cannot be made here, each with
/// the reason.
pub fn programs(config: &Config, tools: &Toolchain) -> (Vec<Measured>, Vec<String>) {
    let files = Files::of(config);
    let measured =
        |ending, step, optional| Measured { ending, path: files.program(ending), step, optional };
    let mut all = vec![measured("base", "build", false), measured("opt", "rebuild", false)];
    if config.optimize.profile_rounds() > 1 {
        all.push(measured("opt2", "second-rebuild", false));
    }
    if config.optimize.lays_out() {
        all.push(measured("layout", "relink", false));
    }
    if config.optimize.places_rest() {
        all.push(measured("rest", "bolt-rest", false));
    }
    let mut left_out = Vec::new();
    for alternative in &config.optimize.also {
        match (alternative, config.build.compiler) {
            // gcc reads the counters as the program leaves them.
            (Alternative::Pgo, Compiler::Gcc) => all.push(measured("pgo", "pgo-rebuild", true)),
            (Alternative::Pgo, _) if tools.profdata.is_none() => left_out.push(format!(
                "pgo is left out: llvm-profdata of the release of {} is not installed (Debian: \
                 llvm)",
                tools.cc
            )),
            (Alternative::Pgo, _) if let Some(library) = &tools.no_counters => {
                left_out.push(format!(
                    "pgo is left out: {} is not there, which {} links instrumented programs with \
                     (Debian: libclang-rt-dev of its release)",
                    library.display(),
                    tools.cc
                ))
            }
            (Alternative::Pgo, _) => all.push(measured("pgo", "pgo-rebuild", true)),
            (Alternative::Bolt, _) if tools.bolt.is_none() => {
                left_out.push(
                    "bolt is left out: llvm-bolt is not installed (Debian: bolt-22)".to_owned(),
                );
            }
            (Alternative::Bolt, _) => all.push(measured("bolt", "bolt", true)),
        }
    }
    (all, left_out)
}

/// What of the configuration has no effect, or cannot be made here, each with the reason: for the
/// plan, the terminal and the report alike. `rust` says that the build calls rustc.
pub fn notes(config: &Config, tools: &Toolchain, rust: bool) -> Vec<String> {
    let (_, mut notes) = programs(config, tools);
    notes.extend(config.optimize.without_effect(&config.build, rust));
    let uncounted = config.evaluate.indirect().filter(|_| config.record.count_branches);
    notes.extend(uncounted.map(|line| {
        format!(
            "taken branches are counted only of commands that are the program with its arguments, \
             since only the program itself can be emulated; {line:?} is none"
        )
    }));
    notes
}

/// The profile that the last rebuild of [`optimize`] uses.
pub fn last_profile(config: &Config) -> PathBuf {
    last_round(config).named(&Files::of(config).profile)
}

/// What the last profile of [`optimize`] rests on.
pub fn last_summary(config: &Config) -> PathBuf {
    last_round(config).named(&Files::of(config).profile_summary)
}

/// What the check of the last rebuild of [`optimize`] found.
pub fn last_verify(config: &Config) -> PathBuf {
    last_round(config).named(&Files::of(config).verify)
}

fn last_round(config: &Config) -> Round {
    Round { number: config.optimize.profile_rounds() }
}

/// The whole way: build, record, aggregate, profile, rebuild, verify, lay out, compare, count
/// branches, report.
///
/// `directory` is the absolute directory of the configuration, `file` its name there.
pub fn optimize(
    config: &Config,
    tools: &Toolchain,
    directory: &Path,
    file: &str,
) -> Result<Plan, Error> {
    let wrong = |problem| Error::Config { path: directory.join(file), problem };
    let files = Files::of(config);
    let (measured, _) = programs(config, tools);
    let made = |ending: &str| measured.iter().any(|program| program.ending == ending);
    let stages = Stages {
        config,
        tools,
        directory,
        files: &files,
        training: config.workload.words().map_err(wrong)?,
    };
    let mut steps = vec![stages.build(Target::plain("build", Knowledge::None, &files.base))?];
    let mut now = Round::FIRST;
    for stage in &config.optimize.steps {
        // The rest is placed by what the layout was computed from.
        if *stage != Stage::BoltRest {
            steps.extend(stages.observe(now));
        }
        match stage {
            Stage::Autofdo => {
                let last = now.number == config.optimize.profile_rounds();
                let relocations = last && made("bolt");
                steps.extend(stages.rebuild(
                    now,
                    last && config.optimize.lays_out(),
                    relocations,
                )?);
                now = now.next();
            }
            Stage::Propeller => steps.extend(stages.relink(now)?),
            Stage::BoltRest => steps.extend(stages.bolt_rest(now)?),
        }
    }
    if made("bolt") {
        if !config.optimize.lays_out() {
            steps.extend(stages.observe(now));
        }
        steps.extend(stages.bolt(now));
    }
    if made("pgo") {
        steps.extend(stages.counted()?);
    }
    for (n, command) in config.evaluate.words().map_err(wrong)?.iter().enumerate() {
        steps.push(stages.compare(&measured, n, command));
        let wanted = config.record.count_branches && config.evaluate.is_direct(n);
        let counted = measured.iter().filter(|_| wanted);
        let counting: Vec<Step> =
            counted.map(|program| stages.count(program, n, command)).collect();
        steps.extend(counting);
    }
    steps.push(stages.report(&measured, file));
    steps.iter_mut().for_each(|step| step.not_inputs.push(file.into()));
    Ok(Plan { steps })
}

pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        let config = Config::parse(text, Path::new("planish.toml")).unwrap();
        let tool = |name: &str| name.to_owned();
        let (cc, cxx, ld) = (tool("clang"), tool("clang++"), tool("ld.lld"));
        let (profdata, bolt) = (Some(tool("llvm-profdata")), Some(tool("llvm-bolt")));
        let tools =
            Toolchain { cc, cxx, ld, rust_takes_z: false, profdata, no_counters: None, bolt };
        optimize(&config, &tools, Path::new("/src/app"), "planish.toml").unwrap()
    }

    const TWO: &str = "[build]\ncommand = 'make'\nbinary = 'bin/app'\n[workload]\ntrain = ['{bin} \
                       a', '{bin} b']\n[evaluate]\ncommand = '{bin} c'\n[record]\nbranches = \
                       'hardware'\n";

    fn reads_only_what_was_made(plan: &Plan, makes: fn(&Step) -> Vec<PathBuf>) {
        let mut made: Vec<PathBuf> = Vec::new();
        for step in &plan.steps {
            for input in step.inputs().iter().filter(|i| i.starts_with(STATE_DIRECTORY)) {
                assert!(made.contains(input), "{} reads {input:?} before it is made", step.name);
            }
            made.extend(makes(step));
        }
    }

    #[test]
    fn every_step_reads_what_an_earlier_one_made() {
        let plan = plan(TWO);
        let names: Vec<&str> = plan.steps.iter().map(|s| s.name.as_str()).collect();
        let expected = "build record-1 record-2 aggregate profile rebuild verify compare-1 \
                        branches-base-1 branches-opt-1 report";
        assert_eq!(names.join(" "), expected);
        reads_only_what_was_made(&plan, Step::outputs);
    }

    #[test]
    fn without_a_cpu_that_records_branches_the_training_is_timed_before_it_is_recorded() {
        let auto = TWO.replace("branches = 'hardware'", "seconds = 9\nsymbol_list = true");
        let plan = plan(&auto);
        let step = |name: &str| plan.steps.iter().find(|s| s.name == name).unwrap();
        assert_eq!(
            step("time-training").command_line(),
            "planish train time --branches auto --seconds 9 --emulate-below 5 --budget 100 \
             --program-output .planish/log/time-training.output --command './.planish/app.base a' \
             --command './.planish/app.base b' > .planish/training.json"
        );
        assert_eq!(
            step("record-2").command_line(),
            "planish train record --by .planish/training.json -o .planish/train-2.data --budget \
             100 --program-output .planish/log/record-2.output -- ./.planish/app.base b"
        );
        assert!(step("record-1").inputs().contains(&".planish/training.json".into()));
        assert!(step("profile").command_line().contains(" --symbol-list "));
        // A shorter training is timed anew with another program.
        let twice = super::tests::plan(&(auto + "[optimize]\nsteps = ['autofdo', 'propeller']\n"));
        let again = twice.steps.iter().find(|s| s.name == "opt-time-training").unwrap();
        assert!(again.outputs().contains(&".planish/opt-training.json".into()), "{again:?}");
    }

    #[test]
    fn a_layout_is_computed_from_a_recording_of_the_rebuilt_program() {
        let all = TWO.to_owned()
            + "[optimize]\nsteps = ['autofdo', 'propeller']\nalso = ['bolt', 'pgo']\ntest = 't \
               {bin}'\n";
        let plan = plan(&all);
        let names: Vec<&str> = plan.steps.iter().map(|s| s.name.as_str()).collect();
        let expected = "build record-1 record-2 aggregate profile rebuild verify test-opt \
                        opt-record-1 opt-record-2 opt-aggregate layout relink layout-verify \
                        test-layout bolt-counts bolt pgo-build pgo-train-1 pgo-train-2 pgo-merge \
                        pgo-rebuild compare-1 branches-base-1 branches-opt-1 branches-layout-1 \
                        branches-bolt-1 branches-pgo-1 report";
        assert_eq!(names.join(" "), expected);
        let step = |name: &str| plan.steps.iter().find(|s| s.name == name).unwrap();
        let (rebuild, relink) = (step("rebuild").call(), step("relink").call());
        assert_eq!(rebuild.environment["PLANISH_CFLAGS"], relink.environment["PLANISH_CFLAGS"]);
        assert_eq!(relink.environment["PLANISH_CC"], "/src/app/.planish/tools/clang");
        assert!(rebuild.environment["PLANISH_LDFLAGS"].ends_with("-Wl,--emit-relocs"));
        assert!(!step("build").call().environment["PLANISH_CFLAGS"].contains("address-map"));
        reads_only_what_was_made(&plan, Step::made);
        let merged = "llvm-profdata merge -o .planish/app.profdata .planish/pgo/1 .planish/pgo/2";
        assert_eq!(step("pgo-merge").command_line(), merged);
        for made in ["layout.json", "relink.objects", "layout-verify.json"] {
            assert!(
                step("report").inputs().contains(&Path::new(STATE_DIRECTORY).join(made)),
                "{made}"
            );
        }
    }

    #[test]
    fn what_the_check_of_the_last_rebuild_found_is_read() {
        let plan = plan(&(TWO.to_owned() + "[optimize]\nsteps = ['autofdo', 'autofdo']\n"));
        for name in ["compare-1", "report"] {
            let step = plan.steps.iter().find(|s| s.name == name).unwrap();
            assert!(
                step.inputs().contains(&".planish/second-verify.json".into()),
                "{name}: {:?}",
                step.inputs()
            );
        }
    }

    #[test]
    fn gcc_counts_into_a_folder_that_the_rebuild_reads() {
        let plan = plan(
            &(TWO.replace("[workload]", "compiler = 'gcc'\n[workload]")
                + "[optimize]\nalso = ['pgo']\n"),
        );
        let names: Vec<&str> = plan.steps.iter().map(|s| s.name.as_str()).collect();
        assert!(names.join(" ").contains("pgo-build pgo-train pgo-rebuild compare-1"), "{names:?}");
        let step = |name: &str| plan.steps.iter().find(|s| s.name == name).unwrap();
        let folder = Path::new(".planish/pgo");
        let train = step("pgo-train");
        let program = "/src/app/.planish/app.instrumented";
        let line = train.command_line();
        assert!(line.starts_with(&format!("sh -c '{program} a && {program} b && find ")), "{line}");
        assert_eq!(train.call().fresh_directories, [folder]);
        let flags = |name: &str| step(name).call().environment["PLANISH_CFLAGS"].clone();
        assert!(flags("pgo-build").contains("-fprofile-generate=/src/app/.planish/pgo "));
        assert!(flags("pgo-rebuild").contains("-fprofile-use=/src/app/.planish/pgo "));
        assert!(step("pgo-rebuild").inputs().iter().any(|input| input == folder));
    }

    #[test]
    fn what_has_no_effect_is_named() {
        let config = |text: &str| Config::parse(text, Path::new("planish.toml")).unwrap();
        let notes = |text: &str, rust| notes(&config(text), &Toolchain::default(), rust).join("\n");
        assert_eq!((notes(TWO, false), notes(TWO, true)), (String::new(), String::new()));
        let said = notes(&(TWO.to_owned() + "[optimize]\nalso = ['bolt', 'pgo']\n"), false);
        assert!(said.contains("bolt is left out") && said.contains("pgo is left out"), "{said}");
        let gcc = TWO.replace("[workload]", "compiler = 'gcc'\nthinlto = false\n[workload]");
        assert_eq!(
            notes(&(gcc + "[optimize]\nalign_loops = 32\nfunction_sections = true\n"), false),
            ""
        );
        let flags = TWO.replace(
            "[workload]",
            "flags = '-g3'\nprofiled_flags = '-DX'\noptimize = '-O3'\n[workload]",
        );
        let said =
            notes(&(flags + "[optimize]\nalign_loops = 32\nfunction_sections = true\n"), true);
        for key in ["optimize", "flags", "profiled_flags", "align_loops", "function_sections"] {
            assert!(said.contains(&format!(" {key}")), "{key}: {said}");
        }
        let layout =
            notes(&(TWO.to_owned() + "[optimize]\nsteps = ['autofdo', 'propeller']\n"), true);
        assert!(layout.contains("thinlto = true"), "{layout}");
    }

    #[test]
    fn claims_of_one_run_are_corrected_together_and_slower_is_confirmed() {
        let all = "[optimize]\nsteps = ['autofdo', 'propeller']\nalso = ['pgo']\n";
        let two = TWO.replace("'{bin} c'", "['{bin} c', '{bin} d']");
        let plan = plan(&(two + all));
        for name in ["compare-1", "compare-2"] {
            let step = plan.steps.iter().find(|s| s.name == name).unwrap();
            // Three programs beside the baseline on two commands.
            assert!(step.command_line().contains("--among 6 --confirm"), "{}", step.command_line());
        }
    }

    #[test]
    fn the_steps_are_commands_a_user_can_type() {
        let plan = plan(TWO);
        let line = |n: usize| plan.steps[n].command_line();
        assert_eq!(
            line(1),
            "planish record -o .planish/train-1.data --branches=hardware --whole --accept-losses \
             --program-output .planish/log/record-1.output -- ./.planish/app.base a"
        );
        assert_eq!(
            line(3),
            "planish aggregate .planish/train-1.data .planish/train-2.data --binary \
             .planish/app.base -o .planish/run.counts --format json > .planish/counted.json"
        );
        assert_eq!(
            line(4),
            "planish profile .planish/run.counts --binary .planish/app.base --emit extbinary -o \
             .planish/app.afdo --format json > .planish/profile.json"
        );
        let printed = plan.describe(&[]);
        assert!(
            printed.contains("# step 1 of 11: build")
                && printed.contains("export PLANISH_OUT=/src/app/.planish/build")
        );
    }
}
