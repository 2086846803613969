//! Programs of every kind, stopped a thousand times a second: they print and return what they do
//! alone.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test that panics fails, which is what it is for")]

mod support;

use stops::{Ending, Reason, Why};
use support::{Log, Run, alone, compile, options, trace, turn};

/// Traces a program and compares with an untraced run of it.
fn compare(source: &str, flags: &[&str], words: &[&str]) -> Option<(Run, Log)> {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), source, flags)?;
    let mut log = Log::default();
    let run = trace(&program, words, &options(), &mut log);
    let (output, status) = alone(&program, words);
    assert_eq!((run.output.as_str(), run.status), (output.as_str(), status), "{:#?}", run.ended);
    assert_eq!(run.ended.child, status.code().map(Ending::Exited));
    assert_eq!(run.ended.why, Why::AllEnded);
    assert_eq!(log.ended.len() as u64, run.ended.counts.processes);
    assert_eq!(run.ended.counts.stops_recovered, 0);
    Some((run, log))
}

#[test]
fn a_single_thread_is_stopped_and_unharmed() {
    let Some((run, log)) = compare("busy.c", &[], &["300"]) else { return };
    assert!(run.ended.counts.stops > 5, "{:#?}", run.ended);
    assert_eq!(log.stops.get(&run.pid), Some(&run.ended.counts.stops));
    assert_eq!((log.executed, log.forked), (vec![run.pid], vec![]));
    assert!(log.ticks >= run.ended.counts.stops);
    assert!(run.ended.counts.stopped_ns > 0 && run.ended.counts.tracer_cpu_ns > 0);
}

#[test]
fn four_threads_with_a_mutex_are_all_stopped() {
    let Some((run, log)) = compare("threads.c", &[], &["4", "300000"]) else { return };
    assert_eq!(run.ended.counts.threads, 5);
    assert_eq!(run.ended.counts.processes, 1);
    assert!(log.threads.len() >= 4, "{:?}", log.threads);
}

#[test]
fn many_short_threads_come_and_go() {
    let Some((run, _)) = compare("threads.c", &[], &["200", "100"]) else { return };
    assert_eq!(run.ended.counts.threads, 201);
}

#[test]
fn processes_made_by_fork_vfork_spawn_and_exec_from_a_thread_are_followed() {
    let Some((run, log)) = compare("processes.c", &[], &["2", "2"]) else { return };
    // Four children, and four of each; each becomes a program once.
    assert_eq!(log.forked.len(), 20);
    assert_eq!(log.executed.len(), 21);
    assert_eq!(run.ended.counts.execs, 21);
    assert!(log.stops.len() > 10, "{:?}", log.stops);
}

#[test]
fn children_are_left_alone_unless_asked_for() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "processes.c", &[]) else { return };
    let mut log = Log::default();
    let only = stops::StopOptions { follow: false, ..options() };
    let run = trace(&program, &["2", "2"], &only, &mut log);
    assert_eq!((run.status.code(), run.output.as_str()), (Some(3), "4\n"));
    assert_eq!((log.executed, log.forked), (vec![run.pid], vec![]));
    assert_eq!(log.stops.keys().copied().collect::<Vec<_>>(), [run.pid]);
}

#[test]
fn a_program_gets_all_the_urgent_signals_that_it_sends_itself_and_no_other() {
    let Some((run, _)) = compare("urgent.c", &[], &[]) else { return };
    assert_eq!(run.output, "2000 0\n");
    assert!(run.ended.counts.signals_passed >= 2000);
    assert!(run.ended.counts.stops > 5, "{:#?}", run.ended);
}

#[test]
fn a_program_that_handles_every_harmless_signal_is_interrupted_instead() {
    let Some((run, _)) = compare("urgent.c", &[], &["both"]) else { return };
    assert_eq!(run.output, "2000 2000\n");
    assert_eq!(run.ended.counts.interrupted.get(&Reason::Handled), Some(&1));
    assert!(run.ended.counts.stops > 5, "{:#?}", run.ended);
}

#[test]
fn threads_that_block_all_signals_are_stopped_and_find_none_left_behind() {
    let Some((run, log)) = compare("deaf.c", &[], &[]) else { return };
    assert_eq!(run.output, "0\n");
    assert_eq!(run.ended.counts.interrupted.get(&Reason::Blocked), Some(&2), "{:#?}", run.ended);
    assert_eq!(log.threads.len(), 2);
}

#[test]
fn a_timer_rings_as_it_does_alone() {
    let Some((run, _)) = compare("alarms.c", &[], &[]) else { return };
    assert!(run.ended.counts.signals_passed >= 400);
    assert!(run.ended.counts.stops > 5);
}

#[test]
fn no_wait_is_interrupted_that_would_not_be_alone() {
    let Some((run, _)) = compare("waits.c", &[], &[]) else { return };
    assert_eq!(run.output, "0\n");
    assert!(run.ended.counts.stops > 5);
}

#[test]
fn no_wait_is_interrupted_in_a_thread_that_blocks_all_signals() {
    let Some((run, _)) = compare("waits.c", &[], &["blocked"]) else { return };
    assert_eq!(run.output, "0\n");
    assert!(run.ended.counts.stops > 5, "{:#?}", run.ended);
}

#[test]
fn a_program_under_a_seccomp_filter_is_not_killed_by_it() {
    let Some((run, _)) = compare("filtered.c", &[], &[]) else { return };
    assert_eq!(run.output, "done\n");
    assert!(run.ended.counts.stops > 5);
}

#[test]
fn a_program_that_ends_at_once_has_ended() {
    let _turn = turn();
    for _ in 0..20 {
        let mut log = Log::default();
        let run = trace(std::path::Path::new("true"), &[], &options(), &mut log);
        assert_eq!(run.ended.child, Some(Ending::Exited(0)));
        assert!(run.status.success());
    }
}

#[test]
fn a_32_bit_program_is_left_alone_and_counted() {
    let flags = ["-m32", "-nostdlib", "-static", "-fno-pic", "-no-pie"];
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "old.c", &flags) else { return };
    let (_, status) = alone(&program, &[]);
    if status.code() != Some(9) {
        return support::skipped("this kernel runs no 32-bit programs").unwrap_or(());
    }
    let mut log = Log::default();
    let run = trace(&program, &[], &options(), &mut log);
    assert_eq!((run.output.as_str(), run.status.code()), ("old\n", Some(9)));
    assert_eq!(run.ended.child, None);
    assert_eq!(run.ended.counts.left_alone.get(&stops::LeftAlone::ThirtyTwoBit), Some(&1));
    assert_eq!(log.ended, [(run.pid, Ending::LetGo)]);
    // A shell that starts it goes on being traced.
    let words = ["-c", "$0; $0; exit 4", program.to_str().unwrap()];
    let mut log = Log::default();
    let run = trace(std::path::Path::new("sh"), &words, &options(), &mut log);
    assert_eq!((run.output.as_str(), run.ended.child), ("old\nold\n", Some(Ending::Exited(4))));
    assert_eq!(run.ended.counts.left_alone.get(&stops::LeftAlone::ThirtyTwoBit), Some(&2));
}
