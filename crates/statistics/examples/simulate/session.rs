//! What would a whole comparison have recorded? Every binary once per round in random order,
//! as-built binaries twice.

use crate::noise::{Machine, normal};
use random::Random;
use statistics::Observation;

/// Standard deviation of the layout effect of one binary.
pub const LAYOUT: f64 = 0.015;

/// How the layouts of base and variant resemble each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layouts {
    /// None: each as-built binary runs once per round.
    None,
    /// Independent ones.
    Independent(u32),
    /// Matched ones with this correlation.
    Matched(u32, f64),
}

/// A comparison to simulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Session {
    pub machine: Machine,
    pub rounds: u32,
    pub layouts: Layouts,
    /// Standard deviation of the layout effect; 0 where binaries are not relinked.
    pub layout_noise: f64,
    /// True effect of the change, ln.
    pub effect: f64,
    /// Take the worst of so many links as the variant and the best as the base; 1 for chance.
    pub planted: u32,
}

impl Session {
    /// The observations in time order.
    pub fn record(&self, random: &mut Random) -> Vec<Observation> {
        let binaries = self.binaries(random);
        let runs = binaries.len() * self.rounds as usize;
        let noise = self.machine.noise(random, runs);
        let mut order: Vec<usize> = (0..binaries.len()).collect();
        let mut recorded = Vec::with_capacity(runs);
        for round in 0..self.rounds {
            random.shuffle(&mut order);
            for &index in &order {
                let (key, level) = binaries[index];
                let log = level + noise.get(recorded.len()).copied().unwrap_or(0.0);
                recorded.push(Observation { round, log, ..key });
            }
        }
        recorded
    }

    /// Each binary with its true level.
    fn binaries(&self, random: &mut Random) -> Vec<(Observation, f64)> {
        let links = |random: &mut Random| -> Vec<f64> {
            (0..self.planted.max(1)).map(|_| self.layout_noise * normal(random)).collect()
        };
        let base = links(random).into_iter().fold(f64::INFINITY, f64::min);
        let worst = links(random).into_iter().fold(f64::NEG_INFINITY, f64::max);
        let (layouts, correlation) = match self.layouts {
            Layouts::None => (0, 0.0),
            Layouts::Independent(layouts) => (layouts, 0.0),
            Layouts::Matched(layouts, correlation) => (layouts, correlation),
        };
        let key = |variant, layout, copy| Observation { round: 0, variant, layout, copy, log: 0.0 };
        let mut all = Vec::new();
        for copy in 0..if layouts == 0 { 1 } else { 2 } {
            all.push((key(0, 0, copy), base));
            all.push((key(1, 0, copy), worst + self.effect));
        }
        for layout in 1..=layouts {
            let common = correlation.sqrt() * normal(random);
            for (variant, effect) in [(0, 0.0), (1, self.effect)] {
                let luck = common + (1.0 - correlation).sqrt() * normal(random);
                all.push((key(variant, layout, 0), effect + self.layout_noise * luck));
            }
        }
        all
    }
}
