//! What is simulated, and what must come out?

use crate::noise::Machine;
use crate::session::{LAYOUT, Layouts, Session};
use random::Random;
use statistics::distribution::clopper_pearson;
use statistics::sequential::{Monitor, Plan, Step};
use statistics::{Answer, AnswerOptions, Observation, Verdict, compare};
use std::fmt;

/// What a case watches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Watch {
    /// Share called different and share of intervals that hold the truth.
    Calibration,
    /// Coverage alone, with an effect.
    Coverage,
    /// Share called different at least this.
    Power(f64),
    /// Share called faster or slower at most this.
    Luck(f64),
    /// Share called different by the test of one pair, only to be seen.
    PlainPair,
    /// Share called different by a stopping rule, at most this.
    Stopping(Plan, f64),
    /// Share called different by a stopping rule, only to be seen.
    StoppingPower(Plan),
}

/// One row or two of the table.
pub struct Case {
    pub session: Session,
    pub watch: Watch,
}

/// Sums over comparisons.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    comparisons: u64,
    different: u64,
    test_alone: u64,
    covered: u64,
    lucky: u64,
    same: u64,
    rounds: u64,
}

impl Outcome {
    pub fn add(&mut self, other: &Outcome) {
        self.comparisons += other.comparisons;
        self.different += other.different;
        self.test_alone += other.test_alone;
        self.covered += other.covered;
        self.lucky += other.lucky;
        self.same += other.same;
        self.rounds += other.rounds;
    }
}

/// Every case of the list.
pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    let null = |machine, rounds, layouts, layout_noise| Session {
        machine,
        rounds,
        layouts,
        layout_noise,
        effect: 0.0,
        planted: 1,
    };
    for machine in Machine::ALL {
        for rounds in [10, 30] {
            let session = null(machine, rounds, Layouts::None, 0.0);
            cases.push(Case { session, watch: Watch::Calibration });
            let session = Session { effect: 0.03, ..session };
            cases.push(Case { session, watch: Watch::Coverage });
        }
    }
    let designs = [
        Layouts::Independent(8),
        Layouts::Independent(16),
        Layouts::Matched(8, 0.85),
        Layouts::Matched(16, 0.85),
    ];
    for layouts in designs {
        for machine in Machine::ALL {
            for rounds in [10, 30] {
                let session = null(machine, rounds, layouts, LAYOUT);
                cases.push(Case { session, watch: Watch::Calibration });
            }
        }
        let session = Session { effect: 0.03, ..null(Machine::Shared, 10, layouts, LAYOUT) };
        cases.push(Case { session, watch: Watch::Coverage });
    }
    for machine in Machine::ALL {
        cases.push(Case {
            session: null(machine, 30, Layouts::None, LAYOUT),
            watch: Watch::PlainPair,
        });
    }
    for machine in Machine::ALL {
        let session = null(machine, 60, Layouts::None, 0.0);
        cases.push(Case { session, watch: Watch::Stopping(Plan::Looks(4), 0.067) });
        cases.push(Case { session, watch: Watch::Stopping(Plan::UntilDecided, 0.067) });
    }
    for layouts in [Layouts::Independent(8), Layouts::Matched(8, 0.85)] {
        let session = null(Machine::Shared, 20, layouts, LAYOUT);
        cases.push(Case { session, watch: Watch::Stopping(Plan::Looks(4), 0.067) });
        cases.push(Case { session, watch: Watch::Stopping(Plan::UntilDecided, 0.067) });
    }
    for effect in [0.01, 0.03] {
        let session = Session { effect, ..null(Machine::Shared, 60, Layouts::None, 0.0) };
        cases.push(Case { session, watch: Watch::StoppingPower(Plan::Looks(4)) });
        cases.push(Case { session, watch: Watch::StoppingPower(Plan::UntilDecided) });
    }
    let one = Session { effect: 0.01, ..null(Machine::Shared, 30, Layouts::None, 0.0) };
    cases.push(Case { session: one, watch: Watch::Power(0.8) });
    // What nobody needs a test to see must not be undecided.
    for rounds in [6, 8] {
        let session = Session { effect: 0.3, ..null(Machine::Shared, rounds, Layouts::None, 0.0) };
        cases.push(Case { session, watch: Watch::Power(0.95) });
    }
    for machine in [Machine::Quiet, Machine::Shared] {
        let session =
            Session { effect: 0.03, ..null(machine, 30, Layouts::Independent(8), LAYOUT) };
        cases.push(Case { session, watch: Watch::Power(0.9) });
    }
    for (rounds, correlation) in [(10, 0.8), (30, 0.8), (10, 0.9)] {
        let layouts = Layouts::Matched(16, correlation);
        let session = Session { effect: 0.01, ..null(Machine::Quiet, rounds, layouts, LAYOUT) };
        cases.push(Case { session, watch: Watch::Power(0.9) });
    }
    for layouts in designs {
        for machine in [Machine::Quiet, Machine::Shared] {
            let session = Session { planted: 12, ..null(machine, 30, layouts, LAYOUT) };
            cases.push(Case { session, watch: Watch::Luck(0.05) });
        }
    }
    cases
}

const DRAWS: usize = 1999;

impl Case {
    pub fn name(&self) -> String {
        let Session { machine, rounds, layouts, layout_noise, effect, planted } = self.session;
        let relinked = if layout_noise > 0.0 { ", relinked" } else { "" };
        let layouts = match layouts {
            Layouts::None => "pair".to_string(),
            Layouts::Independent(n) => format!("{n} independent layouts"),
            Layouts::Matched(n, r) => format!("{n} matched layouts (correlation {r})"),
        };
        let effect = match (planted > 1, effect) {
            (true, _) => format!("best against worst of {planted} links"),
            (_, 0.0) => "A/A".to_string(),
            (_, effect) => format!("{:.0} % effect", effect * 100.0),
        };
        let stopping = match self.watch {
            Watch::Stopping(Plan::Looks(n), _) | Watch::StoppingPower(Plan::Looks(n)) => {
                format!(", {n} looks")
            }
            Watch::Stopping(..) | Watch::StoppingPower(_) => ", until decided".to_string(),
            _ => String::new(),
        };
        format!("{effect}, {}{relinked}, n = {rounds}, {layouts}{stopping}", machine.name())
    }

    /// How many of `most` comparisons this case needs: an error rate near its target needs all of
    /// them.
    pub fn comparisons(&self, most: usize) -> usize {
        match self.watch {
            Watch::Calibration | Watch::Coverage | Watch::Luck(_) => most,
            _ if most >= 4000 => most / 4,
            _ => most.min(1000),
        }
    }

    /// One comparison.
    pub fn run(&self, seed: u64, index: u64) -> Outcome {
        let name =
            self.name().bytes().fold(seed, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        let mut random = Random::new(name.wrapping_add(index.wrapping_mul(0x9e37_79b9)));
        let mut random = Random::new(random.next_bits());
        let observations = self.session.record(&mut random);
        let matched = matches!(self.session.layouts, Layouts::Matched(..));
        let options = AnswerOptions {
            draws: DRAWS,
            seed: random.next_bits(),
            matched,
            ..AnswerOptions::default()
        };
        match self.watch {
            Watch::Stopping(plan, _) | Watch::StoppingPower(plan) => {
                self.stopped(plan, &observations, options)
            }
            _ => compare(&observations, 0, 1, options)
                .map_or(Outcome::default(), |a| self.judged(&a)),
        }
    }

    fn judged(&self, answer: &Answer) -> Outcome {
        let truth = self.session.effect;
        let ends = match &answer.averaged {
            Some(t) => (t.low, t.high),
            None => {
                let end = |x: Option<f64>, without: f64| x.unwrap_or(without);
                (
                    end(answer.as_built.low, f64::NEG_INFINITY),
                    end(answer.as_built.high, f64::INFINITY),
                )
            }
        };
        let verdict = answer.judgement.verdict;
        Outcome {
            comparisons: 1,
            different: u64::from(matches!(verdict, Verdict::Faster | Verdict::Slower)),
            test_alone: u64::from(answer.p_value() < 0.05),
            covered: u64::from(ends.0 <= truth && truth <= ends.1),
            lucky: u64::from(verdict == Verdict::LayoutLuck),
            same: u64::from(verdict == Verdict::Same),
            rounds: u64::from(self.session.rounds),
        }
    }

    fn stopped(&self, plan: Plan, observations: &[Observation], options: AnswerOptions) -> Outcome {
        let mut monitor = Monitor::new(plan, (0, 1), self.session.rounds as usize, options);
        let mut outcome = Outcome { comparisons: 1, ..Outcome::default() };
        for round in observations.chunk_by(|x, y| x.round == y.round) {
            outcome.rounds += 1;
            match monitor.feed(round) {
                Step::Continue => continue,
                Step::Different => outcome.different = 1,
                Step::Same => outcome.same = 1,
                Step::Budget => {}
            }
            break;
        }
        outcome
    }

    /// What to print.
    pub fn rows(&self, o: &Outcome) -> Vec<Row> {
        let row = |what: &str, hits: u64, target: Option<(f64, f64)>| Row {
            name: format!("{}: {what}", self.name()),
            hits,
            trials: o.comparisons,
            target,
        };
        let share = |n: u64| 100.0 * n as f64 / o.comparisons.max(1) as f64;
        let mean_rounds = o.rounds as f64 / o.comparisons.max(1) as f64;
        let beside = format!("same {:.1} %, mean rounds {mean_rounds:.1}", share(o.same));
        match self.watch {
            Watch::Calibration => vec![
                row("called different", o.different, Some((0.035, 0.067))),
                row("interval covers", o.covered, Some((0.93, 0.97))),
            ],
            Watch::Coverage => vec![row("interval covers", o.covered, Some((0.93, 0.97)))],
            Watch::Power(least) => vec![row("power", o.different, Some((least, 1.0)))],
            Watch::Luck(most) => {
                let luck = format!(
                    "called real (luck {:.1} %, same {:.1} %, test alone {:.1} %)",
                    share(o.lucky),
                    share(o.same),
                    share(o.test_alone)
                );
                vec![row(&luck, o.different, Some((0.0, most)))]
            }
            Watch::PlainPair => vec![row("the pair test alone", o.different, None)],
            Watch::Stopping(_, most) => {
                vec![row(&format!("called different ({beside})"), o.different, Some((0.0, most)))]
            }
            Watch::StoppingPower(_) => vec![row(&format!("power ({beside})"), o.different, None)],
        }
    }
}

/// One line of the table.
pub struct Row {
    pub name: String,
    pub hits: u64,
    pub trials: u64,
    pub target: Option<(f64, f64)>,
}

impl Row {
    fn share(&self) -> f64 {
        self.hits as f64 / self.trials.max(1) as f64
    }

    /// Under 1,000 comparisons chance alone misses a target often; then the interval must miss it
    /// too.
    pub fn misses(&self) -> bool {
        let Some((low, high)) = self.target else { return false };
        if self.trials >= 1000 {
            return self.share() < low || self.share() > high;
        }
        let (least, most) = clopper_pearson(self.hits, self.trials, 0.999);
        most < low || least > high
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = clopper_pearson(self.hits, self.trials, 0.95);
        let digits = if self.target.is_some_and(|(_, high)| high < 0.05) { 2 } else { 1 };
        let target = match self.target {
            None => "".to_string(),
            Some((low, high)) if low <= 0.0 => format!("≤ {:.digits$}", high * 100.0),
            Some((low, high)) if high >= 1.0 => format!("≥ {:.0}", low * 100.0),
            Some((low, high)) => format!("{:.1} to {:.1}", low * 100.0, high * 100.0),
        };
        let word = if self.target.is_none() {
            ""
        } else if self.misses() {
            "**missed**"
        } else {
            "pass"
        };
        write!(
            f,
            "| {} | {:.digits$} % | {:.digits$} to {:.digits$} | {target} | {word} |",
            self.name,
            self.share() * 100.0,
            least * 100.0,
            most * 100.0
        )
    }
}
