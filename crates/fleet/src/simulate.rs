//! Shards as a fleet would deliver them, made of the counts of real recordings: for tests and benches of
//! what adds them up.
//!
//! Input: counts of one or more builds of a program. Output: for each host and window of time a
//! shard in which every count is a random share of the real one. A sampler sees each execution by
//! chance, so what one recording has of a count is drawn from Poisson's distribution; hosts differ
//! in how busy they are (a power law, as Zipf's), in their class and in the build that they run.
//! The same seed gives the same shards.

use crate::Recording;
use crate::law::{Law, Unit};
use counts::{Branch, Counts, FallThrough, FirstHalf, ImageCounts, SampleCount};
use random::Random;

/// What a fleet looks like.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// Hosts.
    pub hosts: u32,
    /// Recordings of each host.
    pub windows: u32,
    /// Seconds of a recording.
    pub seconds: u64,
    /// When the first ones begin, in seconds since 1970.
    pub begin: u64,
    /// The share of the real counts that a recording of a host of middling load has.
    pub share: f64,
    /// How much hosts differ: host n is 1 ÷ n^skew as busy as the first; 0: all are alike.
    pub skew: f64,
    /// Kinds of sources, which take turns among the hosts: each next one takes a quarter of the samples.
    pub sources: u32,
    /// What all depends on.
    pub seed: u64,
}

/// What is said of the samples of the first kind; of the others also how much sparser they are.
const SOURCE: &str = "simulated";
/// Most kinds of sources.
pub const MOST_SOURCES: u32 = 6;
/// Names of classes of hosts, in turn.
const CLASSES: [&str; 3] = ["web", "batch", "cache"];

/// The recording of a host in a window, with its counts; `builds` has the counts of each build, of
/// which the later ones are newer and come to the hosts one after the other.
pub fn shard(fleet: &Fleet, builds: &[Counts], host: u32, window: u32) -> (Recording, Counts) {
    let seed = fleet.seed ^ (u64::from(host) << 32) ^ u64::from(window);
    let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let build = build_of(fleet, builds.len(), host, window);
    let load = f64::from(host + 1).powf(-fleet.skew) / middle(fleet);
    let begin = fleet.begin + u64::from(window) * fleet.seconds;
    let sparser = 4u64.pow(host % fleet.sources.clamp(1, MOST_SOURCES));
    let mut recording = Recording {
        id: format!("{:016x}-{host}-{window}", fleet.seed),
        host: format!("host{host}"),
        host_class: CLASSES[host as usize % CLASSES.len()].to_owned(),
        architecture: "x86_64".to_owned(),
        begin: Some(begin),
        end: Some(begin + fleet.seconds),
        source: if sparser == 1 { SOURCE.to_owned() } else { format!("{SOURCE}-{sparser}") },
        program: format!("build{build}"),
        planish: env!("CARGO_PKG_VERSION").to_owned(),
        ..Recording::default()
    };
    let empty = Counts { images: Vec::new(), ledger: counts::Ledger::default() };
    let whole = builds.get(build).unwrap_or(&empty);
    let share = fleet.share * load / sparser as f64;
    let images = whole.images.iter().map(|image| thinned(image, share, &mut random));
    let images: Vec<ImageCounts> = images.filter(|image| !is_empty(image)).collect();
    let counted = |one: fn(&ImageCounts) -> u128| images.iter().map(one).sum::<u128>();
    let entries = match counted(ImageCounts::branch_total) {
        0 => counted(ImageCounts::sample_total),
        // Drawn each by itself, there may be a few more ranges than branches.
        branches => branches.max(counted(ImageCounts::fall_through_total)),
    };
    let entries = u64::try_from(entries).ok().filter(|entries| *entries > 0);
    recording.law = entries.and_then(|counts| {
        let events = counts.checked_mul(sparser)?;
        Some(Law { unit: Unit::Executions, events, counts })
    });
    (recording, Counts { images, ledger: counts::Ledger::default() })
}

/// Hosts get a new build one after the other, in the middle half of the time.
fn build_of(fleet: &Fleet, builds: usize, host: u32, window: u32) -> usize {
    let through = f64::from(window) / f64::from(fleet.windows.max(1));
    let turn = f64::from(host) / f64::from(fleet.hosts.max(1));
    let reached = (through + 0.5 * turn) * builds as f64 / 1.5;
    (reached as usize).min(builds.saturating_sub(1))
}

/// The load of the host in the middle.
fn middle(fleet: &Fleet) -> f64 {
    f64::from(fleet.hosts / 2 + 1).powf(-fleet.skew)
}

fn is_empty(image: &ImageCounts) -> bool {
    image.samples.is_empty() && image.branches.is_empty() && image.fall_throughs.is_empty()
}

/// The counts of one half by the key of the row, for rows in the same order.
struct Half<'h, T, K>(std::iter::Peekable<std::slice::Iter<'h, T>>, fn(&T) -> (K, u64));

impl<T, K: Ord> Half<'_, T, K> {
    /// Of a row, of which no later one was asked for before.
    fn of(&mut self, key: &K) -> u64 {
        while self.0.next_if(|row| (self.1)(row).0 < *key).is_some() {}
        self.0.peek().map(|row| (self.1)(row)).filter(|(own, _)| own == key).map_or(0, |row| row.1)
    }
}

fn thinned(image: &ImageCounts, share: f64, random: &mut Random) -> ImageCounts {
    let half = &image.first_half;
    let mut draw = |whole: u64, half: u64| {
        let first = poisson(half.min(whole) as f64 * share, random);
        (first + poisson(whole.saturating_sub(half) as f64 * share, random), first)
    };
    let (mut samples, mut branches, mut fall_throughs) = (Vec::new(), Vec::new(), Vec::new());
    let mut first = FirstHalf::default();
    let mut halves = Half(half.samples.iter().peekable(), |row| (row.address, row.count));
    for row in &image.samples {
        let (count, of_half) = draw(row.count, halves.of(&row.address));
        put(&mut samples, SampleCount { count, ..*row }, count);
        put(&mut first.samples, SampleCount { count: of_half, ..*row }, of_half);
    }
    let mut halves = Half(half.branches.iter().peekable(), |row| ((row.from, row.to), row.count));
    for row in &image.branches {
        let (count, of_half) = draw(row.count, halves.of(&(row.from, row.to)));
        let missed =
            u128::from(row.mispredicted) * u128::from(count) / u128::from(row.count.max(1));
        let mispredicted = u64::try_from(missed).unwrap_or(count).min(count);
        put(&mut branches, Branch { count, mispredicted, ..*row }, count);
        let row = Branch { count: of_half, mispredicted: 0, ..*row };
        put(&mut first.branches, row, of_half);
    }
    let key = |row: &FallThrough| ((row.first, row.last), row.count);
    let mut halves = Half(half.fall_throughs.iter().peekable(), key);
    for row in &image.fall_throughs {
        let (count, of_half) = draw(row.count, halves.of(&(row.first, row.last)));
        put(&mut fall_throughs, FallThrough { count, ..*row }, count);
        put(&mut first.fall_throughs, FallThrough { count: of_half, ..*row }, of_half);
    }
    ImageCounts {
        build_id: image.build_id,
        path: image.path.clone(),
        architecture: image.architecture.clone(),
        samples,
        branches,
        fall_throughs,
        paths: Vec::new(),
        first_half: first,
    }
}

fn put<T>(rows: &mut Vec<T>, row: T, count: u64) {
    if count > 0 {
        rows.push(row);
    }
}

/// A number from Poisson's distribution: by the times between events (Knuth, The Art of Computer
/// Programming, 3.4.1) where few are expected, else by the normal distribution that comes near it.
fn poisson(expected: f64, random: &mut Random) -> u64 {
    const FEW: f64 = 30.0;
    if expected <= 0.0 {
        return 0;
    }
    if expected < FEW {
        let limit = (-expected).exp();
        let (mut number, mut product) = (0, random.unit());
        while product > limit {
            number += 1;
            product *= random.unit();
        }
        return number;
    }
    // Box and Muller.
    let (u, v) = (1.0 - random.unit(), random.unit());
    let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
    normal.mul_add(expected.sqrt(), expected).round().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_mean_and_the_variance_of_poissons_distribution() {
        for expected in [0.1, 2.0, 25.0, 40.0, 1e4] {
            let mut random = Random::new(7);
            let draws: Vec<f64> =
                (0..20_000).map(|_| poisson(expected, &mut random) as f64).collect();
            let mean = draws.iter().sum::<f64>() / 2e4;
            let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / 2e4;
            let near = |found: f64| (found / expected - 1.0).abs() < 0.05;
            assert!(near(mean) && near(variance), "{expected}: {mean} {variance}");
        }
    }

    #[test]
    fn newer_builds_reach_the_hosts_one_after_the_other() {
        let fleet = Fleet {
            hosts: 10,
            windows: 30,
            seconds: 5,
            begin: 0,
            share: 1.0,
            skew: 1.0,
            sources: 1,
            seed: 1,
        };
        let builds = |window: u32| -> Vec<usize> {
            (0..10).map(|host| build_of(&fleet, 3, host, window)).collect()
        };
        assert_eq!(builds(0).iter().min(), Some(&0));
        assert_eq!(builds(29).iter().min(), Some(&1));
        assert_eq!(builds(29).iter().max(), Some(&2));
        assert!(builds(14).windows(2).all(|pair| pair[0] <= pair[1]));
    }
}
