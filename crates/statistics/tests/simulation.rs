//! Do the promises hold on simulated machines? The cases of `examples/simulate`, few comparisons,
//! wide bounds.

#![allow(dead_code)]

#[path = "../examples/simulate/cases.rs"]
mod cases;
#[path = "../examples/simulate/noise.rs"]
mod noise;
#[path = "../examples/simulate/rows.rs"]
mod rows;
#[path = "../examples/simulate/session.rs"]
mod session;

use cases::Outcome;

/// Every case whose name holds one of `names`; a share must miss its target with 99.9 % certainty
/// to fail.
fn check(names: &[&str], comparisons: u64) {
    let mut checked = 0;
    for case in cases::all().iter().filter(|case| names.iter().any(|name| case.name() == *name)) {
        let mut sum = Outcome::default();
        (0..comparisons).for_each(|index| sum.add(&case.run(11, index)));
        for row in case.rows(&sum) {
            assert!(!row.misses(), "{row}");
            checked += 1;
        }
    }
    assert!(checked >= names.len());
}

#[test]
fn a_pair_of_equal_programs_is_rarely_called_different() {
    check(
        &["A/A, vm, n = 10, pair", "A/A, drift, n = 30, pair", "3 % effect, vm, n = 30, pair"],
        200,
    );
}

#[test]
fn relinks_of_one_program_are_rarely_called_different() {
    check(
        &[
            "A/A, vm, relinked, n = 10, 8 independent layouts",
            "A/A, vm, relinked, n = 10, 8 matched layouts (correlation 0.85)",
            "best against worst of 12 links, quiet, relinked, n = 30, 8 independent layouts",
        ],
        120,
    );
}

#[test]
fn stopping_early_claims_no_more_than_waiting() {
    check(&["A/A, vm, n = 60, pair, 4 looks", "A/A, drift, n = 60, pair, until decided"], 200);
}

#[test]
fn real_differences_are_seen() {
    check(
        &[
            "1 % effect, vm, n = 30, pair",
            "30 % effect, vm, n = 6, pair",
            "3 % effect, quiet, relinked, n = 30, 8 independent layouts",
            "1 % effect, quiet, relinked, n = 10, 16 matched layouts (correlation 0.8)",
        ],
        100,
    );
}

#[test]
fn among_many_rows_nothing_is_claimed_wrongly_and_a_quarter_is_found() {
    let names = [
        "8 rows, A/A, vm, 8 matched layouts",
        "40 rows, A/A, quiet, 8 matched layouts",
        "20 rows, A/A, vm, 8 independent layouts",
        "8 rows, 25 % in one, vm, 8 matched layouts",
        "40 rows, 25 % in one, vm, 8 matched layouts",
        "40 rows, 25 % in one, vm, 8 independent layouts",
    ];
    let mut checked = 0;
    for family in rows::all().iter().filter(|family| names.contains(&family.name().as_str())) {
        let mut sum = rows::Outcome::default();
        (0..40).for_each(|index| sum.add(&family.run(11, index)));
        for row in family.told(&sum) {
            assert!(!row.misses(), "{row}");
            checked += 1;
        }
    }
    assert_eq!(checked, 9);
}
