//! How long is training recorded? In rounds, until the profile is stable or the limit is reached.
//!
//! A profile is stable where two halves of its samples overlap by [`STABLE`]. Software branch
//! stacks: all commands are recorded for 10 s together, then until it is twice as long in all, and
//! so on up to the limit; every command runs equally often, and what a round records is added to
//! what there is. Emulation: a run is the same every time, so that repeating it tells nothing; the
//! commands are run again with samples so much closer as the halves say is needed, and the new
//! recording takes the place of the old one. What a round is follows from the rounds before it and
//! what they found alone.

use crate::training::Training;
use counts::evidence::{Evidence, LEAST_OVERLAP, LEAST_SAMPLES, below};
use record::Branches;
use serde::{Deserialize, Serialize};

/// Halves that overlap so far leave about 1.5 % of the profile to chance.
pub const STABLE: f64 = 0.97;

/// Seconds that the first round records, all commands together.
const FIRST_SECONDS: f64 = 10.0;

/// Taken branches between two samples of the first round under emulation.
pub const PERIOD: u64 = 1000;

/// No samples lie closer: each holds 32 branches, so that nearly every branch is recorded.
const LEAST_PERIOD: u64 = 40;

/// More emulated samples are not asked for; a gigabyte of them is read in seconds.
const MOST_SAMPLES: u64 = 2_000_000;

/// One round of recording all training commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// From 1.
    pub number: u64,
    /// How often each command runs in it.
    pub runs: u64,
    /// Emulation: taken branches between two samples.
    pub period: Option<u64>,
    /// Whether its recordings take the place of those of the rounds before.
    pub replaces: bool,
}

/// What the rounds so far show.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Found {
    /// Samples in the program.
    pub samples: u64,
    /// How far two halves of them overlap, 0 to 1; absent where that is unknown.
    pub overlap: Option<f64>,
    /// The taken branches that a layout is expected to lose at most, as a share of all.
    pub loss: Option<f64>,
}

impl From<&Evidence> for Found {
    fn from(evidence: &Evidence) -> Found {
        Found {
            samples: evidence.samples,
            overlap: evidence.split_half_overlap,
            loss: evidence.expected_loss,
        }
    }
}

impl Found {
    /// That of several images that ran together: samples add up, and each image counts by what was
    /// executed in it.
    pub fn of_images(evidence: &[Evidence]) -> Found {
        let mean = |of: &dyn Fn(&Evidence) -> Option<f64>| {
            let known = evidence.iter().filter_map(|one| Some((of(one)?, one.executions as f64)));
            let (sum, weight) =
                known.fold((0.0, 0.0), |(sum, all), (x, weight)| (sum + x * weight, all + weight));
            (weight > 0.0).then(|| sum / weight)
        };
        Found {
            samples: evidence.iter().map(|one| one.samples).sum(),
            overlap: mean(&|one| one.split_half_overlap),
            loss: mean(&|one| one.expected_loss),
        }
    }

    /// Whether there are enough samples, and their halves agree.
    pub fn is_stable(&self) -> bool {
        self.samples >= LEAST_SAMPLES && self.overlap.is_some_and(|overlap| overlap >= STABLE)
    }

    /// How many times as many samples are expected to be enough; at least 1. What halves disagree
    /// about falls with the root of the number of samples.
    fn times_more(&self) -> f64 {
        let by_samples = LEAST_SAMPLES as f64 / self.samples.max(1) as f64;
        let apart = self.overlap.map_or(0.0, |overlap| (1.0 - overlap) / (1.0 - STABLE));
        by_samples.max(apart.powi(2)).max(1.0)
    }

    /// The overlap and the loss, as far as they are known.
    pub fn words(&self) -> String {
        let overlap = self.overlap.map_or_else(
            || format!("{} samples", self.samples),
            |overlap| format!("halves overlap {:.1} %", 100.0 * overlap),
        );
        let loss = self.loss.map_or_else(String::new, |loss| {
            format!("; expected loss under {} of the taken branches", below(loss))
        });
        format!("{overlap}{loss}")
    }
}

impl Training {
    /// The first round. `period` is what the user wants between two samples.
    pub fn first_round(&self, period: Option<u64>) -> Round {
        let emulated = self.branches == Branches::Emulated;
        Round {
            number: 1,
            runs: if emulated { 1 } else { self.runs_of(FIRST_SECONDS) },
            period: emulated.then(|| period.unwrap_or(PERIOD)),
            replaces: false,
        }
    }

    /// The round after `done`; `None` where the profile is stable, or the limit is reached.
    pub fn next_round(&self, done: &[Round], found: Found, period: Option<u64>) -> Option<Round> {
        let last = done.last()?;
        if found.is_stable() {
            return None;
        }
        let number = last.number + 1;
        if let Some(now) = last.period {
            let least = LEAST_PERIOD.max(now.saturating_mul(found.samples) / MOST_SAMPLES);
            // A fifth more than is expected to be needed.
            let next = ((now as f64 / (1.2 * found.times_more())) as u64).max(least);
            // Closer by a little is not worth another run.
            let worth = period.is_none() && next.saturating_mul(5) < now.saturating_mul(4);
            return worth.then_some(Round { number, runs: 1, period: Some(next), replaces: true });
        }
        let runs: u64 = done.iter().map(|round| round.runs).sum();
        let mut seconds = FIRST_SECONDS;
        while seconds < self.limit_seconds && self.runs_of(seconds) <= runs {
            seconds *= 2.0;
        }
        let more = self.runs_of(seconds).saturating_sub(runs);
        (more > 0).then_some(Round { number, runs: more, period: None, replaces: false })
    }

    /// How often each command runs until all have been recorded for so long, or for the limit.
    fn runs_of(&self, seconds: f64) -> u64 {
        let runs = (seconds.min(self.limit_seconds) / self.run_seconds.max(1e-3)).ceil();
        (runs as u64).clamp(1, self.runs.max(1))
    }

    /// In one line: whether the profile is enough, and what to do where it is not.
    pub fn verdict(&self, done: &[Round], found: Found, period: Option<u64>) -> String {
        let words = found.words();
        if found.is_stable() {
            return format!("profile: enough ({words})");
        }
        let enough = found.samples >= LEAST_SAMPLES
            && found.overlap.is_none_or(|overlap| overlap >= LEAST_OVERLAP);
        let how = if enough { "nearly enough" } else { "not enough" };
        let why = if found.samples < LEAST_SAMPLES {
            format!("{} samples, fewer than {LEAST_SAMPLES}", found.samples)
        } else {
            format!("stable at {:.0} %", 100.0 * STABLE)
        };
        let what = match (self.branches, period) {
            (Branches::Emulated, Some(period)) => {
                let wanted = (period as f64 / found.times_more()).max(LEAST_PERIOD as f64);
                format!("sample more often: [record] period = {wanted:.0}")
            }
            (Branches::Emulated, None) => {
                "the commands run no more branches; train on more or larger input".to_owned()
            }
            _ => {
                let runs: u64 = done.iter().map(|round| round.runs).sum();
                let wanted = runs as f64 * self.run_seconds * found.times_more();
                let seconds = ((wanted / 10.0).ceil() * 10.0).clamp(10.0, 86_400.0);
                format!("record longer: [record] seconds = {seconds:.0}")
            }
        };
        format!("profile: {how} ({words}; {why}): {what}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::{Timed, Wish};
    use record::branches::Offered;

    fn training(seconds: f64, branches: Branches, limit: f64) -> Training {
        let offered = Offered { hardware: false, software: true, emulation: true };
        let wish = Wish {
            branches,
            seconds: limit,
            emulate_below: 5.0,
            budget: 100.0,
            offered,
            started_by_others: false,
        };
        let timed = Timed { command: "./app".into(), seconds, cpu_seconds: seconds, weight: 1.0 };
        Training::decide(vec![timed], &wish).unwrap()
    }

    fn found(samples: u64, overlap: f64) -> Found {
        Found { samples, overlap: Some(overlap), loss: Some(0.0012) }
    }

    /// Runs of all rounds where none of them makes the profile stable.
    fn runs(training: &Training) -> Vec<u64> {
        let mut done = vec![training.first_round(None)];
        while let Some(round) = training.next_round(&done, found(5000, 0.9), None) {
            assert_eq!((round.number, round.replaces), (done.len() as u64 + 1, false));
            done.push(round);
        }
        done.iter().map(|round| round.runs).collect()
    }

    #[test]
    fn a_native_recording_is_doubled_up_to_the_limit_and_ends_once_it_is_stable() {
        // A run takes 2 s with its stops: 10 s, 20, 40, 60 in all.
        let one = training(1.0, Branches::Software, 60.0);
        assert_eq!(runs(&one), [5, 5, 10, 10]);
        assert_eq!(runs(&training(1.0, Branches::Software, 15.0)), [5, 3]);
        assert_eq!(runs(&training(1.0, Branches::Software, 0.0)), [1]);
        // One run is 24 s, the next makes it 48, the third 72.
        assert_eq!(runs(&training(12.0, Branches::Software, 60.0)), [1, 1, 1]);
        assert_eq!(runs(&training(90.0, Branches::Software, 60.0)), [1]);
        let first = one.first_round(None);
        assert_eq!(one.next_round(&[first], found(5000, 0.97), None), None);
        // Few samples may agree by chance.
        assert!(one.next_round(&[first], found(900, 1.0), None).is_some());
    }

    #[test]
    fn an_emulated_recording_is_made_anew_with_samples_as_close_as_is_needed() {
        let short = training(0.1, Branches::Auto, 60.0);
        assert_eq!(short.branches, Branches::Emulated);
        let first = short.first_round(None);
        assert_eq!((first.runs, first.period), (1, Some(1000)));
        let next = |found, period| short.next_round(&[first], found, period);
        assert_eq!(next(found(5000, 0.98), None), None);
        // Twice as far apart as they may be: four times as many samples, and a fifth more.
        let closer = next(found(5000, 0.94), None).unwrap();
        assert_eq!((closer.period, closer.replaces), (Some(208), true));
        // Never closer than every branch is in a sample, and never more than can be read.
        assert_eq!(next(found(10, 0.2), None).unwrap().period, Some(40));
        assert_eq!(next(found(1_500_000, 0.5), None).unwrap().period, Some(750));
        assert_eq!(next(found(1_900_000, 0.5), None), None);
        // What the user wants is not changed.
        assert_eq!(next(found(10, 0.2), Some(1000)), None);
        let every = Round { period: Some(40), ..closer };
        assert_eq!(short.next_round(&[first, every], found(600, 0.5), None), None);
    }

    #[test]
    fn one_line_says_whether_the_profile_is_enough_and_what_to_do() {
        let one = training(1.0, Branches::Software, 60.0);
        let done = [Round { number: 1, runs: 30, period: None, replaces: false }];
        assert_eq!(
            one.verdict(&done, found(9000, 0.983), None),
            "profile: enough (halves overlap 98.3 %; expected loss under 0.2 % of the taken \
             branches)"
        );
        assert_eq!(
            one.verdict(&done, found(9000, 0.94), None),
            "profile: nearly enough (halves overlap 94.0 %; expected loss under 0.2 % of the \
             taken branches; stable at 97 %): record longer: [record] seconds = 240"
        );
        let few = one.verdict(&done, found(500, 0.99), None);
        assert!(few.contains("not enough") && few.contains("500 samples, fewer"), "{few}");
        assert!(few.ends_with("[record] seconds = 120"), "{few}");
        let short = training(0.1, Branches::Auto, 60.0);
        let said = short.verdict(&[short.first_round(None)], found(5000, 0.5), None);
        assert!(said.contains("not enough") && said.ends_with("more or larger input"), "{said}");
        let said = short.verdict(&[], found(5000, 0.94), Some(1000));
        assert!(said.ends_with("[record] period = 250"), "{said}");
    }
}
