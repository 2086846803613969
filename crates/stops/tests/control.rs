//! What visitor and caller can do: attach, let go, step, kill, change the period; and what
//! outsiders do meanwhile.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test that panics fails, which is what it is for")]

mod support;

use perfdata::RuntimeAddr;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use stops::{Ending, Error, Next, Reason, Step, StopOptions, Stopped, Tracer, Visitor, Why};
use support::{
    Log, compile, eventually, goes_on, kill, options, status_line, threads_of, trace, turn,
};

/// A program that runs until it is killed.
struct Endless(Child);

impl Endless {
    fn start(program: &Path, words: &[&str]) -> Endless {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null());
        Endless(command.spawn().unwrap())
    }
    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_program_with_threads_is_attached_to_and_let_go_again() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "threads.c", &[]) else { return };
    let target = Endless::start(&program, &["4", "1000000000"]);
    eventually("all threads run", || threads_of(target.pid()).len() == 5);
    for round in 0..5 {
        let mut tracer = Tracer::attach(&[target.pid()], &options()).unwrap();
        assert!(matches!(Tracer::attach(&[target.pid()], &options()), Err(Error::Traced { .. })));
        let mut log = Log::default();
        let begun = Instant::now();
        // The last round asks at once.
        let stop = || round == 4 || begun.elapsed() > Duration::from_millis(800);
        let ended = tracer.run(&mut log, &stop).unwrap();
        assert_eq!((ended.why, ended.child), (Why::Asked, None));
        assert_eq!(ended.counts.threads, 5);
        assert_eq!(log.ended, [(target.pid(), Ending::LetGo)]);
        assert!(ended.counts.left_alone.is_empty(), "{:#?}", ended.counts);
        assert!(round == 4 || ended.counts.stops > 0, "{:#?}", ended.counts);
        eventually("the target goes on", || goes_on(target.pid()));
        assert_eq!(threads_of(target.pid()).len(), 5);
    }
    // Dropped without ever having run.
    drop(Tracer::attach(&[target.pid()], &options()).unwrap());
    assert!(goes_on(target.pid()));
    // One thread alone.
    let alone = threads_of(target.pid()).into_iter().find(|tid| *tid != target.pid()).unwrap();
    let mut log = Log::default();
    let enough = StopOptions { max_stops: Some(20), ..options() };
    let ended = Tracer::attach(&[alone], &enough).unwrap().run(&mut log, &|| false).unwrap();
    assert_eq!((ended.why, ended.counts.stops), (Why::MaxStops, 20));
    assert_eq!(log.threads, BTreeMap::from([(alone, 20)]));
    assert!(goes_on(target.pid()));
}

#[test]
fn a_sleeping_thread_is_let_go_without_an_interrupted_call() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "waits.c", &[]) else { return };
    let mut child = Command::new(program).stdout(Stdio::piped()).spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let mut restarted = 0;
    while child.try_wait().unwrap().is_none() {
        let Ok(mut tracer) = Tracer::attach(&[pid], &options()) else { continue };
        let rounds = Cell::new(0);
        let stop = || rounds.replace(rounds.get() + 1) > 0;
        restarted += tracer.run(&mut Log::default(), &stop).unwrap().counts.calls_restarted;
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.stdout.as_slice(), output.status.code()),
        (&b"0\n"[..], Some(2)),
        "{restarted}"
    );
}

#[test]
fn job_control_works_while_traced() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "threads.c", &[]) else { return };
    /// Has itself helped by a shell that stops and continues the target from outside.
    struct Outside(Log, Option<Child>);
    impl Visitor for Outside {
        fn stopped(&mut self, thread: &mut Stopped<'_>) -> Next {
            if self.0.stops.is_empty() {
                let script = "look() { cat /proc/$0/task/*/schedstat; }; for i in 1 2 3; do kill -STOP $0; \
                              for k in $(seq 100); do a=$(look); sleep 0.1; b=$(look); [ \"$a\" = \"$b\" ] && break; \
                              done; kill -CONT $0; [ \"$a\" = \"$b\" ] || exit 1; sleep 0.03; done";
                let pid = thread.pid().to_string();
                self.1 = Some(Command::new("sh").args(["-c", script, &pid]).spawn().unwrap());
            }
            self.0.stopped(thread)
        }
    }
    let mut outside = Outside(Log::default(), None);
    let run = trace(&program, &["2", "3000000"], &options(), &mut outside);
    assert_eq!(run.status.code(), Some(5));
    // It stood still in between.
    let helper = outside.1.unwrap().wait().unwrap();
    assert_eq!(helper.code(), Some(0));
    assert!(run.ended.counts.signals_passed > 0, "{:#?}", run.ended);
}

#[test]
fn a_stopped_process_stays_stopped_when_it_is_attached_to_and_let_go() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "threads.c", &[]) else { return };
    let target = Endless::start(&program, &["2", "1000000000"]);
    eventually("all threads run", || threads_of(target.pid()).len() == 3);
    kill(target.pid(), "STOP");
    let still = || {
        threads_of(target.pid())
            .into_iter()
            .all(|tid| status_line(tid, "State").is_some_and(|state| state.starts_with('T')))
    };
    eventually("it stands", still);
    let begun = Instant::now();
    let mut log = Log::default();
    let mut tracer = Tracer::attach(&[target.pid()], &options()).unwrap();
    let ended = tracer.run(&mut log, &|| begun.elapsed() > Duration::from_millis(200)).unwrap();
    assert_eq!(ended.counts.stops, 0);
    assert!(ended.counts.left_alone.is_empty(), "{:#?}", ended.counts);
    eventually("it stands again", still);
    kill(target.pid(), "CONT");
    eventually("it goes on", || goes_on(target.pid()));
}

/// Kills the target in the middle of a stop.
struct Killer(Log);

impl Visitor for Killer {
    fn stopped(&mut self, thread: &mut Stopped<'_>) -> Next {
        kill(thread.pid(), "KILL");
        eventually("it is gone", || {
            status_line(thread.tid(), "State").is_none_or(|state| state.starts_with('Z'))
        });
        assert!(thread.xstate(&mut Vec::new()).is_err());
        assert!(thread.read(RuntimeAddr(thread.registers().unwrap().rip), &mut [0; 8]).is_err());
        assert_eq!(thread.read_many(&[RuntimeAddr(0x400000)], &mut [[0; 4096]]), 0);
        assert_eq!(thread.step().unwrap(), Step::Ended);
        self.0.stops.insert(thread.pid(), 1);
        Next::default()
    }
    fn ended(&mut self, pid: i32, ending: Ending) {
        self.0.ended(pid, ending);
    }
}

#[test]
fn a_target_may_be_killed_while_it_is_stopped() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "busy.c", &[]) else { return };
    let mut killer = Killer(Log::default());
    let run = trace(&program, &["100000"], &options(), &mut killer);
    assert_eq!(run.ended.child, Some(Ending::Killed(9)));
    assert_eq!(run.status.code(), None);
    assert_eq!(killer.0.ended, [(run.pid, Ending::Killed(9))]);
}

/// Steps through the loop of `loop.c`.
#[derive(Default)]
struct Stepper {
    steps: u64,
    signals: u64,
    calls: u64,
    states: u64,
}

impl Visitor for Stepper {
    fn stopped(&mut self, thread: &mut Stopped<'_>) -> Next {
        let registers = thread.registers().unwrap();
        let (first, last) = (registers.rbx, registers.r12);
        if last.wrapping_sub(first) != 8 || !(first..=last).contains(&registers.rip) {
            // Before or behind the loop: whatever comes is right if it ends.
            for _ in 0..300 {
                match thread.step().unwrap() {
                    Step::Done => {}
                    Step::SystemCall => {
                        self.calls += 1;
                        break;
                    }
                    other => panic!("{other:?}"),
                }
            }
            return Next::default();
        }
        self.states += 1;
        let mut area = Vec::new();
        thread.xstate(&mut area).unwrap();
        // Legacy area and header at least; the header's first word says which components follow.
        assert!(area.len() >= 576, "{}", area.len());
        let page = registers.rip & !4095;
        let mut pages = [[0u8; 4096]; 3];
        assert_eq!(thread.read_many(&[page, page, 8].map(RuntimeAddr), &mut pages), 2);
        assert_eq!(pages[0], pages[1]);
        let begin = (first & 4095) as usize;
        assert_eq!(
            pages[0].get(begin..begin + 4).unwrap_or(&[0x48, 0x83, 0xc0, 0x01]),
            [0x48, 0x83, 0xc0, 0x01]
        );
        let mut at = registers.rip;
        let mut sum = registers.rax;
        for step in 0..50 {
            // A signal in the middle: it stays with the thread, and ends the steps.
            if step == 30 && self.signals < 20 {
                kill(thread.pid(), "USR1");
                assert_eq!(thread.step().unwrap(), Step::Signal(10));
                assert_eq!(thread.step().unwrap(), Step::Signal(10));
                assert_eq!(thread.registers().unwrap().rip, at);
                self.signals += 1;
                break;
            }
            assert_eq!(thread.step().unwrap(), Step::Done);
            self.steps += 1;
            sum += u64::from(at == first);
            let lengths = [(0, 4), (4, 1), (5, 3)];
            at = lengths
                .iter()
                .find(|(from, _)| first + from == at)
                .map_or(first, |(_, bytes)| at + bytes);
            let now = thread.registers().unwrap();
            if now.rip > last {
                break;
            }
            assert_eq!((now.rip, now.rax), (at, sum));
        }
        Next::default()
    }
}

#[test]
fn steps_follow_the_code_and_a_signal_that_comes_meanwhile_is_delivered_later() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "loop.c", &[]) else { return };
    let mut stepper = Stepper::default();
    let run = trace(&program, &[], &options(), &mut stepper);
    assert!(stepper.states > 5 && stepper.steps > 100, "{:#?}", run.ended);
    assert_eq!((run.output, run.status.code()), (format!("{}\n", stepper.signals), Some(1)));
    assert!(stepper.signals > 0);
    assert_eq!(run.ended.counts.signals_passed, stepper.signals);
}

/// Asks for another period at every stop.
struct Slower(Vec<u64>);

impl Visitor for Slower {
    fn stopped(&mut self, thread: &mut Stopped<'_>) -> Next {
        self.0.push(thread.period());
        Next { period: Some(thread.period() * 2) }
    }
}

#[test]
fn the_visitor_chooses_the_next_period() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "busy.c", &[]) else { return };
    let mut slower = Slower(Vec::new());
    let begun = StopOptions { period: 100_000, ..options() };
    let run = trace(&program, &["300"], &begun, &mut slower);
    assert_eq!(run.status.code(), Some(7));
    // The periods double, so the number of stops is a logarithm.
    assert!((5..=24).contains(&slower.0.len()), "{:?}", slower.0);
    assert!(slower.0.windows(2).all(|pair| pair[1] == 2 * pair[0]), "{:?}", slower.0);
}

#[test]
fn a_period_of_nothing_is_the_shortest_possible() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "busy.c", &[]) else { return };
    let mut log = Log::default();
    let run = trace(
        &program,
        &["30"],
        &StopOptions { period: 0, max_stops: Some(200), ..options() },
        &mut log,
    );
    assert_eq!((run.ended.why, run.ended.counts.stops), (Why::MaxStops, 200));
    assert_eq!((run.ended.child, run.status.code()), (None, Some(7)));
}

#[test]
fn what_cannot_be_traced_says_why() {
    let _turn = turn();
    let attach = |pid| Tracer::attach(&[pid], &options()).map(drop);
    assert!(matches!(Tracer::attach(&[], &options()), Err(Error::Nothing)));
    assert!(matches!(attach(i32::MAX), Err(Error::Gone { .. })));
    assert!(matches!(
        attach(2),
        Err(Error::Kernel { .. }
            | Error::Refused { .. }
            | Error::NotOurs { .. }
            | Error::Gone { .. })
    ));
    let mut child = Command::new("true").spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    eventually("it has ended", || {
        status_line(pid, "State").is_some_and(|state| state.starts_with('Z'))
    });
    assert!(matches!(attach(pid), Err(Error::Gone { .. })));
    child.wait().unwrap();
    let message = Error::Yama { pid: 7, scope: 1 }.to_string();
    assert!(message.contains("ptrace_scope is 1") && message.contains("sysctl"), "{message}");
}

#[test]
fn threads_without_a_clock_of_their_own_are_interrupted() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let (Some(filtered), Some(busy), Some(threads)) = (
        compile(dir.path(), "filtered.c", &[]),
        compile(dir.path(), "busy.c", &[]),
        compile(dir.path(), "threads.c", &[]),
    ) else {
        return;
    };
    let run = |command: &mut Command| {
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let stops = told
            .split("stops: ")
            .nth(1)
            .and_then(|rest| rest.split(',').next()?.parse::<u64>().ok());
        assert!(stops.is_some_and(|stops| stops > 0), "{told}");
        (output.status.code(), told)
    };
    let recorder = support::recorder();
    let (code, told) = run(Command::new(filtered).arg(&recorder).arg("--").arg(busy).arg("1500"));
    assert!(code == Some(7) && told.contains(&format!("{:?}", Reason::NoEvent)), "{told}");
    let words = ["-c", "ulimit -n 16; exec \"$0\" -- \"$1\" 20 60000"];
    let (code, told) = run(Command::new("sh").args(words).arg(&recorder).arg(threads));
    assert!(code == Some(5) && told.contains(&format!("{:?}", Reason::NoDescriptor)), "{told}");
}

#[test]
fn an_ordinary_user_traces_what_is_its_own_and_nothing_else() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "threads.c", &[]) else { return };
    let user = "65534";
    let nobody = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", user, "--regid", user, "--clear-groups", "--"]).args(words);
        command
    };
    // Where programs of the target folder may not be run by others, a copy in a public place is.
    let copy = dir.path().join("stop");
    std::fs::copy(support::recorder(), &copy).unwrap();
    Command::new("chmod").args(["-R", "a+rX"]).arg(dir.path()).status().unwrap();
    let (recorder, program) = (copy.to_str().unwrap(), program.to_str().unwrap());
    let Ok(probe) = nobody(&[recorder, "--", "true"]).output() else {
        return support::skipped("setpriv is not installed").unwrap_or(());
    };
    if !probe.status.success() {
        return support::skipped(&String::from_utf8_lossy(&probe.stderr)).unwrap_or(());
    }
    let done = nobody(&[recorder, "--follow", "--", program, "3", "200000"]).output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(5) && !told.contains("stops: 0,"), "{told}");
    assert!(!told.contains(&format!("{:?}", Reason::NoEvent)), "{told}");
    // Attached to: one of its own, and one of ours.
    let mut own = nobody(&[program, "2", "1000000000"]).stdout(Stdio::null()).spawn().unwrap();
    let pid = i32::try_from(own.id()).unwrap();
    eventually("it runs", || threads_of(pid).len() == 3);
    let done = nobody(&[recorder, "--seconds", "0.3", "-p", &pid.to_string()]).output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && !told.contains("stops: 0,"), "{told}");
    eventually("it goes on", || goes_on(pid));
    own.kill().unwrap();
    own.wait().unwrap();
    let ours = Endless::start(Path::new(program), &["1", "1000000000"]);
    let done = nobody(&[recorder, "-p", &ours.pid().to_string()]).output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(2) && told.contains("belongs to user"), "{told}");
}

#[test]
fn a_wait_of_somebody_else_that_takes_stops_does_not_hold_the_program_up() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "busy.c", &[]) else { return };
    let mut child = Command::new(program).arg("1000").stdout(Stdio::null()).spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let mut tracer = Tracer::attach(&[pid], &options()).unwrap();
    // It takes the first stop that it finds for the child's end.
    let thief = std::thread::spawn(move || while matches!(child.try_wait(), Ok(None)) {});
    let mut log = Log::default();
    let ended = tracer.run(&mut log, &|| false).unwrap();
    thief.join().unwrap();
    assert_eq!(log.ended, [(pid, Ending::Exited(7))]);
    assert!(ended.counts.stops > 5, "{:#?}", ended.counts);
}
