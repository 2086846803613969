//! What was paired and what was not, and every single wait.

use calltrees::Recorded;
use calltrees::switching::{Interval, Ledger};
use serde_json::{Value, json};

/// What was not paired, in words, without what did not occur.
pub(super) fn unpaired(ledger: &Ledger) -> Vec<(u64, &'static str)> {
    let all = [
        (ledger.outs_without_in, "switch-outs followed by another one: the switch-in is missing"),
        (ledger.outs_at_exit, "switch-outs of threads that ended before they came back"),
        (ledger.outs_at_end, "switch-outs still waiting at the end of the recording"),
        (
            ledger.ins_first,
            "switch-ins whose switch-out came before the recording or the thread's start",
        ),
        (ledger.ins_without_out, "switch-ins preceded by another one: the switch-out is missing"),
        (ledger.samples_without_out, "samples of switches without a switch-out after them"),
        (
            ledger.wakes_needless,
            "wake-ups of threads that ran, could run or had been woken already",
        ),
        (ledger.wakes_of_others, "wake-ups of threads whose switches are not recorded"),
        (
            ledger.waits_without_wake,
            "waits that no recorded wake-up ended: their share of the run queue is not known",
        ),
        (ledger.outs_idle + ledger.ins_idle + ledger.samples_idle, "switches of the idle tasks"),
    ];
    all.into_iter().filter(|(count, _)| *count > 0).collect()
}

/// A number before what is counted, which begins with a plural.
pub(super) fn numbered(count: u64, what: &str) -> String {
    let (things, rest) = what.split_once(' ').unwrap_or((what, ""));
    match (count, things) {
        (1, "switches") => format!("1 switch {rest}"),
        (1, _) => format!("1 {} {rest}", things.strip_suffix('s').unwrap_or(things)),
        _ => format!("{count} {what}"),
    }
}

pub(super) fn switches(ledger: &Ledger) -> Value {
    json!({
        "switch_outs": ledger.outs,
        "switch_outs_paired": ledger.outs_paired,
        "switch_outs_idle": ledger.outs_idle,
        "switch_outs_without_in": ledger.outs_without_in,
        "switch_outs_at_exit": ledger.outs_at_exit,
        "switch_outs_at_end": ledger.outs_at_end,
        "switch_ins": ledger.ins,
        "switch_ins_paired": ledger.ins_paired,
        "switch_ins_idle": ledger.ins_idle,
        "switch_ins_first": ledger.ins_first,
        "switch_ins_without_out": ledger.ins_without_out,
        "samples": ledger.samples,
        "samples_paired": ledger.samples_paired,
        "samples_idle": ledger.samples_idle,
        "samples_without_out": ledger.samples_without_out,
        "waits_without_stack": ledger.waits_without_stack,
        "wakes": ledger.wakes,
        "wakes_paired": ledger.wakes_paired,
        "wakes_needless": ledger.wakes_needless,
        "wakes_of_others": ledger.wakes_of_others,
        "waits_without_wake": ledger.waits_without_wake,
    })
}

/// Every wait as a JSON object of one line, by thread and in time order.
///
/// # Errors
/// Where it cannot be written.
pub fn write_intervals(recorded: &Recorded, out: &mut dyn std::io::Write) -> std::io::Result<()> {
    let all = recorded.switching.iter().flat_map(|switching| &switching.intervals);
    for Interval { wait, pid, left_cpu, came_cpu } in all {
        let line = json!({
            "pid": pid,
            "tid": wait.tid,
            "reason": wait.reason.event(),
            "start_ns": wait.start_ns,
            "duration_ns": wait.whole_ns(),
            "run_queue_ns": wait.woken.map(|woken| wait.end_ns.saturating_sub(woken.time_ns)),
            "woken_by": wait.woken.map(|woken| woken.by),
            "cpu_before": left_cpu,
            "cpu_after": came_cpu,
            "has_stack": wait.sample_ns.is_some(),
        });
        writeln!(out, "{line}")?;
    }
    Ok(())
}
