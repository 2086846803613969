//! Error rates on generated recordings whose noise resembles that of real ones.

use super::*;
use random::Random;
use std::collections::BTreeMap;

const FUNCTIONS: usize = 60;

fn asked() -> Asked {
    Asked { by: By::Function, total: false, percent: 0.5, margin: 1.0, limit: 0 }
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
            let phase = match noise.phases && (number % 2 == 0) == early {
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
