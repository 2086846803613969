//! Which claims survive many rows, looks in between, a second block of rounds, and metrics that are
//! no times?

use super::tests::{NONE, design, only, simulate, told};
use super::*;
use crate::Design;
use crate::design::Stopping;
use crate::result::Verdict;
use random::Random;

/// The same command eight times under other names.
fn eight(mut design: Design) -> Design {
    for number in 1..8 {
        let mut next = design.benchmarks[0].clone();
        next.name = format!("x{number}");
        design.benchmarks.push(next);
    }
    design
}

#[test]
fn a_quarter_is_slower_over_eight_layouts_among_eight_rows() {
    let mut recorded = simulate(eight(design(10, 3, &["a", "b"], 8)), &[0.0, 0.0], 0.002, NONE);
    for run in recorded.runs.iter_mut().filter(|run| run.benchmark == 5 && run.variant == 1) {
        run.user_ns = (run.user_ns as f64 * 1.254) as u64;
    }
    let told = told(recorded);
    let slow = &told.comparisons[5];
    assert_eq!(slow.verdict, Verdict::Slower, "{slow:?}");
    assert!((slow.effect - 1.254).abs() < 0.01 && slow.p_corrected < 0.001, "{slow:?}");
    let others = told.comparisons.iter().filter(|c| c.benchmark != "x5");
    assert!(
        others.clone().all(|c| !matches!(c.verdict, Verdict::Faster | Verdict::Slower)),
        "{told:?}"
    );
    assert!(
        told.warnings.iter().any(|w| w.contains("Student's t over the layouts")),
        "{:?}",
        told.warnings
    );
}

#[test]
fn rows_elsewhere_are_corrected_for_too() {
    let recorded = simulate(design(12, 4, &["a", "b"], 0), &[0.0, 0.02], 0.01, NONE);
    let among = |among| {
        let options = AnalysisOptions { draws: 999, among, ..AnalysisOptions::default() };
        analyse(std::slice::from_ref(&recorded), &options)
            .unwrap()
            .measurement
            .comparisons
            .remove(0)
    };
    let (alone, with) = (among(0), among(8));
    assert!((with.p_corrected - (8.0 * alone.p_corrected).min(1.0)).abs() < 1e-12, "{with:?}");
}

#[test]
fn too_few_rounds_for_so_many_rows_are_named() {
    let told = told(simulate(eight(design(8, 3, &["a", "b"], 0)), &[0.0, 0.2], 0.002, NONE));
    for c in &told.comparisons {
        assert_eq!(c.verdict, Verdict::Undecided);
        assert!(
            c.warnings[0].contains("8 rounds cannot show a difference at 5 % among 8 rows; 9 are"),
            "{c:?}"
        );
        // The interval is not passed over, and the number is the right one.
        assert!(c.is_beyond(0.01) && c.sentence.contains("lies beyond ±1 %"), "{}", c.sentence);
        assert!(c.sentence.ends_with("about 9 rounds in all would decide"), "{}", c.sentence);
    }
    let design = eight(design(8, 3, &["a", "b"], 0));
    assert!(design.too_small(8).unwrap().contains("9 are the least"));
    assert_eq!((design.too_small(1), Design { rounds: 9, ..design }.too_small(8)), (None, None));
}

#[test]
fn a_measurement_that_ends_when_decided_has_rounds_enough_for_its_rows() {
    let mut many = eight(design(40, 3, &["a", "b", "c", "d", "e", "f"], 0));
    many.stopping = Stopping::UntilDecided;
    let mut watch = crate::watch::Watch::new(&many);
    let recorded = simulate(many.clone(), &[0.0, 0.3, 0.3, 0.3, 0.3, 0.3], 0.001, NONE);
    let mut ended = None;
    for round in 1..=40 {
        let here = recorded.runs.iter().filter(|run| run.benchmark == 0 && run.round == round);
        let seen: Vec<_> = here.map(|run| Metric::default().observation(run).unwrap()).collect();
        if watch.feed(0, &seen, &[0, 1, 2, 3, 4, 5]) {
            ended = Some(round);
            break;
        }
    }
    assert_eq!(ended, Some(11), "forty rows need eleven rounds for any claim");
}

#[test]
fn a_look_in_between_has_its_price_and_is_said() {
    let of = |looked: &[u32]| {
        let mut recorded = simulate(design(30, 4, &["a", "b"], 0), &[0.0, 0.004], 0.01, NONE);
        recorded.design.looked = looked.to_vec();
        only(recorded)
    };
    let (none, one, end) = (of(&[]), of(&[15]), of(&[30]));
    assert_eq!(none, end);
    assert!(one.p_value == none.p_value && one.p_corrected > none.p_corrected, "{one:?}");
    assert!(one.p_corrected <= 2.0 * none.p_corrected, "{one:?}");
    assert!(one.warnings.iter().any(|w| w.contains("told after 15 rounds")), "{:?}", one.warnings);
}

/// Ten rounds in which b is slower, and ten more in which it is slower by `second`.
fn twice(second: f64) -> Recorded {
    let mut recorded = simulate(design(20, 6, &["a", "b"], 0), &[0.0, 0.0], 0.002, NONE);
    (recorded.design.rounds, recorded.design.confirm) = (10, true);
    for run in recorded.runs.iter_mut().filter(|run| run.variant == 1) {
        let factor = if run.round <= 10 { 1.03 } else { second };
        run.user_ns = (run.user_ns as f64 * factor) as u64;
    }
    recorded
}

#[test]
fn slower_is_what_a_second_block_of_rounds_says_too() {
    let both = only(twice(1.03));
    assert_eq!((both.verdict, both.n), (Verdict::Slower, 10), "{both:?}");
    assert!(both.sentence.contains("10 rounds more say so too"), "{}", both.sentence);
    let once = only(twice(1.0));
    assert_eq!(once.verdict, Verdict::Undecided);
    assert!(once.sentence.contains("which 10 rounds more did not confirm"), "{}", once.sentence);
    assert!(!once.awaits_confirmation(10));
    for kept in [10, 15] {
        let mut part = twice(1.03);
        part.runs.retain(|run| run.round <= kept);
        let open = only(part);
        assert!(open.verdict == Verdict::Undecided && open.awaits_confirmation(10), "{open:?}");
    }
}

#[test]
fn memory_is_more_or_less_and_never_slower() {
    let mut recorded = simulate(design(10, 4, &["a", "b"], 0), &[0.0, 0.1], 0.005, NONE);
    recorded.design.benchmarks[0].metrics = vec![Metric::parse("maxrss").unwrap()];
    recorded.runs.iter_mut().for_each(|run| run.max_rss_bytes = run.user_ns / 1000);
    let c = only(recorded);
    assert_eq!(c.verdict, Verdict::Slower);
    assert!(c.sentence.starts_with("this binary takes more memory ("), "{}", c.sentence);
    assert!(!c.sentence.contains("slower") && c.warnings.is_empty(), "{c:?}");
}

#[test]
fn a_variant_with_layouts_of_its_own_is_judged_as_independent_and_the_other_stays_matched() {
    let shared = |_: usize, layout: u32| 0.01 * f64::from(layout * 5 % 8);
    let mut recorded =
        simulate(design(10, 3, &["a", "b", "c"], 8), &[0.0, 0.02, 0.02], 0.002, &shared);
    recorded.design.variants[2].own_layouts = true;
    let told = told(recorded);
    let matched: Vec<bool> = told.comparisons.iter().map(|c| c.layouts.unwrap().matched).collect();
    assert_eq!(matched, [true, false]);
    let width = |at: usize| told.comparisons[at].interval.map(|[low, high]| high - low).unwrap();
    assert!(width(0) < width(1) / 3.0, "{} {}", width(0), width(1));
}

/// Remarks about a program that is on a CPU for a third of its time.
fn remark(queued_share: Option<f64>, gave: u64, lost: u64) -> String {
    let mut recorded = simulate(design(10, 4, &["a", "b"], 0), &[0.0, 0.0], 0.005, NONE);
    for run in &mut recorded.runs {
        run.wall_ns = run.user_ns * 20 / 7;
        run.queued_ns = queued_share.map(|share| (run.wall_ns as f64 * share) as u64);
        (run.voluntary_switches, run.involuntary_switches) = (gave, lost);
    }
    told(recorded).warnings.join("; ")
}

#[test]
fn waiting_for_a_cpu_is_told_from_waiting_for_something_else() {
    let crowded = remark(Some(0.65), 30, 400);
    assert!(crowded.contains("for 65 % of the time the program waited for a CPU"), "{crowded}");
    assert!(!crowded.contains("something else"), "{crowded}");
    let waits = remark(Some(0.0), 400, 3);
    assert!(waits.contains("not for a CPU but for something else"), "{waits}");
    let both = remark(Some(0.3), 400, 300);
    assert!(
        both.contains("for 30 % of the time") && both.contains("and for 35 % for something"),
        "{both}"
    );
    assert!(remark(None, 40, 400).contains("probably waiting for a CPU"));
    assert!(remark(None, 400, 40).contains("probably waiting for something else"));
    assert!(!remark(None, 3, 4).contains("of the time"));
}

#[test]
fn equal_files_are_called_identical() {
    let mut recorded = simulate(design(10, 4, &["a", "b"], 0), &[0.0, 0.0], 0.005, NONE);
    let mut digests = |b: &str| {
        for (variant, digest) in recorded.design.variants.iter_mut().zip(["1", b]) {
            variant.digests = vec![digest.to_owned()];
        }
        only(recorded.clone()).warnings.join("; ")
    };
    assert!(digests("1").contains("a and b are the same file, byte for byte"));
    assert!(!digests("2").contains("byte for byte"));
}

#[test]
fn kept_runs_are_told_beside_another_variant() {
    let other = twice(1.03).beside("b").unwrap();
    assert!(other.runs.iter().all(|run| run.round <= 10), "a second block was about the old base");
    let turned = only(other);
    assert_eq!((turned.verdict, turned.n, turned.variant.as_str()), (Verdict::Faster, 10, "a"));
    let plain = only(twice(1.03));
    assert!((turned.effect * plain.effect - 1.0).abs() < 1e-3, "{turned:?}");
    let three = simulate(design(9, 6, &["a", "b", "c"], 0), &[0.0, 0.02, 0.04], 0.002, NONE);
    let names =
        |of: &Recorded| of.design.variants.iter().map(|v| v.name.clone()).collect::<Vec<_>>();
    let turned = three.clone().beside("c").unwrap();
    assert_eq!(names(&turned), ["c", "a", "b"]);
    for (before, after) in three.runs.iter().zip(&turned.runs) {
        let name = |of: &Recorded, run: &crate::Run| of.design.variants[run.variant].name.clone();
        assert_eq!(name(&three, before), name(&turned, after));
    }
    let refused = three.beside("d").unwrap_err().to_string();
    assert!(refused.contains("\"d\"") && refused.contains("a, b, c"), "{refused}");
}

#[test]
fn a_difference_of_two_links_that_another_link_could_make_is_no_claim() {
    let averaged = only(simulate(design(10, 3, &["a", "b"], 8), &[0.0, 0.0], 0.002, NONE));
    let alone = only(simulate(design(10, 3, &["a", "b"], 0), &[0.0, 0.1], 0.002, NONE));
    let judged = |effect, verdict, band| {
        let mut links = averaged.clone();
        links.layouts.as_mut().unwrap().one_relink = band;
        let mut row = crate::result::Compared { effect, verdict, ..alone.clone() };
        row.judge_as_one_link(&links);
        row
    };
    for (effect, verdict, band, expected) in [
        (0.894, Verdict::Faster, 0.15, Verdict::Undecided),
        (1.1, Verdict::Slower, 0.15, Verdict::Undecided),
        (0.894, Verdict::Faster, 0.02, Verdict::Faster),
        (1.1, Verdict::Slower, 0.02, Verdict::Slower),
        (1.0, Verdict::Same, 0.15, Verdict::Same),
    ] {
        let row = judged(effect, verdict, band);
        assert_eq!(row.verdict, expected, "{effect} within ±{band}");
        let turned = verdict != expected;
        assert_eq!(row.sentence.contains("both were linked once"), turned, "{}", row.sentence);
    }
    // Without layouts nobody knows what another link does.
    let mut row = alone.clone();
    row.judge_as_one_link(&alone);
    assert_eq!(row, alone);
}

#[test]
fn slower_in_both_blocks_is_known_where_the_second_is_not_certain() {
    let mut row = only(twice(1.03));
    assert!(!row.is_slower_twice());
    row.verdict = Verdict::Undecided;
    assert!(row.is_slower_twice());
    // A rate that was lower, and then higher.
    row.effect = 0.97;
    assert!(!row.is_slower_twice());
    row.confirmation.as_mut().unwrap().effect.as_mut().unwrap().interval = Some([0.96, 0.98]);
    assert!(row.is_slower_twice());
    assert!(!only(twice(1.0)).is_slower_twice());
}

#[test]
fn what_slowed_the_gauge_is_taken_out_of_times_and_told() {
    let mut recorded = simulate(design(40, 3, &["a", "b"], 0), &[0.0, 0.02], 0.01, NONE);
    let mut random = Random::new(8);
    for run in &mut recorded.runs {
        // A neighbour that is there for half of the runs, and takes more or less.
        let taken = if random.below(2) == 0 { 0.0 } else { 0.4 + 0.5 * random.unit() };
        run.user_ns = (run.user_ns as f64 * (1.0 + 0.8 * taken)) as u64;
        run.gauge_ns = Some((3000.0 * (1.0 + taken)) as u64);
        run.max_rss_bytes = 1 << 20;
    }
    let with = |change: &dyn Fn(&mut Recorded)| {
        let mut recorded = recorded.clone();
        change(&mut recorded);
        told(recorded)
    };
    let width = |found: &Measurement| {
        let [low, high] = found.comparisons[0].interval.unwrap();
        high - low
    };
    let without = with(&|recorded| recorded.runs.iter_mut().for_each(|run| run.gauge_ns = None));
    assert!(!without.warnings.iter().any(|told| told.starts_with("gauge: ")), "{without:?}");
    let gauged = with(&|recorded| recorded.design.gauge = true);
    assert!(width(&gauged) < 0.3 * width(&without), "{gauged:?}");
    assert!(gauged.warnings.iter().any(|told| told.contains("was taken out")), "{gauged:?}");
    let short = with(&|recorded| {
        recorded.design.gauge = true;
        recorded.runs[7].gauge_ns = None;
    });
    assert_eq!(width(&short), width(&without));
    let told = short.warnings.iter().find(|told| told.contains("during 1 of ")).cloned();
    assert!(told.is_some_and(|told| told.contains("too short")), "{short:?}");
    let few = with(&|recorded| {
        recorded.design.gauge = true;
        recorded.runs.retain(|run| run.round <= 6);
    });
    assert!(few.warnings.iter().any(|told| told.contains("24 are the least")), "{few:?}");
    let memory = with(&|recorded| {
        recorded.design.gauge = true;
        recorded.design.benchmarks[0].metrics = vec![Metric::parse("maxrss").unwrap()];
    });
    assert!(memory.warnings.iter().any(|told| told.contains("not adjusted")), "{memory:?}");
}
