//! `planish fleet import`: profiles of other tools to shards.

use super::described::Described;
use super::programs::Programs;
use super::remote::Remote;
use crate::cli::{FINE, Format as Printed, Global, NEGATIVE};
use crate::command::aggregate::print_ledger;
use crate::command::inputs;
use crate::output::{self, print_json};
use crate::progress;
use anyhow::{Context as _, bail};
use counts::Counts;
use counts::aggregate::Aggregated;
use counts::input::{HEAD_BYTES, Kind};
use counts::preaggregated;
use exchange::{Form, Format};
use fleet::Recording;
use fleet::law::{Law, Unit};
use report::exchange::{Imported, Read};
use report::fleet::Aside;
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};

/// Most bytes of a profile.
const MOST_BYTES: u64 = 1 << 30;

/// Where profiles come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum From {
    /// As the bytes look
    #[default]
    Auto,
    /// The protocol buffer of pprof: Go, Parca, Perforator, Pyroscope, perf_to_profile
    Pprof,
    /// OpenTelemetry profiles (ProfilesData), as a protocol buffer or JSON
    Otlp,
    /// The pre-aggregated text that perf2bolt -pa reads; it is of the one --binary
    Bolt,
}

/// What the addresses of profiles are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Addresses {
    /// As each mapping shows: it holds the addresses of a process, or not
    #[default]
    Auto,
    /// Of the process, to be found in the mapping
    Process,
    /// Of the program's file, as its symbols have them
    Image,
    /// Offsets in bytes from the start of the program's file
    File,
}

/// Make shards from what other profilers recorded.
///
/// The innermost address of each stack becomes a sample of its program. Where the addresses are
/// those of a process, planish needs the programs: it looks for them by build ID in --binaries, and
/// under the recorded path here.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Profiles; each becomes a shard of its own
    #[arg(required = true, value_name = "FILE")]
    pub inputs: Vec<PathBuf>,
    /// What the files are
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub from: From,
    /// Which values count: a type such as cpu, or cpu/nanoseconds [default: samples, else CPU time]
    #[arg(long, value_name = "TYPE")]
    pub value: Option<String>,
    /// What the addresses are
    #[arg(long, value_enum, value_name = "KIND", default_value_t)]
    pub addresses: Addresses,
    /// Count only in this ELF file; may be given several times
    #[arg(long, value_name = "FILE")]
    pub binary: Vec<PathBuf>,
    /// Look in this directory for programs (.build-id/xx/yyyy, or by file name), or in this bucket
    /// (s3://BUCKET/KEY, gs://BUCKET/KEY); repeatable
    #[arg(long, value_name = "DIR")]
    pub binaries: Vec<PathBuf>,
    #[command(flatten)]
    pub described: Described,
    #[command(flatten)]
    pub remote: Remote,
    /// How to print what was read and written; text goes to standard error
    #[arg(long, value_enum, default_value_t)]
    pub format: Printed,
}

/// Runs the tool.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    args.described.prepare(args.inputs.len(), args.format == Printed::Json)?;
    let asked_for = inputs::open_images(&args.binary)?;
    let mut programs = Programs::new(asked_for, &args.binaries, &args.remote, global.quiet)?;
    let (mut all, mut rejected) = (Vec::new(), Vec::new());
    let sizes = args.inputs.iter().filter_map(|path| std::fs::metadata(path).ok());
    let whole = sizes.fold(0u64, |sum, one| sum.saturating_add(one.len()));
    let bar = progress::Bytes::new("import", whole, global.quiet);
    for path in &args.inputs {
        let Taken { counts, mut recording, read, size } = match taken(args, path, &mut programs) {
            Ok(taken) => taken,
            // One bad file of many is no reason to leave out the others.
            Err(error) if args.inputs.len() > 1 => {
                rejected.push(Aside { path: path.clone(), why: format!("{error:#}") });
                continue;
            }
            Err(error) => return Err(error),
        };
        args.described.describe(&mut recording);
        let place = args.described.place(&recording)?;
        let inputs = args.binary.iter().chain(&args.inputs).map(PathBuf::as_path);
        output::refuse_inputs([place.as_path()], inputs)?;
        output::write_file(&place, |out| {
            Ok(fleet::write(&place, &counts, recording.clone(), out)?)
        })?;
        let imported = Imported { input: path.clone(), output: place, recording, read };
        if !global.quiet {
            imported.lines(global.verbose).iter().for_each(|line| eprintln!("{line}"));
            if let (Read::Bolt, [image]) = (&imported.read, &args.binary[..]) {
                eprintln!(
                    "note: {} does not say which build its addresses are of; they are taken for those of {}",
                    path.display(),
                    image.display()
                );
            }
            print_ledger(&Aggregated::from(counts), global);
        }
        all.push(imported);
        bar.add(size);
    }
    if let (true, Some(first)) = (all.is_empty(), rejected.first()) {
        bail!("none of {} files could be taken in; {}", args.inputs.len(), first.why);
    }
    if args.format == Printed::Json {
        print_json(&report::exchange::imported_json(&all, &rejected))?;
    }
    if !global.quiet {
        rejected.iter().for_each(|one| eprintln!("rejected: {}", one.why));
    }
    Ok(if rejected.is_empty() { FINE } else { NEGATIVE })
}

/// A profile that was read and counted.
struct Taken {
    counts: Counts,
    recording: Recording,
    read: Read,
    /// Bytes of the file.
    size: u64,
}

fn taken(args: &Args, path: &Path, programs: &mut Programs) -> anyhow::Result<Taken> {
    let bytes = beside::given::read(path, MOST_BYTES);
    let bytes = bytes.with_context(|| path.display().to_string())?;
    let size = bytes.len() as u64;
    let id = match &args.described.id {
        Some(id) => id.clone(),
        None => format!("sha256-{}", hex(&Sha256::digest(&bytes))),
    };
    let (counts, recording, read) = counted(args, path, bytes, programs)?;
    let planish = env!("CARGO_PKG_VERSION").to_owned();
    Ok(Taken { counts, recording: Recording { id, planish, ..recording }, read, size })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The counts of a profile, and what it says of itself.
fn counted(
    args: &Args,
    path: &Path,
    bytes: Vec<u8>,
    programs: &mut Programs,
) -> anyhow::Result<(Counts, Recording, Read)> {
    let format = match args.from {
        From::Auto if is_bolt(path, &bytes)? => None,
        From::Auto => Some(None),
        From::Pprof => Some(Some(Format::Pprof)),
        From::Otlp => Some(Some(Format::Otlp)),
        From::Bolt => None,
    };
    let Some(format) = format else {
        if args.value.is_some() {
            bail!("{}: --value chooses of profiles with several; this is text", path.display());
        }
        let images = inputs::open_images(&args.binary)?;
        let found = preaggregated::aggregate(path, bytes.as_slice(), &images)?;
        let recording = Recording { architecture: architecture(&images), ..Recording::default() };
        return Ok((found.counts, recording, Read::Bolt));
    };
    let (sampled, format) = exchange::read(path, bytes, format, args.value.as_deref())?;
    let form = match args.addresses {
        Addresses::Auto => None,
        Addresses::Process => Some(Form::Process),
        Addresses::Image => Some(Form::Image),
        Addresses::File => Some(Form::File),
    };
    let found = exchange::counted(&sampled, form, &mut |mapping| programs.of(mapping))?;
    let read = Read::of(format, &sampled, &found);
    if found.counts.images.is_empty() {
        let samples = found.counts.ledger.samples.entered;
        bail!(
            "{}: {samples} samples, none of which could be counted: {}",
            path.display(),
            read.why()
        );
    }
    let law = law(&sampled, found.counts.ledger.samples.entered, args.described.branch_rate);
    let short = |text: &str| text.chars().take(64).collect::<String>();
    let architecture =
        if found.architecture.is_empty() { &sampled.architecture } else { &found.architecture };
    let recording = Recording {
        host: short(&sampled.host),
        architecture: short(architecture),
        begin: sampled.begin,
        end: sampled.end,
        source: sampled.source.to_owned(),
        period: sampled.period,
        law,
        program: short(&sampled.program),
        ..Recording::default()
    };
    Ok((found.counts, recording, read))
}

/// What the samples of a clock stand for; `rate` are taken branches for each second.
fn law(sampled: &exchange::Sampled, counts: u64, rate: Option<u64>) -> Option<Law> {
    const NS: u128 = 1_000_000_000;
    let period = sampled.period.filter(|_| sampled.source == "clock" && counts > 0)?;
    let ns = u128::from(counts).saturating_mul(period.into());
    let (unit, events) = match rate {
        Some(rate) => (Unit::Branches, ns.saturating_mul(rate.into()) / NS),
        None => (Unit::Ns, ns),
    };
    let events = u64::try_from(events).ok().filter(|events| *events > 0)?;
    Some(Law { unit, events, counts })
}

/// Whether it is BOLT's text. Text of another kind is told what it is by its readers.
fn is_bolt(path: &Path, bytes: &[u8]) -> anyhow::Result<bool> {
    let head = bytes.get(..HEAD_BYTES as usize).unwrap_or(bytes);
    match Kind::of(path, head) {
        Ok(Kind::Preaggregated) => Ok(true),
        Ok(Kind::Script) => {
            bail!("{}: is text of perf script; `planish aggregate` counts it", path.display())
        }
        _ => Ok(false),
    }
}

fn architecture(images: &[std::sync::Arc<image::Image>]) -> String {
    let known = |image: &std::sync::Arc<image::Image>| match image.arch() {
        image::Arch::X86_64 => "x86_64",
        image::Arch::Aarch64 => "aarch64",
        image::Arch::Other(_) => "",
    };
    images.first().map(known).unwrap_or_default().to_owned()
}
