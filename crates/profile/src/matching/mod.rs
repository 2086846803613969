//! Carries the profile of an older source over to a newer one, by the calls that both have.
//!
//! Lines move when a source is edited, calls keep their names and their order. So the calls are the
//! anchors: those that the profile knows (call targets and inlined calls) are aligned with those of
//! the newer program's functions, and every other location moves with the nearest of them. The
//! rules stand in `places`. What a function's calls say holds for all of its inlined copies, which
//! therefore need not be inlined at the same places in both programs.
//!
//! Input: a profile by lines, and the shape of the newer program, read off its code and debug
//! information. Output: the profile, and a report in which every sample of the old one stands once.
//! Cost: about that of attribution over the whole program, and for each changed function the
//! product of its numbers of calls, with a bound.
//!
//! Sources: Ayupov, Panchenko and Pupyrev, Stale Profile Matching, arXiv 2401.17168, on blocks;
//! LLVM's option `-salvage-stale-profile` has the idea for calls and lines.

mod align;
mod gaps;
mod names;
mod places;
mod report;
mod shape;
mod shifts;

pub use report::{Calls, MatchReport, Names, Samples, Verdicts};
pub use shape::{Callees, FunctionShape, ProgramShape};

use std::collections::{BTreeMap, BTreeSet};

use names::Known;
use places::{CanCall, Places, Seen, Verdict, has_code};

use crate::operations::add_function;
use crate::{FunctionProfile, Location, Name, SampleProfile};

/// Why a profile cannot be matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MatchError {
    /// The profile counts pseudo probes.
    #[error(
        "the profile counts pseudo probes, which do not move with lines: clang itself leaves \
         aside functions that changed, or matches them with -mllvm -salvage-stale-profile"
    )]
    Probes,
    /// The profile has calling contexts.
    #[error(
        "the profile has calling contexts ([main:3 @ f]), which are not matched; make it without \
         them"
    )]
    Contexts,
    /// The program has no functions with debug information.
    #[error(
        "the program has no function in its debug information; build it with -g1 (or -gmlt) and \
         do not strip it"
    )]
    NoShape,
}

/// Matches a profile with a newer program.
///
/// # Errors
/// When the profile is not one by lines, or nothing is known of the program.
pub fn match_profile(
    profile: &SampleProfile,
    shape: &ProgramShape,
) -> Result<(SampleProfile, MatchReport), MatchError> {
    if profile.is_probe_based() {
        return Err(MatchError::Probes);
    }
    if profile.functions.keys().any(Name::is_context) {
        return Err(MatchError::Contexts);
    }
    if shape.functions.is_empty() {
        return Err(MatchError::NoShape);
    }
    let mut report = MatchReport::default();
    let carrier = Carrier::new(profile, shape, &mut report);
    let mut matched = SampleProfile { functions: BTreeMap::new(), ..profile.clone() };
    let mut dropped: Vec<(String, u64)> = Vec::new();
    for function in profile.functions.values() {
        let names = &mut report.functions;
        match carrier.names.known(&function.name) {
            Known::Same(_) => names.found += 1,
            Known::Renamed(_) => names.renamed += 1,
            Known::Ambiguous => names.ambiguous += 1,
            Known::Gone => names.gone += 1,
        }
        let before = report.samples.dropped();
        if let Some(carried) = carrier.carry(function, false, &mut report) {
            matched.functions.insert(carried.name.clone(), carried);
        }
        let lost = u64::try_from(report.samples.dropped() - before).unwrap_or(u64::MAX);
        if lost > 0 {
            dropped.push((function.name.to_string(), lost));
        }
    }
    dropped.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    dropped.truncate(10);
    report.largest_dropped = dropped;
    report.unchanged = matched == *profile;
    Ok((matched, report))
}

/// The field that counts samples dropped for one reason.
type Reason = fn(&mut Samples) -> &mut u128;

/// Puts functions into the new profile, and counts what became of each sample.
struct Carrier<'s> {
    shape: &'s ProgramShape,
    names: names::Names,
    places: BTreeMap<Name, Places>,
}

impl<'s> Carrier<'s> {
    /// Finds the places of every function's locations.
    fn new(
        profile: &SampleProfile,
        shape: &'s ProgramShape,
        report: &mut MatchReport,
    ) -> Carrier<'s> {
        let mut names = names::Names::new(profile, shape);
        let mut seen: BTreeMap<Name, Seen> = BTreeMap::new();
        for function in profile.functions.values() {
            collect(function, &mut names, &mut seen);
        }
        let mut places = BTreeMap::new();
        for (name, seen) in seen {
            report.calls.all += seen.calls.len() as u64;
            for called in seen.calls.values() {
                report.calls.executions = report.calls.executions.saturating_add(called.count);
            }
            let Some(found) = names.known(&name).name().and_then(|name| shape.functions.get(name))
            else {
                continue;
            };
            let calls = found
                .calls
                .iter()
                .map(|(at, callees)| (*at, can_call(callees, &mut names)))
                .collect();
            let place = places::places(&seen, found, &calls);
            let (calls, executions) = place.matched;
            report.calls.matched += calls;
            report.calls.executions_matched =
                report.calls.executions_matched.saturating_add(executions);
            report.calls.not_compared += place.skipped;
            let verdicts = &mut report.verdicts;
            *match place.verdict {
                Verdict::InPlace => &mut verdicts.in_place,
                Verdict::WithoutCalls => &mut verdicts.without_calls,
                Verdict::Unconfirmed => &mut verdicts.unconfirmed,
                Verdict::Lost => &mut verdicts.lost,
                Verdict::Moved(_) => &mut verdicts.moved,
            } += 1;
            places.insert(name, place);
        }
        Carrier { shape, names, places }
    }

    /// A function as the newer program has it; `None` when nothing of it is left. `moved` says
    /// whether the call that it is inlined at has moved.
    fn carry(
        &self,
        function: &FunctionProfile,
        moved: bool,
        report: &mut MatchReport,
    ) -> Option<FunctionProfile> {
        let old_shape =
            self.names.known(&function.name).name().and_then(|name| self.shape.functions.get(name));
        let Some(places) = self.places.get(&function.name) else {
            let reason: Reason = match self.names.known(&function.name) {
                Known::Ambiguous => |samples| &mut samples.of_ambiguous,
                _ => |samples| &mut samples.of_gone,
            };
            self.drop(function, report, reason);
            return None;
        };
        if places.verdict == Verdict::Lost {
            self.drop(function, report, |samples| &mut samples.of_lost);
            return None;
        }
        let code_at = |at: Location| old_shape.is_some_and(|shape| has_code(shape, at));
        let dropped_before = report.samples.dropped();
        let mut carried = FunctionProfile {
            body: BTreeMap::new(),
            callsites: BTreeMap::new(),
            vtables: BTreeMap::new(),
            name: self.names.renamed(&function.name),
            ..function.clone()
        };
        for (at, sample) in &function.body {
            let count = u128::from(sample.count);
            report.samples.all += count;
            report.with_code_before += if code_at(*at) { count } else { 0 };
            let Some(to) = places.of(*at) else {
                report.samples.of_removed_lines += count;
                continue;
            };
            let slot = carried.body.entry(to).or_default();
            for (callee, calls) in &sample.targets {
                let calls_there = slot.targets.entry(self.names.renamed(callee)).or_default();
                *calls_there = (*calls_there).max(*calls);
            }
            // What stood there is replaced by a larger count, or stays.
            let stands = slot.count.max(sample.count);
            let added = u128::from(stands - slot.count);
            report.samples.of_collisions += count - added;
            report.with_code_after += if code_at(to) { added } else { 0 };
            let samples = &mut report.samples;
            *(if moved || to != *at { &mut samples.moved } else { &mut samples.stayed }) += added;
            slot.count = stands;
        }
        for (at, callee) in function.inlined_calls() {
            let Some(to) = places.of(at) else {
                self.drop(callee, report, |samples| &mut samples.of_removed_lines);
                continue;
            };
            let Some(callee) = self.carry(callee, moved || to != at, report) else { continue };
            let there = carried.inlined(to, &callee.name);
            if there.total == 0 && there.body.is_empty() && there.callsites.is_empty() {
                *there = callee;
            } else {
                add_function(there, &callee, 1);
            }
        }
        for (at, tables) in &function.vtables {
            let Some(to) = places.of(*at) else { continue };
            for (table, count) in tables {
                let there =
                    carried.vtables.entry(to).or_default().entry(table.clone()).or_default();
                *there = (*there).max(*count);
            }
        }
        let lost = report.samples.dropped() - dropped_before;
        if lost > 0 {
            carried.total = share(function.total, u128::from(carried.body_sum()), lost);
            if carried.body.is_empty() && carried.callsites.is_empty() {
                return None;
            }
        }
        Some(carried)
    }

    /// Counts the samples of a function that is left out, inlined copies included.
    fn drop(&self, function: &FunctionProfile, report: &mut MatchReport, reason: Reason) {
        let shape =
            self.names.known(&function.name).name().and_then(|name| self.shape.functions.get(name));
        for (at, sample) in &function.body {
            let count = u128::from(sample.count);
            report.samples.all += count;
            *reason(&mut report.samples) += count;
            let has_code = shape.is_some_and(|shape| has_code(shape, *at));
            report.with_code_before += if has_code { count } else { 0 };
        }
        for (_, callee) in function.inlined_calls() {
            self.drop(callee, report, reason);
        }
    }
}

/// What is left of a total when of `kept + lost` samples only `kept` are.
fn share(total: u64, kept: u128, lost: u128) -> u64 {
    let all = kept.saturating_add(lost).max(1);
    u64::try_from(u128::from(total).saturating_mul(kept) / all).unwrap_or(total)
}

/// Adds what a function, and each copy inlined into it, says about the lines and calls of its
/// functions.
fn collect(function: &FunctionProfile, names: &mut names::Names, into: &mut BTreeMap<Name, Seen>) {
    let seen = into.entry(function.name.clone()).or_default();
    for (at, sample) in &function.body {
        seen.lines.insert(*at);
        if sample.count > 0 {
            seen.executed.insert(*at);
        }
        for (callee, calls) in &sample.targets {
            seen.call(*at, names.number(callee), *calls);
        }
    }
    for (at, callee) in function.inlined_calls() {
        seen.call(at, names.number(&callee.name), callee.entry_estimate());
    }
    for (_, callee) in function.inlined_calls() {
        collect(callee, names, into);
    }
}

impl Seen {
    fn call(&mut self, at: Location, callee: u32, count: u64) {
        let called = self.calls.entry(at).or_default();
        called.callees.insert(callee);
        called.count = called.count.saturating_add(count);
    }
}

fn can_call(callees: &Callees, names: &mut names::Names) -> CanCall {
    let numbers: BTreeSet<u32> = callees.names.iter().map(|name| names.number_of(name)).collect();
    CanCall { callees: numbers, indirect: callees.indirect, jump: callees.jump }
}
