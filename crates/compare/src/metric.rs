//! Which number of a run is compared?

use crate::result::{Direction, MetricInfo};
use crate::{Error, Run};
use regex::bytes::Regex;
use serde::{Deserialize, Serialize};
use statistics::Observation;

/// A number of a run.
///
/// CPU time is the default: on a shared two-CPU machine the robust spread of wall time was 25 to 44
/// %, that of CPU time 1.7 to 4.2 %, for the same program. Wall time is the right choice for
/// programs that wait or use several threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Metric {
    /// Where the number comes from.
    pub source: Source,
    /// The user's name for it, when one was given.
    pub name: Option<String>,
    /// The user's unit for a printed number.
    pub unit: Option<String>,
}

/// Where a number comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// User plus system time of the process and the children it waited for, nanoseconds.
    Cpu,
    /// User time alone, nanoseconds.
    User,
    /// System time alone, nanoseconds.
    System,
    /// Elapsed time, nanoseconds.
    Wall,
    /// Largest resident set, bytes.
    MaxRss,
    /// Page faults, with and without reading.
    Faults,
    /// Page faults that read from disk.
    MajorFaults,
    /// Context switches, of the program's own will and not.
    Switches,
    /// A counter of the CPU or the kernel, counted over the program and its children.
    Counter(Counter),
    /// The first group of a pattern in the program's standard output, read as a number.
    Output {
        /// A regular expression with one group.
        pattern: String,
        /// True when a larger number is a better one (throughput).
        higher_is_better: bool,
    },
}

/// Counters through `perf_event_open`; those of the CPU need a PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// Time on the CPU by the kernel's clock, nanoseconds (needs no PMU; finer than `cpu`).
    TaskClock,
    /// Instructions.
    Instructions,
    /// Cycles.
    Cycles,
    /// Branches.
    Branches,
    /// Mispredicted branches.
    BranchMisses,
    /// Cache misses of the last level.
    CacheMisses,
    /// Misses of the level 1 instruction cache.
    L1iMisses,
    /// Misses of the instruction TLB.
    ItlbMisses,
}

impl Counter {
    /// All of them.
    pub const ALL: [Counter; 8] = [
        Counter::TaskClock,
        Counter::Instructions,
        Counter::Cycles,
        Counter::Branches,
        Counter::BranchMisses,
        Counter::CacheMisses,
        Counter::L1iMisses,
        Counter::ItlbMisses,
    ];

    /// The name, as perf spells it where perf has one.
    pub fn name(self) -> &'static str {
        match self {
            Counter::TaskClock => "task-clock",
            Counter::Instructions => "instructions",
            Counter::Cycles => "cycles",
            Counter::Branches => "branches",
            Counter::BranchMisses => "branch-misses",
            Counter::CacheMisses => "cache-misses",
            Counter::L1iMisses => "L1-icache-load-misses",
            Counter::ItlbMisses => "iTLB-load-misses",
        }
    }
}

const KNOWN: &str = "known are cpu, user, system, wall, maxrss, faults, major-faults, switches, \
                     task-clock, instructions, cycles, branches, branch-misses, cache-misses, \
                     L1-icache-load-misses, iTLB-load-misses, output:PATTERN (smaller is better) \
                     and throughput:PATTERN (larger is better); NAME[UNIT]= before the last two \
                     names the number";

impl Default for Metric {
    fn default() -> Self {
        Metric::of(Source::Cpu)
    }
}

impl Metric {
    /// A metric without a name of its own.
    pub fn of(source: Source) -> Metric {
        Metric { source, name: None, unit: None }
    }

    /// Reads `cpu`, `user`, `wall`, …, `output:PATTERN`, `throughput:PATTERN` or
    /// `NAME[UNIT]=output:PATTERN`.
    pub fn parse(given: &str) -> Result<Metric, Error> {
        let wrong =
            |problem: &str| Error::Metric { given: given.to_owned(), problem: problem.to_owned() };
        let fixed = [
            ("cpu", Source::Cpu),
            ("user", Source::User),
            ("system", Source::System),
            ("wall", Source::Wall),
            ("maxrss", Source::MaxRss),
            ("faults", Source::Faults),
            ("major-faults", Source::MajorFaults),
            ("switches", Source::Switches),
        ];
        if let Some((_, source)) = fixed.iter().find(|(name, _)| *name == given) {
            return Ok(Metric::of(source.clone()));
        }
        if let Some(counter) = Counter::ALL.into_iter().find(|c| c.name() == given) {
            return Ok(Metric::of(Source::Counter(counter)));
        }
        let (head, pattern) = given.split_once(':').ok_or_else(|| wrong(KNOWN))?;
        let (label, kind) = match head.split_once('=') {
            Some((label, kind)) => (Some(label), kind),
            None => (None, head),
        };
        let higher_is_better = match kind {
            "output" | "latency" => false,
            "throughput" => true,
            _ => return Err(wrong(KNOWN)),
        };
        let (name, unit) = match label.map(|l| (l, l.split_once('['))) {
            None => (None, None),
            Some((_, Some((name, rest)))) => {
                let unit =
                    rest.strip_suffix(']').ok_or_else(|| wrong("the unit needs a closing ]"))?;
                (Some(name.to_owned()), Some(unit.to_owned()))
            }
            Some((name, None)) => (Some(name.to_owned()), None),
        };
        if name.as_ref().is_some_and(|n| n.is_empty() || n.contains([':', '=', ']'])) {
            return Err(wrong(
                "a name stands before =, and a unit in [ ] behind it: \
                 rate[MB/s]=throughput:PATTERN",
            ));
        }
        let regex = workload::pattern(pattern)
            .map_err(|why| wrong(&format!("the pattern is wrong {why}")))?;
        if regex.captures_len() != 2 {
            return Err(wrong("the pattern needs exactly one group ( ) around the number"));
        }
        Ok(Metric {
            source: Source::Output { pattern: pattern.to_owned(), higher_is_better },
            name,
            unit,
        })
    }

    /// A short name, unique among the metrics of a benchmark.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| match &self.source {
            Source::Output { higher_is_better: true, .. } => "throughput".into(),
            Source::Output { .. } => "output".into(),
            _ => String::from(self.clone()),
        })
    }

    /// The words a report uses for it.
    pub fn describe(&self) -> String {
        let words = match &self.source {
            Source::Cpu => "CPU time (user + system)",
            Source::User => "user time",
            Source::System => "system time",
            Source::Wall => "wall time",
            Source::MaxRss => "largest resident set",
            Source::Faults => "page faults",
            Source::MajorFaults => "page faults that read",
            Source::Switches => "context switches",
            Source::Counter(Counter::TaskClock) => "time on the CPU",
            Source::Counter(counter) => counter.name(),
            Source::Output { higher_is_better, .. } => {
                let printed = self.name.as_deref().unwrap_or("number printed by the program");
                let way = if *higher_is_better { "larger is better" } else { "smaller is better" };
                return format!("{printed}, {way}");
            }
        };
        words.to_owned()
    }

    /// Is it a time or a rate, so that one may say faster and slower?
    pub fn is_speed(&self) -> bool {
        let higher = matches!(self.source, Source::Output { higher_is_better: true, .. });
        higher || self.unit() == "ns" || self.source == Source::Counter(Counter::Cycles)
    }

    /// What there is more or less of, where it is no speed: `memory`, `page faults`.
    pub(crate) fn noun(&self) -> String {
        match self.source {
            Source::MaxRss => "memory".into(),
            Source::Output { .. } => self.label(),
            _ => self.describe(),
        }
    }

    /// The unit of [`Metric::value`]: `ns`, `bytes`, the user's, or nothing.
    pub fn unit(&self) -> &str {
        match &self.source {
            Source::Cpu | Source::User | Source::System | Source::Wall => "ns",
            Source::Counter(Counter::TaskClock) => "ns",
            Source::MaxRss => "bytes",
            Source::Output { .. } => self.unit.as_deref().unwrap_or(""),
            _ => "",
        }
    }

    /// For the result.
    pub fn info(&self) -> MetricInfo {
        let better = if self.sign() < 0.0 { Direction::Higher } else { Direction::Lower };
        MetricInfo {
            name: self.label(),
            words: self.describe(),
            unit: self.unit().to_owned(),
            better,
        }
    }

    /// The number of one run; `None` when the program did not print it or the machine cannot count
    /// it.
    pub fn value(&self, run: &Run) -> Option<f64> {
        match &self.source {
            Source::Cpu => Some((run.user_ns + run.system_ns) as f64),
            Source::User => Some(run.user_ns as f64),
            Source::System => Some(run.system_ns as f64),
            Source::Wall => Some(run.wall_ns as f64),
            Source::MaxRss => Some(run.max_rss_bytes as f64),
            Source::Faults => Some((run.minor_faults + run.major_faults) as f64),
            Source::MajorFaults => Some(run.major_faults as f64),
            Source::Switches => Some((run.voluntary_switches + run.involuntary_switches) as f64),
            Source::Counter(counter) => run.counters.get(counter.name()).map(|&n| n as f64),
            Source::Output { .. } => run.printed.get(&self.label()).copied(),
        }
    }

    /// ln of the number of one run, turned so that less is better. Zero has no logarithm: it takes
    /// the smallest step of the metric. `None` when there is no number, or one that is negative or
    /// not finite.
    pub fn log(&self, run: &Run) -> Option<f64> {
        let value = self.value(run).filter(|v| v.is_finite() && *v >= 0.0)?;
        Some(self.sign() * value.max(self.floor()).ln())
    }

    /// A run as the statistics see it; `None` as of [`Metric::log`].
    pub fn observation(&self, run: &Run) -> Option<Observation> {
        let log = self.log(run)?;
        Some(Observation {
            round: run.round,
            variant: run.variant,
            layout: run.layout,
            copy: run.copy,
            log,
        })
    }

    /// The smallest number that ln may be taken of: one step of the clock, or one event.
    fn floor(&self) -> f64 {
        match self.unit() {
            "ns" => 1000.0,
            _ if matches!(self.source, Source::Output { .. }) => f64::MIN_POSITIVE,
            _ => 1.0,
        }
    }

    /// +1 when a smaller number is better, -1 when a larger one is.
    pub(crate) fn sign(&self) -> f64 {
        if matches!(self.source, Source::Output { higher_is_better: true, .. }) {
            -1.0
        } else {
            1.0
        }
    }

    /// What finds the number in the output.
    pub(crate) fn reader(&self) -> Option<Regex> {
        match &self.source {
            // The pattern was checked by `parse`; one that came around it finds nothing and is
            // reported per run.
            Source::Output { pattern, .. } => Regex::new(pattern).ok(),
            _ => None,
        }
    }
}

impl From<Metric> for String {
    fn from(metric: Metric) -> String {
        let own = match metric.source {
            Source::Cpu => "cpu".into(),
            Source::User => "user".into(),
            Source::System => "system".into(),
            Source::Wall => "wall".into(),
            Source::MaxRss => "maxrss".into(),
            Source::Faults => "faults".into(),
            Source::MajorFaults => "major-faults".into(),
            Source::Switches => "switches".into(),
            Source::Counter(counter) => counter.name().into(),
            Source::Output { pattern, higher_is_better: false } => format!("output:{pattern}"),
            Source::Output { pattern, higher_is_better: true } => format!("throughput:{pattern}"),
        };
        match (metric.name, metric.unit) {
            (Some(name), Some(unit)) => format!("{name}[{unit}]={own}"),
            (Some(name), None) => format!("{name}={own}"),
            _ => own,
        }
    }
}

impl TryFrom<String> for Metric {
    type Error = Error;
    fn try_from(given: String) -> Result<Metric, Error> {
        Metric::parse(&given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_survives_being_written_down() {
        let own = [
            r"output:took (\d+)",
            r"throughput:([0-9.]+) ops",
            r"p99[us]=output:p99=(\d+)",
            r"x=output:(.)",
        ];
        let fixed =
            ["cpu", "user", "system", "wall", "maxrss", "faults", "major-faults", "switches"];
        let counters = Counter::ALL.map(Counter::name);
        for given in own.iter().chain(&fixed).chain(&counters) {
            let metric = Metric::parse(given).unwrap();
            assert_eq!(String::from(metric), **given);
        }
    }

    #[test]
    fn a_printed_number_has_the_users_name_unit_and_direction() {
        let info = Metric::parse(r"rate[MB/s]=throughput:([0-9.]+) MB/s").unwrap().info();
        assert_eq!(
            (info.name.as_str(), info.unit.as_str(), info.better),
            ("rate", "MB/s", Direction::Higher)
        );
    }

    #[test]
    fn a_pattern_without_a_group_is_refused_with_the_reason() {
        let refused = |given: &str| Metric::parse(given).unwrap_err().to_string();
        assert!(refused("output:took").contains("one group"));
        assert!(refused("speed").contains("known are cpu"));
        assert!(refused("a[b=output:(.)").contains("closing ]"));
        assert!(refused("=output:(.)").contains("a name stands before ="));
    }
}
