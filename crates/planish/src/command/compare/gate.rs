//! When does a result make the command fail? `--fail-if`, or else a slower variant.

use super::is_slower;
use anyhow::bail;
use compare::Verdict;
use compare::result::Measurement;

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
pub fn parse(given: &[String]) -> anyhow::Result<Vec<Gate>> {
    let mut gates = Vec::new();
    for text in given.iter().flat_map(|given| given.split(',')).map(str::trim) {
        let (word, limit) =
            text.split_once('>').map_or((text, None), |(word, limit)| (word.trim(), Some(limit.trim())));
        let what = match word {
            "slower" => What::Verdict(Verdict::Slower),
            "faster" => What::Verdict(Verdict::Faster),
            "same" => What::Verdict(Verdict::Same),
            "layout-luck" => What::Verdict(Verdict::LayoutLuck),
            "undecided" => What::Verdict(Verdict::Undecided),
            "text" => What::Size(Section::Text),
            "data" => What::Size(Section::Data),
            "bss" => What::Size(Section::Bss),
            _ => bail!(
                "--fail-if {text:?}: known are slower, faster, same, layout-luck, undecided, text, data and bss, each \
                 with or without a limit: \"slower > 1%\""
            ),
        };
        let over = match limit {
            None => 0.0,
            Some(limit) => {
                let number = limit.strip_suffix('%').map(str::trim).and_then(|n| n.parse::<f64>().ok());
                match number.filter(|n| n.is_finite() && *n >= 0.0) {
                    Some(number) => number / 100.0,
                    None => bail!("--fail-if {text:?}: the limit is a percentage, as in \"slower > 1%\""),
                }
            }
        };
        gates.push(Gate { what, over, text: text.to_owned() });
    }
    Ok(gates)
}

/// The first gate that is hit, in words; without gates a variant that is slower, and not negligibly.
pub fn hit(gates: &[Gate], result: &Measurement) -> Option<String> {
    if gates.is_empty() {
        let slower = result.comparisons.iter().find(|c| is_slower(c))?;
        return Some(format!("{} is slower", slower.variant));
    }
    gates.iter().find_map(|gate| gate.hit(result))
}

impl Gate {
    fn hit(&self, result: &Measurement) -> Option<String> {
        match self.what {
            What::Verdict(verdict) => {
                let there = |c: &&compare::result::Compared| {
                    c.verdict == verdict && ((c.effect - 1.0).abs() > self.over || self.over == 0.0)
                };
                let c = result.comparisons.iter().find(there)?;
                let change = (c.effect - 1.0) * 100.0;
                Some(format!("--fail-if {:?}: {} on {} ({change:+.1} %)", self.text, c.variant, c.benchmark))
            }
            What::Size(section) => {
                let of = |v: &compare::result::Variant| {
                    v.sizes.map(|s| match section {
                        Section::Text => s.text,
                        Section::Data => s.data,
                        Section::Bss => s.bss,
                    })
                };
                let base = of(result.variants.first()?)?;
                let larger = |v: &&compare::result::Variant| {
                    of(v).is_some_and(|size| size as f64 > base as f64 * (1.0 + self.over))
                };
                let v = result.variants.iter().skip(1).find(larger)?;
                Some(format!("--fail-if {:?}: {} has {} bytes, the base {base}", self.text, v.name, of(v)?))
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
            assert!(parse(&[wrong.into()]).unwrap_err().to_string().contains("--fail-if"), "{wrong}");
        }
    }
}
