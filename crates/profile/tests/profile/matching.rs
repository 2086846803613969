//! A profile matched with a program keeps what fits, moves what moved, and accounts for every
//! sample.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on shall fail its test")]

use proptest::prelude::*;

use profile::matching::{Callees, FunctionShape, MatchError, ProgramShape, match_profile};
use profile::{FunctionProfile, Location, Name, SampleProfile, format};

use crate::samples::{Features, profile};

/// A program in which a profile fits exactly.
fn shape_of(profile: &SampleProfile) -> ProgramShape {
    fn add(function: &FunctionProfile, shape: &mut ProgramShape) {
        let callee = |at: Location, callee: &Name, shape: &mut ProgramShape| {
            let callee = callee.to_string();
            shape.functions.entry(callee.clone()).or_default();
            let own = shape.functions.entry(function.name.to_string()).or_default();
            own.calls.entry(at).or_default().names.insert(callee);
        };
        let own = shape.functions.entry(function.name.to_string()).or_default();
        own.lines.extend(function.body.keys());
        for (at, sample) in &function.body {
            sample.targets.keys().for_each(|target| callee(*at, target, shape));
        }
        for (at, inlined) in function.inlined_calls() {
            callee(at, &inlined.name, shape);
            add(inlined, shape);
        }
    }
    let mut shape = ProgramShape::default();
    profile.functions.values().for_each(|function| add(function, &mut shape));
    shape
}

fn samples(profile: &SampleProfile) -> u128 {
    fn sum(function: &FunctionProfile) -> u128 {
        let own: u128 = function.body.values().map(|sample| u128::from(sample.count)).sum();
        own + function.inlined_calls().map(|(_, callee)| sum(callee)).sum::<u128>()
    }
    profile.functions.values().map(sum).sum()
}

/// So small that no sum stops at the largest number.
fn small(mut profile: SampleProfile) -> SampleProfile {
    fn shrink(function: &mut FunctionProfile) {
        function.body.values_mut().for_each(|sample| sample.count >>= 16);
        function.callsites.values_mut().flat_map(|callees| callees.values_mut()).for_each(shrink);
    }
    profile.functions.values_mut().for_each(shrink);
    profile
}

fn text(source: &str) -> SampleProfile {
    format::read(source.as_bytes()).unwrap()
}

/// A function with calls (`line: callee`, `?` for an indirect one) and lines.
type Listed<'a> = (&'a str, &'a [(u32, &'a str)], &'a [u32]);

fn program(functions: &[Listed<'_>]) -> ProgramShape {
    let mut shape = ProgramShape::default();
    for (name, calls, lines) in functions {
        let mut function = FunctionShape::default();
        for (line, callee) in *calls {
            let callees: &mut Callees = function.calls.entry(Location::new(*line, 0)).or_default();
            match *callee {
                "?" => callees.indirect = true,
                callee => drop(callees.names.insert(callee.to_owned())),
            }
        }
        function.lines.extend(lines.iter().map(|line| Location::new(*line, 0)));
        shape.functions.insert((*name).to_owned(), function);
    }
    shape
}

fn lines(function: &FunctionProfile) -> Vec<(u32, u64)> {
    function.body.iter().map(|(at, sample)| (at.line_offset, sample.count)).collect()
}

const OLD: &str = "work:1000:10\n 1: 10\n 2: 20 f:20\n 3: 30\n 5: 50\n 7: 70 g:70\n 8: 80\n";

#[test]
fn what_is_between_calls_moves_with_the_nearer_one() {
    let shape = program(&[
        ("work", &[(4, "f"), (12, "g"), (14, "new")], &[1, 4, 5, 10, 12, 13, 14]),
        ("f", &[], &[]),
        ("g", &[], &[]),
    ]);
    let (matched, report) = match_profile(&text(OLD), &shape).unwrap();
    // The function's begin stays, f moved by 2 and g by 5; lines 3 and 5 find code at 5 and 10.
    let expected = [(1, 10), (4, 20), (5, 30), (10, 50), (12, 70), (13, 80)];
    assert_eq!(lines(&matched.functions[&"work".into()]), expected);
    assert_eq!((report.calls.all, report.calls.matched, report.verdicts.moved), (2, 2, 1));
    assert_eq!(
        (report.samples.stayed, report.samples.moved, report.samples.dropped()),
        (10, 250, 0)
    );
    assert_eq!(report.with_code_after, 260);
    assert!(report.with_code_before < 260);
}

#[test]
fn without_a_hint_from_the_code_a_gap_is_cut_in_the_middle() {
    let old = text("work:1000:10\n 0: 1 f:1\n 2: 2\n 4: 4\n 6: 6\n 8: 8\n 10: 10 g:10\n");
    let shape = program(&[("work", &[(0, "f"), (20, "g")], &[])]);
    let (matched, _) = match_profile(&old, &shape).unwrap();
    let expected = [(0, 1), (2, 2), (4, 4), (16, 6), (18, 8), (20, 10)];
    assert_eq!(lines(&matched.functions[&"work".into()]), expected);
}

#[test]
fn calls_in_place_leave_a_function_as_it_is() {
    let shape = program(&[("work", &[(2, "f"), (7, "?"), (30, "h")], &[1, 2, 3, 5, 7, 8])]);
    let (matched, report) = match_profile(&text(OLD), &shape).unwrap();
    assert_eq!(matched, text(OLD));
    assert!(report.unchanged && report.verdicts.in_place == 1, "{report:?}");
}

#[test]
fn a_new_call_where_an_equal_one_was_is_told_by_the_lines_around() {
    // A block of four lines with a call of its own was inserted above line 2.
    let old = text("work:1000:10\n 2: 10 p:10\n 3: 20\n 5: 30\n 6: 40 p:40\n 7: 50\n");
    let shape = program(&[("work", &[(2, "p"), (6, "p"), (10, "p")], &[2, 4, 6, 7, 9, 10, 11])]);
    let (matched, report) = match_profile(&old, &shape).unwrap();
    let expected = [(6, 10), (7, 20), (9, 30), (10, 40), (11, 50)];
    assert_eq!(lines(&matched.functions[&"work".into()]), expected);
    assert_eq!((report.calls.matched, report.verdicts.moved), (2, 1));
}

#[test]
fn functions_that_are_gone_or_lost_every_call_are_dropped_and_told() {
    let shape = program(&[("f", &[], &[]), ("g", &[], &[])]);
    let (matched, report) = match_profile(&text(OLD), &shape).unwrap();
    assert!(matched.functions.is_empty());
    assert_eq!(
        (report.functions.gone, report.samples.of_gone, report.samples.carried()),
        (1, 260, 0)
    );
    assert_eq!(report.largest_dropped, [("work".to_owned(), 260)]);

    let shape = program(&[("work", &[(2, "other")], &[1, 2, 3])]);
    let (matched, report) = match_profile(&text(OLD), &shape).unwrap();
    assert!(matched.functions.is_empty());
    assert_eq!((report.verdicts.lost, report.samples.of_lost), (1, 260));

    let shape = program(&[("work", &[(2, "other")], &[1, 2, 3, 5, 7, 8])]);
    let (matched, report) = match_profile(&text(OLD), &shape).unwrap();
    assert_eq!(matched, text(OLD), "a call has another name, and every line is where it was");
    assert_eq!(report.verdicts.unconfirmed, 1);
}

#[test]
fn names_that_differ_in_the_build_only_are_renamed_everywhere() {
    let old = text("work.__uniq.1:9:1\n 1: 4 f.__uniq.1:4\n 3: g.__uniq.1:5\n  1: 5\n");
    let names = ["work.__uniq.2", "f.__uniq.2", "g.__uniq.2"];
    let shape = program(&[
        (names[0], &[(1, names[1]), (4, names[2])], &[1]),
        (names[1], &[], &[]),
        (names[2], &[], &[1]),
    ]);
    let (matched, report) = match_profile(&old, &shape).unwrap();
    let expected = text("work.__uniq.2:9:1\n 1: 4 f.__uniq.2:4\n 4: g.__uniq.2:5\n  1: 5\n");
    assert_eq!(matched, expected);
    assert_eq!((report.functions.renamed, report.samples.moved), (1, 5));
}

#[test]
fn of_equal_calls_the_one_with_the_same_surroundings_is_taken() {
    let old = text("work:100:1\n 10: 5 f:5\n 11: 6\n 13: 7\n");
    let calls: &[(u32, &str)] = &[(3, "f"), (20, "f"), (30, "f")];
    let shape = program(&[("work", calls, &[3, 20, 21, 23, 30])]);
    let (matched, _) = match_profile(&old, &shape).unwrap();
    assert_eq!(lines(&matched.functions[&"work".into()]), [(20, 5), (21, 6), (23, 7)]);
}

#[test]
fn lines_removed_between_two_calls_have_no_place() {
    let old = text("work:100:1\n 0: 1 f:1\n 1: 2\n 2: 3\n 3: 4\n 4: 5 g:5\n 5: 6\n");
    let shape = program(&[("work", &[(0, "f"), (2, "g")], &[0, 1, 2, 3])]);
    let (matched, report) = match_profile(&old, &shape).unwrap();
    assert_eq!(lines(&matched.functions[&"work".into()]), [(0, 1), (1, 2), (2, 5), (3, 6)]);
    assert_eq!(report.samples.of_removed_lines, 7);
    assert!(matched.functions[&"work".into()].total < 100);
}

#[test]
fn profiles_that_are_not_by_lines_are_refused() {
    let shape = program(&[("work", &[], &[])]);
    let mut probes = text(OLD);
    probes.functions.get_mut(&"work".into()).unwrap().checksum = Some(1);
    assert_eq!(match_profile(&probes, &shape).unwrap_err(), MatchError::Probes);
    let contexts = text("[main:3 @ work]:10:1\n 1: 10\n");
    assert_eq!(match_profile(&contexts, &shape).unwrap_err(), MatchError::Contexts);
    assert_eq!(
        match_profile(&text(OLD), &ProgramShape::default()).unwrap_err(),
        MatchError::NoShape
    );
}

const PLAIN: Features = Features {
    hashes: true,
    checksums: false,
    attributes: true,
    vtables: true,
    flags: true,
    large_discriminators: true,
    provenance: false,
};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn a_profile_that_fits_stays(profile in profile(Features { hashes: false, ..PLAIN })) {
        let (matched, report) = match_profile(&profile, &shape_of(&profile)).unwrap();
        prop_assert_eq!(&matched, &profile);
        prop_assert!(report.unchanged);
        prop_assert_eq!(report.samples.stayed, samples(&profile));
        prop_assert_eq!(report.calls.matched, report.calls.all);
    }

    #[test]
    fn every_sample_is_carried_or_told(old in profile(PLAIN), new in profile(PLAIN), shift in 0u32..9) {
        let old = small(old);
        let mut shape = shape_of(&new);
        // The same functions once more, all below some new lines, so that there is something to find.
        for (name, function) in shape_of(&old).functions {
            let into = shape.functions.entry(name).or_default();
            let down = |at: &Location| Location::new((at.line_offset + shift) & 0xffff, at.discriminator);
            into.lines.extend(function.lines.iter().map(down));
            into.calls.extend(function.calls.into_iter().map(|(at, callees)| (down(&at), callees)));
        }
        let (matched, report) = match_profile(&old, &shape).unwrap();
        prop_assert_eq!(report.samples.all, samples(&old));
        prop_assert_eq!(report.samples.carried(), samples(&matched));
        prop_assert_eq!(report.samples.all, report.samples.carried() + report.samples.dropped());
        prop_assert!(report.with_code_after <= report.samples.carried());
        prop_assert!(report.calls.matched <= report.calls.all);
        prop_assert!(report.carried_pct() <= 100.0 && report.calls_pct() <= 100.0);
        prop_assert!(matched.functions.iter().all(|(name, function)| *name == function.name));
    }

    #[test]
    fn any_profile_meets_any_program(old in profile(PLAIN), new in profile(PLAIN)) {
        let _ = match_profile(&old, &shape_of(&new)).unwrap();
    }
}
