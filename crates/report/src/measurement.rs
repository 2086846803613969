//! What a comparison of binaries found, and how it is told.

use crate::numbers::{pct, value};
use crate::style::{Colour, Style};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// What `planish compare` found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// `planish-compare`.
    pub schema: String,
    /// Version of this form.
    pub version: u32,
    /// The command, with `{bin}`.
    pub command: String,
    /// The metric as it was given.
    pub metric: String,
    /// The metric in words.
    pub metric_words: String,
    /// `ns`, `bytes` or nothing.
    pub unit: String,
    /// Seed of the schedule.
    pub seed: u64,
    /// The file with every run, when one was written.
    pub raw: Option<String>,
    /// True when the user stopped the measurement early.
    pub interrupted: bool,
    /// Each binary by itself, the base first.
    pub variants: Vec<Summary>,
    /// Every other binary against the base.
    pub comparisons: Vec<Compared>,
    /// What concerns the whole measurement.
    pub warnings: Vec<String>,
}

/// One binary's runs by themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The name.
    pub name: String,
    /// Median of the metric.
    pub median: f64,
    /// Robust relative spread of the runs (1.4826 × median absolute deviation / median).
    pub spread: f64,
}

/// The verdict on two binaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// This binary is faster than the base.
    Faster,
    /// It is slower.
    Slower,
    /// The same within the margin.
    Same,
    /// Nothing was shown.
    Undecided,
}

/// One binary against the base.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// The base.
    pub base: String,
    /// The binary.
    pub variant: String,
    /// The verdict.
    pub verdict: Verdict,
    /// True when the difference is certain but within the margin.
    pub negligible: bool,
    /// Binary / base.
    pub ratio: f64,
    /// Lower end of the 95 % interval.
    pub low: Option<f64>,
    /// Upper end of the 95 % interval.
    pub high: Option<f64>,
    /// p-value of the randomisation test.
    pub p_value: f64,
    /// Rounds used.
    pub n: usize,
    /// Median of the base.
    pub base_median: f64,
    /// Median of the binary.
    pub variant_median: f64,
    /// What must be known about it.
    pub warnings: Vec<String>,
}

impl Verdict {
    /// What the verdict means, as a sentence about the two binaries.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Faster => "this binary is faster",
            Verdict::Slower => "this binary is slower",
            Verdict::Same => "the two are the same within the margin",
            Verdict::Undecided => "undecided: the runs show no difference and do not rule one out",
        }
    }

    fn colour(self) -> Colour {
        match self {
            Verdict::Faster => Colour::Good,
            Verdict::Slower => Colour::Bad,
            Verdict::Same => Colour::Strong,
            Verdict::Undecided => Colour::Care,
        }
    }
}

impl Compared {
    /// `0.921 (95 % interval 0.903 to 0.934)`.
    pub fn ratio_words(&self) -> String {
        match (self.low, self.high) {
            (Some(low), Some(high)) => format!("{:.3} (95 % interval {low:.3} to {high:.3})", self.ratio),
            _ => format!("{:.3} (too few rounds for an interval)", self.ratio),
        }
    }

    /// The verdict, with what limits it.
    pub fn verdict_words(&self) -> String {
        let limit = if self.negligible { ", but by a negligible amount" } else { "" };
        format!("{}{limit}", self.verdict.words())
    }
}

impl Measurement {
    /// For a terminal.
    pub fn terminal(&self, style: Style) -> String {
        let mut text = String::new();
        let width = self.variants.iter().map(|v| v.name.chars().count()).max().unwrap_or(0);
        for summary in &self.variants {
            let middle = value(summary.median, &self.unit);
            let _ = writeln!(text, "  {:width$}  {middle:>10}  ± {}", summary.name, pct(summary.spread));
        }
        for c in &self.comparisons {
            let verdict = style.paint(c.verdict.colour(), &c.verdict_words());
            let _ =
                writeln!(text, "{} against {}: {verdict}", style.paint(Colour::Strong, &c.variant), c.base);
            let p = p_words(c.p_value);
            let _ =
                writeln!(text, "  ratio of {} {}, {} rounds, {p}", self.metric_words, c.ratio_words(), c.n);
            c.warnings.iter().for_each(|w| warn(&mut text, style, w));
        }
        if self.interrupted {
            warn(&mut text, style, "interrupted: only the rounds finished before were used");
        }
        self.warnings.iter().for_each(|w| warn(&mut text, style, w));
        if let Some(raw) = &self.raw {
            let _ = writeln!(text, "{}", style.paint(Colour::Faint, &format!("  every run: {raw}")));
        }
        text
    }

    /// A section of a Markdown report.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "`{}`\n", self.command);
        let _ = writeln!(text, "| program | median {} | spread |\n|---|---:|---:|", self.metric_words);
        for v in &self.variants {
            let _ = writeln!(text, "| {} | {} | ± {} |", v.name, value(v.median, &self.unit), pct(v.spread));
        }
        let _ = writeln!(
            text,
            "\n| compared | ratio | 95 % interval | rounds | p | verdict |\n|---|---:|---|---:|---:|---|"
        );
        for c in &self.comparisons {
            let interval = match (c.low, c.high) {
                (Some(low), Some(high)) => format!("{low:.3} to {high:.3}"),
                _ => "none".into(),
            };
            let (p, verdict) = (p_words(c.p_value), c.verdict_words());
            let _ = writeln!(
                text,
                "| {} / {} | {:.3} | {interval} | {} | {p} | {verdict} |",
                c.variant, c.base, c.ratio, c.n
            );
        }
        let _ = writeln!(text);
        let own = self.comparisons.iter().flat_map(|c| &c.warnings);
        for warning in own.chain(&self.warnings) {
            let _ = writeln!(text, "- {warning}");
        }
        if let Some(raw) = &self.raw {
            let _ = writeln!(text, "- every run: `{raw}` (seed {})", self.seed);
        }
        text
    }
}

fn p_words(p: f64) -> String {
    if p < 0.001 { "p < 0.001".into() } else { format!("p = {p:.3}") }
}

fn warn(text: &mut String, style: Style, warning: &str) {
    let _ = writeln!(text, "  {} {warning}", style.paint(Colour::Care, "note:"));
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> Measurement {
        let compared = Compared {
            base: "app.base".into(),
            variant: "app.opt".into(),
            verdict: Verdict::Faster,
            negligible: false,
            ratio: 0.9204,
            low: Some(0.903),
            high: Some(0.934),
            p_value: 0.0001,
            n: 30,
            base_median: 5e8,
            variant_median: 4.6e8,
            warnings: vec!["one thing".into()],
        };
        let summary = |name: &str, median| Summary { name: name.into(), median, spread: 0.012 };
        Measurement {
            schema: "planish-compare".into(),
            version: 1,
            command: "{bin} eval 130".into(),
            metric: "cpu".into(),
            metric_words: "CPU time (user + system)".into(),
            unit: "ns".into(),
            seed: 1,
            raw: Some("runs.jsonl".into()),
            interrupted: false,
            variants: vec![summary("app.base", 5e8), summary("app.opt", 4.6e8)],
            comparisons: vec![compared],
            warnings: vec![],
        }
    }

    #[test]
    fn a_terminal_shows_ratio_interval_and_verdict_without_colours_unless_wanted() {
        let text = sample().terminal(Style::default());
        assert!(text.contains("app.opt against app.base: this binary is faster"), "{text}");
        assert!(text.contains("0.920 (95 % interval 0.903 to 0.934), 30 rounds, p < 0.001"), "{text}");
        assert!(text.contains("note: one thing") && !text.contains('\x1b'), "{text}");
        assert!(sample().terminal(Style { colour: true }).contains("\x1b[32mthis binary is faster\x1b[0m"));
    }

    #[test]
    fn the_json_form_is_read_back() {
        let json = serde_json::to_string(&sample()).unwrap();
        assert!(json.contains(r#""verdict":"faster""#), "{json}");
        assert_eq!(serde_json::from_str::<Measurement>(&json).unwrap(), sample());
    }
}
