//! `planish profile --contexts`: recordings with call chains to a profile that tells calling
//! contexts apart.

use super::args::{ContextUse, MakeArgs, PreInline, ProbeUse};
use super::{print_evidence, print_made, write};
use crate::cli::{FINE, Format, Global};
use crate::command::inputs;
use crate::output::print_json;
use anyhow::{bail, ensure};
use counts::aggregate::CountOptions;
use counts::contexts::{self, ContextCounts};
use counts::evidence::Evidence;
use counts::input::Kind;
use image::Image;
use image::debug::{DebugInfo, Language};
use image::debug_files::DebugSearch;
use image::probes::Probes;
use profile::attribute::{AttributeOptions, attribute_contexts, leave_out_initializers};
use profile::operations::{merge_cold_contexts, nest_contexts};
use profile::preinline::{CodeSizes, Cost, pre_inline};
use profile::recorded::Recorded;
use report::profile as tell;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

/// Makes and writes the profile.
pub fn make(
    args: &MakeArgs,
    (recorded, search): (&Recorded, &DebugSearch),
    output: &Path,
    global: &Global,
) -> anyhow::Result<u8> {
    ensure!(
        args.emit.has_probes() && args.probes != ProbeUse::Ignore,
        "--contexts is for pseudo probes, and these for --emit extbinary and text"
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
    let (mut profile, mut report) = attribute_contexts(image, &probes, &counts, &options)?;
    let decided = match args.pre_inline {
        None => None,
        Some(PreInline::Places) => Some(pre_inline(&mut profile, Cost::Places)),
        Some(PreInline::Code) => {
            let sizes = code_sizes(image, search, &probes, &counts, global)?;
            Some(pre_inline(&mut profile, Cost::Code(&sizes)))
        }
    };
    let threshold = args.cold_context.or(decided.map(|_| 0));
    let cold = merge_cold_contexts(&mut profile, threshold);
    report.initializers = leave_out_initializers(&mut profile);
    if args.contexts == ContextUse::Nested {
        profile = nest_contexts(&profile);
    }
    profile.provenance = recorded.provenance.clone();
    let told = !global.quiet || args.format == Format::Json;
    let evidence = if told { Some(evidence(args, image, global)?) } else { None };
    write(args, &profile, output)?;
    if let (Format::Json, Some(evidence)) = (args.format, &evidence) {
        print_json(&tell::made_json(&profile, evidence, output))?;
    }
    let named: Vec<String> = args.inputs.iter().map(|path| path.display().to_string()).collect();
    if let Some(note) = tell::few_chains(&counts, &named.join(", ")) {
        eprintln!("note: {note}");
    }
    if !global.quiet {
        tell::contexts(&counts, decided.as_ref(), &cold)
            .iter()
            .for_each(|line| eprintln!("{line}"));
        if let Some(warning) = report::counts::cut(counts.ledger.truncated_bytes) {
            eprintln!("{warning}");
        }
        evidence.iter().for_each(print_evidence);
        let program = (image.as_ref(), Language::Other);
        print_made(args, program, &report, profile.functions.len(), global);
    }
    Ok(FINE)
}

/// What the functions that were counted take, by the debug information that says what was inlined.
fn code_sizes(
    image: &Image,
    search: &DebugSearch,
    probes: &Probes,
    counts: &ContextCounts,
    global: &Global,
) -> anyhow::Result<CodeSizes> {
    let debug = DebugInfo::load(image, search)?;
    ensure!(
        !debug.is_empty(),
        "{}: --pre-inline code measures functions by debug information, found none; build the \
         program with -g1, name its --debug-file, or take --pre-inline places",
        image.path().display()
    );
    Ok(CodeSizes::of(image, &debug, probes, counts, global.threads())?)
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
    Ok((&Evidence::of(found.of(image, args.first_input())?, image)).into())
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
    let options =
        CountOptions { rules, threads: global.threads(), pid: selection.pid, paths: false };
    let kind = if path.is_dir() {
        Kind::Recording
    } else {
        ensure!(
            path.is_file(),
            "{}: --contexts reads recordings twice and needs a file: a perf.data, or the text \
             that perf script prints of it",
            path.display()
        );
        let head = inputs::first_bytes(&mut crate::input::open(path)?, path)?;
        ensure!(
            !head.is_empty(),
            "{}: empty input, expected a recording; did the program that should write it fail?",
            path.display()
        );
        Kind::of(path, &head)?
    };
    match kind {
        Kind::Recording => {
            Ok(contexts::of_recording(path, &perfdata::Input::open(path)?, image, options)?)
        }
        Kind::Script => {
            let text = BufReader::with_capacity(1 << 18, crate::input::regular(path)?);
            Ok(contexts::of_text(path, text, image, options)?)
        }
        Kind::Preaggregated | Kind::Artefact => {
            bail!(
                "{}: counts hold no calling contexts; give --contexts the recording itself",
                path.display()
            )
        }
    }
}
