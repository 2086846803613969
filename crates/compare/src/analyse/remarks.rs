//! What must a reader know about a measurement before believing it? Remarks; nothing is ever
//! deleted for them.

use super::cell::Runs;
use crate::Run;
use crate::metric::Source;
use statistics::gauge::{self, Unused};
use statistics::median;
use statistics::series::{self, Course};
use std::collections::BTreeMap;

/// All remarks about the runs of a benchmark.
pub(super) fn of(runs: &Runs) -> Vec<String> {
    let mut remarks = Vec::new();
    match runs.left_out {
        0 => {}
        1 => remarks.push("one run of an unfinished round was left out".into()),
        several => remarks.push(format!("{several} runs of an unfinished round were left out")),
    }
    if runs.used.is_empty() {
        return remarks;
    }
    remarks.extend(short_runs(&runs.used));
    remarks.extend(metric_choice(runs));
    remarks.extend(gauge(runs));
    remarks.extend(outliers(runs));
    remarks.extend(course(runs));
    remarks.extend(two_modes(runs));
    remarks.extend(carry_over(runs));
    remarks
}

fn median_of(used: &[&Run], value: impl Fn(&Run) -> f64) -> f64 {
    let mut values: Vec<f64> = used.iter().map(|run| value(run)).collect();
    median(&mut values)
}

fn short_runs(used: &[&Run]) -> Option<String> {
    let wall_ms = median_of(used, |run| run.wall_ns as f64) / 1e6;
    let text = "starting the program is part of every run; give it more work";
    // Counts of an emulator have no time.
    (wall_ms > 0.0 && wall_ms < 20.0).then(|| format!("a run takes only {wall_ms:.1} ms: {text}"))
}

/// What became of the gauge, where there was one.
fn gauge(runs: &Runs) -> Option<String> {
    if !runs.design.gauge {
        return None;
    }
    let (all, least) = (runs.used.len(), gauge::LEAST_RUNS);
    Some(match runs.gauged {
        Ok(gauged) => format!(
            "gauge: {:.0} % of the variance between runs came from others on this core, and was taken \
             out",
            gauged.explained * 100.0
        ),
        Err(_) if !runs.metric.is_speed() => format!(
            "gauge: {} is not known to be a time or a rate, and was not adjusted",
            runs.metric.label()
        ),
        Err(Unused::Unread) => {
            let unread = runs.used.iter().filter(|run| run.gauge_ns.is_none_or(|ns| ns == 0));
            format!(
                "gauge: it could not be read during {} of {all} runs, so nothing was adjusted; either \
                 they were too short, and need more work, or others kept the CPU from it",
                unread.count()
            )
        }
        Err(Unused::Few) => format!(
            "gauge: {all} runs are too few for it, so nothing was adjusted; {least} are the least"
        ),
        Err(Unused::Nothing) => {
            "gauge: it does not explain how these runs differ, so nothing was adjusted".into()
        }
    })
}

fn metric_choice(runs: &Runs) -> Option<String> {
    let used = &runs.used[..];
    if runs.metric.source != Source::Cpu {
        return None;
    }
    let cpu = |run: &Run| (run.user_ns + run.system_ns) as f64;
    let share = |run: &Run, ns: u64| ns as f64 / run.wall_ns.max(1) as f64;
    let busy = median_of(used, |run| cpu(run) / (run.wall_ns.max(1)) as f64);
    if busy > 1.2 {
        let text = "several threads or processes ran at once; CPU time does not tell how well \
                    they shared the work (see --metric wall)";
        return Some(format!("on average {busy:.1} CPUs were busy: {text}"));
    }
    let pct = |share: f64| format!("{:.0} %", share * 100.0);
    let away = (1.0 - busy).max(0.0);
    let gave = median_of(used, |run| run.voluntary_switches as f64);
    let lost = median_of(used, |run| run.involuntary_switches as f64);
    if used.iter().all(|run| run.queued_ns.is_some()) {
        let queued = median_of(used, |run| share(run, run.queued_ns.unwrap_or(0))).min(away);
        let rest = away - queued;
        // Losing the CPU to others is no waiting of the program's; only one that gives it away
        // itself waits.
        let waits = rest > 0.2 && gave > 20.0;
        let crowded = format!(
            "for {} of the time the program waited for a CPU, since others used it",
            pct(queued)
        );
        return match (queued > 0.1, waits) {
            (true, true) => Some(format!(
                "{crowded}, and for {} for something else (disk, network, locks, other \
                 processes), which CPU time does not show (see --metric wall)",
                pct(rest)
            )),
            (true, false) => Some(format!(
                "{crowded}: CPU time leaves that out, wall time would not, and caches are shared; \
                 measure on an idle machine"
            )),
            (false, true) => Some(format!(
                "for {} of the time the program waits, not for a CPU but for something else \
                 (disk, network, locks, other processes), which CPU time does not show (see \
                 --metric wall)",
                pct(rest)
            )),
            (false, false) => None,
        };
    }
    if away <= 0.2 || (gave <= 20.0 && lost <= 20.0) {
        return None;
    }
    let likely = if lost > gave {
        "more often since others took the CPU than by itself, so most of it was probably waiting \
         for a CPU"
    } else {
        "more often by itself than since others took the CPU, so most of it was probably waiting \
         for something else, which CPU time does not show (see --metric wall)"
    };
    Some(format!("for {} of the time the program was not on a CPU: it left it {likely}", pct(away)))
}

/// Positions of runs more than ten median absolute deviations away from the course of the machine.
pub(super) fn far_out(runs: &Runs) -> Vec<usize> {
    let residuals = &runs.residuals;
    let mut values = residuals.clone();
    let middle = median(&mut values);
    let mut away: Vec<f64> = residuals.iter().map(|r| (r - middle).abs()).collect();
    let limit = 10.0 * 1.4826 * median(&mut away);
    if limit <= 0.0 {
        return Vec::new();
    }
    residuals
        .iter()
        .enumerate()
        .filter(|(_, r)| (*r - middle).abs() > limit)
        .map(|(at, _)| at)
        .collect()
}

/// What the kernel knows about a run that lies far out.
pub(super) fn cause(run: &Run) -> &'static str {
    if run.steal_ticks > 0 {
        "the hypervisor took CPU time"
    } else if run.major_faults > 0 {
        "it read from disk"
    } else if run.involuntary_switches > 20 {
        "others took the CPU"
    } else {
        "no cause known"
    }
}

/// They stay in: the statistic is robust, and deleting by hand is how results are bent.
fn outliers(runs: &Runs) -> Option<String> {
    let far: Vec<&Run> =
        far_out(runs).into_iter().filter_map(|at| runs.used.get(at).copied()).collect();
    if far.is_empty() {
        return None;
    }
    let rounds: Vec<String> = far.iter().take(8).map(|run| run.round.to_string()).collect();
    let mut causes = BTreeMap::<&str, usize>::new();
    for run in &far {
        *causes.entry(cause(run)).or_default() += 1;
    }
    let causes: Vec<String> =
        causes.into_iter().map(|(cause, n)| format!("{n} × {cause}")).collect();
    if let [only] = &*far {
        let (round, cause, all) = (only.round, cause(only), runs.used.len());
        return Some(format!(
            "one of {all} runs lies far out (round {round}; {cause}); it is kept, the statistic is robust"
        ));
    }
    let more = if far.len() > 8 { ", …" } else { "" };
    Some(format!(
        "{} of {} runs lie far out (rounds {}{more}; {}); they are kept, the statistic is robust",
        far.len(),
        runs.used.len(),
        rounds.join(", "),
        causes.join(", ")
    ))
}

/// Does a run depend on which program ran before it? Then the test is no longer exact.
fn carry_over(runs: &Runs) -> Option<String> {
    let found = series::carry_over(&runs.observations)?;
    let name = &runs.design.variants.get(found.variant)?.name;
    let pct = (found.change.exp_m1() * 100.0).abs();
    Some(format!(
        "{name} runs {pct:.1} % differently after itself than after another program: one run \
         influences the next, the interval may be too narrow"
    ))
}

/// What the machine did over the rounds. The random order makes it harmless for the comparison, but
/// it says how far the medians can be trusted.
fn course(runs: &Runs) -> Option<String> {
    let rounds: Vec<f64> = series::round_medians(&runs.raw).into_iter().map(|(_, m)| m).collect();
    let pct = |log: f64| format!("{:.1} %", (log.exp_m1() * 100.0).abs());
    let harmless = "the random order keeps it out of the comparison";
    match series::course(&rounds) {
        Course::Flat => None,
        Course::WarmUp { rounds, excess } => Some(format!(
            "warm-up: the first {rounds} rounds were {} slower; {harmless}, and nothing was cut",
            pct(excess)
        )),
        Course::Step { round, change } => Some(format!(
            "step: all programs became {} {} after round {round}; {harmless}",
            pct(change),
            if change > 0.0 { "slower" } else { "faster" }
        )),
        Course::Drift { change } => Some(format!(
            "drift: all programs became {} {} over the measurement; {harmless}",
            pct(change),
            if change > 0.0 { "slower" } else { "faster" }
        )),
        Course::Unsteady { changes } => {
            let often = if changes == 1 { "once".to_owned() } else { format!("{changes} times") };
            Some(format!("unsteady: the speed of the machine changed {often}; {harmless}"))
        }
    }
}

/// Fewer runs fall into two heaps by chance.
const FEWEST_FOR_MODES: usize = 30;

/// Runs of one binary that fall into two groups.
fn two_modes(runs: &Runs) -> Option<String> {
    for &variant in &runs.variants {
        let own = runs
            .used
            .iter()
            .zip(&runs.residuals)
            .filter(|(run, _)| run.variant == variant && run.layout == 0);
        let values: Vec<f64> = own.map(|(_, r)| *r).collect();
        if values.len() < FEWEST_FOR_MODES {
            continue;
        }
        let Some(modes) = series::two_modes(&values) else { continue };
        let name = &runs.design.variants.get(variant)?.name;
        let apart = ((modes.high - modes.low).exp_m1() * 100.0).abs();
        let upper = modes.upper_share * 100.0;
        return Some(format!(
            "{name} has two speeds {apart:.1} % apart ({upper:.0} % of its runs are in the slower \
             group); its median depends on which group is larger"
        ));
    }
    None
}
