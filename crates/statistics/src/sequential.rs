//! When may measuring stop early without claiming more than α? Looks planned beforehand, or a
//! confidence sequence.
//!
//! Looking after every round and stopping at the first p < 5 % is wrong in about a fifth of all A/A
//! comparisons. Two rules that hold:
//!
//! * **Looks** (Lan and DeMets 1983, doi:10.1093/biomet/70.3.659, O'Brien–Fleming type): by
//!   information t the error α(t) = 2 − 2Φ(z/√t) may be spent; the nominal levels of the looks
//!   follow by integrating the law of the path that has not stopped (Armitage, McPherson and Rowe
//!   1969). Four looks: .00009, .0055, .0215, .0411. With layouts a new round moves the effect less
//!   than these levels assume (layouts stay), so they hold there too.
//! * **Until decided**: an asymptotic confidence sequence (Waudby-Smith, Arbour, Sinha, Kennedy and
//!   Ramdas, arXiv 2103.06476) on the rounds' differences, clipped at ±4 × the typical size of the
//!   first ten: it may be looked at after every round. It speaks about one pair of binaries only;
//!   with layouts, which no round makes more certain, ten looks are planned over the budget in its
//!   place.
//!
//! The rule looks at rounds only. Layouts are never added because a p-value is unpleasant.

use crate::distribution::{normal, normal_quantile};
use crate::robust::median;
use crate::{AnswerOptions, AsBuilt, LayoutMeans, Observation};

/// Rounds that the confidence sequence is sharpest at.
const SHARPEST: f64 = 30.0;
/// Rounds before which the confidence sequence says nothing: it is asymptotic, and they set the
/// clipping.
const FIRST: usize = 10;

/// Nominal two-sided levels of `looks` equally spaced looks that spend `alpha` in O'Brien and
/// Fleming's way.
pub fn nominal_levels(looks: usize, alpha: f64) -> Vec<f64> {
    // Midpoints: the density is smooth on the scale of one step, 300 cells give the levels to five
    // digits.
    const CELLS: usize = 300;
    let z = normal_quantile(1.0 - alpha / 2.0);
    let spent = |look: usize| 2.0 - 2.0 * normal(z / (look as f64 / looks as f64).sqrt());
    let mut levels = Vec::with_capacity(looks);
    // Density of the sum of `look` standard normal steps on paths that went on, on a grid over
    // (-edge, edge).
    let mut density: Vec<(f64, f64)> = vec![(0.0, 1.0)];
    let mut before = 0.0;
    for look in 1..=looks {
        let root = (look as f64).sqrt();
        let spend = (spent(look) - before).max(0.0);
        before = spent(look);
        let leaving = |edge: f64| {
            density.iter().map(|(x, w)| w * (normal(x - edge) + normal(-edge - x))).sum::<f64>()
        };
        let (mut low, mut high) = (0.0, 9.0 * root);
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            if leaving(middle) > spend { low = middle } else { high = middle }
        }
        levels.push(2.0 * normal(-high / root));
        let step = 2.0 * high / CELLS as f64;
        let scale = step / (2.0 * std::f64::consts::PI).sqrt();
        let at = |cell: usize| {
            let x = -high + (cell as f64 + 0.5) * step;
            let mass: f64 = density.iter().map(|(y, w)| w * (-0.5 * (x - y).powi(2)).exp()).sum();
            (x, mass * scale)
        };
        if look < looks {
            density = (0..CELLS).map(at).collect();
        }
    }
    levels
}

/// The p-value after looks that nobody planned: how often would chance alone have given one as
/// small at any of them?
///
/// `looks` are the shares of the information, ascending, the last being 1 and the one that gave
/// `p_value`. The law is that of [`nominal_levels`] with equal levels at all looks (Pocock 1977),
/// so that k looks cost less than k times.
pub fn after_looks(p_value: f64, looks: &[f64]) -> f64 {
    const CELLS: usize = 400;
    // Looks that tell all but the same are one; what chance alone would hardly ever give is bounded
    // by their number.
    let mut times: Vec<f64> = Vec::new();
    for &time in looks.iter().filter(|t| t.is_finite() && **t > 0.0) {
        if times.last().is_some_and(|last| time < last * 1.02) {
            times.pop();
        }
        times.push(time);
    }
    let most = (p_value * times.len() as f64).min(1.0);
    if times.len() < 2 || !(1e-9..1.0).contains(&p_value) {
        return most.max(p_value);
    }
    let z = normal_quantile(1.0 - p_value / 2.0);
    let mut density: Vec<(f64, f64)> = vec![(0.0, 1.0)];
    let (mut before, mut crossed) = (0.0, 0.0);
    for time in times {
        let (edge, step) = (z * time.sqrt(), (time - before).sqrt());
        before = time;
        let leaving =
            |(x, w): &(f64, f64)| w * (normal((x - edge) / step) + normal((-edge - x) / step));
        crossed += density.iter().map(leaving).sum::<f64>();
        let width = 2.0 * edge / CELLS as f64;
        let scale = width / (step * (2.0 * std::f64::consts::PI).sqrt());
        let at = |cell: usize| {
            let x = -edge + (cell as f64 + 0.5) * width;
            let mass: f64 =
                density.iter().map(|(y, w)| w * (-0.5 * ((x - y) / step).powi(2)).exp()).sum();
            (x, mass * scale)
        };
        density = (0..CELLS).map(at).collect();
    }
    crossed.clamp(p_value, most)
}

/// An asymptotic confidence sequence for the mean of a stream of scores.
#[derive(Clone, Debug)]
pub struct ConfidenceSequence {
    alpha: f64,
    rho_squared: f64,
    scores: Vec<f64>,
    clip: f64,
}

impl ConfidenceSequence {
    /// Covers the mean at all times together with probability 1 − `alpha`, asymptotically.
    pub fn new(alpha: f64) -> Self {
        let l = -2.0 * alpha.ln();
        ConfidenceSequence {
            alpha,
            rho_squared: (l + l.ln_1p()) / SHARPEST,
            scores: Vec::new(),
            clip: f64::INFINITY,
        }
    }

    /// Adds a score.
    pub fn push(&mut self, score: f64) {
        self.scores.push(score);
        if self.scores.len() == FIRST {
            let mut sizes: Vec<f64> = self.scores.iter().map(|s| s.abs()).collect();
            self.clip = 4.0 * 1.4826 * median(&mut sizes);
        }
    }

    /// The interval now; `None` before ten scores.
    pub fn interval(&self) -> Option<(f64, f64)> {
        if self.scores.len() < FIRST {
            return None;
        }
        let n = self.scores.len() as f64;
        let clipped: Vec<f64> =
            self.scores.iter().map(|s| s.clamp(-self.clip, self.clip)).collect();
        let mean = crate::robust::mean(&clipped);
        let deviation = (crate::robust::variance(&clipped) * (n - 1.0) / n).sqrt();
        let spread = n * self.rho_squared + 1.0;
        let half = deviation
            * (2.0 * spread / (n * n * self.rho_squared) * (spread.sqrt() / self.alpha).ln())
                .sqrt();
        Some((mean - half, mean + half))
    }
}

/// How to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Measure all rounds, look once.
    Fixed,
    /// So many equally spaced looks.
    Looks(usize),
    /// Look after every round.
    UntilDecided,
}

/// What to do after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Measure on.
    Continue,
    /// A difference of variant and base is shown.
    Different,
    /// Any difference over the margin is excluded.
    Same,
    /// All rounds are measured and nothing was decided.
    Budget,
}

/// Watches one variant against the base while rounds come in. With several variants use one monitor
/// each, with the error rate divided by their number, and stop when none says [`Step::Continue`].
pub struct Monitor {
    options: AnswerOptions,
    pair: (usize, usize),
    plan: Plan,
    budget: usize,
    rounds: usize,
    seen: Vec<Observation>,
    layouts: bool,
    looks: usize,
    /// Nominal levels for a difference and for equivalence, computed when the first look is due.
    levels: Option<(Vec<f64>, Vec<f64>)>,
    sequence: (ConfidenceSequence, ConfidenceSequence),
    decided: Option<Step>,
}

impl Monitor {
    /// For variants `a` and `b` over at most `budget` rounds.
    pub fn new(plan: Plan, pair: (usize, usize), budget: usize, options: AnswerOptions) -> Self {
        let looks = match plan {
            Plan::Fixed => 1,
            Plan::Looks(looks) => looks.max(1),
            Plan::UntilDecided => 10,
        };
        let alpha = options.rule.alpha;
        Monitor {
            options,
            pair,
            plan,
            budget,
            rounds: 0,
            seen: Vec::new(),
            layouts: false,
            looks,
            levels: None,
            sequence: (ConfidenceSequence::new(alpha), ConfidenceSequence::new(2.0 * alpha)),
            decided: None,
        }
    }

    /// The error rate that the final analysis may still use, so that stopping early claims no more
    /// than α in all.
    pub fn final_level(&self) -> f64 {
        let alpha = self.options.rule.alpha;
        if self.by_sequence() {
            alpha
        } else {
            nominal_levels(self.looks, alpha).last().copied().unwrap_or(alpha)
        }
    }

    /// Adds one complete round (all binaries, in time order) and says what to do. A decision
    /// stands.
    pub fn feed(&mut self, round: &[Observation]) -> Step {
        if let Some(step) = self.decided {
            return step;
        }
        self.rounds += 1;
        self.layouts |= round.iter().any(|o| o.layout > 0);
        self.seen.extend_from_slice(round);
        let step = if self.by_sequence() { self.sequence(round) } else { self.look() };
        if step != Step::Continue {
            self.decided = Some(step);
        }
        step
    }

    fn by_sequence(&self) -> bool {
        self.plan == Plan::UntilDecided && !self.layouts
    }

    fn or_budget(&self) -> Step {
        if self.rounds >= self.budget { Step::Budget } else { Step::Continue }
    }

    fn sequence(&mut self, round: &[Observation]) -> Step {
        let level = |v| {
            let logs: Vec<f64> = round.iter().filter(|o| o.variant == v).map(|o| o.log).collect();
            (!logs.is_empty()).then(|| crate::robust::mean(&logs))
        };
        if let (Some(a), Some(b)) = (level(self.pair.0), level(self.pair.1)) {
            self.sequence.0.push(b - a);
            self.sequence.1.push(b - a);
        }
        match (self.sequence.0.interval(), self.sequence.1.interval()) {
            (Some((low, high)), _) if low > 0.0 || high < 0.0 => Step::Different,
            (_, Some((low, high))) if self.options.rule.within(low, high) => Step::Same,
            _ => self.or_budget(),
        }
    }

    fn look(&mut self) -> Step {
        let looks = self.looks;
        let due = (1..=looks).find(|look| (self.budget * look).div_ceil(looks) == self.rounds);
        let Some(look) = due else { return self.or_budget() };
        let error = self.options.rule.alpha;
        let (different, equivalent) = self.levels.get_or_insert_with(|| {
            (nominal_levels(looks, error), nominal_levels(looks, 2.0 * error))
        });
        let (alpha, both) = (different[look - 1], equivalent[look - 1]);
        let (a, b) = self.pair;
        let AnswerOptions { draws, seed, matched, rule } = self.options;
        let means = self.layouts.then(|| LayoutMeans::new(&self.seen));
        let averaged = means.and_then(|means| means.compare(a, b, matched, draws, seed));
        if let Some(t) = averaged {
            let half = |level: f64| {
                crate::distribution::t_quantile(1.0 - level / 2.0, t.df) * t.standard_error
            };
            if t.p_value < alpha {
                return Step::Different;
            }
            return match rule.within(t.estimate - half(both), t.estimate + half(both)) {
                true => Step::Same,
                false => self.or_budget(),
            };
        }
        match AsBuilt::test(&self.seen, a, b, draws, seed) {
            Some(test) if test.p_value(0.0) < alpha => Step::Different,
            // Two one-sided tests at the margins themselves: cheaper than the interval and the same
            // answer.
            Some(test) if test.excludes(rule.log_margin(), both) => Step::Same,
            _ => self.or_budget(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_looks_spend_five_in_a_hundred() {
        let levels = nominal_levels(4, 0.05);
        for (level, known) in levels.iter().zip([0.00009, 0.00554, 0.02155, 0.04109]) {
            assert!((level - known).abs() < 0.00002, "{levels:?}");
        }
        // A random walk looked at four times leaves through these levels in 5 % of all cases.
        let mut random = random::Random::new(9);
        let normal = |random: &mut random::Random| normal_quantile(random.unit().max(1e-12));
        let leaves = |random: &mut random::Random| {
            let mut sum = 0.0;
            levels.iter().zip(1..).any(|(level, look)| {
                sum += normal(random);
                2.0 * normal_tail_of(sum, f64::from(look)) < *level
            })
        };
        let left = (0..20_000).filter(|_| leaves(&mut random)).count();
        assert!((880..1120).contains(&left), "{left}");
        assert!((nominal_levels(1, 0.05)[0] - 0.05).abs() < 1e-9);
    }

    #[test]
    fn unplanned_looks_cost_what_pocock_says() {
        // His nominal levels for 5 % over 2, 3 and 5 equally spaced looks.
        for (looks, nominal) in [(2, 0.0294), (3, 0.0221), (5, 0.0158)] {
            let times: Vec<f64> =
                (1..=looks).map(|look| f64::from(look) / f64::from(looks)).collect();
            let p = after_looks(nominal, &times);
            assert!((p - 0.05).abs() < 0.0005, "{looks}: {p}");
        }
        assert_eq!((after_looks(0.03, &[1.0]), after_looks(0.03, &[0.999, 1.0])), (0.03, 0.03));
        assert_eq!((after_looks(1.0, &[0.5, 1.0]), after_looks(0.0, &[0.5, 1.0])), (1.0, 0.0));
        let late = after_looks(0.04, &[0.9, 1.0]);
        assert!(0.04 < late && late < after_looks(0.04, &[0.3, 1.0]), "{late}");
    }

    fn normal_tail_of(sum: f64, looks: f64) -> f64 {
        crate::distribution::normal_tail(sum.abs() / looks.sqrt())
    }

    fn round(number: u32, a: f64, b: f64) -> Vec<Observation> {
        let run = |variant, log| Observation { round: number, variant, layout: 0, copy: 0, log };
        vec![run(0, a), run(1, b)]
    }

    /// Steps of a session whose variant is slower by `effect`, with 1 % noise.
    fn session(plan: Plan, effect: f64, budget: usize, margin: f64) -> (usize, Step) {
        let rule = crate::Rule { margin, ..crate::Rule::default() };
        let options = AnswerOptions { rule, draws: 1999, ..AnswerOptions::default() };
        let mut monitor = Monitor::new(plan, (0, 1), budget, options);
        let mut random = random::Random::new(3);
        for number in 0..budget as u32 {
            let mut noise = || 0.02 * (random.unit() - 0.5);
            match monitor.feed(&round(number, noise(), effect + noise())) {
                Step::Continue => {}
                step => return (number as usize + 1, step),
            }
        }
        (budget, Step::Continue)
    }

    #[test]
    fn a_large_difference_stops_early_and_the_same_program_is_called_the_same() {
        assert_eq!(session(Plan::UntilDecided, 0.1, 60, 0.01), (10, Step::Different));
        assert_eq!(session(Plan::Looks(4), 0.1, 60, 0.01), (30, Step::Different));
        assert_eq!(session(Plan::Fixed, 0.1, 20, 0.01), (20, Step::Different));
        assert_eq!(session(Plan::UntilDecided, 0.0, 60, 0.02).1, Step::Same);
        assert_eq!(session(Plan::Looks(4), 0.0, 60, 0.02).1, Step::Same);
    }

    #[test]
    fn what_cannot_be_decided_ends_with_the_budget_and_a_decision_stands() {
        assert_eq!(session(Plan::UntilDecided, 0.0, 20, 1e-4), (20, Step::Budget));
        assert_eq!(session(Plan::Looks(4), 0.0, 20, 1e-4), (20, Step::Budget));
        let mut monitor = Monitor::new(Plan::Fixed, (0, 1), 1, AnswerOptions::default());
        assert_eq!(monitor.feed(&round(0, 0.0, 1.0)), Step::Budget);
        assert_eq!(monitor.feed(&round(1, 0.0, 1.0)), Step::Budget);
    }
}
