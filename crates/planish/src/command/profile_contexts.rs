//! `planish profile --contexts`: recordings with call chains to a profile that tells calling
//! contexts apart.

use super::inputs;
use super::profile::{MakeArgs, ProfileFormat, Summary, counts_of, print_summary, write};
use super::profile_probes::{Binary, ProbeUse};
use crate::cli::{FINE, Global};
use anyhow::{Context, bail, ensure};
use counts::aggregate::Options;
use counts::contexts::{self, ContextCounts};
use counts::evidence::Evidence;
use image::Image;
use image::debug::Language;
use profile::attribute::{AttributeOptions, attribute_contexts};
use profile::operations::{ColdContexts, merge_cold_contexts, nest_contexts};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What becomes of the calling contexts of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ContextUse {
    /// Nothing: each function has one count at a place, whoever called it
    #[default]
    Off,
    /// Each becomes a call inlined into its caller, as llvm-profgen writes them
    Nested,
    /// They are kept as they are: `[main:3 @ foo]`
    Full,
}

/// Makes and writes the profile.
pub fn make(
    args: &MakeArgs,
    recorded: &Binary,
    output: &Path,
    global: &Global,
) -> anyhow::Result<u8> {
    let has_place = matches!(args.format, ProfileFormat::Text | ProfileFormat::Extbinary);
    ensure!(
        has_place && args.probes != ProbeUse::Ignore,
        "--contexts is for pseudo probes, and these for --format extbinary and text"
    );
    let image = &recorded.image;
    let mut counts = ContextCounts::default();
    for path in &args.inputs {
        counts.add(read(path, image, args, global)?);
    }
    let ledger = &counts.ledger;
    let own = ledger.samples.saturating_sub(ledger.other_process);
    ensure!(
        args.selection.allow_few || !counts::is_too_few(ledger.unwound, own),
        "only {} of {own} samples could be unwound in {}: {}; record the program alone and for \
         longer; --allow-few counts them all the same",
        ledger.unwound,
        image.path().display(),
        ledger.lines().join("; ")
    );
    let probes = recorded.read_probes()?;
    if !global.quiet && !probes.is_empty() && !probes.iter().any(|probe| probe.kind.is_call()) {
        eprintln!(
            "warning: {}: has probes of blocks and none of calls, so each function stands without \
             its callers; build it with -g1, since clang numbers only calls that have a line",
            image.path().display()
        );
    }
    let options = AttributeOptions { threads: global.threads(), ..AttributeOptions::default() };
    let (mut profile, report) = attribute_contexts(image, &probes, &counts, &options)?;
    let cold = merge_cold_contexts(&mut profile, args.cold_context);
    if args.contexts == ContextUse::Nested {
        profile = nest_contexts(&profile);
    }
    profile.provenance = recorded.provenance.clone();
    let told = !global.quiet || args.summary == Summary::Json;
    let evidence = if told { Some(evidence(args, image, global)?) } else { None };
    write(args, &profile, output)?;
    if let (Summary::Json, Some(evidence)) = (args.summary, &evidence) {
        print_summary(&profile, evidence, output)?;
    }
    warn_without_chains(&counts, &args.inputs);
    if !global.quiet {
        let mut heading = "samples:";
        for line in counts.ledger.lines() {
            eprintln!("{heading:>21} {line}");
            heading = "";
        }
        eprintln!("{:>20}: {}", "contexts", in_words(&cold));
        super::aggregate::warn_of_cut(counts.ledger.truncated_bytes);
        evidence.iter().for_each(super::evidence::print);
        let next = super::profile::next_step(args.format, &report, image, Language::Other, output);
        super::profile::print_report(&report, profile.functions.len(), output, &next, global);
    }
    Ok(FINE)
}

/// What the profile rests on: the same samples without their callers. Of a function that many call,
/// the part that belongs to one caller is known less well than that.
fn evidence(
    args: &MakeArgs,
    image: &Arc<Image>,
    global: &Global,
) -> anyhow::Result<report::Evidence> {
    // The pass before has told how far it is, and warned.
    let mut silent = global.clone();
    silent.quiet = true;
    let found = inputs::read_all(&args.inputs, &[Arc::clone(image)], args.selection, &silent)?;
    Ok(super::evidence::told(&Evidence::of(counts_of(&found, image, &args.inputs)?, image)))
}

/// Says that the recordings hold too few call chains to make contexts of.
fn warn_without_chains(counts: &ContextCounts, inputs: &[PathBuf]) {
    let ledger = &counts.ledger;
    let without = ledger.without_chain.saturating_add(ledger.leaf_only);
    let looked_at =
        ledger.without_chain.saturating_add(ledger.unwound).saturating_add(ledger.incomplete_frame);
    if without > 0 && without.saturating_mul(2) > looked_at {
        let named: Vec<String> = inputs.iter().map(|path| path.display().to_string()).collect();
        eprintln!(
            "note: {}: {without} of {} samples have no callers in their call chains, so most \
             contexts are functions alone; record with -g (--call-graph fp) beside the branch \
             stacks",
            named.join(", "),
            ledger.samples
        );
    }
}

fn in_words(cold: &ColdContexts) -> String {
    format!(
        "{} kept; {} with a total below {} merged into their functions ({} counts)",
        cold.kept, cold.merged, cold.threshold, cold.merged_total
    )
}

/// Counts of one recording by context.
fn read(
    path: &Path,
    image: &Arc<Image>,
    args: &MakeArgs,
    global: &Global,
) -> anyhow::Result<ContextCounts> {
    let selection = args.selection;
    if selection.dedup.is_some() {
        bail!("--dedup is not for --contexts, which always takes ranges as llvm-profgen does");
    }
    let rules = counts::resolve::Rules::Profgen;
    let options = Options { rules, threads: global.threads(), pid: selection.pid, paths: false };
    let kind = if path.is_dir() {
        inputs::Kind::Recording
    } else {
        ensure!(
            path.is_file(),
            "{}: --contexts reads recordings twice and needs a file: a perf.data, or the text \
             that perf script prints of it",
            path.display()
        );
        inputs::kind_of(path).with_context(|| path.display().to_string())?
    };
    match kind {
        inputs::Kind::Recording => {
            Ok(contexts::of_recording(path, &perfdata::Input::open(path)?, image, options)?)
        }
        inputs::Kind::Script => Ok(contexts::of_text(path, image, options)?),
        inputs::Kind::Counts => {
            bail!(
                "{}: counts hold no calling contexts; give --contexts the recording itself",
                path.display()
            )
        }
    }
}
