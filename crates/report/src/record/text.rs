//! The summary of a recording for people: what came, what was lost, and what to do about it.

use crate::numbers::numbered;
use record::software::Pace;
use record::{AuxSeen, Ending, LookAhead, Streamed, Summary, arm_spe};
use std::path::Path;

/// The signal of an instruction that the CPU does not have (SIGILL of Linux).
const ILLEGAL_INSTRUCTION: i32 = 4;

/// From here on, a part of the time is worth a sentence.
const WORTH_SAYING: f64 = 0.0001;

/// From here on, what waited for the disk is worth a sentence.
const WAITED: u64 = 8 << 20;

/// What was lost between rings and files, and how the disk kept up. `taken`: losses do not change
/// the exit code.
fn tell_streamed(lines: &mut Vec<String>, streamed: &Streamed, taken: bool) {
    let losses = &streamed.losses;
    if losses.records > 0 {
        lines.push(format!(
            "warning: {} lost, the ring that was full longest was so for up to {:.2} % of the \
             time; give larger rings (-m), {}, read with priority (-r 1) or with more readers \
             (--threads), or sample less (-F, -c){}",
            numbered(losses.records, "record was", "records were"),
            (losses.worst_paused() * 100.0).max(WORTH_SAYING),
            match streamed.compressed {
                Some(_) =>
                    "write to a faster disk, or give more memory for what waits for it (--backlog)",
                None => "compress (leave --no-compress out)",
            },
            if taken { "" } else { "; the exit code is 1 for that (--accept-losses)" }
        ));
    }
    if streamed.waited >= WAITED {
        let deeper = streamed.deepest.filter(|level| *level > 1);
        lines.push(format!(
            "note: the disk was slower than the recording: up to {:.1} MiB waited for it in \
             memory (--backlog){}",
            streamed.waited as f64 / f64::from(1 << 20),
            deeper.map_or(String::new(), |level| format!(
                ", and records were compressed up to level {level}"
            ))
        ));
    }
    let named = |cpus: &std::collections::BTreeSet<i32>| {
        let numbers: Vec<String> = cpus.iter().map(i32::to_string).collect();
        format!("CPU {}", numbers.join(", "))
    };
    let hotplug = &streamed.hotplug;
    if !hotplug.gone.is_empty() {
        lines.push(format!(
            "warning: {} went offline: recorded up to there, and not again if it came back; \
             record again with all CPUs online",
            named(&hotplug.gone)
        ));
    }
    if !hotplug.came.is_empty() {
        lines.push(format!(
            "warning: {} came online after the recording began and is not in it",
            named(&hotplug.came)
        ));
    }
    if losses.throttled.0 > 0 {
        lines.push(format!(
            "warning: the kernel stopped sampling {} for being too frequent; sample less (-F, \
             -c), or raise kernel.perf_event_max_sample_rate",
            numbered(losses.throttled.0, "time", "times")
        ));
    }
    if let Some((before, after)) = streamed.compressed {
        lines.push(format!("note: compressed {before} bytes of records to {after}"));
    }
    if streamed.full {
        lines.push(
            "note: the recording ended at the size that was asked for (--max-size)".to_owned(),
        );
    }
    for file in &streamed.files {
        lines.push(format!("note: an earlier part is in {}", file.display()));
    }
}

/// What was lost of AUX data.
fn tell_aux(lines: &mut Vec<String>, aux: &AuxSeen) {
    if aux.truncated + aux.partial > 0 {
        lines.push(format!(
            "warning: AUX data was lost: the area was full {}, and there are gaps {}; give larger \
             areas (-m ,64M), or record less (-c)",
            numbered(aux.truncated, "time", "times"),
            numbered(aux.partial, "time", "times")
        ));
    }
    if aux.collided > 0 {
        lines.push(format!(
            "warning: {} operations were lost because they were picked faster than they are \
             written down; pick fewer (-c with a larger number)",
            numbered(aux.collided, "time", "times")
        ));
    }
}

/// What the summary has to know of the request.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Losses do not change the exit code.
    pub takes_losses: bool,
    /// Branch stacks were wanted where there are any.
    pub wants_stacks: bool,
    /// How often threads were to be stopped for software branch stacks.
    pub pace: Pace,
}

/// The summary, a line each.
pub fn lines(summary: &Summary, asked: Asked) -> Vec<String> {
    let mut lines = Vec::new();
    let samples = numbered(summary.samples, "sample", "samples");
    let entries = numbered(summary.branch_entries, "branch entry", "branch entries");
    let what = match &summary.aux {
        Some(aux) if summary.samples == 0 => {
            format!("{} bytes of AUX data of {}", aux.bytes, summary.event)
        }
        Some(aux) => {
            format!(
                "{samples} of {} with {entries} and {} bytes of AUX data",
                summary.event, aux.bytes
            )
        }
        None => format!("{samples} of {} with {entries}", summary.event),
    };
    lines.push(format!(
        "recorded {what} in {:.1} s; wrote {} ({} bytes)",
        summary.elapsed.as_secs_f64(),
        summary.output.display(),
        summary.bytes
    ));
    if let Some(aux) = &summary.aux {
        tell_aux(&mut lines, aux);
    }
    if let Some(taken) = summary.taken_branches {
        lines.push(format!(
            "the program took {taken} branches in {}",
            numbered(summary.processes, "process", "processes")
        ));
    }
    match &summary.streamed {
        Some(streamed) => tell_streamed(&mut lines, streamed, asked.takes_losses),
        None if summary.lost_samples > 0 => {
            let full = if summary.branches == "emulated" { "; is the disk full?" } else { "" };
            lines.push(format!(
                "warning: {} lost{full}",
                numbered(summary.lost_samples, "sample was", "samples were")
            ));
        }
        None => {}
    }
    if summary.native_programs > 0 {
        lines.push(format!(
            "warning: the program started {} that ran natively, not recorded",
            numbered(summary.native_programs, "other program", "other programs")
        ));
    }
    if let Some(went) = &summary.look_ahead {
        tell_look_ahead(&mut lines, went, asked.pace);
    }
    lines.extend(summary.notes.iter().map(|note| format!("note: {note}")));
    if asked.wants_stacks && summary.branches == "none" {
        let software = cfg!(target_arch = "x86_64");
        let native =
            if software { "--branches=software gives branch stacks at native speed, " } else { "" };
        lines.push(format!(
            "note: this machine has no hardware branch stacks, so these are clock samples; \
             {native}--branches=emulated gives exact ones"
        ));
        if let Some((unit, command)) = arm_spe::told(Path::new(arm_spe::EVENT_SOURCES)) {
            lines.push(format!(
                "note: {unit} is there and was not used; `{command}` uses it, or says why it \
                 cannot"
            ));
        }
    }
    match summary.ending {
        Ending::Code(0) | Ending::Unknown => {}
        Ending::Code(code) => {
            lines.push(format!("warning: the program ended with exit code {code}"))
        }
        Ending::Signal(signal) => {
            lines.push(format!("warning: the program was ended by signal {signal}"));
            if signal == ILLEGAL_INSTRUCTION && summary.branches == "emulated" {
                lines.push(
                    "hint: the emulated CPU may lack instructions that the program was compiled for \
                     (-march=native, -Ctarget-cpu=native); compile it for an older CPU, or record with \
                     --branches=software (record.branches in planish.toml)"
                        .to_owned(),
                );
            }
        }
    }
    lines
}

/// How looking ahead went.
fn tell_look_ahead(lines: &mut Vec<String>, went: &LookAhead, pace: Pace) {
    let percent = |part: f64, whole: f64| if whole > 0.0 { 100.0 * part / whole } else { 0.0 };
    lines.push(format!(
        "{} of {} ({:.1} %) gave all {} branches; {} instructions followed",
        went.full,
        numbered(went.stops, "stop", "stops"),
        percent(went.full as f64, went.stops as f64),
        went.depth,
        went.instructions
    ));
    if !went.shorter.is_empty() {
        let mut reasons: Vec<(&String, &u64)> = went.shorter.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let told: Vec<String> =
            reasons.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        lines.push(format!("the others ended early: {}", told.join(", ")));
    }
    lines.push(format!(
        "threads stood still for {:.3} s, {:.2} % of their {:.1} s of CPU time; the tracer used \
         {:.3} s of CPU time",
        went.stopped.as_secs_f64(),
        percent(went.stopped.as_secs_f64(), went.program_cpu.as_secs_f64()),
        went.program_cpu.as_secs_f64(),
        went.tracer_cpu.as_secs_f64()
    ));
    if let Some((share, cost)) = went.beyond(pace) {
        lines.push(format!(
            "warning: with new threads and programs, and caches found cold afterwards, \
             that is {:.2} %, more than the budget of {:.3} %: the machine was busy, or the \
             program is many short threads or programs",
            100.0 * cost,
            100.0 * share
        ));
    }
    if went.checked > 0 {
        lines.push(format!(
            "checked {} by {} single steps, {} of them not to the end: {}{}",
            numbered(went.checked, "stack", "stacks"),
            went.checked_instructions,
            went.cut,
            numbered(went.mismatches, "mismatch", "mismatches"),
            if went.clock_races > 0 {
                format!(", and {} after the clock was read", went.clock_races)
            } else {
                String::new()
            }
        ));
    }
}
