//! How plans run: what is repeated, what is kept, what a failure leaves behind. Steps are small
//! shell commands.

use build::execute::{Event, Place, run};
use build::plan::STATE_DIRECTORY;
use build::{Error, Plan, Program, Step};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

fn shell(name: &str, line: &str, inputs: &[&str], output: &str) -> Step {
    let mut step = Step::new(name, Program::Named("sh".into()));
    // "$1" is the output, so that it is replaced while the step runs.
    step.arguments = ["-c", line, "sh", output].map(str::to_owned).to_vec();
    step.inputs = inputs.iter().map(Into::into).collect();
    step.outputs = vec![output.into()];
    step
}

fn two_steps() -> Plan {
    let first = shell("first", "tr a-z A-Z < in > \"$1\"", &["in"], "middle");
    let second = shell("second", "cat middle middle > \"$1\"", &["middle"], "out");
    Plan { steps: vec![first, second] }
}

/// Runs and tells which steps really ran.
fn ran(plan: &Plan, directory: &Path) -> Result<Vec<String>, Error> {
    let place = Place { directory, planish: Path::new("/nowhere"), terminal: false };
    let mut names = Vec::new();
    run(plan, place, &AtomicBool::new(false), &mut |_, _, event| {
        if let Event::Started(step) = event {
            names.push(step.name.clone());
        }
    })?;
    Ok(names)
}

#[test]
fn a_finished_step_is_not_repeated_unless_its_inputs_changed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("in"), "x").unwrap();
    assert_eq!(ran(&two_steps(), folder.path()).unwrap(), ["first", "second"]);
    assert_eq!(std::fs::read(at("out")).unwrap(), b"XX");
    assert!(ran(&two_steps(), folder.path()).unwrap().is_empty());
    // A changed input repeats what depends on it, but only as far as the results differ.
    std::fs::write(at("in"), "X").unwrap();
    assert_eq!(ran(&two_steps(), folder.path()).unwrap(), ["first"]);
    std::fs::write(at("in"), "yy").unwrap();
    assert_eq!(ran(&two_steps(), folder.path()).unwrap(), ["first", "second"]);
    // So does a removed or changed output, and a changed command.
    std::fs::write(at("middle"), "spoilt").unwrap();
    assert_eq!(ran(&two_steps(), folder.path()).unwrap(), ["first"]);
    let mut changed = two_steps();
    changed.steps[1].environment.insert("FLAGS".into(), "-O3".into());
    assert_eq!(ran(&changed, folder.path()).unwrap(), ["second"]);
}

#[test]
fn a_failing_step_names_its_command_its_last_words_and_its_log_and_leaves_no_output() {
    let folder = tempfile::tempdir().unwrap();
    let line = "echo half > \"$1\"; echo 'no rule to make app' >&2; exit 2";
    let plan = Plan { steps: vec![shell("build", line, &[], "out")] };
    let message = ran(&plan, folder.path()).unwrap_err().to_string();
    assert!(
        message.contains("step build failed") && message.contains("no rule to make app"),
        "{message}"
    );
    assert!(message.contains(".planish/log/build.log"), "{message}");
    assert!(!folder.path().join("out").exists());
    let log =
        std::fs::read_to_string(folder.path().join(STATE_DIRECTORY).join("log/build.log")).unwrap();
    assert!(log.starts_with("$ sh -c"), "{log}");
}

#[test]
fn a_step_that_makes_nothing_is_an_error_although_it_ended_well() {
    let folder = tempfile::tempdir().unwrap();
    let mut step = Step::new("build", Program::Named("true".into()));
    step.collect = vec![("build/app".into(), "app".into())];
    step.outputs = vec!["app".into()];
    step.environment.insert("PLANISH_OUT".into(), "/src/build".into());
    let said = |step: &Step| {
        ran(&Plan { steps: vec![step.clone()] }, folder.path()).unwrap_err().to_string()
    };
    let message = said(&step);
    assert!(
        message.contains("made no build/app") && message.contains("$PLANISH_OUT (/src/build)"),
        "{message}"
    );
    // A step that is no build gets no hint at the build command.
    step.environment.clear();
    let message = said(&step);
    assert!(message.contains("made no build/app") && !message.contains("PLANISH_OUT"), "{message}");
}

#[test]
fn an_interrupted_plan_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in"), "x").unwrap();
    let stop = AtomicBool::new(false);
    let place = Place { directory: folder.path(), planish: Path::new("/nowhere"), terminal: false };
    let result = run(&two_steps(), place, &stop, &mut |_, _, event| {
        if let Event::Finished(step, _) = event {
            stop.store(step.name == "first", Ordering::Relaxed);
        }
    });
    assert!(matches!(result, Err(Error::Interrupted { step }) if step == "second"));
    assert_eq!(ran(&two_steps(), folder.path()).unwrap(), ["second"]);
}

#[test]
fn an_optional_step_may_fail_and_is_tried_again_next_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut count = shell("count", "exit 1", &[], "count.json");
    count.optional = true;
    let report = shell("report", "echo done > \"$1\"", &["count.json"], "report");
    let plan = Plan { steps: vec![count, report] };
    assert_eq!(ran(&plan, folder.path()).unwrap(), ["count", "report"]);
    assert_eq!(ran(&plan, folder.path()).unwrap(), ["count"]);
}

#[test]
fn standard_output_goes_to_the_output_that_takes_it_and_words_name_final_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut step = shell("count", "echo 42; echo wrote \"$1\" >&2", &[], "count.json");
    step.stdout = Some("count.json".into());
    let place = Place { directory: folder.path(), planish: Path::new("/nowhere"), terminal: false };
    let mut said = Vec::new();
    run(&Plan { steps: vec![step] }, place, &AtomicBool::new(false), &mut |_, _, event| {
        if let Event::Said(_, line) = event {
            said.push(line.to_owned());
        }
    })
    .unwrap();
    assert_eq!(std::fs::read(folder.path().join("count.json")).unwrap(), b"42\n");
    assert_eq!(said, ["wrote count.json"]);
}

#[test]
fn what_depends_on_a_failed_optional_step_is_left_out_and_its_old_output_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut plan = two_steps();
    plan.steps.iter_mut().for_each(|step| step.optional = true);
    let mut last =
        shell("last", "echo \"$@\" | tr ' ' '\\n' | tail -n +2 > \"$1\"", &["in", "out"], "all");
    last.arguments.extend(["in".to_owned(), "out".to_owned()]);
    last.not_there = vec!["out".into()];
    plan.steps.push(last);
    std::fs::write(at("in"), "x").unwrap();
    assert_eq!(ran(&plan, folder.path()).unwrap(), ["first", "second", "last"]);
    assert_eq!(std::fs::read(at("all")).unwrap(), b"in\nout\n");
    // Now the first one fails: the second has nothing to read, and the last one goes without.
    plan.steps[0].arguments[1] = "exit 1".into();
    assert_eq!(ran(&plan, folder.path()).unwrap(), ["first", "last"]);
    assert!(!at("middle").exists() && !at("out").exists());
    assert_eq!(std::fs::read(at("all")).unwrap(), b"in\n");
}

#[test]
fn what_reads_a_directory_of_a_failed_optional_step_is_left_out_too() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let train = |n: usize| {
        let mut step = Step::new(format!("train-{n}"), Program::Named("sh".into()));
        step.arguments = ["-c".into(), format!("cat in > counters/{n}/raw")].to_vec();
        step.inputs = vec!["in".into()];
        step.fresh_directories = vec![format!("counters/{n}").into(), "build".into()];
        step
    };
    let merge =
        shell("merge", "cat counters/*/raw > \"$1\"", &["counters/1", "counters/2"], "merged");
    let mut plan = Plan { steps: vec![train(1), train(2), merge] };
    plan.steps.iter_mut().for_each(|step| step.optional = true);
    std::fs::write(at("in"), "x").unwrap();
    assert_eq!(ran(&plan, folder.path()).unwrap(), ["train-1", "train-2", "merge"]);
    assert_eq!(std::fs::read(at("merged")).unwrap(), b"xx");
    assert!(ran(&plan, folder.path()).unwrap().is_empty());
    // The second fails after it has counted something: nobody merges that, nor what it counted
    // before.
    plan.steps[1].arguments[1] += "; exit 1";
    assert_eq!(ran(&plan, folder.path()).unwrap(), ["train-2"]);
    assert!(!at("merged").exists() && !at("counters/2").exists() && at("counters/1/raw").exists());
    // A directory that no step reads stays for whoever looks for the cause.
    assert!(at("build").exists());
}

#[test]
fn a_wrapper_stands_in_a_compilers_place() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let planish = folder.path().join("the planish");
    std::fs::write(&planish, "#!/bin/sh\nprintf '%s|' \"$@\"\n").unwrap();
    std::fs::set_permissions(&planish, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut step = shell("build", "tools/cc-22 'a b' -c > \"$1\"", &[], "out");
    step.wrappers = vec![build::step::Wrapper {
        path: "tools/cc-22".into(),
        compiler: "/usr/bin/cc-22".into(),
    }];
    let place = Place { directory: folder.path(), planish: &planish, terminal: false };
    run(&Plan { steps: vec![step] }, place, &AtomicBool::new(false), &mut |_, _, _| {}).unwrap();
    let told = std::fs::read_to_string(folder.path().join("out")).unwrap();
    assert_eq!(told, "compiler|--|/usr/bin/cc-22|a b|-c|");
}
