//! Which of a profile's values counts what ran, and how many samples is a value? A profile may hold
//! several (samples and their time, allocations, waits).

use crate::Error;
use crate::sampled::ValueType;
use std::path::Path;

/// The events between samples: their type and number, as far as the profile says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Period {
    pub(crate) of: ValueType,
    pub(crate) number: u64,
}

/// The values that are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) index: usize,
    /// What a sample is in it.
    pub(crate) divisor: u64,
}

/// Names of values that say how much of a CPU was used.
const CPU: [&str; 6] = ["cpu", "cycles", "instructions", "on_cpu", "on-cpu", "cpu-clock"];

/// Nanoseconds of a unit of time.
fn nanoseconds(unit: &str) -> Option<u64> {
    Some(match unit {
        "nanoseconds" | "nanosecond" | "ns" => 1,
        "microseconds" | "microsecond" | "us" => 1_000,
        "milliseconds" | "millisecond" | "ms" => 1_000_000,
        "seconds" | "second" | "s" => 1_000_000_000,
        _ => return None,
    })
}

fn counts_samples(of: &ValueType) -> bool {
    let is_sample =
        ["samples", "sample"].contains(&of.name.as_str()) || of.name.ends_with("_sample");
    is_sample && (of.unit == "count" || of.unit.is_empty())
}

/// The values of the name that is wanted; else samples, else CPU time or cycles.
///
/// # Errors
/// Where there is none of these.
pub(crate) fn choose(
    path: &Path,
    types: &[ValueType],
    period: Option<&Period>,
    wanted: Option<&str>,
) -> Result<Chosen, Error> {
    let position = |fits: &dyn Fn(&ValueType) -> bool| types.iter().position(fits);
    let index = match wanted {
        Some(wanted) => position(&|of| of.name == wanted || of.told() == wanted),
        None => {
            position(&counts_samples).or_else(|| position(&|of| CPU.contains(&of.name.as_str())))
        }
    };
    let found = || {
        let told: Vec<String> = types.iter().take(16).map(ValueType::told).collect();
        if told.is_empty() { "no types of values".to_owned() } else { told.join(", ") }
    };
    let Some(index) = index else {
        let problem = match wanted {
            Some(wanted) => format!("no values of type {wanted}"),
            None => "none of its values counts samples or CPU time".to_owned(),
        };
        return Err(Error::Value { path: path.to_owned(), problem, found: found() });
    };
    let divisor = types.get(index).map_or(1, |of| divisor(of, period));
    Ok(Chosen { index, divisor })
}

/// A value that is no count of samples is so many times the period.
fn divisor(of: &ValueType, period: Option<&Period>) -> u64 {
    let Some(period) = period.filter(|period| period.number > 1 && !counts_samples(of)) else {
        return 1;
    };
    match (nanoseconds(&of.unit), nanoseconds(&period.of.unit)) {
        (Some(own), Some(other)) => (period.number.saturating_mul(other) / own).max(1),
        _ if of.unit == period.of.unit && of.name == period.of.name => period.number,
        _ => 1,
    }
}

/// What a sample is, and how many events it stands for: `clock` with nanoseconds, or `event`.
pub(crate) fn source(types: &[ValueType], period: Option<&Period>) -> (&'static str, Option<u64>) {
    let of_period = period.map(|period| &period.of);
    let number = period.map(|period| period.number).filter(|number| *number > 0);
    match of_period.filter(|of| !of.unit.is_empty()) {
        Some(of) => match nanoseconds(&of.unit) {
            Some(unit) => ("clock", number.map(|number| number.saturating_mul(unit))),
            None => ("event", number),
        },
        None => {
            let timed =
                |of: &ValueType| CPU.contains(&of.name.as_str()) && nanoseconds(&of.unit).is_some();
            (if types.iter().any(timed) { "clock" } else { "" }, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(told: &str) -> ValueType {
        let (name, unit) = told.split_once('/').unwrap_or((told, ""));
        ValueType { name: name.to_owned(), unit: unit.to_owned() }
    }

    fn chosen(types: &[&str], period: (&str, u64), wanted: Option<&str>) -> Option<(usize, u64)> {
        let types: Vec<ValueType> = types.iter().map(|told| of(told)).collect();
        let period = Period { of: of(period.0), number: period.1 };
        let chosen = choose(Path::new("p"), &types, Some(&period), wanted).ok()?;
        Some((chosen.index, chosen.divisor))
    }

    #[test]
    fn samples_come_before_time_and_time_is_so_many_periods() {
        let go = ["samples/count", "cpu/nanoseconds"];
        assert_eq!(chosen(&go, ("cpu/nanoseconds", 10_000_000), None), Some((0, 1)));
        assert_eq!(
            chosen(&go, ("cpu/nanoseconds", 10_000_000), Some("cpu")),
            Some((1, 10_000_000))
        );
        assert_eq!(
            chosen(&["cpu/nanoseconds"], ("cpu/milliseconds", 10), None),
            Some((0, 10_000_000))
        );
        assert_eq!(chosen(&["cycles/count"], ("cycles/count", 1000), None), Some((0, 1000)));
        assert_eq!(chosen(&["cycles/count"], ("cpu/nanoseconds", 1000), None), Some((0, 1)));
        let perf = ["cycles:u_sample/count", "cycles:u_event/count"];
        assert_eq!(chosen(&perf, ("/", 0), None), Some((0, 1)));
    }

    #[test]
    fn memory_and_waits_are_not_what_ran() {
        let heap = ["alloc_objects/count", "alloc_space/bytes"];
        assert_eq!(chosen(&heap, ("space/bytes", 524_288), None), None);
        assert_eq!(
            chosen(&heap, ("space/bytes", 524_288), Some("alloc_space/bytes")),
            Some((1, 1))
        );
        assert_eq!(chosen(&["contentions/count", "delay/nanoseconds"], ("/", 0), None), None);
    }

    #[test]
    fn a_period_in_time_is_a_clocks() {
        let period = |told: &str, number| Period { of: of(told), number };
        let types = [of("samples/count")];
        let clock = period("cpu/milliseconds", 10);
        assert_eq!(source(&types, Some(&clock)), ("clock", Some(10_000_000)));
        let event = period("cycles/count", 4000);
        assert_eq!(source(&types, Some(&event)), ("event", Some(4000)));
        assert_eq!(source(&types, None), ("", None));
        assert_eq!(source(&[of("cpu/nanoseconds")], None), ("clock", None));
    }
}
