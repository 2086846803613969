//! What `planish optimize` did and gained, and how it is told.

mod conclusion;
mod images;
mod page;
#[cfg(test)]
mod tests;
mod variants;

pub use conclusion::Advised;
pub use images::ImageFound;
pub use variants::{LaidOut, Objects, Variant};

use crate::compare;
use crate::numbers::{bytes, count, counted, pct};
use crate::style::{Colour, Style};
use ::compare::result::{Compared, Measurement};
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
    pub machine: ReportMachine,
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
    /// What the layout added to the profile: both programs in the runs of each measurement, the
    /// profile alone as base.
    #[serde(default)]
    pub last_step: Vec<Compared>,
    /// The result beside the project's own release build, in the runs of each measurement; that
    /// build as base. Empty where it was not made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside_release: Vec<Compared>,
    /// Taken branches of the programs, where they were counted.
    pub branches: Vec<Branches>,
    /// The other programs.
    #[serde(default)]
    pub variants: Vec<Variant>,
    /// The layout, where one was made.
    #[serde(default)]
    pub layout: Option<LaidOut>,
    /// The program and its libraries, where the project has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageFound>,
    /// How long each step took and what it said.
    pub stages: Vec<Stage>,
    /// Which program to take; absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub take: Option<Take>,
    /// What must be known.
    pub warnings: Vec<String>,
}

/// The program that the measurements speak for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Take {
    /// `result`: what all steps led to; `before`: the program that the last step made slower;
    /// `release`: the project's own release build; `baseline`: the program without profile.
    pub which: String,
    /// Its file, relative to the directory of planish.toml.
    pub path: String,
    /// The libraries of the project that it was measured with, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<String>,
    /// Whether it is shown to be faster than the baseline on some command, and slower on none.
    pub faster: bool,
}

impl Take {
    /// Whether it is another program than the baseline, and not shown to be faster.
    pub fn is_a_guess(&self) -> bool {
        !self.faster && self.which != "baseline"
    }

    /// Which file it is, and what to know of it, in a line.
    pub fn words(&self) -> String {
        let mut told = format!("program: {}", self.path);
        if !self.libraries.is_empty() {
            let _ = write!(told, ", with {}", self.libraries.join(", "));
        }
        if self.is_a_guess() {
            told.push_str(" (not shown to be faster than the program without a profile)");
        }
        told
    }
}

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportMachine {
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
    /// How long the command takes without being recorded, where that was found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Samples in the program; branch stacks where it was recorded with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Its share in the profile: by weighted executions of branches, or by samples where each
    /// command was recorded once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

impl Recording {
    /// A row of the table of what was recorded.
    fn row(&self) -> String {
        let cell = |text: Option<String>| text.unwrap_or_default();
        format!(
            "| `{}` | {} | {} | {} | {} |",
            self.command.replace('|', "\\|"),
            cell(self.seconds.map(|seconds| format!("{seconds:.1} s"))),
            cell(self.samples.map(count)),
            cell(self.share.map(pct)),
            bytes(self.file_bytes as f64)
        )
    }
}

/// The profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Its file.
    pub path: String,
    /// Size of the file.
    pub file_bytes: u64,
    /// Whether the samples are enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<crate::Evidence>,
    /// How the training was recorded, and whether its profile is stable; absent where each command
    /// was recorded once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<crate::training::Trained>,
}

/// How much of the profile the rebuilt program's compiler used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Matched {
    /// Functions in the profile.
    pub functions: u64,
    /// Those whose names the compiler itself knows.
    pub functions_matched: u64,
    /// Samples in the profile.
    pub samples: u64,
    /// Samples of these.
    pub samples_matched: u64,
    /// The largest missing ones.
    pub largest_unmatched: Vec<(String, u64)>,
    /// The likely cause, when much is missing.
    pub cause: Option<String>,
    /// What else shows that the compiler used the profile, in words.
    #[serde(default)]
    pub evidence: String,
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
    /// Those of the other programs, by name.
    #[serde(default)]
    pub others: Vec<(String, u64)>,
}

impl Branches {
    /// The programs besides the baseline: name, taken branches.
    fn rebuilt(&self) -> impl Iterator<Item = (&str, u64)> {
        let others = self.others.iter().map(|(name, taken)| (name.as_str(), *taken));
        std::iter::once(("opt", self.opt)).chain(others)
    }

    fn ratio(&self, taken: u64) -> String {
        format!("{:.3}", taken as f64 / self.base.max(1) as f64)
    }
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
        let found = format!(
            "{} of {} profiled functions (inlined ones too), {} of the samples",
            count(self.functions_matched),
            count(self.functions),
            share(self.samples_matched, self.samples)
        );
        // Reports of earlier versions have no evidence.
        if self.evidence.is_empty() { found } else { format!("{found}; {}", self.evidence) }
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
            for (name, taken) in b.rebuilt() {
                let of = if b.others.is_empty() { String::new() } else { format!(" of {name}") };
                let of = match self.branches.len() {
                    1 => of,
                    _ => format!("{of} ({})", b.command),
                };
                let _ = writeln!(
                    text,
                    "  taken branches{of}: {} of the baseline's ({} of {}; emulated, exact)",
                    b.ratio(taken),
                    count(taken),
                    count(b.base)
                );
            }
        }
        if let Some(layout) = &self.layout {
            let _ = writeln!(text, "  layout: {}", layout.words());
        }
        for image in &self.images {
            let _ = writeln!(text, "  {}: {}", image.path, image.words());
        }
        if let Some(evidence) = &self.profile.evidence {
            let _ = writeln!(text, "  recorded: {}", evidence.line);
        }
        if let Some(training) = &self.profile.training {
            let _ = writeln!(text, "  {}", training.line);
        }
        let _ = writeln!(text, "  the compiler found by name: {}", self.matched.words());
        for warning in &self.warnings {
            let _ = writeln!(text, "  {} {warning}", style.paint(Colour::Care, "note:"));
        }
        for line in self.conclusion() {
            let _ = writeln!(text, "  {} {line}", style.paint(Colour::Strong, "result:"));
        }
        text
    }

    /// The report file.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "# {}\n", self.headline());
        let take = self.take.as_ref().map(Take::words);
        for line in self.conclusion().into_iter().chain(take) {
            let _ = writeln!(text, "- {line}");
        }
        let _ = writeln!(text);
        let _ = writeln!(text, "## Measured\n");
        for measurement in &self.measurements {
            let _ = writeln!(text, "{}", compare::markdown(measurement));
        }
        self.markdown_branches(&mut text);
        if let Some(layout) = &self.layout {
            layout.markdown(&mut text);
        }
        images::markdown(&self.images, &mut text);
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
        let result = self.result();
        let name = result.rsplit_once('.').map_or(result, |(name, _)| name);
        let Some((first, compared)) = self.measurements.first().and_then(|first| {
            Some((first, first.comparisons.iter().find(|c| c.variant == result)?))
        }) else {
            return format!("{name}: not measured");
        };
        let how = match self.layout {
            Some(_) => "profile and a layout",
            None if result.ends_with(".rest") => "profile and BOLT",
            None => "profile",
        };
        let what = |compared| conclusion::verdict_words(metric_words(first), compared);
        let baseline = what(compared);
        let told = match conclusion::of_command(&self.beside_release, first) {
            Some(release) => format!(
                "beside its own release build {}; beside the baseline {baseline}",
                what(release)
            ),
            None => baseline,
        };
        let others = match self.measurements.len() {
            0 | 1 => String::new(),
            n => format!(" (the first of {n} evaluation commands)"),
        };
        format!("{name}, rebuilt with its {how}: {told}{others}")
    }

    fn markdown_branches(&self, text: &mut String) {
        if self.branches.is_empty() {
            return;
        }
        let _ = writeln!(text, "Taken branches, counted exactly under emulation:\n");
        let _ =
            writeln!(text, "| command | program | taken branches | ratio |\n|---|---|---:|---:|");
        for b in &self.branches {
            let _ = writeln!(text, "| `{}` | baseline | {} | 1 |", b.command, count(b.base));
            for (name, taken) in b.rebuilt() {
                let name = if name == "opt" { "rebuilt" } else { name };
                let _ = writeln!(text, "| | {name} | {} | {} |", count(taken), b.ratio(taken));
            }
        }
        let _ = writeln!(text);
    }

    fn markdown_build(&self, text: &mut String) {
        let b = &self.build;
        let columns = self.columns();
        let names: Vec<&str> = columns.iter().map(|(name, ..)| *name).collect();
        let _ = writeln!(
            text,
            "## Built\n\n| | {} |\n|---|{}",
            names.join(" | "),
            "---|".repeat(names.len())
        );
        let mut row = |name: &str, cell: &dyn Fn(&Program, &str) -> String| {
            let cells: Vec<String> =
                columns.iter().map(|(_, program, flags)| cell(program, flags)).collect();
            let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
        };
        row("file", &|p, _| format!("`{}`", p.path));
        row("build ID", &|p, _| {
            p.build_id.clone().map_or("none".to_owned(), |id| format!("`{id}`"))
        });
        row("machine code", &|p, _| bytes(p.code_bytes as f64));
        row("flags", &|_, flags| format!("`{flags}`"));
        let _ = writeln!(text);
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
        let _ = writeln!(
            text,
            "| command | takes | samples in the program | share | perf.data |\n|---|---:|---:|---:|---:|"
        );
        for recording in &self.recordings {
            let _ = writeln!(text, "{}", recording.row());
        }
        let _ = writeln!(text);
        let p = &self.profile;
        let _ = writeln!(text, "- `{}`: {}", p.path, bytes(p.file_bytes as f64));
        if let Some(evidence) = &p.evidence {
            let _ = writeln!(text, "- {}", evidence.line);
        }
        if let Some(training) = &p.training {
            let _ = writeln!(text, "- {}", training.line);
        }
        let _ = writeln!(text, "- the compiler found by name {}", self.matched.words());
        for (name, samples) in &self.matched.largest_unmatched {
            let _ = writeln!(
                text,
                "  - missing: `{name}` ({})",
                counted(*samples, "sample", "samples")
            );
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
