//! How is told what sample profiles hold, how they were made, how they differ, and how well an older
//! one fits?

use crate::numbers::numbered;
use crate::{Evidence, Form, visible};
use counts::ImageCounts;
use counts::aggregate::Aggregated;
use counts::contexts::ContextCounts;
use image::debug::Language;
use image::{Image, ImageKind};
use profile::attribute::AttributeReport;
use profile::format::Format;
use profile::matching::MatchReport;
use profile::operations::{
    ColdContexts, Difference, HotFunction, MergeReport, Overlap, Summary, TrimReport,
};
use profile::preinline::PreInlined;
use profile::{FunctionProfile, SampleProfile};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// A profile with what is told of it.
#[derive(Clone, Debug)]
pub struct Shown<'p> {
    /// Its file.
    pub file: &'p Path,
    /// The format of that.
    pub format: Format,
    /// The profile.
    pub profile: &'p SampleProfile,
    /// Its totals and cutoffs.
    pub summary: Summary,
    /// How many functions are hot.
    pub hot: usize,
    /// The hottest.
    pub hottest: &'p [HotFunction],
}

impl Shown<'_> {
    /// As JSON.
    pub fn json(&self) -> Value {
        let Shown { file, format, profile, summary, hot, hottest } = self;
        let provenance = &profile.provenance;
        json!({
            "schema": "planish-profile-show", "version": 1,
            "file": file, "format": format.word(), "summary": summary, "partial": profile.partial,
            "pseudo_probes": profile.is_probe_based(),
            "calling_contexts": profile.context_sensitive,
            "flow_sensitive_discriminators": profile.fs_discriminators,
            "listed_symbols": profile.symbol_list.len(),
            "compilers": provenance.compilers().collect::<Vec<_>>(),
            "build_ids": provenance.build_ids().map(ToString::to_string).collect::<Vec<_>>(),
            "hot_functions": hot, "hottest": hottest,
        })
    }

    /// As lines.
    pub fn text(&self) -> String {
        let Shown { file, format, profile, summary, hot, hottest } = self;
        let provenance = &profile.provenance;
        let mut text = format!("{}: {format}\n", visible(&file.to_string_lossy()));
        // Writing to a string cannot fail.
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            let _ = writeln!(text, "{name:<20} {value}");
        };
        let by = if profile.is_probe_based() { "pseudo probes" } else { "lines" };
        let contexts = if profile.context_sensitive { ", by calling context" } else { "" };
        line("counted by", &format_args!("{by}{contexts}"));
        provenance.compilers().for_each(|release| line("compiler", &visible(release)));
        provenance.build_ids().for_each(|id| line("build ID", id));
        line("functions", &summary.functions);
        line("counts", &summary.counts);
        line("sum of counts", &summary.total_count);
        line("largest count", &summary.max_count);
        line("largest entry count", &summary.max_function_count);
        line("listed symbols", &profile.symbol_list.len());
        text += "\n   cutoff  smallest count     counts\n";
        for cutoff in &summary.cutoffs {
            let percent = f64::from(cutoff.share_millionths) / 10_000.0;
            let _ = writeln!(text, "{percent:>8} %{:>15}{:>11}", cutoff.min_count, cutoff.counts);
        }
        let _ = writeln!(text, "\nhot functions: {hot} (those printed: {})", hottest.len());
        text += "   share           total         entries  name\n";
        for function in *hottest {
            let name = function.name.to_string();
            let (share, name) = (function.share_pct, visible(&name));
            let _ =
                writeln!(text, "{share:>7.2}%{:>16}{:>16}  {name}", function.total, function.head);
        }
        text
    }
}

/// A function with its lines, calls and inlined calls, as JSON.
pub fn function_json(function: &FunctionProfile) -> Form<Value> {
    Form::first("planish-profile-function", inner_json(function))
}

fn inner_json(function: &FunctionProfile) -> Value {
    let body = function.body.iter().map(|(at, sample)| {
        let targets = sample.targets.iter().map(|(name, count)| (name.to_string(), json!(count)));
        json!({
            "line_offset": at.line_offset, "discriminator": at.discriminator, "count": sample.count,
            "calls": targets.collect::<serde_json::Map<String, Value>>(),
        })
    });
    let inlined = function.inlined_calls().map(|(at, callee)| {
        json!({
            "line_offset": at.line_offset, "discriminator": at.discriminator,
            "callee": inner_json(callee),
        })
    });
    json!({
        "name": function.name.to_string(), "total": function.total, "head": function.head,
        "body": body.collect::<Vec<_>>(), "inlined": inlined.collect::<Vec<_>>(),
    })
}

/// How two profiles differ, as JSON.
pub fn difference_json(
    (base, test): (&Path, &Path),
    overlap: &Overlap,
    difference: &Difference,
) -> Form<Value> {
    let value = json!({
        "base": base, "test": test, "overlap": overlap, "functions": difference.functions,
    });
    Form::first("planish-profile-diff", value)
}

/// How two profiles differ, as lines; at most so many functions.
pub fn difference(overlap: &Overlap, difference: &Difference, most: usize) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let mut line = |what: &str, percent: f64, more: String| {
        let _ = writeln!(text, "{what:<20} {percent:>8.3} %{more}");
    };
    let (base, test) = (overlap.base_samples, overlap.test_samples);
    line("similarity", overlap.similarity_pct, String::new());
    line("sample overlap", overlap.overlap_pct, String::new());
    line("only in the base", overlap.base_unique_pct, format!(" of {base} samples"));
    line("only in the test", overlap.test_unique_pct, format!(" of {test} samples"));
    for (what, shared) in [
        ("functions", overlap.functions),
        ("hot functions", overlap.hot_functions),
        ("hot locations", overlap.hot_blocks),
    ] {
        let (both, base, test) = (shared.both, shared.base_only, shared.test_only);
        let counts = format!(" ({both} in both, {base} only in base, {test} only in test)");
        line(what, shared.overlap_pct(), counts);
    }
    text += "\n    base      test    change  name\n";
    for function in difference.functions.iter().take(most) {
        let change = function.change_points();
        let (base, test, name) =
            (function.base_share_pct, function.test_share_pct, function.name.to_string());
        let name = visible(&name);
        let _ = writeln!(text, "{base:>7.2}% {test:>8.2}% {change:>+9.2}  {name}");
    }
    text
}

/// What a sum of profiles lacks: warnings and, unless nobody wants them, notes.
pub fn merge_notes(profiles: &[&SampleProfile], report: &MergeReport, quiet: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let conflicts = report.checksum_conflicts;
    if conflicts > 0 {
        notes.push(format!(
            "warning: {conflicts} functions were left out of the sum: their checksums differ, so \
             they come from different builds; merge profiles of one build"
        ));
    }
    let silent = profiles.iter().filter(|p| p.provenance.compilers().len() == 0).count();
    if silent > 0 && silent < profiles.len() && !quiet {
        notes.push(format!(
            "note: {silent} of {} profiles do not say which compiler made their program; the sum \
             names those of the others",
            profiles.len()
        ));
    }
    notes
}

/// What trimming kept.
pub fn trimmed(report: &TrimReport) -> String {
    let (kept, removed) = (report.kept_total as f64, report.removed_total as f64);
    let share = 100.0 * kept / (kept + removed).max(1.0);
    let all = report.kept + report.removed;
    format!("kept {} of {all} functions, {share:.2} % of the total", report.kept)
}

/// Below this share of samples on lines with code a match is called doubtful. Two versions of
/// SQLite reach 95 %.
const DOUBTFUL_PCT: f64 = 90.0;

/// How well the profile of an older source fits a newer program, with the share that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Match<'m> {
    /// The profile.
    pub profile: &'m Path,
    /// The program.
    pub binary: &'m Path,
    /// Per cent of the samples that must be carried over.
    pub min_match: f64,
    /// What was found.
    pub report: &'m MatchReport,
}

impl Match<'_> {
    /// As JSON.
    pub fn json(&self) -> String {
        let report = self.report;
        let (before, after) = report.with_code_pct();
        let value = json!({
            "schema": "planish-profile-match", "version": 1,
            "profile": self.profile, "binary": self.binary, "carried_pct": report.carried_pct(),
            "calls_matched_pct": report.calls_pct(), "with_code_before_pct": before,
            "with_code_after_pct": after, "min_match_pct": self.min_match, "report": report,
        });
        crate::json(&format!("{value:#}\n")).into_owned()
    }

    /// As lines.
    pub fn text(&self) -> String {
        let (report, least) = (self.report, self.min_match);
        let mut lines = report.lines();
        if report.unchanged {
            lines.push("the profile fits already: nothing was changed".to_owned());
        }
        if report.carried_pct() < least {
            lines.push(format!("less than {least} % carried over: record the newer program"));
        }
        let with_code = report.with_code_pct().1;
        if report.samples.carried() > 0 && with_code < DOUBTFUL_PCT {
            lines.push(format!(
                "only {with_code:.1} % of what was carried over is on lines with code: counts may \
                 be at the wrong place; record the newer program"
            ));
        }
        lines.join("\n") + "\n"
    }
}

/// What a profile that was made rests on.
pub fn made_json(profile: &SampleProfile, evidence: &Evidence, output: &Path) -> Value {
    json!({
        "schema": "planish-profile", "version": 1, "profile": output.display().to_string(),
        "functions": profile.functions.len(), "evidence": evidence,
    })
}

/// Below this share of the samples, the recording was hardly one of this program.
const LEAST_SHARE_PCT: u128 = 5;

/// What a profile lacks because of what was recorded.
pub fn warnings(
    found: &Aggregated,
    counts: &ImageCounts,
    report: &AttributeReport,
    binary: &Path,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let (own, all) = (counts.sample_total(), u128::from(found.counts.ledger.samples.entered));
    if !report.from_branches {
        warnings.push(format!(
            "{} without branch stacks: the profile says where time goes, but holds no \
             call counts and no call targets; planish record --branches=hardware or \
             --branches=emulated gives them",
            numbered(own.try_into().unwrap_or(u64::MAX), "sample", "samples")
        ));
    }
    if own > 0 && own * 100 < all * LEAST_SHARE_PCT {
        let most = found.elsewhere.iter().max_by_key(|(_, count)| *count);
        let most = most.map_or_else(String::new, |(path, count)| {
            format!(", most of the others ({count}) in {path}")
        });
        warnings.push(format!(
            "only {own} of {all} samples ({:.1} %) lie in {}{most}; record the program alone, or \
             for longer",
            own as f64 / all as f64 * 100.0,
            binary.display()
        ));
    }
    warnings
}

/// Functions without debug information that are listed at most.
const MOST_OUTSIDE: usize = 10;

/// What attribution made of the counts, a line each; with `verbose` also where it could not.
pub fn attributed(report: &AttributeReport, functions: usize, verbose: bool) -> Vec<String> {
    let what = if report.from_probes { "pseudo probes" } else { "lines" };
    let mut lines = vec![format!("{:>20}: {functions} functions, by {what}", "profile")];
    lines.extend(report.lines().iter().map(|line| format!("{:>20}  {line}", "")));
    if verbose {
        let (largest, others) = report.largest_outside(MOST_OUTSIDE);
        let heading = format!("no {}", report.lacking());
        let named = largest.into_iter();
        lines.extend(named.map(|(name, count)| format!("{heading:>20}: {count} in {name}")));
        if others.0 > 0 {
            lines.push(format!("{heading:>20}: {} in {} more", others.1, others.0));
        }
    }
    lines
}

/// What to do with a profile that was made of `image`, whose main language is `language`; `file` is
/// its path as a word of a shell.
pub fn next_step(
    format: Format,
    from_probes: bool,
    image: &Image,
    language: Language,
    file: &str,
) -> String {
    match format {
        Format::Gcov => format!(
            "gcc -fauto-profile={file} -fno-unroll-loops --param=ipa-cp-eval-threshold=50 …"
        ),
        Format::Pprof => format!("pprof -top {file} …"),
        _ if image.kind() == ImageKind::Kernel => {
            format!(
                "planish kernel build TREE --profile {file}, with --first-round if this kernel \
                 had no profile"
            )
        }
        _ if image.kind() == ImageKind::KernelModule => {
            "planish kernel profile BUILD, which puts the kernel and its modules into one profile"
                .to_owned()
        }
        _ if from_probes => {
            format!("clang -fpseudo-probe-for-profiling -fprofile-sample-use={file} …")
        }
        _ if language == Language::Rust => {
            format!("rustc -Zdebug-info-for-profiling -Zprofile-sample-use={file} …")
        }
        _ => format!("clang -fprofile-sample-use={file} …"),
    }
}

/// Samples by calling context, and what became of the contexts, a line each.
pub fn contexts(
    counts: &ContextCounts,
    decided: Option<&PreInlined>,
    cold: &ColdContexts,
) -> Vec<String> {
    let headings = std::iter::once("samples:").chain(std::iter::repeat(""));
    let samples = headings.zip(counts.ledger.lines());
    let mut lines: Vec<String> =
        samples.map(|(heading, line)| format!("{heading:>21} {line}")).collect();
    lines.extend(decided.map(|decided| {
        format!(
            "{:>20}: {} contexts to inline, {} merged; {} functions reached their limit",
            "pre-inlined", decided.inlined, decided.merged, decided.stopped
        )
    }));
    lines.push(format!(
        "{:>20}: {} kept; {} with a total below {} merged into their functions ({} counts)",
        "contexts", cold.kept, cold.merged, cold.threshold, cold.merged_total
    ));
    lines
}

/// Says that recordings, named so, hold too few call chains to make contexts of.
pub fn few_chains(counts: &ContextCounts, named: &str) -> Option<String> {
    let ledger = &counts.ledger;
    let without = ledger.without_chain.saturating_add(ledger.leaf_only);
    let looked_at =
        ledger.without_chain.saturating_add(ledger.unwound).saturating_add(ledger.incomplete_frame);
    (without > 0 && without.saturating_mul(2) > looked_at).then(|| {
        format!(
            "{named}: {without} of {} samples have no callers in their call chains, so most \
             contexts are functions alone; record with -g (--call-graph fp) beside the branch \
             stacks",
            ledger.samples
        )
    })
}
