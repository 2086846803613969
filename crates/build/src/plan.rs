//! Which steps lead from planish.toml to a measured, faster program?

pub use crate::STATE_DIRECTORY;
use crate::config::Config;
use crate::files::Round;
pub use crate::files::{Files, Measured, RELEASE, last, last_profile, last_summary, last_verify};
pub use crate::measured::{claims, notes, programs};
use crate::optimization::Stage;
use crate::stages::Stages;
use crate::target::{Knowledge, Target};
use crate::toolchain::Toolchain;
use crate::{Error, Plan, Step};
use std::path::Path;

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
    // A build that loses its lines or the map of its blocks is refused before anything is recorded.
    // The map is not loaded, and the code is the same with it. With libraries, the program may be
    // a launcher that somebody else has built.
    let address_map = config.optimize.lays_out();
    let recorded = config.build.libraries.is_empty();
    let base = Target::plain("build", Knowledge::None, &files.base);
    let mut steps = vec![stages.build(Target { address_map, recorded, ..base })?];
    let evaluation = config.evaluate.words().map_err(wrong)?;
    steps.extend(evaluation.iter().enumerate().map(|(n, words)| stages.try_evaluation(n, words)));
    let mut now = Round::FIRST;
    for stage in &config.optimize.steps {
        // Behind a layout, the rest is placed by what that was computed from.
        if *stage != Stage::BoltRest || config.optimize.bolts_profiled() {
            steps.extend(stages.observe(now));
        }
        match stage {
            Stage::Autofdo => {
                let last = now.number == config.optimize.profile_rounds();
                let relocations = last && (made("bolt") || config.optimize.bolts_profiled());
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
        if !config.optimize.goes_on_behind_profile() {
            steps.extend(stages.observe(now));
        }
        steps.extend(stages.bolt(now));
    }
    if made("pgo") {
        steps.extend(stages.counted(made("pgo-bolt"), made("pgo-layout"))?);
    }
    if made("pgo-bolt") || made("pgo-layout") {
        steps.extend(stages.observe(Round::COUNTED).into_iter().map(Step::optional));
    }
    if made("pgo-bolt") {
        steps.extend(stages.bolt(Round::COUNTED));
    }
    if made("pgo-layout") {
        steps.extend(stages.relink(Round::COUNTED)?.into_iter().map(Step::optional));
    }
    steps.extend(stages.release());
    for (n, command) in evaluation.iter().enumerate() {
        steps.push(stages.compare(&measured, n, command));
        let wanted = config.record.count_branches && config.evaluate.is_emulatable(n);
        let counted = measured.iter().filter(|program| wanted && !program.is_release());
        let counting: Vec<Step> =
            counted.map(|program| stages.count(program, n, command)).collect();
        steps.extend(counting);
    }
    steps.push(stages.report(&measured, file));
    steps.iter_mut().for_each(|step| step.not_inputs.push(file.into()));
    Ok(Plan { steps })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::described::Described;
    use std::path::PathBuf;

    fn plan(text: &str) -> Plan {
        plan_with(text, ["clang", "clang++"]).unwrap()
    }

    fn plan_with(text: &str, compilers: [&str; 2]) -> Result<Plan, Error> {
        let config = Config::parse(text, Path::new("planish.toml")).unwrap();
        let tool = |name: &str| name.to_owned();
        let ([cc, cxx], ld) = (compilers.map(tool), tool("ld.lld"));
        let (profdata, bolt) = (Some(tool("llvm-profdata")), Some(tool("llvm-bolt")));
        let tools = Toolchain { cc, cxx, ld, profdata, bolt, ..Toolchain::default() };
        optimize(&config, &tools, Path::new("/src/app"), "planish.toml")
    }

    #[test]
    fn a_compiler_that_nobody_can_stand_in_for_is_refused_where_there_is_a_layout() {
        let layout = format!("{TWO}[optimize]\nsteps = ['autofdo', 'propeller']\n");
        let refused = |compilers| plan_with(&layout, compilers).unwrap_err().to_string();
        assert!(plan_with(&layout, ["ccache clang", "ccache clang++"]).is_ok());
        assert!(refused(["own clang", "clang++"]).contains("does not know own"));
        let same = refused(["clang -m64", "clang -m64 --driver-mode=g++"]);
        assert!(same.contains("cc and cxx both name clang"), "{same}");
        assert!(plan_with(TWO, ["own clang", "clang++"]).is_ok(), "without a layout");
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
        let expected = "build try-1 record-1 record-2 aggregate profile rebuild verify compare-1 \
                        branches-base-1 branches-opt-1 report";
        assert_eq!(names.join(" "), expected);
        reads_only_what_was_made(&plan, Step::outputs);
    }

    #[test]
    fn the_projects_own_release_build_gets_nothing_of_planishs_and_is_measured_alone() {
        let text = TWO.replace("binary =", "release = 'make own'\nbinary =");
        let plan = plan(&text);
        let names: Vec<&str> = plan.steps.iter().map(|s| s.name.as_str()).collect();
        let expected = "verify release compare-1 branches-base-1 branches-opt-1 report";
        assert!(names.join(" ").ends_with(expected), "{names:?}");
        let step = plan.steps.iter().find(|s| s.name == "release").unwrap();
        assert!(step.optional);
        let call = step.call();
        let own = |name: &&String| !crate::target::OWN_VARIABLES.contains(&name.as_str());
        assert_eq!(call.environment.keys().filter(own).collect::<Vec<_>>(), ["PLANISH_OUT"]);
        assert_eq!(step.outputs(), [PathBuf::from(".planish/app.release")]);
        let compare = plan.steps.iter().find(|s| s.name == "compare-1").unwrap();
        assert!(compare.command_line().contains(".planish/app.release"), "{compare:?}");
        reads_only_what_was_made(&plan, Step::outputs);
    }

    #[test]
    fn programs_are_gauged_on_the_cpu_that_the_file_names() {
        let line = |text: &str, step: &str| {
            let plan = plan(text);
            plan.steps.iter().find(|s| s.name == step).unwrap().command_line()
        };
        let text = TWO.replace("'{bin} c'", "'{bin} c'\ncpu = 1\ngauge = true");
        let gauged = line(&text, "compare-1");
        assert!(gauged.contains(" --cpu=1 --gauge "), "{gauged}");
        // Before anything is recorded: a CPU that is not there is found there.
        let tried = line(&text, "try-1");
        assert!(tried.contains(" --cpu=1 ") && !tried.contains("--gauge"), "{tried}");
        let plain = line(TWO, "compare-1");
        assert!(!plain.contains("--cpu") && !plain.contains("--gauge"), "{plain}");
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
             --command './.planish/app.base b' --program .planish/app.base > .planish/training.json"
        );
        assert_eq!(
            step("record").command_line(),
            "planish train record --by .planish/training.json --binary .planish/app.base -o \
             .planish/run.counts --data .planish/train --budget 100 --program-output \
             .planish/log/record --command './.planish/app.base a' --command \
             './.planish/app.base b' --format json > .planish/counted.json"
        );
        assert!(step("record").inputs().contains(&".planish/training.json".into()));
        assert!(step("profile").command_line().contains(" --symbol-list "));
        // A shorter training is timed anew with another program.
        let twice = super::tests::plan(&(auto + "[optimize]\nsteps = ['autofdo', 'propeller']\n"));
        let again = twice.steps.iter().find(|s| s.name == "opt-time-training").unwrap();
        assert!(again.outputs().contains(&".planish/opt-training.json".into()), "{again:?}");
    }

    #[test]
    fn a_layout_is_computed_from_a_recording_of_the_rebuilt_program() {
        let all = TWO.to_owned()
            + "[optimize]\nsteps = ['autofdo', 'propeller']\nalso = ['bolt', 'pgo', 'pgo-bolt', 'pgo-layout']\n\
               test = 't {bin}'\n";
        let plan = plan(&all);
        let names: Vec<&str> = plan.steps.iter().map(|s| s.name.as_str()).collect();
        let expected = "build try-1 record-1 record-2 aggregate profile rebuild verify test-opt \
                        opt-record-1 opt-record-2 opt-aggregate layout relink layout-verify \
                        test-layout bolt-counts bolt pgo-build pgo-train-1 pgo-train-2 pgo-merge \
                        pgo-rebuild pgo-record-1 pgo-record-2 pgo-aggregate pgo-bolt-counts \
                        pgo-bolt pgo-layout pgo-relink pgo-layout-verify compare-1 \
                        branches-base-1 branches-opt-1 branches-layout-1 branches-bolt-1 \
                        branches-pgo-1 branches-pgo-bolt-1 branches-pgo-layout-1 report";
        assert_eq!(names.join(" "), expected);
        let step = |name: &str| plan.steps.iter().find(|s| s.name == name).unwrap();
        let (rebuild, relink) = (step("rebuild").call(), step("relink").call());
        assert_eq!(rebuild.environment["PLANISH_CFLAGS"], relink.environment["PLANISH_CFLAGS"]);
        assert_eq!(relink.environment["PLANISH_CC"], "/src/app/.planish/tools/clang");
        assert!(rebuild.environment["PLANISH_LDFLAGS"].ends_with("-Wl,--emit-relocs"));
        // The same with counters in the profile's place, in files of its own.
        let (counted, again) = (step("pgo-rebuild").call(), step("pgo-relink").call());
        assert_eq!(counted.environment["PLANISH_CFLAGS"], again.environment["PLANISH_CFLAGS"]);
        assert!(again.environment["PLANISH_CFLAGS"].contains("-fprofile-use=/src/app/.planish/"));
        let made = |name: &str| step(name).outputs();
        assert!(made("pgo-layout").contains(&".planish/pgo-app_cc_profile.txt".into()));
        for (own, other) in [("pgo-layout", "layout"), ("pgo-relink", "relink")] {
            let shared = made(own).into_iter().find(|path| made(other).contains(path));
            assert_eq!(shared, None, "{own} writes what {other} writes");
        }
        // The baseline is not recorded for a layout, but shows that the build keeps the map.
        for (variable, flag) in
            [("PLANISH_CFLAGS", "-fbasic-block-address-map"), ("PLANISH_LDFLAGS", "-address-map")]
        {
            assert!(step("build").call().environment[variable].contains(flag), "{variable}");
        }
        let unmapped = super::tests::plan(TWO).steps[0].call();
        assert!(!unmapped.environment["PLANISH_CFLAGS"].contains("address-map"));
        let described = Described { lines: true, blocks: false };
        assert_eq!(unmapped.described, described);
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
            "flags = '-g3'\nprofiled_flags = '-DX'\noptimize = '-O1'\n[workload]",
        );
        let said =
            notes(&(flags + "[optimize]\nalign_loops = 32\nfunction_sections = true\n"), true);
        for key in ["optimize", "flags", "profiled_flags", "align_loops", "function_sections"] {
            assert!(said.contains(&format!(" {key}")), "{key}: {said}");
        }
        let layout =
            notes(&(TWO.to_owned() + "[optimize]\nsteps = ['autofdo', 'propeller']\n"), true);
        assert_eq!(layout, "");
    }

    #[test]
    fn claims_of_one_run_are_corrected_together_and_slower_is_confirmed() {
        let all = "[optimize]\nsteps = ['autofdo', 'propeller']\nalso = ['pgo']\n";
        let two = TWO.replace("'{bin} c'", "['{bin} c', '{bin} d']");
        let plan = plan(&(two + all));
        for name in ["compare-1", "compare-2"] {
            let step = plan.steps.iter().find(|s| s.name == name).unwrap();
            // Three programs beside the baseline, and the layout beside the profile, on two commands.
            assert!(step.command_line().contains("--among 8 --confirm"), "{}", step.command_line());
        }
    }

    #[test]
    fn the_steps_are_commands_a_user_can_type() {
        let plan = plan(TWO);
        let line = |n: usize| plan.steps[n].command_line();
        assert_eq!(
            line(1),
            "planish train try --program .planish/app.base --metric cpu --program-output \
             .planish/log/try-1.output -- ./.planish/app.base c"
        );
        assert_eq!(
            line(2),
            "planish record -o .planish/train-1.data --branches=hardware --whole --accept-losses \
             --program-output .planish/log/record-1.output -- ./.planish/app.base a"
        );
        assert_eq!(
            line(4),
            "planish aggregate .planish/train-1.data .planish/train-2.data --binary \
             .planish/app.base -o .planish/run.counts --format json > .planish/counted.json"
        );
        assert_eq!(
            line(5),
            "planish profile .planish/run.counts --binary .planish/app.base --emit extbinary -o \
             .planish/app.afdo --format json > .planish/profile.json"
        );
        let printed = plan.describe(&[]);
        assert!(
            printed.contains("# step 1 of 12: build")
                && printed.contains("export PLANISH_OUT=/src/app/.planish/build")
        );
    }
}
