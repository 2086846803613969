//! What `planish optimize` did and gained, and how it is told.

use crate::compare::{self, ratio_words};
use crate::numbers::{bytes, count, pct};
use crate::style::{Colour, Style};
use ::compare::result::Measurement;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// The whole way from a program to a faster one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Optimization {
    /// `planish-optimize`.
    pub schema: String,
    /// Version of this form.
    pub version: u32,
    /// Version of planish.
    pub planish: String,
    /// Where it was done.
    pub machine: Machine,
    /// What was built.
    pub build: Build,
    /// What was recorded.
    pub recordings: Vec<Recording>,
    /// What the compiler was given.
    pub profile: Profile,
    /// How much of it fits the rebuilt program.
    pub matched: Matched,
    /// The measurements, one for each evaluation command.
    pub measurements: Vec<Measurement>,
    /// Taken branches of both programs, where they were counted.
    pub branches: Vec<Branches>,
    /// How long each step took and what it said.
    pub stages: Vec<Stage>,
    /// What must be known.
    pub warnings: Vec<String>,
}

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// CPU model.
    pub cpu: String,
    /// CPUs usable.
    pub cpus: usize,
    /// Kernel release.
    pub kernel: String,
}

/// The two builds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Build {
    /// The command.
    pub command: String,
    /// First line of the compiler's version.
    pub compiler: String,
    /// Flags of the baseline.
    pub base_flags: String,
    /// Flags of the rebuild.
    pub opt_flags: String,
    /// The baseline.
    pub base: Program,
    /// The rebuild.
    pub opt: Program,
}

/// One built program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Its file.
    pub path: String,
    /// Build ID, hexadecimal.
    pub build_id: Option<String>,
    /// Bytes of machine code.
    pub code_bytes: u64,
}

/// One recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The training command.
    pub command: String,
    /// Size of the perf.data file.
    pub file_bytes: u64,
}

/// The profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Its file.
    pub path: String,
    /// Size of the file.
    pub file_bytes: u64,
}

/// How much of the profile the rebuilt program knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Matched {
    /// Functions in the profile.
    pub functions: u64,
    /// Functions the rebuild has.
    pub functions_matched: u64,
    /// Samples in the profile.
    pub samples: u64,
    /// Samples of functions the rebuild has.
    pub samples_matched: u64,
    /// The largest missing ones.
    pub largest_unmatched: Vec<(String, u64)>,
    /// The likely cause, when much is missing.
    pub cause: Option<String>,
}

/// Taken branches under emulation: a count that does not depend on the machine's noise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Branches {
    /// The command.
    pub command: String,
    /// Taken branches of the baseline.
    pub base: u64,
    /// Taken branches of the rebuild.
    pub opt: u64,
}

/// One step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// The step's name.
    pub name: String,
    /// Its command.
    pub command: String,
    /// Its duration when it last ran.
    pub seconds: f64,
    /// What planish's own stages said (sample ledger, warnings).
    pub said: Vec<String>,
}

/// The deciding metric of the first benchmark, in words.
fn metric_words(measurement: &Measurement) -> &str {
    let first = measurement.benchmarks.first().and_then(|benchmark| benchmark.metrics.first());
    first.map_or("", |metric| metric.words.as_str())
}

impl Matched {
    fn words(&self) -> String {
        let share = |part: u64, whole: u64| pct(part as f64 / whole.max(1) as f64);
        format!(
            "{} of {} profiled functions, {} of the samples",
            count(self.functions_matched),
            count(self.functions),
            share(self.samples_matched, self.samples)
        )
    }
}

impl Optimization {
    /// For a terminal: the result, not the way.
    pub fn terminal(&self, style: Style) -> String {
        let mut text = String::new();
        for measurement in &self.measurements {
            text.push_str(&compare::terminal(measurement, &[], style));
        }
        for b in &self.branches {
            let ratio = format!("{:.3}", b.opt as f64 / b.base.max(1) as f64);
            let (opt, base) = (count(b.opt), count(b.base));
            let _ = writeln!(
                text,
                "  taken branches: {ratio} of the baseline's ({opt} of {base}; emulated, exact)"
            );
        }
        let _ = writeln!(text, "  profile fits the rebuild: {}", self.matched.words());
        for warning in &self.warnings {
            let _ = writeln!(text, "  {} {warning}", style.paint(Colour::Care, "note:"));
        }
        text
    }

    /// The report file.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "# {}\n", self.headline());
        let _ = writeln!(text, "## Measured\n");
        for measurement in &self.measurements {
            let _ = writeln!(text, "{}", compare::markdown(measurement));
        }
        self.markdown_branches(&mut text);
        self.markdown_build(&mut text);
        self.markdown_profile(&mut text);
        if !self.warnings.is_empty() {
            let _ = writeln!(text, "## Notes\n");
            for warning in &self.warnings {
                let _ = writeln!(text, "- {warning}");
            }
            let _ = writeln!(text);
        }
        self.markdown_stages(&mut text);
        text
    }

    fn headline(&self) -> String {
        let name = |program: &Program| {
            program.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".opt").to_owned()
        };
        let Some(first) = self.measurements.first().and_then(|m| Some((m, m.comparisons.first()?))) else {
            return format!("{}: not measured", name(&self.build.opt));
        };
        let (measurement, compared) = first;
        format!(
            "{}, rebuilt with its profile: {} {}",
            name(&self.build.opt),
            metric_words(measurement),
            ratio_words(compared)
        )
    }

    fn markdown_branches(&self, text: &mut String) {
        if self.branches.is_empty() {
            return;
        }
        let _ = writeln!(text, "Taken branches, counted exactly under emulation:\n");
        let _ = writeln!(text, "| command | baseline | rebuilt | ratio |\n|---|---:|---:|---:|");
        for b in &self.branches {
            let ratio = b.opt as f64 / b.base.max(1) as f64;
            let _ = writeln!(text, "| `{}` | {} | {} | {ratio:.3} |", b.command, count(b.base), count(b.opt));
        }
        let _ = writeln!(text);
    }

    fn markdown_build(&self, text: &mut String) {
        let b = &self.build;
        let _ = writeln!(text, "## Built\n\n| | baseline | rebuilt |\n|---|---|---|");
        let row = |name: &str, base: &str, opt: &str| format!("| {name} | {base} | {opt} |");
        let id = |p: &Program| p.build_id.clone().map_or("none".to_owned(), |id| format!("`{id}`"));
        let _ =
            writeln!(text, "{}", row("file", &format!("`{}`", b.base.path), &format!("`{}`", b.opt.path)));
        let _ = writeln!(text, "{}", row("build ID", &id(&b.base), &id(&b.opt)));
        let code = |p: &Program| bytes(p.code_bytes as f64);
        let _ = writeln!(text, "{}", row("machine code", &code(&b.base), &code(&b.opt)));
        let flags = |flags: &str| format!("`{flags}`");
        let _ = writeln!(text, "{}\n", row("flags", &flags(&b.base_flags), &flags(&b.opt_flags)));
        let _ = writeln!(text, "- command: `{}`\n- compiler: {}", b.command, b.compiler);
        let m = &self.machine;
        let _ = writeln!(
            text,
            "- machine: {}, {} CPUs, Linux {}\n- planish {}\n",
            m.cpu, m.cpus, m.kernel, self.planish
        );
    }

    fn markdown_profile(&self, text: &mut String) {
        let _ = writeln!(text, "## Recorded and profiled\n");
        for r in &self.recordings {
            let _ = writeln!(text, "- `{}`: {} of perf.data", r.command, bytes(r.file_bytes as f64));
        }
        let p = &self.profile;
        let _ = writeln!(text, "- `{}`: {}", p.path, bytes(p.file_bytes as f64));
        let _ = writeln!(text, "- the rebuilt program has {}", self.matched.words());
        for (name, samples) in &self.matched.largest_unmatched {
            let _ = writeln!(text, "  - missing: `{name}` ({} samples)", count(*samples));
        }
        if let Some(cause) = &self.matched.cause {
            let _ = writeln!(text, "  - likely cause: {cause}");
        }
        let _ = writeln!(text);
    }

    fn markdown_stages(&self, text: &mut String) {
        let _ = writeln!(text, "## Steps\n\n| step | time | command |\n|---|---:|---|");
        for stage in &self.stages {
            let command = stage.command.replace('|', "\\|").replace('\n', " ");
            let _ = writeln!(text, "| {} | {:.1} s | `{command}` |", stage.name, stage.seconds);
        }
        for stage in self.stages.iter().filter(|s| !s.said.is_empty()) {
            let _ = writeln!(text, "\n{} said:\n\n```\n{}\n```", stage.name, stage.said.join("\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::compare::result::{Benchmark, Compared, Direction, MetricInfo, Verdict};

    fn sample() -> Measurement {
        let metric = MetricInfo {
            name: "cpu".into(),
            words: "CPU time (user + system)".into(),
            unit: "ns".into(),
            better: Direction::Lower,
        };
        let benchmark = Benchmark {
            name: "eval".into(),
            command: "{bin} eval 130".into(),
            parameters: Default::default(),
            metrics: vec![metric],
        };
        let json = serde_json::json!({
            "schema": "planish-compare", "version": 2, "planish": "0.1.0", "seed": 1, "margin": 0.01,
            "correction": "holm", "machines": [], "benchmarks": [], "variants": [], "comparisons": [],
            "interrupted": false, "raw": [], "warnings": []
        });
        let mut sample: Measurement = serde_json::from_value(json).unwrap();
        sample.benchmarks = vec![benchmark];
        sample.comparisons = vec![Compared {
            verdict: Verdict::Faster,
            effect: 0.9204,
            interval: Some([0.903, 0.934]),
            ..compared()
        }];
        sample
    }

    fn compared() -> Compared {
        serde_json::from_value(serde_json::json!({
            "machine": "m", "benchmark": "eval", "metric": "cpu", "base": "app.base", "variant": "app.opt",
            "verdict": "same", "negligible": false, "sentence": "this binary is faster", "effect": 1.0,
            "interval": null, "p_value": 0.0001, "p_corrected": 0.0001, "n": 30,
            "as_built": { "ratio": 0.9204, "interval": [0.903, 0.934], "p_value": 0.0001 },
            "base_median": 5e8, "variant_median": 4.6e8, "spread": [0.01, 0.01], "smallest_effect": 0.01,
            "warnings": []
        }))
        .unwrap()
    }

    fn report() -> Optimization {
        let program =
            |path: &str| Program { path: path.into(), build_id: Some("ab12".into()), code_bytes: 2048 };
        Optimization {
            schema: "planish-optimize".into(),
            version: 1,
            planish: "0.1.0".into(),
            machine: Machine::default(),
            build: Build {
                base: program(".planish/app.base"),
                opt: program(".planish/app.opt"),
                ..Build::default()
            },
            recordings: vec![Recording { command: "app train".into(), file_bytes: 1 << 20 }],
            profile: Profile::default(),
            matched: Matched {
                functions: 10,
                functions_matched: 9,
                samples: 1000,
                samples_matched: 990,
                ..Matched::default()
            },
            measurements: vec![sample()],
            branches: vec![Branches { command: "app eval".into(), base: 2000, opt: 1100 }],
            stages: vec![Stage {
                name: "build".into(),
                command: "sh -c 'a | b'".into(),
                seconds: 1.0,
                said: vec![],
            }],
            warnings: vec!["careful".into()],
        }
    }

    #[test]
    fn the_report_opens_with_the_result() {
        let text = report().markdown();
        let first =
            "# app, rebuilt with its profile: CPU time (user + system) 0.920 (95 % interval 0.903 to 0.934)";
        assert_eq!(text.lines().next(), Some(first));
        assert!(text.contains("| `app eval` | 2,000 | 1,100 | 0.550 |"), "{text}");
        assert!(text.contains("9 of 10 profiled functions, 99.0 % of the samples"), "{text}");
        assert!(text.contains("a \\| b"), "{text}");
    }

    #[test]
    fn the_terminal_shows_branches_and_notes() {
        let text = report().terminal(Style::default());
        assert!(text.contains("taken branches: 0.550 of the baseline's"), "{text}");
        assert!(text.contains("note: careful"), "{text}");
    }
}
