//! The images of a project, where it has libraries: what each gave to the profile, and what became
//! of it.

use super::{LaidOut, Matched, Profile, Program};
use crate::Evidence;
use crate::numbers::{bytes, count, pct};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// The program or a library of a project.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImageFound {
    /// File name.
    pub name: String,
    /// Path below `$PLANISH_OUT`.
    pub path: String,
    /// Samples in it.
    pub samples: u64,
    /// Their share in those of all images of the project, 0 to 1.
    pub share: f64,
    /// Executions of branches seen with at least one end in it.
    pub branches: u64,
    /// Its own profile.
    pub profile: Profile,
    /// How much of that fits the rebuilt image.
    pub matched: Matched,
    /// What it is in each variant: the variant's name, the file. The baseline comes first.
    pub programs: Vec<(String, Program)>,
    /// Its layout, where one was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<LaidOut>,
}

impl ImageFound {
    /// Whether any of its functions was seen running. Its start-up code runs in any case.
    pub fn ran(&self) -> bool {
        self.matched.functions > 0
    }

    /// Machine code of a variant beside that of the baseline; none where there is no such variant.
    fn growth(&self, program: &Program) -> String {
        let base = self.programs.first().map_or(0, |(_, base)| base.code_bytes);
        let change = program.code_bytes as f64 / base.max(1) as f64 - 1.0;
        format!("{} ({:+.1} %)", bytes(program.code_bytes as f64), change * 100.0)
    }

    /// One line for a terminal.
    pub(super) fn words(&self) -> String {
        if !self.ran() {
            return "no sample hit its functions: built with the others, without a profile"
                .to_owned();
        }
        let mut text = format!(
            "{} of the samples ({}); {} of {} profiled functions found",
            pct(self.share),
            count(self.samples),
            count(self.matched.functions_matched),
            count(self.matched.functions)
        );
        if let Some(layout) = &self.layout {
            let _ = write!(text, "; {}", layout.words());
        }
        let last = self.programs.last().filter(|_| self.programs.len() > 1);
        if let Some((name, program)) = last {
            let _ = write!(text, "; machine code of {name} {}", self.growth(program));
        }
        text
    }
}

/// The images in a report.
pub(super) fn markdown(images: &[ImageFound], text: &mut String) {
    if images.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "## Images\n\n| image | samples | share | branches | profiled functions found | laid out \
         |\n|---|---:|---:|---:|---:|---|"
    );
    for image in images {
        let functions = format!(
            "{} of {}",
            count(image.matched.functions_matched),
            count(image.matched.functions)
        );
        let layout = match &image.layout {
            _ if !image.ran() => "no sample hit its functions".to_owned(),
            Some(layout) => layout.words(),
            None => String::new(),
        };
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {functions} | {layout} |",
            image.path,
            count(image.samples),
            pct(image.share),
            count(image.branches)
        );
    }
    let names = images.first().map(|image| &image.programs[..]).unwrap_or_default();
    let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
    let _ = writeln!(
        text,
        "\n| machine code | {} |\n|---|{}",
        names.join(" | "),
        "---:|".repeat(names.len())
    );
    for image in images {
        let cells: Vec<String> =
            image.programs.iter().map(|(_, program)| image.growth(program)).collect();
        let _ = writeln!(text, "| `{}` | {} |", image.path, cells.join(" | "));
    }
    let _ = writeln!(text);
    for image in images.iter().filter(|image| image.ran()) {
        if let Some(Evidence { line, .. }) = &image.profile.evidence {
            let _ = writeln!(text, "- `{}`: {line}", image.path);
        }
    }
    let _ = writeln!(text);
}
