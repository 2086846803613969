//! `planish profile show|merge|diff|trim|match`: what can be done with sample profiles that exist
//! already.

use super::fit::{self, MatchArgs};
use super::tool_args::{DiffArgs, MergeArgs, ShowArgs, TrimArgs, WriteArgs};
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output;
use anyhow::{Context, bail};
use profile::format;
use profile::operations::{self, MergeReport, Trim};
use profile::{Name, SampleProfile};
use report::profile as tell;
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

/// Runs the tool asked for.
pub fn run(tool: Tool, global: &Global) -> anyhow::Result<u8> {
    match tool {
        Tool::Show(args) => show(&args),
        Tool::Merge(args) => merge(&args, global),
        Tool::Diff(args) => diff(&args),
        Tool::Trim(args) => trim(&args, global),
        Tool::Match(args) => fit::run(&args, global),
    }
}

/// Reads a profile and says in which format it was.
pub(super) fn read(path: &Path) -> anyhow::Result<(SampleProfile, format::Format)> {
    let (profile, format) = read_any(path)?;
    if profile.functions.is_empty() {
        bail!("{}: {}", path.display(), profile::Error::Empty);
    }
    Ok((profile, format))
}

/// The same of a profile that may have no functions.
fn read_any(path: &Path) -> anyhow::Result<(SampleProfile, format::Format)> {
    let bytes = if path == Path::new("-") {
        crate::input::read_standard()?
    } else {
        crate::input::read(path)?
    };
    let profile = format::read(&bytes).with_context(|| path.display().to_string())?;
    let format = format::detect(&bytes).unwrap_or(format::Format::Text);
    Ok((profile, format))
}

pub(super) fn print(output: &Path, text: &str) -> anyhow::Result<()> {
    if output == Path::new("-") {
        return output::print(text);
    }
    output::write_file(output, |out| Ok(out.write_all(text.as_bytes())?))
}

fn print_json(output: &Path, value: &impl serde::Serialize) -> anyhow::Result<()> {
    if output == Path::new("-") {
        return output::print_json(value);
    }
    print(output, &(serde_json::to_string_pretty(value)? + "\n"))
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
    let format = args.emit.map_or(input_format, Into::into);
    let bytes = format::write(profile, format, &args.storage.options())?;
    output::write_file(&args.output, |out| Ok(out.write_all(&bytes)?))
}

fn show(args: &ShowArgs) -> anyhow::Result<u8> {
    output::refuse_inputs([args.output.as_path()], [args.input.as_path()])?;
    let (profile, format) = read(&args.input)?;
    if let Some(wanted) = &args.function {
        return show_function(&profile, wanted, args);
    }
    let hot = operations::hot_functions(&profile);
    let shown = tell::Shown {
        file: &args.input,
        format,
        profile: &profile,
        summary: operations::Summary::of(&profile),
        hot: hot.len(),
        hottest: hot.get(..args.top.min(hot.len())).unwrap_or_default(),
    };
    match args.format {
        Format::Json => print_json(&args.output, &shown.json())?,
        Format::Text => print(&args.output, &shown.text())?,
    }
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
        print_json(&args.output, &tell::function_json(function))?;
        return Ok(FINE);
    }
    let mut alone = SampleProfile::default();
    alone.functions.insert(function.name.clone(), function.clone());
    print(&args.output, &String::from_utf8_lossy(&format::text::write(&alone)))?;
    Ok(FINE)
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
    let read = if args.allow_empty { read_any } else { read };
    let mut profiles =
        inputs.iter().map(|(_, path)| read(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let format = profiles.first().map(|(_, format)| *format);
    meet_by_hash(profiles.iter_mut().map(|(profile, _)| profile));
    let names = inputs.iter().map(|(_, path)| path.display().to_string());
    // What is empty is of no kind.
    let some = profiles.iter().map(|(profile, _)| profile).zip(names);
    operations::refuse_mixture(some.filter(|(profile, _)| !profile.functions.is_empty()))?;
    for ((profile, _), (weight, _)) in profiles.iter().zip(&inputs) {
        operations::add_profile(&mut merged, profile, *weight, &mut report);
    }
    write(&merged, &args.write, format.unwrap_or(format::Format::Text))?;
    let all: Vec<&SampleProfile> = profiles.iter().map(|(profile, _)| profile).collect();
    for note in tell::merge_notes(&all, &report, global.quiet) {
        eprintln!("{note}");
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
    let name = |path: &Path| path.display().to_string();
    operations::refuse_mixture([(&base, name(&args.base)), (&test, name(&args.test))])?;
    meet_by_hash([&mut base, &mut test].into_iter());
    let Some(overlap) = operations::overlap(&base, &test) else {
        bail!("{}, {}: one of them has only zero counts", args.base.display(), args.test.display());
    };
    let difference = operations::diff(&base, &test);
    match args.format {
        Format::Json => {
            let value = tell::difference_json((&args.base, &args.test), &overlap, &difference);
            print_json(&args.output, &value)?;
        }
        Format::Text => {
            print(&args.output, &tell::difference(&overlap, &difference, args.top))?;
        }
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
        eprintln!("{}", tell::trimmed(&report));
    }
    Ok(FINE)
}
