//! Which number of a run is compared?

use crate::{Error, Run};
use regex::bytes::Regex;
use serde::{Deserialize, Serialize};

/// The number that decides.
///
/// CPU time is the default: on a shared two-CPU machine the robust spread of wall time was 25 to 44 %, that of CPU
/// time 1.7 to 4.2 %, for the same program. Wall time is the right choice for programs that wait or use several
/// threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Metric {
    /// User plus system time of the process and the children it waited for, nanoseconds.
    #[default]
    Cpu,
    /// User time alone, nanoseconds.
    User,
    /// Elapsed time, nanoseconds.
    Wall,
    /// Largest resident set, bytes.
    MaxRss,
    /// The first group of a pattern in the program's standard output, read as a number.
    Output {
        /// A regular expression with one group.
        pattern: String,
        /// True when a larger number is a better one (throughput).
        higher_is_better: bool,
    },
}

impl Metric {
    /// Reads `cpu`, `user`, `wall`, `maxrss`, `output:PATTERN` or `throughput:PATTERN`.
    pub fn parse(given: &str) -> Result<Metric, Error> {
        let wrong = |problem: String| Error::Metric { given: given.to_owned(), problem };
        let output = |pattern: &str, higher_is_better| {
            let regex = Regex::new(pattern).map_err(|e| wrong(e.to_string()))?;
            if regex.captures_len() != 2 {
                let problem = "the pattern needs exactly one group ( ) around the number".to_owned();
                return Err(wrong(problem));
            }
            Ok(Metric::Output { pattern: pattern.to_owned(), higher_is_better })
        };
        match given {
            "cpu" => Ok(Metric::Cpu),
            "user" => Ok(Metric::User),
            "wall" => Ok(Metric::Wall),
            "maxrss" => Ok(Metric::MaxRss),
            _ => match given.split_once(':') {
                Some(("output", pattern)) => output(pattern, false),
                Some(("throughput", pattern)) => output(pattern, true),
                _ => Err(wrong(
                    "known are cpu, user, wall, maxrss, output:PATTERN (smaller is better) and \
                     throughput:PATTERN (larger is better)"
                        .to_owned(),
                )),
            },
        }
    }

    /// The words a report uses for it.
    pub fn describe(&self) -> &str {
        match self {
            Metric::Cpu => "CPU time (user + system)",
            Metric::User => "user time",
            Metric::Wall => "wall time",
            Metric::MaxRss => "largest resident set",
            Metric::Output { higher_is_better: false, .. } => {
                "number printed by the program, smaller is better"
            }
            Metric::Output { higher_is_better: true, .. } => {
                "number printed by the program, larger is better"
            }
        }
    }

    /// The unit of [`Metric::value`].
    pub fn unit(&self) -> &'static str {
        match self {
            Metric::Cpu | Metric::User | Metric::Wall => "ns",
            Metric::MaxRss => "bytes",
            Metric::Output { .. } => "",
        }
    }

    /// The number of one run; `None` when the program did not print it.
    pub fn value(&self, run: &Run) -> Option<f64> {
        match self {
            Metric::Cpu => Some((run.user_ns + run.system_ns) as f64),
            Metric::User => Some(run.user_ns as f64),
            Metric::Wall => Some(run.wall_ns as f64),
            Metric::MaxRss => Some(run.max_rss_bytes as f64),
            Metric::Output { .. } => run.printed,
        }
    }

    /// +1 when a smaller number is better, -1 when a larger one is.
    pub(crate) fn sign(&self) -> f64 {
        if matches!(self, Metric::Output { higher_is_better: true, .. }) { -1.0 } else { 1.0 }
    }

    pub(crate) fn reader(&self) -> Option<Regex> {
        match self {
            // The pattern was checked by `parse`; one that came around it finds nothing and is reported per run.
            Metric::Output { pattern, .. } => Regex::new(pattern).ok(),
            _ => None,
        }
    }
}

impl From<Metric> for String {
    fn from(metric: Metric) -> String {
        match metric {
            Metric::Cpu => "cpu".into(),
            Metric::User => "user".into(),
            Metric::Wall => "wall".into(),
            Metric::MaxRss => "maxrss".into(),
            Metric::Output { pattern, higher_is_better: false } => format!("output:{pattern}"),
            Metric::Output { pattern, higher_is_better: true } => format!("throughput:{pattern}"),
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
        for given in ["cpu", "user", "wall", "maxrss", r"output:took (\d+)", r"throughput:([0-9.]+) ops"] {
            let metric = Metric::parse(given).unwrap();
            assert_eq!(String::from(metric), given);
        }
    }

    #[test]
    fn a_pattern_without_a_group_is_refused_with_the_reason() {
        let message = Metric::parse("output:took").unwrap_err().to_string();
        assert!(message.contains("one group"), "{message}");
        assert!(Metric::parse("speed").unwrap_err().to_string().contains("known are cpu"));
    }
}
