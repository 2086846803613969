//! Error rates on generated recordings whose noise resembles that of real ones.

use super::*;
use calltrees::rows::By;
use calltrees::switching::Reason;
use calltrees::{
    Event, Function, FunctionId, Known, Library, LibraryId, Line, Names, SourceId, Stack, Thread,
    Weight,
};
use random::Random;
use std::collections::BTreeMap;

const FUNCTIONS: usize = 60;

fn asked() -> Asked {
    Asked {
        by: Rows::Of(By::Function),
        total: false,
        inlined: false,
        percent: 0.5,
        margin: 1.0,
        limit: 0,
    }
}

fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// How the generated program behaves beside its independent samples.
#[derive(Clone, Copy)]
struct Noise {
    /// Spread of the logarithm of each function's intensity from block to block.
    wobble: f64,
    /// How much a block's intensity resembles the one before.
    stays: f64,
    /// Functions of odd numbers run in other parts of the time than those of even ones.
    phases: bool,
}

/// A recording of `samples` samples: functions of falling weight whose intensity wanders.
fn recording(random: &mut Random, noise: Noise, samples: u32, planted: f64) -> Weights {
    let key = |number: usize| (format!("function{number}"), String::new());
    let shares: Vec<f64> = (0..FUNCTIONS).map(|number| 1.0 / (number as f64 + 2.0)).collect();
    let whole: f64 = shares.iter().sum();
    let mut state: Vec<f64> = (0..FUNCTIONS).map(|_| normal(random)).collect();
    let shift = random.unit();
    let mut weights = Weights { samples: u64::from(samples), ..Weights::default() };
    for block in 0..BLOCKS {
        let part = f64::from(block) / f64::from(BLOCKS);
        // Phases begin at another time in each recording.
        let early = ((part + 0.1 * shift) * 5.0).fract() < 0.5;
        let mut intensity = Vec::new();
        for (number, state) in state.iter_mut().enumerate() {
            let fresh = (1.0 - noise.stays * noise.stays).sqrt() * normal(random);
            *state = noise.stays * *state + fresh;
            let phase = match noise.phases && (number.is_multiple_of(2)) == early {
                true => 0.3,
                false => 1.0,
            };
            let share = shares[number] / whole * (1.0 - planted);
            intensity.push(share * phase * (noise.wobble * *state).exp());
        }
        let rest: f64 = intensity.iter().sum();
        intensity.push(rest * planted / (1.0 - planted));
        let total: f64 = intensity.iter().sum();
        for _ in 0..samples / BLOCKS {
            let mut at = random.unit() * total;
            let found = intensity.iter().position(|part| {
                at -= part;
                at < 0.0
            });
            let row = weights.rows.entry(key(found.unwrap_or(0))).or_default();
            *row.entry(block).or_default() += 1.0;
            *weights.whole.entry(block).or_default() += 1.0;
        }
    }
    weights
}

fn compared(old: &[Weights], new: &[Weights]) -> Diff {
    of_weights(old, new, asked(), "cpu-clock".to_owned()).unwrap()
}

fn claims(found: &Diff) -> usize {
    found.rows.iter().filter(|row| matches!(row.moved, Moved::More | Moved::Less)).count()
}

const QUIET: Noise = Noise { wobble: 0.0, stays: 0.0, phases: false };
const STICKY: Noise = Noise { wobble: 0.5, stays: 0.5, phases: false };
const PHASES: Noise = Noise { wobble: 0.3, stays: 0.3, phases: true };

#[test]
fn of_a_thousand_diffs_of_a_program_with_itself_at_most_one_in_twenty_claims_something() {
    for (name, noise) in [("quiet", QUIET), ("sticky", STICKY), ("phases", PHASES)] {
        let mut random = Random::new(20_261_124);
        let wrong = (0..1000)
            .filter(|_| {
                let mut one = || recording(&mut random, noise, 2560, 0.0);
                claims(&compared(&[one()], &[one()])) > 0
            })
            .count();
        println!("{name}: {wrong} of 1000");
        assert!(wrong <= 50, "{name}: {wrong} of 1000");
    }
}

#[test]
fn a_function_of_two_per_cent_is_found_and_named() {
    for (name, noise) in [("quiet", QUIET), ("sticky", STICKY), ("phases", PHASES)] {
        let mut random = Random::new(7);
        let found = (0..200)
            .filter(|_| {
                let old = recording(&mut random, noise, 10_240, 0.0);
                let new = recording(&mut random, noise, 10_240, 0.02);
                let diff = compared(&[old], &[new]);
                let planted = format!("function{FUNCTIONS}");
                let row = diff.rows.iter().find(|row| row.lasting == planted);
                row.is_some_and(|row| row.moved == Moved::More)
            })
            .count();
        println!("{name}: {found} of 200");
        assert!(found >= 190, "{name}: {found} of 200");
    }
}

#[test]
fn several_recordings_are_compared_and_rarely_claim_what_is_not() {
    let mut random = Random::new(3);
    let mut side = |planted| -> Vec<Weights> {
        (0..6).map(|_| recording(&mut random, STICKY, 2560, planted)).collect()
    };
    let wrong = (0..200).filter(|_| claims(&compared(&side(0.0), &side(0.0))) > 0).count();
    println!("recordings: {wrong} of 200");
    assert!(wrong <= 10, "{wrong}");
    let diff = compared(&side(0.0), &side(0.02));
    assert_eq!((diff.blocks, diff.recordings), (None, (6, 6)));
    assert_eq!(diff.rows.first().map(|row| row.moved), Some(Moved::More));
    assert_eq!(diff.rows.first().map(|row| row.lasting.as_str()), Some("function60"));
}

#[test]
fn what_shrinks_only_because_another_row_grew_is_shifted() {
    let mut random = Random::new(5);
    let old = recording(&mut random, QUIET, 25_600, 0.0);
    let new = recording(&mut random, QUIET, 25_600, 0.4);
    let diff = compared(&[old], &[new]);
    let planted = diff.rows.first().unwrap();
    assert_eq!((planted.lasting.as_str(), planted.moved), ("function60", Moved::More));
    let largest = diff.rows.iter().find(|row| row.lasting == "function0").unwrap();
    assert_eq!(largest.moved, Moved::Shifted, "{largest:?}");
    assert!(diff.is_worse() && claims(&diff) == 1, "{}", diff_text(&diff));
}

#[test]
fn thin_recordings_are_refused() {
    let mut random = Random::new(5);
    let mut short = recording(&mut random, QUIET, 256, 0.0);
    assert_eq!(compared(&[short.clone()], &[short.clone()]).blocks, Some(32));
    // All of it in an eighth of the time.
    let early = |blocks: &BTreeMap<u32, f64>| BTreeMap::from([(3, blocks.values().sum::<f64>())]);
    let bunched = Weights { whole: early(&short.whole), ..short.clone() };
    short.samples = 255;
    for thin in [short, bunched] {
        let refused = of_weights(
            std::slice::from_ref(&thin),
            std::slice::from_ref(&thin),
            asked(),
            String::new(),
        )
        .unwrap_err();
        assert!(refused.contains("too little was recorded"), "{refused}");
    }
}

/// What the generated program does beside its usual self.
#[derive(Clone, Copy, Default)]
struct Planted {
    /// A call path's part of the time on the CPU.
    path: f64,
    /// By so much more often a path waits.
    waits: f64,
}

/// A recording with call paths and waits: paths share functions, and waits are of very unequal
/// length.
fn with_paths(random: &mut Random, samples: u32, planted: Planted) -> Recorded {
    const PATHS: u32 = 40;
    let function = |number: u32| Function {
        name: format!("function{number}"),
        library: LibraryId(0),
        known: Known::Symbol,
        line: Some(Line { file: SourceId(0), number: number + 1 }),
    };
    let library = Library::at("/bin/app");
    let names = Names::of((0..PATHS / 2).map(function).collect(), vec![library]);
    let event = |name: &str, off_cpu| Event {
        name: name.to_owned(),
        is_clock: true,
        off_cpu,
        ..Event::default()
    };
    let events = vec![
        event("cpu-clock", None),
        event("wait", Some(Reason::Synchronization)),
        event("preempted", Some(Reason::Preemption)),
    ];
    // Path n goes through function n / 2, and even ones through one more.
    let path = |number: u32| -> Box<[FunctionId]> {
        let own = FunctionId(number / 2);
        if number.is_multiple_of(2) { [own, FunctionId(0)].into() } else { [own].into() }
    };
    let mut sums: BTreeMap<(u32, u32, u32), Weight> = BTreeMap::new();
    let mut add = |event, number, block, period| {
        sums.entry((event, block, number)).or_default().add(Weight::one(period));
    };
    let shares: Vec<f64> = (0..PATHS - 1).map(|number| 1.0 / (f64::from(number) + 2.0)).collect();
    let whole: f64 = shares.iter().sum();
    let pick = |random: &mut Random| -> u32 {
        let mut at = random.unit() * whole;
        let found = shares.iter().position(|share| {
            at -= share;
            at < 0.0
        });
        found.unwrap_or(0) as u32
    };
    for block in 0..BLOCKS {
        for _ in 0..samples / BLOCKS {
            let number = if random.unit() < planted.path { PATHS - 1 } else { pick(random) };
            add(0, number, block, 1_000_000);
        }
        for _ in 0..samples / BLOCKS / 2 {
            // Times of waits have long tails.
            let length = (12.0 + 1.2 * normal(random)).exp() as u64;
            let kind = if random.unit() < 0.8 { 1 } else { 2 };
            add(kind, pick(random), block, length);
        }
        if random.unit() < planted.waits {
            add(1, PATHS - 1, block, 1_000_000);
        }
    }
    let stack = |((event, block, number), weight): ((u32, u32, u32), Weight)| {
        let functions = path(number);
        Stack { event, thread: 0, block, cgroup: None, functions, at: None, weight }
    };
    let thread = Thread { pid: 1, tid: 1, name: "app".to_owned() };
    Recorded {
        events,
        threads: vec![thread],
        cgroups: Vec::new(),
        names,
        stacks: sums.into_iter().map(stack).collect(),
        span_ns: 1_000_000_000,
        switching: None,
        ledger: calltrees::Ledger::default(),
        remarks: Vec::new(),
    }
}

fn of_recorded(old: &Recorded, new: &Recorded, by: Rows) -> Diff {
    let unit = |recorded| Unit { recorded, event: 0 };
    diff(&[unit(old)], &[unit(new)], Asked { by, ..asked() }).unwrap()
}

#[test]
fn of_a_thousand_diffs_by_line_stack_or_wait_at_most_one_in_twenty_claims_something() {
    let line = Rows::Of(By::Line);
    for (name, by) in [("line", line), ("stack", Rows::Stack), ("wait", Rows::Wait)] {
        let mut random = Random::new(20_261_125);
        let wrong = (0..1000)
            .filter(|_| {
                let mut one = || with_paths(&mut random, 2560, Planted::default());
                claims(&of_recorded(&one(), &one(), by)) > 0
            })
            .count();
        println!("{name}: {wrong} of 1000");
        assert!(wrong <= 50, "{name}: {wrong} of 1000");
    }
}

#[test]
fn a_line_or_stack_of_two_per_cent_and_a_new_wait_are_found_and_named() {
    let planted = Planted { path: 0.02, waits: 0.9 };
    for (name, by, row) in [
        ("line", Rows::Of(By::Line), ":20"),
        ("stack", Rows::Stack, "function19"),
        ("wait", Rows::Wait, "wait: function19"),
    ] {
        let mut random = Random::new(8);
        let found = (0..200)
            .filter(|_| {
                let old = with_paths(&mut random, 10_240, Planted::default());
                let new = with_paths(&mut random, 10_240, planted);
                let diff = of_recorded(&old, &new, by);
                let mut rows = diff.rows.iter().filter(|found| found.name == row);
                rows.any(|row| row.moved == Moved::More)
            })
            .count();
        println!("{name}: {found} of 200");
        assert!(found >= 190, "{name}: {found} of 200");
    }
}

#[test]
fn programs_with_nothing_in_common_are_said_to_be_so() {
    let mut random = Random::new(9);
    let one = with_paths(&mut random, 2560, Planted::default());
    let other = one
        .names
        .functions()
        .iter()
        .map(|f| Function { name: format!("other{}", f.name), ..f.clone() });
    let names = Names::of(other.collect(), one.names.libraries().to_vec());
    let other = Recorded { names, ..one.clone() };
    let found = of_recorded(&one, &other, Rows::Stack);
    assert_eq!(found.common, (0.0, 0.0));
    assert!(diff_notes(&found).iter().any(|note| note.contains("little in common")));
    let same = of_recorded(&one, &one, Rows::Wait);
    assert_eq!((claims(&same), diff_notes(&same).len()), (0, 0));
    let without = Recorded { events: vec![Event::default()], ..one.clone() };
    let unit = |recorded| Unit { recorded, event: 0 };
    let asked = Asked { by: Rows::Wait, ..asked() };
    let refused = diff(&[unit(&one)], &[unit(&without)], asked).unwrap_err();
    assert!(refused.contains("--switch-events"), "{refused}");
}
