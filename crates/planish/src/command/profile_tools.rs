//! `planish profile show|merge|diff|trim|match`: what can be done with sample profiles that exist
//! already.

use super::profile::{ProfileFormat, Storage};
use super::profile_match::{self, MatchArgs};
use super::profile_probes::refuse_mixture;
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output;
use ::report::visible;
use anyhow::{Context, bail};
use profile::format;
use profile::operations::{self, CUTOFFS, MergeReport, Trim};
use profile::{FunctionProfile, Name, SampleProfile};
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Work on profiles that exist already; every format is recognised by its first bytes.
#[derive(Debug, clap::Subcommand)]
pub enum Tool {
    /// Print what a profile holds: totals, cutoffs, hot functions, or one function whole
    Show(ShowArgs),
    /// Add profiles up, with weights, and convert between formats
    Merge(MergeArgs),
    /// Compare two profiles: overlap as llvm-profdata computes it, functions by change of share
    Diff(DiffArgs),
    /// Remove cold or named functions
    Trim(TrimArgs),
    /// Carry the profile of an older source over to a newer program, and say how much of it fits
    ///
    /// Lines move when a source is edited; calls keep their names and their order. The calls that
    /// the profile knows are aligned with those of the program, and everything else moves with
    /// the nearest call. Names may differ in `.__uniq.N` and `.llvm.N`. What has no place any
    /// more is dropped and told.
    Match(MatchArgs),
}

/// Arguments of `planish profile show`.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// The profile
    #[arg(value_name = "PROFILE")]
    pub input: PathBuf,
    /// Print at most this many hot functions
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Print this function whole, as LLVM text
    #[arg(long, value_name = "NAME")]
    pub function: Option<String>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Where to print; `-` is standard output
    #[arg(short, long, default_value = "-", value_name = "FILE")]
    pub output: PathBuf,
}

/// How a profile is written.
#[derive(Debug, clap::Args)]
pub struct WriteArgs {
    /// Format of the result [default: that of the first input]
    #[arg(long, value_enum)]
    pub format: Option<ProfileFormat>,
    #[command(flatten)]
    pub storage: Storage,
    /// Where to write; `-` is standard output
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
}

/// Arguments of `planish profile merge`.
#[derive(Debug, clap::Args)]
pub struct MergeArgs {
    /// Profiles of weight 1
    #[arg(value_name = "PROFILE", required_unless_present = "weighted_input")]
    pub inputs: Vec<PathBuf>,
    /// A profile that counts WEIGHT times
    #[arg(long, value_name = "WEIGHT,PROFILE", value_parser = weighted)]
    pub weighted_input: Vec<(u64, PathBuf)>,
    /// How to write the sum
    #[command(flatten)]
    pub write: WriteArgs,
}

/// Arguments of `planish profile diff`.
#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    /// The profile to compare with
    #[arg(value_name = "BASE")]
    pub base: PathBuf,
    /// The other profile
    #[arg(value_name = "TEST")]
    pub test: PathBuf,
    /// Print at most this many functions
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Exit with 1 when the sample overlap is below this many percent
    #[arg(long, value_name = "PERCENT")]
    pub min_overlap: Option<f64>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Where to print; `-` is standard output
    #[arg(short, long, default_value = "-", value_name = "FILE")]
    pub output: PathBuf,
}

/// Arguments of `planish profile trim`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true)
    .args(["cold", "cutoff", "min_total", "keep_top", "keep", "drop"]))]
pub struct TrimArgs {
    /// The profile
    #[arg(value_name = "PROFILE")]
    pub input: PathBuf,
    /// Remove functions below the smallest count of 99.9999 % of the samples, as llvm-profgen does
    #[arg(long, conflicts_with = "cutoff")]
    pub cold: bool,
    /// Remove functions below the smallest count of this share in millionths (a cutoff that `show`
    /// prints)
    #[arg(long, value_name = "MILLIONTHS", value_parser = cutoff)]
    pub cutoff: Option<u32>,
    /// Remove functions with a smaller total
    #[arg(long, value_name = "N")]
    pub min_total: Option<u64>,
    /// Keep only this many functions, those with the largest totals
    #[arg(long, value_name = "N")]
    pub keep_top: Option<usize>,
    /// Keep only this function (repeat for more)
    #[arg(long, value_name = "NAME")]
    pub keep: Vec<String>,
    /// Remove this function (repeat for more)
    #[arg(long, value_name = "NAME")]
    pub drop: Vec<String>,
    /// How to write what is left
    #[command(flatten)]
    pub write: WriteArgs,
}

fn weighted(text: &str) -> Result<(u64, PathBuf), String> {
    let (weight, path) =
        text.split_once(',').ok_or("expected WEIGHT,PROFILE, such as 3,run.afdo")?;
    match weight.parse() {
        Ok(weight) if weight > 0 => Ok((weight, PathBuf::from(path))),
        _ => Err(format!("the weight `{weight}` is not a whole number above 0")),
    }
}

fn cutoff(text: &str) -> Result<u32, String> {
    let found = text.parse().ok().filter(|share| CUTOFFS.contains(share));
    found.ok_or_else(|| format!("expected one of {CUTOFFS:?}"))
}

/// Runs the tool asked for.
pub fn run(tool: Tool, global: &Global) -> anyhow::Result<u8> {
    match tool {
        Tool::Show(args) => show(&args),
        Tool::Merge(args) => merge(&args, global),
        Tool::Diff(args) => diff(&args),
        Tool::Trim(args) => trim(&args, global),
        Tool::Match(args) => profile_match::run(&args, global),
    }
}

/// Reads a profile and says in which format it was.
pub(super) fn read(path: &Path) -> anyhow::Result<(SampleProfile, format::Format)> {
    let bytes = if path == Path::new("-") {
        crate::input::read_standard()?
    } else {
        crate::input::read(path)?
    };
    let profile = format::read(&bytes).with_context(|| path.display().to_string())?;
    if profile.functions.is_empty() {
        bail!("{}: {}", path.display(), profile::Error::Empty);
    }
    let format = format::detect(&bytes).unwrap_or(format::Format::Text);
    Ok((profile, format))
}

pub(super) fn print(output: &Path, text: &str) -> anyhow::Result<()> {
    if output == Path::new("-") {
        return output::print(text);
    }
    output::write_file(output, |out| Ok(out.write_all(text.as_bytes())?))
}

fn print_json(output: &Path, value: &serde_json::Value) -> anyhow::Result<()> {
    if output == Path::new("-") {
        return output::print_json(value);
    }
    print(output, &format!("{value:#}\n"))
}

pub(super) fn write(
    profile: &SampleProfile,
    args: &WriteArgs,
    input_format: format::Format,
) -> anyhow::Result<()> {
    if profile.functions.is_empty() {
        bail!(
            "{}: not written, no function is left; loosen what is removed",
            args.output.display()
        );
    }
    let format = args.format.map_or(input_format, Into::into);
    let bytes = format::write(profile, format, &args.storage.options())?;
    output::write_file(&args.output, |out| Ok(out.write_all(&bytes)?))
}

fn show(args: &ShowArgs) -> anyhow::Result<u8> {
    output::refuse_inputs([args.output.as_path()], [args.input.as_path()])?;
    let (profile, format) = read(&args.input)?;
    if let Some(wanted) = &args.function {
        return show_function(&profile, wanted, args);
    }
    let summary = operations::Summary::of(&profile);
    let provenance = &profile.provenance;
    let hot = operations::hot_functions(&profile);
    let shown = hot.get(..args.top.min(hot.len())).unwrap_or_default();
    if args.format == Format::Json {
        let value = json!({
            "file": args.input, "format": format.word(), "summary": summary, "partial": profile.partial,
            "pseudo_probes": profile.is_probe_based(), "calling_contexts": profile.context_sensitive,
            "flow_sensitive_discriminators": profile.fs_discriminators, "listed_symbols": profile.symbol_list.len(),
            "compilers": provenance.compilers().collect::<Vec<_>>(),
            "build_ids": provenance.build_ids().map(ToString::to_string).collect::<Vec<_>>(),
            "hot_functions": hot.len(), "hottest": shown,
        });
        print_json(&args.output, &value)?;
        return Ok(FINE);
    }
    let mut text = String::new();
    writeln!(text, "{}: {format}", visible(&args.input.to_string_lossy()))?;
    writeln!(
        text,
        "counted by           {}{}",
        if profile.is_probe_based() { "pseudo probes" } else { "lines" },
        if profile.context_sensitive { ", by calling context" } else { "" }
    )?;
    for release in provenance.compilers() {
        writeln!(text, "compiler             {}", visible(release))?;
    }
    for id in provenance.build_ids() {
        writeln!(text, "build ID             {id}")?;
    }
    writeln!(text, "functions            {}", summary.functions)?;
    writeln!(text, "counts               {}", summary.counts)?;
    writeln!(text, "sum of counts        {}", summary.total_count)?;
    writeln!(text, "largest count        {}", summary.max_count)?;
    writeln!(text, "largest entry count  {}", summary.max_function_count)?;
    writeln!(text, "listed symbols       {}", profile.symbol_list.len())?;
    writeln!(text, "\n   cutoff  smallest count     counts")?;
    for cutoff in &summary.cutoffs {
        let percent = f64::from(cutoff.share_millionths) / 10_000.0;
        writeln!(text, "{percent:>8} %{:>15}{:>11}", cutoff.min_count, cutoff.counts)?;
    }
    writeln!(text, "\nhot functions: {} (those printed: {})", hot.len(), shown.len())?;
    writeln!(text, "   share           total         entries  name")?;
    for function in shown {
        writeln!(
            text,
            "{:>7.2}%{:>16}{:>16}  {}",
            function.share_pct,
            function.total,
            function.head,
            visible(&function.name.to_string())
        )?;
    }
    print(&args.output, &text)?;
    Ok(FINE)
}

fn show_function(profile: &SampleProfile, wanted: &str, args: &ShowArgs) -> anyhow::Result<u8> {
    let name = Name::parse(wanted);
    let found =
        profile.functions.get(&name).or_else(|| profile.functions.get(&Name::Hash(name.hash())));
    let Some(function) = found else {
        bail!(
            "{}: no function {wanted}; `planish profile show` lists the hot ones",
            args.input.display()
        );
    };
    if args.format == Format::Json {
        print_json(&args.output, &function_json(function))?;
        return Ok(FINE);
    }
    let mut alone = SampleProfile::default();
    alone.functions.insert(function.name.clone(), function.clone());
    print(&args.output, &String::from_utf8_lossy(&format::text::write(&alone)))?;
    Ok(FINE)
}

fn function_json(function: &FunctionProfile) -> serde_json::Value {
    let body = function.body.iter().map(|(at, sample)| {
        let targets = sample.targets.iter().map(|(name, count)| (name.to_string(), json!(count)));
        json!({
            "line_offset": at.line_offset, "discriminator": at.discriminator, "count": sample.count,
            "calls": targets.collect::<serde_json::Map<String, serde_json::Value>>(),
        })
    });
    let inlined = function.inlined_calls().map(|(at, callee)| {
        json!({ "line_offset": at.line_offset, "discriminator": at.discriminator, "callee": function_json(callee) })
    });
    json!({
        "name": function.name.to_string(), "total": function.total, "head": function.head,
        "body": body.collect::<Vec<_>>(), "inlined": inlined.collect::<Vec<_>>(),
    })
}

/// Functions of a profile that has only hashes can only be found by hash in the others.
fn meet_by_hash<'p>(profiles: impl Iterator<Item = &'p mut SampleProfile>) {
    let profiles: Vec<_> = profiles.collect();
    if profiles.iter().any(|p| p.has_hashes()) && profiles.iter().any(|p| !p.has_hashes()) {
        eprintln!("note: some profiles hold hashes in place of names, so all are compared by hash");
        profiles.into_iter().for_each(|p| *p = p.with_hashes());
    }
}

fn merge(args: &MergeArgs, global: &Global) -> anyhow::Result<u8> {
    let plain = args.inputs.iter().map(|path| (1, path));
    let inputs: Vec<(u64, &PathBuf)> =
        plain.chain(args.weighted_input.iter().map(|(weight, path)| (*weight, path))).collect();
    output::refuse_inputs(
        [args.write.output.as_path()],
        inputs.iter().map(|(_, path)| path.as_path()),
    )?;
    let mut merged = SampleProfile::default();
    let mut report = MergeReport::default();
    let mut profiles =
        inputs.iter().map(|(_, path)| read(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let format = profiles.first().map(|(_, format)| *format);
    meet_by_hash(profiles.iter_mut().map(|(profile, _)| profile));
    refuse_mixture(
        profiles.iter().map(|(profile, _)| profile).zip(inputs.iter().map(|(_, path)| *path)),
    )?;
    for ((profile, _), (weight, _)) in profiles.iter().zip(&inputs) {
        operations::add_profile(&mut merged, profile, *weight, &mut report);
    }
    write(&merged, &args.write, format.unwrap_or(format::Format::Text))?;
    let conflicts = report.checksum_conflicts;
    if conflicts > 0 {
        eprintln!(
            "warning: {conflicts} functions were left out of the sum: their checksums differ, so \
             they come from different builds; merge profiles of one build"
        );
    }
    let silent =
        profiles.iter().filter(|(profile, _)| profile.provenance.compilers().len() == 0).count();
    if silent > 0 && silent < profiles.len() && !global.quiet {
        eprintln!(
            "note: {silent} of {} profiles do not say which compiler made their program; the sum \
             names those of the others",
            profiles.len()
        );
    }
    if !global.quiet {
        eprintln!("merged {} profiles: {} functions", inputs.len(), merged.functions.len());
    }
    Ok(FINE)
}

fn diff(args: &DiffArgs) -> anyhow::Result<u8> {
    output::refuse_inputs([args.output.as_path()], [args.base.as_path(), args.test.as_path()])?;
    let (mut base, _) = read(&args.base)?;
    let (mut test, _) = read(&args.test)?;
    refuse_mixture([(&base, &args.base), (&test, &args.test)].into_iter())?;
    meet_by_hash([&mut base, &mut test].into_iter());
    let Some(overlap) = operations::overlap(&base, &test) else {
        bail!("{}, {}: one of them has only zero counts", args.base.display(), args.test.display());
    };
    let difference = operations::diff(&base, &test);
    let shown =
        difference.functions.get(..args.top.min(difference.functions.len())).unwrap_or_default();
    if args.format == Format::Json {
        let value = json!({
            "base": args.base, "test": args.test, "overlap": overlap,
            "functions": difference.functions,
        });
        print_json(&args.output, &value)?;
    } else {
        let mut text = String::new();
        writeln!(text, "similarity           {:>8.3} %", overlap.similarity_pct)?;
        writeln!(text, "sample overlap       {:>8.3} %", overlap.overlap_pct)?;
        writeln!(
            text,
            "only in the base     {:>8.3} % of {} samples",
            overlap.base_unique_pct, overlap.base_samples
        )?;
        writeln!(
            text,
            "only in the test     {:>8.3} % of {} samples",
            overlap.test_unique_pct, overlap.test_samples
        )?;
        for (what, shared) in [
            ("functions", overlap.functions),
            ("hot functions", overlap.hot_functions),
            ("hot locations", overlap.hot_blocks),
        ] {
            let (both, base, test) = (shared.both, shared.base_only, shared.test_only);
            let percent = shared.overlap_pct();
            writeln!(
                text,
                "{what:<20} {percent:>8.3} % ({both} in both, {base} only in base, {test} only in \
                 test)"
            )?;
        }
        writeln!(text, "\n    base      test    change  name")?;
        for function in shown {
            let change = function.change_points();
            let (base, test, name) =
                (function.base_share_pct, function.test_share_pct, function.name.to_string());
            let name = visible(&name);
            writeln!(text, "{base:>7.2}% {test:>8.2}% {change:>+9.2}  {name}")?;
        }
        print(&args.output, &text)?;
    }
    let low = args.min_overlap.is_some_and(|wanted| overlap.overlap_pct < wanted);
    Ok(if low { NEGATIVE } else { FINE })
}

fn trim(args: &TrimArgs, global: &Global) -> anyhow::Result<u8> {
    output::refuse_inputs([args.write.output.as_path()], [args.input.as_path()])?;
    let (mut profile, format) = read(&args.input)?;
    let names = |names: &[String]| names.iter().map(|name| Name::parse(name)).collect();
    let wanted = Trim {
        min_total: args.min_total,
        below_share: if args.cold { Some(operations::COLD_SHARE) } else { args.cutoff },
        keep_top: args.keep_top,
        keep: names(&args.keep),
        drop: names(&args.drop),
    };
    let report = operations::trim(&mut profile, &wanted);
    if let Some(unknown) = report.unknown_names.first() {
        eprintln!(
            "warning: {}: no function {unknown}; `planish profile show` lists names",
            args.input.display()
        );
    }
    write(&profile, &args.write, format)?;
    if !global.quiet {
        let share = 100.0 * report.kept_total as f64
            / (report.kept_total as f64 + report.removed_total as f64).max(1.0);
        eprintln!(
            "kept {} of {} functions, {share:.2} % of the total",
            report.kept,
            report.kept + report.removed
        );
    }
    Ok(FINE)
}
