//! How alike two profiles are, by the measures that `llvm-profdata overlap --sample` prints.
//!
//! A *unit* is one body location, or an inlined call that only one profile has, taken whole. The
//! overlap of two profiles is the sum over units of the smaller count, divided by the sum of the
//! larger ones. The similarity compares shares instead of counts, so that profiles of different
//! length can be alike: for each function, 1 minus half the summed differences of the unit shares,
//! reduced by how far the function's weights in the two programs differ; and over the program, the
//! mean of that, weighted by function weight.
//!
//! Source:
//! <https://github.com/llvm/llvm-project/blob/main/llvm/tools/llvm-profdata/llvm-profdata.cpp>.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{HOT_SHARE, Summary};
use crate::{FunctionProfile, Name, SampleProfile};

/// Sums of floating-point numbers this close to 0 or 1 are meant to be 0 or 1.
const EPSILON: f64 = 1e-6;

/// How many things two profiles have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Shared {
    /// In both.
    pub both: u64,
    /// Only in the first profile.
    pub base_only: u64,
    /// Only in the second profile.
    pub test_only: u64,
}

impl Shared {
    /// Share of what is in both, in percent of what is in either; 100 when neither has any.
    pub fn overlap_pct(&self) -> f64 {
        percent(self.both, self.both + self.base_only + self.test_only).unwrap_or(100.0)
    }
}

/// One function that both profiles have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionOverlap {
    /// The function.
    pub name: String,
    /// Its share of the first profile, in percent.
    pub base_weight_pct: f64,
    /// Its share of the second profile, in percent.
    pub test_weight_pct: f64,
    /// Its similarity, in percent.
    pub similarity_pct: f64,
    /// Its sample overlap, in percent.
    pub overlap_pct: f64,
    /// Samples in the first profile.
    pub base_samples: u64,
    /// Samples in the second profile.
    pub test_samples: u64,
}

/// How alike two profiles are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overlap {
    /// Whole-program similarity, in percent.
    pub similarity_pct: f64,
    /// Whole-program sample overlap, in percent.
    pub overlap_pct: f64,
    /// Samples in units that only the first profile has, in percent of its samples.
    pub base_unique_pct: f64,
    /// Samples in units that only the second profile has, in percent of its samples.
    pub test_unique_pct: f64,
    /// Sum of the body counts of the first profile.
    pub base_samples: u64,
    /// Sum of the body counts of the second profile.
    pub test_samples: u64,
    /// Functions.
    pub functions: Shared,
    /// Functions with a hot count.
    pub hot_functions: Shared,
    /// Locations with a hot count.
    pub hot_blocks: Shared,
    /// Functions of both profiles, by weight in the first.
    pub details: Vec<FunctionOverlap>,
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64 * 100.0)
}

/// Sum, maximum and number of hot counts of a function, inlined copies included.
#[derive(Debug, Clone, Copy, Default)]
struct Stats {
    samples: u64,
    max: u64,
    hot_blocks: u64,
}

impl Stats {
    fn of(function: &FunctionProfile, hot: u64) -> Stats {
        let mut stats = Stats::default();
        stats.add(function, hot);
        stats
    }

    fn add(&mut self, function: &FunctionProfile, hot: u64) {
        for sample in function.body.values() {
            self.samples = self.samples.saturating_add(sample.count);
            self.max = self.max.max(sample.count);
            self.hot_blocks += u64::from(sample.count >= hot);
        }
        for (_, callee) in function.inlined_calls() {
            self.add(callee, hot);
        }
    }
}

/// Which profile has a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Both,
    Base,
    Test,
}

/// Sums over the units of one function.
#[derive(Debug, Default)]
struct Units {
    base_total: u64,
    test_total: u64,
    smaller: u64,
    larger: u64,
    base_unique: u64,
    test_unique: u64,
}

struct Walk {
    base_hot: u64,
    test_hot: u64,
    hot_both: u64,
    hot_base: u64,
    hot_test: u64,
}

impl Walk {
    fn count_hot(&mut self, base: u64, test: u64, blocks: u64) {
        let (base_hot, test_hot) = (base >= self.base_hot, test >= self.test_hot);
        self.hot_base += if base_hot { blocks } else { 0 };
        self.hot_test += if test_hot { blocks } else { 0 };
        self.hot_both += if base_hot && test_hot { blocks } else { 0 };
    }

    /// Adds a unit and gives the difference of its shares.
    fn unit(&mut self, units: &mut Units, base: u64, test: u64, blocks: u64, side: Side) -> f64 {
        match side {
            Side::Base => units.base_unique = units.base_unique.saturating_add(base),
            Side::Test => units.test_unique = units.test_unique.saturating_add(test),
            Side::Both => {}
        }
        units.larger = units.larger.saturating_add(base.max(test));
        units.smaller = units.smaller.saturating_add(base.min(test));
        self.count_hot(base, test, blocks);
        let share = |samples: u64, total: u64| percent(samples, total).unwrap_or(0.0) / 100.0;
        (share(base, units.base_total) - share(test, units.test_total)).abs()
    }

    /// An inlined call that only one profile has.
    fn lone_callee(&mut self, units: &mut Units, callee: &FunctionProfile, side: Side) -> f64 {
        let hot = if side == Side::Base { self.base_hot } else { self.test_hot };
        let stats = Stats::of(callee, hot);
        let (base, test) = if side == Side::Base { (stats.samples, 0) } else { (0, stats.samples) };
        self.unit(units, base, test, stats.hot_blocks, side)
    }

    /// Sum of the share differences of all units of a function that both profiles have.
    fn difference(
        &mut self,
        units: &mut Units,
        base: &FunctionProfile,
        test: &FunctionProfile,
    ) -> f64 {
        let mut difference = 0.0;
        for (base_sample, test_sample) in joined(&base.body, &test.body) {
            let counts = (
                base_sample.map_or(0, |sample| sample.count),
                test_sample.map_or(0, |sample| sample.count),
            );
            let side = side(base_sample.is_some(), test_sample.is_some());
            difference += self.unit(units, counts.0, counts.1, 1, side);
        }
        let none = BTreeMap::new();
        for (base_callees, test_callees) in joined(&base.callsites, &test.callsites) {
            let callees = joined(base_callees.unwrap_or(&none), test_callees.unwrap_or(&none));
            for callee in callees {
                difference += match callee {
                    (Some(base), Some(test)) => self.difference(units, base, test),
                    (Some(base), None) => self.lone_callee(units, base, Side::Base),
                    (None, Some(test)) => self.lone_callee(units, test, Side::Test),
                    (None, None) => 0.0,
                };
            }
        }
        difference
    }
}

fn side(base: bool, test: bool) -> Side {
    match (base, test) {
        (true, false) => Side::Base,
        (false, true) => Side::Test,
        _ => Side::Both,
    }
}

/// The entries of two maps side by side, by key.
fn joined<'m, K: Ord, V>(
    base: &'m BTreeMap<K, V>,
    test: &'m BTreeMap<K, V>,
) -> Vec<(Option<&'m V>, Option<&'m V>)> {
    let mut pairs = Vec::with_capacity(base.len().max(test.len()));
    let (mut base, mut test) = (base.iter().peekable(), test.iter().peekable());
    loop {
        let order = match (base.peek(), test.peek()) {
            (None, None) => return pairs,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((base, _)), Some((test, _))) => base.cmp(test),
        };
        let from_base = if order.is_le() { base.next().map(|(_, value)| value) } else { None };
        let from_test = if order.is_ge() { test.next().map(|(_, value)| value) } else { None };
        pairs.push((from_base, from_test));
    }
}

/// Compares two profiles; `None` when one of them has no samples, since nothing can be said then.
pub fn overlap(base: &SampleProfile, test: &SampleProfile) -> Option<Overlap> {
    let hot = |profile: &SampleProfile| Summary::of(profile).min_count(HOT_SHARE).unwrap_or(0);
    let mut walk =
        Walk { base_hot: hot(base), test_hot: hot(test), hot_both: 0, hot_base: 0, hot_test: 0 };
    let stats = |profile: &SampleProfile, hot: u64| -> BTreeMap<Name, Stats> {
        profile
            .functions
            .iter()
            .map(|(name, function)| (name.clone(), Stats::of(function, hot)))
            .collect()
    };
    let (base_stats, test_stats) = (stats(base, walk.base_hot), stats(test, walk.test_hot));
    let sum = |stats: &BTreeMap<Name, Stats>| {
        stats.values().fold(0u64, |sum, stats| sum.saturating_add(stats.samples))
    };
    let (base_samples, test_samples) = (sum(&base_stats), sum(&test_stats));
    if base_samples == 0 || test_samples == 0 {
        return None;
    }
    let mut whole = Units::default();
    let mut functions = Shared::default();
    let mut hot_functions = Shared::default();
    let mut details = Vec::new();
    let mut similarity = 0.0;
    for ((base_function, test_function), (base_stats, test_stats)) in
        joined(&base.functions, &test.functions).into_iter().zip(joined(&base_stats, &test_stats))
    {
        let (base_stats, test_stats) =
            (base_stats.copied().unwrap_or_default(), test_stats.copied().unwrap_or_default());
        let base_hot = base_function.is_some() && base_stats.max >= walk.base_hot;
        let test_hot = test_function.is_some() && test_stats.max >= walk.test_hot;
        count(&mut hot_functions, base_hot, test_hot);
        count(&mut functions, base_function.is_some(), test_function.is_some());
        let (Some(base_function), Some(test_function)) = (base_function, test_function) else {
            whole.larger = whole.larger.saturating_add(base_stats.samples.max(test_stats.samples));
            whole.base_unique = whole.base_unique.saturating_add(base_stats.samples);
            whole.test_unique = whole.test_unique.saturating_add(test_stats.samples);
            let blocks = base_stats.hot_blocks.max(test_stats.hot_blocks);
            walk.count_hot(base_stats.samples, test_stats.samples, blocks);
            continue;
        };
        let mut units = Units {
            base_total: base_stats.samples,
            test_total: test_stats.samples,
            ..Units::default()
        };
        let inner = 1.0 - walk.difference(&mut units, base_function, test_function) / 2.0;
        let inner = if inner.abs() < EPSILON { 0.0 } else { inner };
        let base_weight = base_stats.samples as f64 / base_samples as f64;
        let test_weight = test_stats.samples as f64 / test_samples as f64;
        let alike = inner * (1.0 - (base_weight - test_weight).abs());
        similarity += alike * (base_weight + test_weight) / 2.0;
        whole.larger = whole.larger.saturating_add(units.larger);
        whole.smaller = whole.smaller.saturating_add(units.smaller);
        whole.base_unique = whole.base_unique.saturating_add(units.base_unique);
        whole.test_unique = whole.test_unique.saturating_add(units.test_unique);
        details.push(FunctionOverlap {
            name: base_function.name.to_string(),
            base_weight_pct: base_weight * 100.0,
            test_weight_pct: test_weight * 100.0,
            similarity_pct: alike * 100.0,
            overlap_pct: percent(units.smaller, units.larger).unwrap_or(0.0),
            base_samples: base_stats.samples,
            test_samples: test_stats.samples,
        });
    }
    details.sort_by(|a, b| b.base_samples.cmp(&a.base_samples).then_with(|| a.name.cmp(&b.name)));
    let similarity = if (similarity - 1.0).abs() < EPSILON { 1.0 } else { similarity };
    Some(Overlap {
        similarity_pct: similarity * 100.0,
        overlap_pct: percent(whole.smaller, whole.larger).unwrap_or(0.0),
        base_unique_pct: percent(whole.base_unique, base_samples).unwrap_or(0.0),
        test_unique_pct: percent(whole.test_unique, test_samples).unwrap_or(0.0),
        base_samples,
        test_samples,
        functions,
        hot_functions,
        hot_blocks: Shared {
            both: walk.hot_both,
            base_only: walk.hot_base.saturating_sub(walk.hot_both),
            test_only: walk.hot_test.saturating_sub(walk.hot_both),
        },
        details,
    })
}

fn count(shared: &mut Shared, base: bool, test: bool) {
    match (base, test) {
        (true, true) => shared.both += 1,
        (true, false) => shared.base_only += 1,
        (false, true) => shared.test_only += 1,
        (false, false) => {}
    }
}
