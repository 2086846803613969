//! `planish fleet profile`: the shards of a service to one profile for its newest build.

use super::at_hand::AtHand;
use super::builds::{Newest, carried, profile_of};
use super::choose::{self, Choice};
use super::given::{Given, judged};
use super::remote::written;
use super::service::{Service, ServiceArgs};
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::command::profile::{ProfileFormat, Storage, print_evidence};
use crate::output::{self, print_json};
use anyhow::{Context as _, bail};
use counts::evidence::Evidence;
use fleet::law::Mixing;
use image::debug::DebugInfo;
use profile::operations::{self, MergeReport};
use profile::recorded::Recorded;
use profile::{SampleProfile, format};
use report::fleet::{Added, Build, FleetProfile};
use std::path::{Path, PathBuf};

/// Arguments of `planish fleet profile`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Fetch programs and debug files that are nowhere else from debuginfod servers (URL or, without
    /// it, those that DEBUGINFOD_URLS lists), and keep them in debuginfod's cache
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub debuginfod: Option<String>,
    /// Add this profile of an earlier build, from any tool, carried over by its source (as `planish
    /// profile match` does); repeatable
    #[arg(long, value_name = "FILE")]
    pub profile: Vec<PathBuf>,
    /// What kind of profile to write
    #[arg(long, value_enum, value_name = "KIND", default_value_t = ProfileFormat::Extbinary)]
    pub emit: ProfileFormat,
    #[command(flatten)]
    pub storage: Storage,
    /// How to print what the profile rests on; text goes to standard error
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Where to write; `-` is standard output, s3://BUCKET/KEY or gs://BUCKET/KEY an object
    #[arg(short, long, required = true, value_name = "OUT")]
    pub output: PathBuf,
    #[command(flatten)]
    pub choice: Choice,
}

/// Runs the tool.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    if args.format == Format::Json && args.output == Path::new("-") {
        bail!("-o - and --format json both want standard output; write the profile to a file");
    }
    if (args.storage.md5 || args.storage.compress) && args.emit != ProfileFormat::Extbinary {
        bail!("--md5 and --compress are for --emit extbinary; the other formats have neither");
    }
    let read = args.profile.iter().chain([&args.service.binary]).map(PathBuf::as_path);
    output::refuse_inputs([args.output.as_path()], read)?;
    let retry = args.choice.remote.retry;
    written(&args.output, retry, |place| make(args, place, global))
}

/// Makes the profile at `output`, which becomes that of the user.
fn make(args: &Args, output: &Path, global: &Global) -> anyhow::Result<u8> {
    let (asked, remote) = (args.debuginfod.as_deref(), &args.choice.remote);
    let service = Service::open(&args.service, asked, remote, global.quiet)?;
    let Service { name, store, recorded } = &service;
    let newest = Newest::new(recorded, global.threads(), args.emit.has_probes());
    let folder = tempfile::tempdir().context("a directory for the sum of the shards")?;
    let place = folder.path().join("sum.counts");
    let given = Given::take(&args.service.inputs, Some(&args.output), remote, global)?;
    let unsaid = Mixing::WhereNeeded;
    let merged = choose::merge(&given, &args.choice, unsaid, &place, global)?;
    choose::refuse_part(&merged)?;
    let counts = choose::read_sum(&place)?;
    // Weighed counts say nothing about the number of samples, and those of several kinds together
    // neither.
    let unweighed = if merged.weighed || merged.sources.len() > 1 {
        let place = folder.path().join("unweighed.counts");
        let judged = judged(&given.chosen(&merged)?, &merged);
        let judged = Given::of(judged.into_iter().map(|one| one.path).collect());
        choose::merge(&judged, &args.choice.unweighed(), Mixing::Raw, &place, global)?;
        Some(choose::read_sum(&place)?)
    } else {
        None
    };
    let of_service = service.builds(&counts, &newest);
    service.refuse_unknown(&args.service, &counts)?;
    if of_service.is_empty() {
        return Err(service.nowhere(&counts));
    }
    let mut builds: Vec<Build> = Vec::new();
    let mut made: Vec<SampleProfile> = Vec::new();
    for counts in &of_service {
        let (profile, build) = profile_of(counts, &newest, store);
        made.extend(profile);
        builds.push(build);
    }
    let mut added: Vec<Added> = Vec::new();
    for path in &args.profile {
        let (profile, one) = added_profile(path, &newest, store)?;
        made.push(profile);
        added.push(one);
    }
    let Some(profile) = sum(made, &added)? else {
        let why = builds.first().map(Build::line).unwrap_or_default();
        bail!("no build of {name} could be used: {why}");
    };
    let total = total(&profile);
    write(args, output, recorded, store, profile, global)?;
    let samples = unweighed.as_ref().unwrap_or(&counts);
    let own = samples.images.iter().find(|counts| newest.is(counts));
    let evidence = own.map(|own| report::Evidence::from(&Evidence::of(own, &recorded.image)));
    let told =
        FleetProfile { name: name.clone(), builds, added, total, output: args.output.clone() };
    if args.format == Format::Json {
        print_json(&told.json(&merged, evidence.as_ref()))?;
    }
    if !global.quiet {
        merged.lines(global.verbose).iter().for_each(|line| eprintln!("{line}"));
        told.lines().iter().for_each(|line| eprintln!("{line}"));
        match &evidence {
            Some(evidence) => print_evidence(evidence),
            None => eprintln!(
                "note: no recording has this build, so whether there are enough is not known; the \
                 counts of older builds are what their sources have in common with it"
            ),
        }
    }
    let whole = merged.rejected.is_empty() && told.all_used();
    Ok(if whole { FINE } else { NEGATIVE })
}

/// A profile that was made before, as one of the newest build.
fn added_profile(
    path: &Path,
    newest: &Newest<'_>,
    store: &AtHand,
) -> anyhow::Result<(SampleProfile, Added)> {
    let named = || path.display().to_string();
    let read = format::read(&crate::input::read(path)?).with_context(named)?;
    let (profile, fate) = carried(read, newest, store).with_context(named)?;
    let counted = total(&profile);
    Ok((profile, Added { path: path.to_owned(), counted, fate }))
}

/// The counts of all functions.
fn total(profile: &SampleProfile) -> u128 {
    profile.functions.values().map(|function| u128::from(function.total)).sum()
}

/// All profiles, added up, those of builds before those that were `added`; none if there is none
/// with a function.
fn sum(made: Vec<SampleProfile>, added: &[Added]) -> anyhow::Result<Option<SampleProfile>> {
    let of_builds = made.len().saturating_sub(added.len());
    let names = std::iter::repeat_n("a build".to_owned(), of_builds)
        .chain(added.iter().map(|one| one.path.display().to_string()));
    let named = made.iter().zip(names);
    operations::refuse_mixture(named.filter(|(profile, _)| !profile.functions.is_empty()))?;
    let mut all = made.into_iter();
    let Some(mut sum) = all.next() else { return Ok(None) };
    for profile in all {
        operations::add_profile(&mut sum, &profile, 1, &mut MergeReport::default());
    }
    Ok(Some(sum).filter(|sum| !sum.functions.is_empty()))
}

fn write(
    args: &Args,
    output: &Path,
    recorded: &Recorded,
    store: &AtHand,
    profile: SampleProfile,
    global: &Global,
) -> anyhow::Result<()> {
    let mut storage = args.storage;
    let profile = if args.emit == ProfileFormat::Gcov {
        let debug = DebugInfo::load(&recorded.image, store.search())?;
        let main = debug.main_unit(global.threads()).unwrap_or_default();
        storage.gcc_version = storage.gcc_version.or(main.gcc_major());
        format::gcov::prepare(&profile)
    } else {
        profile
    };
    let bytes = format::write(&profile, args.emit.into(), &storage.options())?;
    output::write_file(output, |out| out.write_all(&bytes).context("profile"))
}
