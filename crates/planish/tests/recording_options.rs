//! `planish record` with perf's options: what perf reads out of the file, and what is said where an
//! option cannot work.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Busy for some hundredths of a second, with system calls.
const BUSY: [&str; 4] =
    ["--", "sh", "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; true"];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn planish(dir: &Path, options: &[&str], command: &[&str]) -> Output {
    let words = [&["record"], options, command].concat();
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(dir).args(words).stdin(Stdio::null()).output().unwrap()
}

/// A program that runs until the test ends, however it ends.
struct Running(std::process::Child);

impl Running {
    fn start(words: &[&str]) -> Running {
        Running(
            Command::new(words[0])
                .args(&words[1..])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Records; `None`, with a note, where the kernel does not allow it or perf is not there to look at
/// it.
fn recorded(dir: &Path, options: &[&str], command: &[&str]) -> Option<Output> {
    let done = planish(dir, options, command);
    let said = text(&done.stderr);
    let skipped = if done.status.success() {
        Command::new("perf").arg("--version").output().is_err().then_some("perf is not installed")
    } else {
        assert!(
            said.contains("perf_event_paranoid") || said.contains("tracefs"),
            "{options:?}: {said}"
        );
        Some(said.as_str())
    };
    match skipped {
        Some(why) => {
            eprintln!("skipped: {why}");
            None
        }
        None => Some(done),
    }
}

/// What perf prints about the recording; it must not complain.
fn perf(dir: &Path, words: &[&str]) -> String {
    let done = Command::new("perf")
        .current_dir(dir)
        .args(words)
        .args(["-i", "perf.data"])
        .output()
        .unwrap();
    let said = text(&done.stderr);
    assert!(done.status.success(), "{words:?}: {said}");
    assert!(
        !said.to_lowercase().contains("error") && !said.contains("unprocessable"),
        "{words:?}: {said}"
    );
    text(&done.stdout)
}

#[test]
fn perf_lists_the_events_by_the_names_and_settings_that_were_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &[&str]); 8] = [
        (&["-e", "cpu-clock:u"], &["cpu-clock:u: type: 1", "exclude_kernel: 1"]),
        (&["-e", "cpu-clock/name='any, text'/"], &["any, text: type: 1"]),
        (
            &["-e", "{cpu-clock,page-faults}:S"],
            &["READ", "GROUP", "page-faults: type: 1", "config: 0x2"],
        ),
        (&["-e", "cpu-clock/period=100003/"], &["{ sample_period, sample_freq }: 100003"]),
        (
            &["-e", "cpu-clock", "-e", "cs,faults:u", "-c", "9999"],
            &["cs: type: 1", "faults:u: type: 1", ": 9999"],
        ),
        (
            &["-e", "cpu-clock", "--user-regs=ip,sp", "-d"],
            &["ADDR", "REGS_USER", "sample_regs_user: 0x180"],
        ),
        (
            &["-e", "cpu-clock", "-s", "-k", "raw", "-i"],
            &["inherit_stat: 1", "clockid: 4", "TOTAL_TIME_RUNNING"],
        ),
        (
            &["-e", "cpu-clock", "-m", "16", "--namespaces", "--switch-events"],
            &["context_switch: 1", "namespaces: 1"],
        ),
    ];
    for (options, expected) in cases {
        if recorded(dir.path(), options, &BUSY).is_none() {
            return;
        }
        let listed = perf(dir.path(), &["evlist", "-v"]);
        for part in expected {
            assert!(listed.contains(part), "{options:?}: {part}\n{listed}");
        }
        assert!(
            perf(dir.path(), &["script", "-F", "comm,event,ip"]).lines().count() > 0,
            "{options:?}"
        );
        perf(dir.path(), &["report", "--stdio"]);
    }
    recorded(dir.path(), &["-e", "{cpu-clock,page-faults}"], &BUSY);
    assert!(perf(dir.path(), &["evlist", "-g"]).contains("{cpu-clock,page-faults}"));
}

#[test]
fn command_lines_for_perf_are_taken_and_ask_the_kernel_for_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let asked = |listed: &str| {
        let fields = [
            "sample_regs_intr",
            "sample_regs_user",
            "exclude_user",
            "exclude_kernel",
            "config",
            "type",
        ];
        let lines =
            listed.lines().filter(|line| line.contains("type:") && !line.starts_with("dummy"));
        lines
            .map(|line| {
                let value = |field: &&str| {
                    let found =
                        line.split(", ").find_map(|part| part.split_once(&format!("{field}: ")));
                    found.map(|(_, value)| (field.to_string(), value.trim().to_owned()))
                };
                // planish always asks for the number of the event, and perf where it needs that, in
                // one place or another.
                let types = line
                    .split("sample_type: ")
                    .nth(1)
                    .and_then(|rest| rest.split(',').next())
                    .unwrap();
                let types: Vec<String> = types
                    .split('|')
                    .filter(|one| !matches!(*one, "ID" | "IDENTIFIER"))
                    .map(str::to_owned)
                    .collect();
                let name = line.split(": ").next().unwrap().trim().to_owned();
                (name, types, fields.iter().filter_map(value).collect::<Vec<_>>())
            })
            .collect::<Vec<_>>()
    };
    let cases: [(&[&str], Option<&str>); 14] = [
        (&["-N", "-B", "-T"], Some("-N changes nothing")),
        (&["--aio"], Some("--aio changes nothing")),
        (
            &["--aio=3", "--buildid-all", "--buildid-mmap", "-P", "--sample-identifier"],
            Some("-P changes nothing"),
        ),
        (&["-R"], None),
        (&["--sample-cpu"], None),
        (&["-z0"], None),
        (&["--threads=package"], None),
        (&["--threads=numa"], None),
        (&["--threads=0/0"], None),
        (&["-I"], None),
        (&["-Iax,bx"], None),
        // Each letter is an option, too.
        (&["-Isi"], None),
        (&["--intr-regs=IP,sp", "--user-regs=ax"], None),
        (&["--all-user"], None),
    ];
    for (options, said) in cases {
        let words = [&["-e", "cpu-clock:u, cs:u"], options].concat();
        let Some(done) = recorded(dir.path(), &words, &BUSY) else { return };
        if let Some(said) = said {
            assert!(text(&done.stderr).contains(said), "{options:?}: {}", text(&done.stderr));
        }
        let ours = asked(&perf(dir.path(), &["evlist", "-v"]));
        let mut perfs = Command::new("perf");
        perfs.current_dir(dir.path()).args(["record", "-o", "theirs"]).args(&words).args(BUSY);
        let told = perfs.output().unwrap();
        if options.iter().any(|word| word.starts_with("--aio")) && !told.status.success() {
            eprintln!("skipped: this perf was built without --aio: {}", text(&told.stderr));
            let _ = std::fs::remove_file(dir.path().join("theirs"));
            continue;
        }
        assert!(told.status.success(), "{options:?}: {}", text(&told.stderr));
        let listed = Command::new("perf")
            .current_dir(dir.path())
            .args(["evlist", "-v", "-i", "theirs"])
            .output();
        assert_eq!(ours, asked(&text(&listed.unwrap().stdout)), "{options:?}");
        for left in ["perf.data", "theirs", "theirs.old", "perf.data.old"] {
            let left = dir.path().join(left);
            let _ = std::fs::remove_dir_all(&left).or_else(|_| std::fs::remove_file(&left));
        }
    }
}

#[test]
fn names_in_double_quotes_are_stored_without_them_as_perf_stores_them() {
    let dir = tempfile::tempdir().unwrap();
    let event = "cpu-clock/name=\"CPU_CLK_UNHALTED.THREAD\"/, cs/name='two words'/";
    if recorded(dir.path(), &["-e", event], &BUSY).is_some() {
        assert_eq!(
            perf(dir.path(), &["evlist"]).lines().collect::<Vec<_>>(),
            ["CPU_CLK_UNHALTED.THREAD", "two words"]
        );
    }
}

#[test]
fn a_question_mark_lists_the_registers_and_masks_of_other_machines_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for options in [&["--intr-regs=?"][..], &["-I?"], &["--user-regs=?"]] {
        let done = planish(dir.path(), options, &[]);
        assert_eq!(done.status.code(), Some(0), "{options:?}: {}", text(&done.stderr));
        assert!(text(&done.stdout).starts_with("available registers: "), "{options:?}");
    }
    for (mask, expected) in
        [("0-1", "0-3/0:4-7/4"), ("0/0:0/0", "no CPU"), ("9999/0", "this machine's CPUs")]
    {
        let done = planish(dir.path(), &[&format!("--threads={mask}")], &BUSY);
        assert_eq!(done.status.code(), Some(2));
        assert!(text(&done.stderr).contains(expected), "{mask}: {}", text(&done.stderr));
    }
    assert!(!dir.path().join("perf.data").exists());
}

/// A program whose functions all keep frame pointers, which works three calls below `main`; `None`,
/// with a note, without a compiler.
fn nested(dir: &Path) -> Option<std::path::PathBuf> {
    let output = dir.join("nested");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/nested.c");
    let flags = ["-O0", "-fno-omit-frame-pointer", "-o"];
    match Command::new("cc").args(flags).arg(&output).arg(source).output() {
        Ok(done) if done.status.success() => Some(output),
        Ok(done) => panic!("{}", text(&done.stderr)),
        Err(why) => {
            eprintln!("skipped: cc: {why}");
            None
        }
    }
}

#[test]
fn call_graphs_lead_back_to_the_beginning() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = nested(dir.path()) else { return };
    let both = ["-g", "--call-graph", "dwarf,4096"];
    for how in [&["-g"][..], &["--call-graph", "fp"], &["--call-graph", "dwarf,4096"], &both] {
        let options = [&["-e", "cpu-clock:u"], how].concat();
        if recorded(dir.path(), &options, &["--", program.to_str().unwrap()]).is_none() {
            return;
        }
        let script = perf(dir.path(), &["script", "-F", "ip,sym"]);
        // A sample is a paragraph of one line a frame, the innermost first.
        let samples: Vec<&str> =
            script.split("\n\n").filter(|lines| lines.contains("innermost")).collect();
        let callers = ["innermost", "inner", "middle", "main"];
        let whole = samples.iter().filter(|lines| {
            let names = lines.lines().filter_map(|line| line.split_whitespace().nth(1));
            names.filter(|name| callers.contains(name)).eq(callers)
        });
        let whole = whole.count();
        assert!(
            samples.len() > 5 && whole * 10 > samples.len() * 9,
            "{how:?}: {whole} of {}",
            samples.len()
        );
    }
}

#[test]
fn switches_namespaces_and_a_delay_are_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let options = ["-e", "cpu-clock", "--switch-events", "--namespaces"];
    let command =
        ["--", "sh", "-c", "sleep 0.02; i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done"];
    if recorded(dir.path(), &options, &command).is_none() {
        return;
    }
    let script = perf(dir.path(), &["script", "--show-switch-events", "--show-namespace-events"]);
    assert!(
        script.contains("PERF_RECORD_SWITCH") && script.contains("PERF_RECORD_NAMESPACES"),
        "{script}"
    );
    let command = ["--", "sh", "-c", "i=0; while [ $i -lt 900000 ]; do i=$((i+1)); done"];
    recorded(dir.path(), &["-e", "cpu-clock", "-D", "150"], &command).unwrap();
    let script =
        perf(dir.path(), &["script", "-F", "time,comm,event,dso,ip", "--show-mmap-events"]);
    let time = |line: &str| {
        line.split_whitespace().find_map(|word| word.strip_suffix(':')?.parse::<f64>().ok())
    };
    let first = |what: &str| script.lines().find(|line| line.contains(what)).and_then(time);
    let (mapped, sampled) = (first("PERF_RECORD_MMAP2").unwrap(), first("cpu-clock:").unwrap());
    assert!(sampled - mapped > 0.1, "mapped at {mapped}, sampled first at {sampled}");
    assert!(!script.contains("[unknown]"), "what was mapped during the delay is known: {script}");
    let late = planish(dir.path(), &["-e", "cpu-clock", "-D", "60000"], &["--", "true"]);
    assert!(text(&late.stderr).contains("-D"), "{}", text(&late.stderr));
}

#[test]
fn a_command_needs_no_dashes_and_keeps_its_options() {
    let dir = tempfile::tempdir().unwrap();
    let script = "echo $0 $1 $2; i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";
    for dashes in [&["--"][..], &[]] {
        let command = [dashes, &["sh", "-c", script, "name", "-g", "--"]].concat();
        let Some(done) = recorded(dir.path(), &["-o", "x", "-e", "cpu-clock"], &command) else {
            return;
        };
        assert_eq!(text(&done.stdout), "name -g --\n", "{dashes:?}");
    }
}

#[test]
fn tracepoints_keep_their_fields() {
    let dir = tempfile::tempdir().unwrap();
    let command = ["--", "sh", "-c", "sleep 0.01; sleep 0.01"];
    if recorded(dir.path(), &["-e", "sched:sched_switch"], &command).is_none() {
        return;
    }
    let script = perf(dir.path(), &["script"]);
    assert!(
        script.contains("sched:sched_switch:") && script.contains("prev_comm=sleep"),
        "{script}"
    );
}

#[test]
fn cpus_threads_and_users_are_recorded() {
    let dir = tempfile::tempdir().unwrap();
    if recorded(dir.path(), &["-C", "0", "-e", "cpu-clock"], &BUSY).is_none() {
        return;
    }
    let cpus = perf(dir.path(), &["script", "-F", "cpu"]);
    assert!(!cpus.is_empty() && cpus.lines().all(|line| line.trim() == "[000]"), "{cpus}");
    assert!(perf(dir.path(), &["script", "--show-mmap-events"]).contains("[kernel.kallsyms]"));
    let listed = perf(dir.path(), &["buildid-list"]);
    assert!(
        !Path::new("/sys/kernel/notes").exists() || listed.contains("[kernel.kallsyms]"),
        "{listed}"
    );
    let busy = Running::start(&["sh", "-c", "while :; do :; done"]);
    let tid = busy.0.id().to_string();
    let thread = recorded(dir.path(), &["-t", &tid, "-e", "cpu-clock"], &["--", "sleep", "0.2"]);
    let pids = thread.map(|_| perf(dir.path(), &["script", "-F", "tid"]));
    let user = recorded(dir.path(), &["-u", "root", "-e", "cpu-clock"], &["--", "sleep", "0.2"]);
    let mapped = user.map(|_| perf(dir.path(), &["script", "--show-mmap-events"]));
    drop(busy);
    assert!(pids.is_none_or(|pids| pids.lines().all(|line| line.trim() == tid)));
    assert!(mapped.is_none_or(|mapped| mapped.contains("PERF_RECORD_MMAP2")));
}

#[test]
fn what_cannot_be_recorded_is_one_clear_line() {
    let dir = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 26] = [
        (&["-e", "cylces"], "did you mean cycles?"),
        (&["-e", "{cpu-clock"], "expected a comma or `}`"),
        (&["-e", "cpu-clock:z"], "'z' is no modifier"),
        (&["-e", "cpu-clock/perid=3/"], "did you mean period?"),
        (&["-e", "nopmu/x=1/"], "there is no PMU"),
        (&["-C", "9999"], "not online"),
        (&["-t", "1073741823"], "there is no thread 1073741823"),
        (&["-p", "1073741823"], "there is no process 1073741823"),
        (&["-p", "abc"], "expected the number of a running process"),
        (&["-p", "1,x"], "'x' for '--pid <PID>': expected the number of a running process"),
        (&["-t", "0"], "expected the number of a running thread"),
        (&["-D", "-1"], "--control fifo:PATH"),
        (&["-D", "soon"], "expected milliseconds"),
        (&["-e", "mem:0x1000"], "breakpoints are not supported"),
        (&["--branches=none", "-b"], "--branches=none and -b contradict each other"),
        (&["--branches=none", "-j", "any"], "--branches=none and -j contradict each other"),
        (&["-e", "cpu-clock:u", "--call-graph", "lbr"], "with --call-graph lbr: lbr needs"),
        (&["--no-such-option"], "unexpected argument"),
        (
            &["--branches=emulated", "--call-graph", "dwarf"],
            "--call-graph is for recordings by the kernel",
        ),
        (&["--branches=software", "-g"], "-g is for recordings by the kernel"),
        (&["-u", "nobody-of-this-name"], "/etc/passwd"),
        (&["--call-graph", "dwarf,7"], "dwarf,SIZE"),
        (&["-j", "any,sideways"], "any_call"),
        (&["-k", "sundial"], "boottime"),
        (&["-m", "3"], "power of two"),
        (&["-F", "often"], "max"),
    ];
    for (options, expected) in cases {
        let done = planish(dir.path(), options, &["--", "true"]);
        let said = text(&done.stderr);
        // What the machine lacks is told apart from what was asked wrongly.
        let code = if expected.contains("lbr needs") { 3 } else { 2 };
        assert_eq!(done.status.code(), Some(code), "{options:?}: {said}");
        assert!(
            said.contains(expected) || said.contains("perf_event_paranoid"),
            "{options:?}: {said}"
        );
    }
    let done = planish(dir.path(), &["-e", "cpu-clock", "-c", "1000000000000"], &["--", "true"]);
    assert!(!done.status.success());
    let done = planish(dir.path(), &["-e", "cpu-clock", "-c", "10000000000"], &["--", "true"]);
    assert!(text(&done.stderr).contains("the recording is empty"), "{}", text(&done.stderr));
}

#[test]
fn an_event_that_this_cpu_lacks_is_refused_with_what_works() {
    let dir = tempfile::tempdir().unwrap();
    for event in ["cycles", "L1-icache-load-misses", "r1a8", "{cycles,instructions}"] {
        let done = planish(dir.path(), &["-e", event, "-c", "100003"], &BUSY);
        let said = text(&done.stderr);
        // A virtual machine may offer a counter that never counts.
        let known = ["no counter for it", "perf_event_paranoid", "the recording is empty"];
        let known = known.iter().any(|reason| said.contains(reason));
        assert!(done.status.success() || known, "{event}: {said}");
    }
}

#[test]
fn without_privileges_the_kernel_is_left_out_with_a_sentence() {
    // `setpriv` is in util-linux, which every Debian has; it needs root to become nobody.
    let probe = Command::new("setpriv").args(["--reuid=65534", "--clear-groups", "true"]).output();
    if !probe.is_ok_and(|done| done.status.success()) {
        return eprintln!("skipped: cannot become another user");
    }
    let paranoid =
        std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if paranoid.trim() != "2" {
        return eprintln!("skipped: kernel.perf_event_paranoid is {}", paranoid.trim());
    }
    let dir = tempfile::tempdir().unwrap();
    let planish = dir.path().join("planish");
    std::fs::copy(env!("CARGO_BIN_EXE_planish"), &planish).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(dir.path(), open).unwrap();
    let as_nobody = |options: &[&str], command: &[&str]| {
        let mut words =
            vec!["--reuid=65534", "--clear-groups", planish.to_str().unwrap(), "record"];
        words.extend(options.iter().chain(command));
        Command::new("setpriv")
            .current_dir(dir.path())
            .args(words)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    let done = as_nobody(&["-e", "cpu-clock"], &BUSY);
    let said = text(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert!(said.contains("cpu-clock is recorded as cpu-clock:u, without the kernel"), "{said}");
    let other = Running::start(&["sleep", "60"]);
    let said = text(&as_nobody(&["-p", &other.0.id().to_string()], &[]).stderr);
    assert!(said.contains("belongs to user 0"), "{said}");
    let said = text(&as_nobody(&["-u", "root"], &["--", "true"]).stderr);
    assert!(said.contains("belongs to user 0") && said.contains("CAP_PERFMON"), "{said}");
    let said = text(&as_nobody(&["-t", &other.0.id().to_string()], &[]).stderr);
    assert!(said.contains("cannot record thread"), "{said}");
    let said = text(&as_nobody(&["-a"], &["--", "true"]).stderr);
    assert!(said.contains("perf_event_paranoid") && said.contains("CAP_PERFMON"), "{said}");
    let said = text(&as_nobody(&["-e", "cpu-clock", "-m", "512M"], &["--", "true"]).stderr);
    assert!(said.contains("perf_event_mlock_kb"), "{said}");
}
