//! The programs beside baseline and rebuild, and the layout of one of them.

use super::{Optimization, Program};
use crate::layout::{LayoutSummary, VerifyResult};
use crate::numbers::{bytes, count, counted};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// A program that was built and measured beside baseline and rebuild.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// `opt2`, `layout`, `rest`, `pgo`, `bolt`, `pgo-bolt`, `pgo-layout`, `release`.
    pub name: String,
    /// What it is.
    pub program: Program,
    /// Its compiler flags; for `bolt` the arguments of llvm-bolt.
    pub flags: String,
}

/// What a relink did with the objects of the build before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objects {
    /// Taken as they were, because the layout says nothing about them.
    pub reused: u64,
    /// Compiled with their part of the layout.
    pub laid_out: u64,
    /// Compiled because they were not kept, or what they were made from changed.
    pub compiled: u64,
}

/// A layout that was applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaidOut {
    /// What it is worth.
    pub summary: LayoutSummary,
    /// How much of it is in the program.
    pub verified: VerifyResult,
    /// The objects, where they were counted.
    pub objects: Option<Objects>,
}

impl LaidOut {
    /// One line.
    pub(super) fn words(&self) -> String {
        let v = &self.verified;
        let mut text = format!(
            "{} in {}; {} of {} sections in order",
            counted(self.summary.functions, "function", "functions"),
            counted(self.summary.clusters, "cluster", "clusters"),
            count(v.in_order),
            count(v.asked)
        );
        if v.not_checked.0 > 0 {
            let functions = counted(v.not_checked.0, "function", "functions");
            let _ = write!(text, "; {functions} not looked for, since names are shared");
        }
        if let Some(objects) = self.objects {
            let _ = write!(text, "; {}", objects.words());
        }
        text
    }

    pub(super) fn markdown(&self, text: &mut String) {
        let (s, v) = (&self.summary, &self.verified);
        let _ = writeln!(text, "## Laid out\n\n{}.\n", self.words());
        let _ = writeln!(text, "| computed from the recording | before | after |\n|---|---:|---:|");
        let scores =
            |name: &str, before: f64, after: f64| format!("| {name} | {before:.0} | {after:.0} |");
        let counts = |name: &str, before: u64, after: u64| {
            format!("| {name} | {} | {} |", count(before), count(after))
        };
        for row in [
            scores("Ext-TSP score within functions", s.before.score_within, s.after.score_within),
            scores("Ext-TSP score of calls", s.before.score_calls, s.after.score_calls),
            counts("taken branches within functions", s.before.taken, s.after.taken),
            counts("fall-throughs within functions", s.before.fall_throughs, s.after.fall_throughs),
            counts("pages of 4 KiB touched", s.before.pages_4k.0, s.after.pages_4k.0),
            counts(
                "pages of 4 KiB with 90 % of the executions",
                s.before.pages_4k.1,
                s.after.pages_4k.1,
            ),
            counts("superpages (2 MiB) touched", s.before.pages_2m.0, s.after.pages_2m.0),
            counts(
                "superpages with 90 % of the executions",
                s.before.pages_2m.1,
                s.after.pages_2m.1,
            ),
        ] {
            let _ = writeln!(text, "{row}");
        }
        let _ = writeln!(
            text,
            "\nThe sections asked for hold {}; in the program they span {}.",
            bytes(v.hot_bytes.0 as f64),
            bytes(v.hot_bytes.1 as f64)
        );
        for (symbol, deviation) in &v.first {
            let _ = writeln!(text, "- `{symbol}`: {deviation}");
        }
        if v.deviations > v.first.len() as u64 {
            let _ = writeln!(text, "- and {} more", count(v.deviations - v.first.len() as u64));
        }
        let _ = writeln!(text);
    }
}

impl Objects {
    fn words(self) -> String {
        let objects = |n| counted(n, "object", "objects");
        let mut text = format!("{} compiled for it", objects(self.laid_out));
        if self.compiled > 0 {
            let _ =
                write!(text, ", {} compiled again, as no kept one fitted", objects(self.compiled));
        }
        let _ = write!(text, ", {} reused", objects(self.reused));
        text
    }
}

impl Optimization {
    /// Ending of the file of the program that all the steps led to.
    pub fn result(&self) -> &str {
        self.result_path().rsplit('/').next().unwrap_or_default()
    }

    /// Whether a program of the measurements is the project's own release build.
    pub(super) fn is_release(&self, program: &str) -> bool {
        let mut own = self.variants.iter().filter(|variant| variant.name == "release");
        own.any(|variant| variant.program.path.rsplit('/').next() == Some(program))
    }

    /// Its file, from the directory of planish.toml.
    pub fn result_path(&self) -> &str {
        // Each is made from the one before it.
        let own = ["rest", "layout", "opt2"];
        let last = own.iter().find_map(|name| self.variants.iter().find(|v| v.name == *name));
        let program = last.map_or(&self.build.opt, |variant| &variant.program);
        &program.path
    }

    /// The programs of the table of builds: what, program, flags.
    pub(super) fn columns(&self) -> Vec<(&str, &Program, &str)> {
        let build = &self.build;
        let two = [
            ("baseline", &build.base, build.base_flags.as_str()),
            ("rebuilt", &build.opt, build.opt_flags.as_str()),
        ];
        let more = self.variants.iter().map(|v| (v.name.as_str(), &v.program, v.flags.as_str()));
        two.into_iter().chain(more).collect()
    }
}
