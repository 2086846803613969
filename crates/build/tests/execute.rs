//! How plans run: what is repeated, what is kept, what a failure leaves behind. Steps are small
//! shell commands.

use build::call::{Input, Output, Word, Wrapper};
use build::execute::{Event, Place, run};
use build::plan::STATE_DIRECTORY;
use build::request::{BuildCommand, LibraryRule, UserCommand};
use build::{Error, Plan, Request, Step};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A line for the shell in which "$1" is the output.
fn command(line: &str, inputs: &[&str], output: &str) -> UserCommand {
    let words = [Word::from("-c"), Word::from(line), Word::from("sh")];
    UserCommand {
        program: "sh".into(),
        words: words.into_iter().chain([Word::from(&Output::from(output))]).collect(),
        reads: inputs.iter().map(Input::from).collect(),
        ..UserCommand::default()
    }
}

fn shell(name: &str, line: &str, inputs: &[&str], output: &str) -> Step {
    Step::new(name, Request::Command(command(line, inputs, output)))
}

/// A build command that leaves its program as `made`.
fn build_command(command: &[&str], made: &str, program: &str) -> BuildCommand {
    BuildCommand {
        command: command.iter().map(|&word| word.to_owned()).collect(),
        environment: [].into(),
        wrappers: Vec::new(),
        sources: Vec::new(),
        knowledge: None,
        layout: Vec::new(),
        fresh_directories: Vec::new(),
        made: made.into(),
        program: Output::from(program),
        pages: build::pages::Pages::Auto,
        described: build::described::Described::default(),
        libraries: LibraryRule::Any,
        more: Vec::new(),
        may_lack: Vec::new(),
        by_link: None,
    }
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
    let flags = [("FLAGS".to_owned(), "-O3".to_owned())].into();
    let second = command("cat middle middle > \"$1\"", &["middle"], "out");
    changed.steps[1].request = Request::Command(UserCommand { environment: flags, ..second });
    assert_eq!(ran(&changed, folder.path()).unwrap(), ["second"]);
}

#[test]
fn a_build_that_fails_over_what_another_ones_configure_kept_is_configured_anew() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join(STATE_DIRECTORY).join("configure");
    let line = "kept=$PLANISH_CONFIGURE; echo run >>runs; if test -e \"$kept/a.cache\"; then exit 1; fi; \
                test ! -d \"$kept\" || touch \"$kept/a.cache\"; mkdir -p made; echo \"$1\" >made/app; \
                test \"$1\" != never";
    let step = |name: &str, fresh: bool| {
        let program = format!("{STATE_DIRECTORY}/app.{name}");
        let mut build = build_command(&["sh", "-c", line, "sh", name], "made/app", &program);
        build.environment = [("PLANISH_CONFIGURE".to_owned(), kept.display().to_string())].into();
        let own = fresh.then(|| Path::new(STATE_DIRECTORY).join("configure"));
        build.fresh_directories = own.into_iter().collect();
        Step::new(name, Request::Build(build))
    };
    let plan = Plan { steps: vec![step("base", true), step("opt", false), step("pgo", false)] };
    let mut said = Vec::new();
    let place = Place { directory: folder.path(), planish: Path::new("/nowhere"), terminal: false };
    let heard = &mut |_, _, event: Event<'_>| {
        if let Event::Said(step, line) = event {
            said.push(format!("{}: {line}", step.name));
        }
    };
    run(&plan, place, &AtomicBool::new(false), heard).unwrap();
    assert!(said.iter().any(|line| line.starts_with("opt: ") && line.contains("anew")), "{said:?}");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read(".planish/app.opt"), "opt\n");
    // Later builds are not tried with it.
    assert_eq!(read("runs").lines().count(), 4);
    // What fails by itself fails once more, and no other time.
    std::fs::remove_dir_all(folder.path().join(STATE_DIRECTORY)).unwrap();
    std::fs::write(folder.path().join("runs"), "").unwrap();
    let plan = Plan { steps: vec![step("base", true), step("never", false)] };
    assert!(ran(&plan, folder.path()).is_err());
    assert_eq!(read("runs").lines().count(), 3);
}

#[test]
fn a_file_that_a_command_names_decides_unless_the_command_writes_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut step = shell("first", "cat data > \"$1\"; echo run >> log", &[], "out");
    step.named = ["data", "log", "100", "nowhere"].map(Into::into).to_vec();
    let plan = Plan { steps: vec![step] };
    let runs = || ran(&plan, folder.path()).unwrap().len();
    std::fs::write(at("data"), "one").unwrap();
    assert_eq!((runs(), runs(), runs()), (1, 0, 0));
    std::fs::write(at("data"), "another").unwrap();
    assert_eq!((runs(), runs()), (1, 0));
    std::fs::write(at("log"), "whatever").unwrap();
    assert_eq!(runs(), 0, "the step writes it itself");
    std::fs::write(at("nowhere"), "there now").unwrap();
    assert_eq!((runs(), runs()), (1, 0));
    std::fs::remove_file(at("data")).unwrap();
    std::fs::write(at("nowhere"), "").unwrap();
    assert_eq!(runs(), 1);
}

#[test]
fn why_a_step_runs_again_is_told_once_and_not_of_one_that_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let source = |name: &str, text: &str| {
        std::fs::create_dir_all(folder.path().join("src")).unwrap();
        std::fs::write(folder.path().join("src").join(name), text).unwrap();
    };
    let told = |plan: &Plan| {
        let place =
            Place { directory: folder.path(), planish: Path::new("/nowhere"), terminal: false };
        let mut told = Vec::new();
        run(plan, place, &AtomicBool::new(false), &mut |_, _, event| {
            if let Event::Again(step, why) = event {
                told.push(format!("{}: {why}", step.name));
            }
        })
        .unwrap();
        told
    };
    let output = |name: &str| format!("{STATE_DIRECTORY}/{name}");
    let reads = |name: &str, inputs: &[&str]| {
        shell(name, &format!("cat {} > \"$1\"", inputs[0]), inputs, &output(name))
    };
    let first = output("first");
    let steps = vec![
        shell("first", "cat src/* > \"$1\"", &["src"], &first),
        reads("second", &[&first, "src"]),
        reads("third", &[&first]),
    ];
    let plan = Plan { steps };
    source("a.c", "one");
    source("b.c", "one");
    assert!(told(&plan).is_empty() && told(&plan).is_empty());
    source("a.c", "another");
    source("c.c", "one");
    assert_eq!(told(&plan), ["first: runs again because src/a.c changed and src/c.c is new"]);
    std::fs::remove_file(folder.path().join("src/b.c")).unwrap();
    assert_eq!(told(&plan), ["first: runs again because src/b.c is gone"]);
    // What is gone is told once, also when the step runs again for another reason.
    std::fs::remove_file(folder.path().join(&first)).unwrap();
    assert!(told(&plan).is_empty());
    source("new.c", "one");
    assert_eq!(told(&plan), ["first: runs again because src/new.c is new"]);
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
    let mut request = build_command(&["true"], "build/app", "app");
    request.environment = [("PLANISH_OUT".to_owned(), "/src/build".to_owned())].into();
    let said = |request: &BuildCommand| {
        let steps = vec![Step::new("build", Request::Build(request.clone()))];
        ran(&Plan { steps }, folder.path()).unwrap_err().to_string()
    };
    let message = said(&request);
    assert!(
        message.contains("made no build/app") && message.contains("$PLANISH_OUT (/src/build)"),
        "{message}"
    );
    // A step that is no build gets no hint at the build command.
    request.environment.clear();
    let message = said(&request);
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
    let mut request = command("echo 42; echo wrote \"$1\" >&2; echo \"$1\" > \"$1\"", &[], "runs");
    request.words.push(Word::Stdout(Output::from("count.json")));
    let steps = vec![Step::new("count", Request::Command(request))];
    let place = Place { directory: folder.path(), planish: Path::new("/nowhere"), terminal: false };
    let mut said = Vec::new();
    run(&Plan { steps }, place, &AtomicBool::new(false), &mut |_, _, event| {
        if let Event::Said(_, line) = event {
            said.push(line.to_owned());
        }
    })
    .unwrap();
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    assert_eq!((read("count.json"), read("runs")), (b"42\n".to_vec(), b"runs\n".to_vec()));
    assert_eq!(said, ["wrote runs"]);
    let log = std::fs::read_to_string(folder.path().join(".planish/log/count.log")).unwrap();
    assert!(log.ends_with("sh runs > count.json\nwrote runs\n"), "{log}");
}

#[test]
fn what_an_earlier_run_made_comes_back_where_the_step_fails_and_is_not_taken_for_the_new() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let plan = |line: &str| Plan { steps: vec![shell("make", line, &["in"], "out")] };
    let make = "cat in > \"$1\"";
    std::fs::write(at("in"), "old").unwrap();
    ran(&plan(make), folder.path()).unwrap();
    // Half of it is made, or nothing, or all of it before the failure.
    for line in ["echo half > \"$1\"; exit 2", "test ! -e \"$1\"", "echo new > \"$1\"; exit 1"] {
        assert!(ran(&plan(line), folder.path()).is_err(), "{line}");
        assert_eq!(std::fs::read(at("out")).unwrap(), b"old", "{line}");
    }
    // Nothing has changed since, so nothing runs.
    assert!(ran(&plan(make), folder.path()).unwrap().is_empty());
    let mut left: Vec<_> = std::fs::read_dir(at(STATE_DIRECTORY)).unwrap().flatten().collect();
    left.retain(|entry| !["log", "state.json"].map(Into::into).contains(&entry.file_name()));
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_is_planted_where_outputs_go_is_not_followed() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let elsewhere = tempfile::tempdir().unwrap();
    let precious = elsewhere.path().join("precious");
    std::fs::write(&precious, "mine").unwrap();
    std::fs::create_dir(at(STATE_DIRECTORY)).unwrap();
    for name in ["app", "out", "told"] {
        symlink(&precious, at(name)).unwrap();
    }
    symlink(elsewhere.path(), at(STATE_DIRECTORY).join("aside")).unwrap();
    let build = build_command(&["sh", "-c", "echo program > made"], "made", "app");
    let mut request = command("echo text; echo new > \"$1\"", &[], "out");
    request.words.push(Word::Stdout(Output::from("told")));
    let requests = [("build", Request::Build(build)), ("make", Request::Command(request))];
    let steps = requests.map(|(name, request)| Step::new(name, request)).to_vec();
    assert_eq!(ran(&Plan { steps }, folder.path()).unwrap(), ["build", "make"]);
    assert_eq!(std::fs::read(&precious).unwrap(), b"mine");
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 1);
    for (name, content) in [("app", "program\n"), ("out", "new\n"), ("told", "text\n")] {
        assert!(!at(name).is_symlink() && std::fs::read_to_string(at(name)).unwrap() == content);
    }
}

#[test]
fn a_directory_where_an_output_goes_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("precious"), "mine").unwrap();
    std::fs::write(folder.path().join("later"), "mine").unwrap();
    let mut request = command("echo new > \"$1\"", &[], "out");
    request.words.push(Word::from(&Output::from("later")));
    let plan = Plan { steps: vec![Step::new("make", Request::Command(request))] };
    let message = ran(&plan, folder.path()).unwrap_err().to_string();
    assert!(message.contains("out: cannot replace"), "{message}");
    assert_eq!(std::fs::read(folder.path().join("later")).unwrap(), b"mine");
    assert_eq!(std::fs::read(out.join("precious")).unwrap(), b"mine");
}

#[test]
fn what_depends_on_a_failed_optional_step_is_left_out_and_its_old_output_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut plan = two_steps();
    plan.steps.iter_mut().for_each(|step| step.optional = true);
    let those_there = "o=$1; shift; for f; do if [ -e $f ]; then echo $f; fi; done > \"$o\"";
    let mut last = command(those_there, &[], "all");
    last.words.extend(["in", "out"].map(|name| Word::Input(Input::from(name))));
    plan.steps.push(Step::new("last", Request::Command(last)));
    std::fs::write(at("in"), "x").unwrap();
    assert_eq!(ran(&plan, folder.path()).unwrap(), ["first", "second", "last"]);
    assert_eq!(std::fs::read(at("all")).unwrap(), b"in\nout\n");
    // Now the first one fails: the second has nothing to read, and the last one goes without.
    plan.steps[0].request = Request::Command(command("exit 1", &["in"], "middle"));
    assert_eq!(ran(&plan, folder.path()).unwrap(), ["first", "last"]);
    assert!(!at("middle").exists() && !at("out").exists());
    assert_eq!(std::fs::read(at("all")).unwrap(), b"in\n");
}

#[test]
fn what_reads_a_directory_of_a_failed_optional_step_is_left_out_too() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let train = |n: usize, then: &str| {
        let line = format!("cat in > counters/{n}/raw{then}");
        let request = UserCommand {
            program: "sh".into(),
            words: vec![Word::from("-c"), Word::from(line)],
            reads: vec![Input::from("in")],
            fresh_directories: vec![format!("counters/{n}").into(), "build".into()],
            ..UserCommand::default()
        };
        Step::new(format!("train-{n}"), Request::Command(request))
    };
    let merge =
        shell("merge", "cat counters/*/raw > \"$1\"", &["counters/1", "counters/2"], "merged");
    let mut plan = Plan { steps: vec![train(1, ""), train(2, ""), merge] };
    plan.steps.iter_mut().for_each(|step| step.optional = true);
    std::fs::write(at("in"), "x").unwrap();
    assert_eq!(ran(&plan, folder.path()).unwrap(), ["train-1", "train-2", "merge"]);
    assert_eq!(std::fs::read(at("merged")).unwrap(), b"xx");
    assert!(ran(&plan, folder.path()).unwrap().is_empty());
    // The second fails after it has counted something: nobody merges that, nor what it counted
    // before.
    plan.steps[1].request = train(2, "; exit 1").request;
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
    let mut request = build_command(&["sh", "-c", "tools/cc-22 'a b' -c > made"], "made", "out");
    let wrapper = Wrapper {
        path: "tools/cc-22".into(),
        compiler: ["/usr/bin/cc-22", "-m64"].map(String::from).to_vec(),
    };
    request.wrappers = vec![wrapper];
    let steps = vec![Step::new("build", Request::Build(request))];
    let place = Place { directory: folder.path(), planish: &planish, terminal: false };
    run(&Plan { steps }, place, &AtomicBool::new(false), &mut |_, _, _| {}).unwrap();
    let told = std::fs::read_to_string(folder.path().join("out")).unwrap();
    assert_eq!(told, "compiler|--|/usr/bin/cc-22|-m64|a b|-c|");
}
