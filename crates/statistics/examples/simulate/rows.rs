//! Many rows judged together by Holm's correction: does any of them claim what is not so, and is a
//! planted one found?

use crate::cases::Row;
use crate::noise::Machine;
use crate::session::{LAYOUT, Layouts, Session};
use random::Random;
use statistics::{LayoutMeans, many};

/// Rows of one measurement; in the first one the change has an effect, in the others none.
pub struct Family {
    pub rows: usize,
    pub machine: Machine,
    pub layouts: Layouts,
    /// Of the first row, as a share; 0 for none.
    pub effect: f64,
}

/// Sums over families.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    families: u64,
    /// With a claim about a row without an effect.
    wrong: u64,
    /// With the right claim about the planted row.
    found: u64,
}

impl Outcome {
    pub fn add(&mut self, other: &Outcome) {
        self.families += other.families;
        self.wrong += other.wrong;
        self.found += other.found;
    }
}

const DRAWS: usize = 1999;
const ROUNDS: u32 = 10;
/// Correlation of matched layouts: the lower of the two that were measured.
const CORRELATION: f64 = 0.85;

/// One to forty rows over the fewest, the usual and more layouts.
pub fn all() -> Vec<Family> {
    let mut all = Vec::new();
    let matched = |n| Layouts::Matched(n, CORRELATION);
    let designs =
        [matched(6), matched(8), matched(12), Layouts::Independent(4), Layouts::Independent(8)];
    for layouts in designs {
        for machine in [Machine::Quiet, Machine::Shared] {
            for rows in [1, 2, 4, 7, 8, 12, 20, 40] {
                all.push(Family { rows, machine, layouts, effect: 0.0 });
            }
        }
    }
    for layouts in designs {
        for effect in [0.03, 0.10, 0.25] {
            for rows in [1, 8, 20, 40] {
                all.push(Family { rows, machine: Machine::Shared, layouts, effect });
            }
        }
    }
    all
}

impl Family {
    pub fn name(&self) -> String {
        let layouts = match self.layouts {
            Layouts::None => "pair".to_owned(),
            Layouts::Independent(n) => format!("{n} independent layouts"),
            Layouts::Matched(n, _) => format!("{n} matched layouts"),
        };
        let effect = match self.effect {
            0.0 => "A/A".to_owned(),
            effect => format!("{:.0} % in one", effect * 100.0),
        };
        format!("{} rows, {effect}, {}, {layouts}", self.rows, self.machine.name())
    }

    pub fn run(&self, seed: u64, index: u64) -> Outcome {
        let name =
            self.name().bytes().fold(seed, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        let mut random = Random::new(name.wrapping_add(index.wrapping_mul(0x9e37_79b9)));
        let matched = matches!(self.layouts, Layouts::Matched(..));
        let mut one = |row: usize| {
            let effect = if row == 0 { self.effect.ln_1p() } else { 0.0 };
            let session = Session {
                machine: self.machine,
                rounds: ROUNDS,
                layouts: self.layouts,
                layout_noise: LAYOUT,
                effect,
                planted: 1,
            };
            let observations = session.record(&mut random);
            let means = LayoutMeans::new(&observations);
            means
                .compare(0, 1, matched, DRAWS, random.next_bits())
                .map_or((1.0, 0.0), |t| (t.p_value, t.estimate))
        };
        let rows: Vec<(f64, f64)> = (0..self.rows).map(&mut one).collect();
        let corrected = many::holm(&rows.iter().map(|row| row.0).collect::<Vec<f64>>());
        let planted = usize::from(self.effect != 0.0);
        let claimed = |at: usize| corrected.get(at).is_some_and(|p| *p < 0.05);
        Outcome {
            families: 1,
            wrong: u64::from((planted..self.rows).any(claimed)),
            found: u64::from(
                planted == 1 && claimed(0) && rows.first().is_some_and(|row| row.1 > 0.0),
            ),
        }
    }

    /// What to print: at most 5 % of the families may claim anything wrong (6.7 % with the noise of
    /// the simulation), and a quarter is always found.
    pub fn told(&self, o: &Outcome) -> Vec<Row> {
        let row = |what: &str, hits: u64, target: Option<(f64, f64)>| Row {
            name: format!("{}: {what}", self.name()),
            hits,
            trials: o.families,
            target,
        };
        let wrong = row("any wrong claim", o.wrong, Some((0.0, 0.067)));
        if self.effect == 0.0 {
            return vec![wrong];
        }
        let plain = matches!(self.layouts, Layouts::Matched(8 | 12, _) | Layouts::Independent(8));
        let target = (plain && self.effect > 0.2).then_some((0.99, 1.0));
        if self.rows == 1 {
            vec![row("found", o.found, target)]
        } else {
            vec![row("found", o.found, target), wrong]
        }
    }
}
