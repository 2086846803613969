//! When does a result make the command fail? `--fail-if`, or else a slower variant.

use crate::result::{Compared, Direction, Measurement, Variant};
use crate::{Design, Error, Verdict};

/// One condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    what: What,
    /// A share: 0.01 for 1 %.
    over: f64,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Verdict(Verdict),
    Size(Section),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Section {
    Text,
    Data,
    Bss,
}

/// Reads `slower > 1%`, `undecided`, `text > 2%` …; several in one text are separated by commas.
///
/// # Errors
/// Where a word is none of these, or a limit is no percentage.
pub fn parse(given: &[String]) -> Result<Vec<Gate>, Error> {
    let wrong =
        |text: &str, problem: &str| Err(Error::Design(format!("--fail-if {text:?}: {problem}")));
    let mut gates = Vec::new();
    for text in given.iter().flat_map(|given| given.split(',')).map(str::trim) {
        let (word, limit) = text
            .split_once('>')
            .map_or((text, None), |(word, limit)| (word.trim(), Some(limit.trim())));
        let what = match word {
            "slower" => What::Verdict(Verdict::Slower),
            "faster" => What::Verdict(Verdict::Faster),
            "same" => What::Verdict(Verdict::Same),
            "layout-luck" => What::Verdict(Verdict::LayoutLuck),
            "undecided" => What::Verdict(Verdict::Undecided),
            "text" => What::Size(Section::Text),
            "data" => What::Size(Section::Data),
            "bss" => What::Size(Section::Bss),
            _ => {
                return wrong(
                    text,
                    "known are slower, faster, same, layout-luck, undecided, text, data and bss, \
                     each with or without a limit: \"slower > 1%\"",
                );
            }
        };
        let over = match limit {
            None => 0.0,
            Some(limit) => {
                let number =
                    limit.strip_suffix('%').map(str::trim).and_then(|n| n.parse::<f64>().ok());
                match number.filter(|n| n.is_finite() && *n >= 0.0) {
                    Some(number) => number / 100.0,
                    None => {
                        return wrong(text, "the limit is a percentage, as in \"slower > 1%\"");
                    }
                }
            }
        };
        gates.push(Gate { what, over, text: text.to_owned() });
    }
    Ok(gates)
}

/// The first gate that is hit, in words; without gates a variant that is slower, and not
/// negligibly.
pub fn hit(gates: &[Gate], result: &Measurement) -> Option<String> {
    if gates.is_empty() {
        let slower = result.comparisons.iter().find(|c| c.is_slower())?;
        return Some(format!("{} is slower", slower.variant));
    }
    gates.iter().find_map(|gate| gate.hit(result))
}

/// Why nothing can be shown among so many rows, known before anything is measured.
///
/// # Errors
/// Where one of the gates could then never be hit.
pub fn hindrance(design: &Design, among: usize, gates: &[Gate]) -> Result<Option<String>, Error> {
    let own = design.variants.len().saturating_sub(1) * design.benchmarks.len();
    match design.too_small(own.max(among)) {
        Some(problem) if gates.iter().any(Gate::needs_a_claim) => Err(Error::Design(format!(
            "{problem}; so --fail-if could never be hit: measure more, or leave it out"
        ))),
        other => Ok(other),
    }
}

/// What the gates for differences could not judge: rows that are undecided and may lie beyond a
/// limit. They hit no gate but `undecided`.
pub fn open(gates: &[Gate], result: &Measurement) -> Vec<String> {
    let asks = |what| gates.iter().any(|gate| gate.what == What::Verdict(what));
    let undecided = || result.comparisons.iter().filter(|c| c.verdict == Verdict::Undecided);
    let one = |gate: &Gate| {
        let rows: Vec<&Compared> = undecided().filter(|c| gate.may_be_hit(c, result)).collect();
        let first = rows.first()?;
        let interval =
            first.interval.map_or(String::new(), |[low, high]| format!(" [{low:.3}, {high:.3}]"));
        let count = if rows.len() == 1 {
            "1 row is".to_owned()
        } else {
            format!("{} rows are", rows.len())
        };
        Some(format!(
            "--fail-if {:?} is not hit but not ruled out either: {count} undecided, the first {} \
             on {} ({:.3}{interval}); the exit code is 4; with the gate \"undecided > {}%\" it is \
             1",
            gate.text,
            first.variant,
            first.benchmark,
            first.effect,
            gate.over * 100.0
        ))
    };
    let judged = |gate: &&Gate| gate.needs_a_claim() && !asks(Verdict::Undecided);
    gates.iter().filter(judged).filter_map(one).collect()
}

/// Whether a row that is undecided leaves open that the variant is slower by more than the margin:
/// its interval reaches there, or there is none.
pub fn may_be_slower(row: &Compared, result: &Measurement) -> bool {
    let what = What::Verdict(Verdict::Slower);
    let gate = Gate { what, over: result.margin, text: String::new() };
    row.verdict == Verdict::Undecided && gate.may_be_hit(row, result)
}

impl Gate {
    /// Can only a difference that is shown hit it?
    fn needs_a_claim(&self) -> bool {
        matches!(self.what, What::Verdict(Verdict::Slower | Verdict::Faster))
    }

    /// Does the interval reach beyond the limit, on whichever side?
    fn may_exceed(&self, c: &Compared) -> bool {
        c.interval.is_none_or(|[low, high]| high > 1.0 + self.over || low < 1.0 - self.over)
    }

    /// Does the interval reach beyond the limit on the side of this gate?
    fn may_be_hit(&self, c: &Compared, result: &Measurement) -> bool {
        let benchmark = result.benchmarks.iter().find(|b| b.name == c.benchmark);
        let metric = benchmark.and_then(|b| b.metrics.iter().find(|m| m.name == c.metric));
        let more_is_better = metric.is_some_and(|m| m.better == Direction::Higher);
        let upwards = (self.what == What::Verdict(Verdict::Slower)) != more_is_better;
        c.interval.is_none_or(
            |[low, high]| if upwards { high > 1.0 + self.over } else { low < 1.0 - self.over },
        )
    }

    fn hit(&self, result: &Measurement) -> Option<String> {
        match self.what {
            What::Verdict(verdict) => {
                let there = |c: &&Compared| {
                    let large = match verdict {
                        // What is not known may be as large as its interval reaches.
                        Verdict::Undecided => self.may_exceed(c),
                        _ => (c.effect - 1.0).abs() > self.over,
                    };
                    c.verdict == verdict && (large || self.over == 0.0)
                };
                let c = result.comparisons.iter().find(there)?;
                let change = (c.effect - 1.0) * 100.0;
                Some(format!(
                    "--fail-if {:?}: {} on {} ({change:+.1} %)",
                    self.text, c.variant, c.benchmark
                ))
            }
            What::Size(section) => {
                let of = |v: &Variant| {
                    v.sizes.map(|s| match section {
                        Section::Text => s.text,
                        Section::Data => s.data,
                        Section::Bss => s.bss,
                    })
                };
                let base = of(result.variants.first()?)?;
                let larger = |v: &&Variant| {
                    of(v).is_some_and(|size| size as f64 > base as f64 * (1.0 + self.over))
                };
                let v = result.variants.iter().skip(1).find(larger)?;
                Some(format!(
                    "--fail-if {:?}: {} has {} bytes, the base {base}",
                    self.text,
                    v.name,
                    of(v)?
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_with_and_without_limits() {
        let gates = parse(&["slower > 1.5%, undecided".into(), "text>0%".into()]).unwrap();
        assert_eq!(gates.len(), 3);
        assert_eq!((gates[0].what, gates[0].over), (What::Verdict(Verdict::Slower), 0.015));
        assert_eq!(gates[2].what, What::Size(Section::Text));
        for wrong in ["slow", "slower > x%", "slower > 1", "slower > -1%"] {
            assert!(
                parse(&[wrong.into()]).unwrap_err().to_string().contains("--fail-if"),
                "{wrong}"
            );
        }
    }
}
