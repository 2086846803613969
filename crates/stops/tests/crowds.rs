//! What is let be: children that somebody else traces, and threads that come faster than they can
//! be afforded.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test that panics fails, which is what it is for")]

mod support;

use std::time::Instant;
use stops::{Ending, LeftAlone, Next, StopOptions, Stopped, Visitor};
use support::{Log, compile, options, trace, turn};

/// A log of programs that may trace what they start.
#[derive(Default)]
struct Debuggers(Log);

impl Visitor for Debuggers {
    fn stopped(&mut self, thread: &mut Stopped<'_>) -> Next {
        self.0.stopped(thread)
    }
    fn forked(&mut self, parent: i32, child: i32) {
        self.0.forked(parent, child);
    }
    fn may_trace(&mut self, _: i32) -> bool {
        true
    }
    fn ended(&mut self, pid: i32, ending: Ending) {
        self.0.ended(pid, ending);
    }
}

#[test]
fn a_child_that_asks_to_be_traced_by_its_parent_is_let_go() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "tracers.c", &[]) else { return };
    let mut log = Debuggers::default();
    let run = trace(&program, &["3"], &options(), &mut log);
    assert_eq!((run.output.as_str(), run.status.code()), ("9 0\n", Some(8)), "{:#?}", run.ended);
    assert_eq!(run.ended.counts.left_alone.get(&LeftAlone::TracedByParent), Some(&3));
    let children: Vec<i32> = log.0.forked.iter().map(|(_, child)| *child).collect();
    assert_eq!(children.len(), 3);
    for child in children {
        assert!(log.0.ended.contains(&(child, Ending::LetGo)), "{:?}", log.0.ended);
    }
    // The debugger itself goes on being stopped.
    assert!(log.0.stops.get(&run.pid).is_some_and(|stops| *stops > 5), "{:?}", log.0.stops);
    // Where nobody says so, the kernel refuses, as it does under any tracer.
    let run = trace(&program, &["1"], &options(), &mut Log::default());
    assert_eq!((run.output.as_str(), run.status.code()), ("99 1\n", Some(8)));
}

#[test]
fn children_that_are_watched_and_never_ask_run_on_unharmed() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "processes.c", &[]) else { return };
    let mut log = Debuggers::default();
    let run = trace(&program, &["2", "2"], &options(), &mut log);
    let (output, status) = support::alone(&program, &["2", "2"]);
    assert_eq!((run.output, run.status), (output, status), "{:#?}", run.ended);
    assert_eq!((log.0.forked.len(), run.ended.counts.execs), (20, 21));
    assert!(run.ended.counts.left_alone.is_empty(), "{:#?}", run.ended);
}

#[test]
fn of_thousands_of_short_threads_most_are_let_be() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "short.c", &[]) else { return };
    let begun = Instant::now();
    let mut log = Log::default();
    let limited = StopOptions { new_threads: Some(100), ..options() };
    let run = trace(&program, &["5000"], &limited, &mut log);
    let seconds = begun.elapsed().as_secs_f64();
    assert_eq!((run.output.as_str(), run.status.code()), ("5000\n", Some(6)));
    let counts = &run.ended.counts;
    // The first thread, those allowed at once, those of each second since, and hardly one that
    // lived for two sweeps.
    let most = 1.0 + 100.0 + 100.0 * seconds + 10.0;
    assert!(counts.threads >= 100 && counts.threads as f64 <= most, "{seconds} s, {counts:#?}");
    // Each time the allowance is spent the maker has one more on its way, or two.
    assert!(counts.muted >= 1 && counts.let_be as f64 <= most, "{counts:#?}");
    assert_eq!(run.ended.child, Some(Ending::Exited(6)));
}

#[test]
fn threads_that_live_on_are_found_however_many_came_at_once() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "threads.c", &[]) else { return };
    let mut log = Log::default();
    let limited = StopOptions { new_threads: Some(2), ..options() };
    // Some seconds' work, so that each lives for two sweeps on a busy machine, too.
    let run = trace(&program, &["6", "3000000"], &limited, &mut log);
    assert_eq!(run.status.code(), Some(5));
    let counts = &run.ended.counts;
    assert!(counts.muted >= 1, "{counts:#?}");
    assert_eq!(counts.threads, 7, "{counts:#?}");
}
