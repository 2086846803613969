//! `planish fleet status`: what each build and class of hosts gave, and whether there are enough recordings
//! for a profile.

use super::builds::{Newest, profile_of};
use super::choose::{self, Choice};
use super::duration;
use super::given::{Chosen, Given, judged};
use super::service::{Service, ServiceArgs};
use crate::cli::{FINE, Format, Global, NEGATIVE, UNDECIDED};
use crate::command::percent::percent_of_all;
use crate::output::{self, print_json};
use anyhow::Context as _;
use counts::density::{BOLT_LEAST, PERFORATOR_LEAST, branches_per_byte, density};
use counts::evidence::{Evidence, LEAST_OVERLAP};
use counts::{Counts, ImageCounts};
use fleet::law::Mixing;
use fleet::{Error, Recording, stability};
use profile::density::PROFGEN_LEAST;
use report::fleet::MergedFleet;
use report::fleet_status::{FleetStatus, Share, Stable};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Classes of hosts that are looked at, at most; each takes a merge of its own.
const MOST_CLASSES: usize = 32;

/// Arguments of `planish fleet status`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub service: ServiceArgs,
    /// The taken branches that a layout may be expected to lose because there are not more samples,
    /// in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent_of_all)]
    pub loss: f64,
    /// Look again and again, and end once there are enough recordings
    #[arg(long)]
    pub until_enough: bool,
    /// How long to wait between two looks
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration)]
    #[arg(requires = "until_enough")]
    pub every: u64,
    /// Give up after so long
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "until_enough")]
    pub timeout: Option<u64>,
    /// Also write an HTML page
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    #[command(flatten)]
    pub choice: Choice,
}

/// Runs the tool.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    if let Some(page) = &args.page {
        output::refuse_inputs([page.as_path()], [args.service.binary.as_path()])?;
    }
    let begun = Instant::now();
    let status = loop {
        let status = once(args, global);
        let waits = args.until_enough
            && args.timeout.is_none_or(|most| begun.elapsed() < Duration::from_secs(most));
        match status {
            Ok(status) if !waits || status.enough() == Some(true) => break status,
            Ok(status) if !global.quiet => eprintln!("{}", status.verdict()),
            Ok(_) => {}
            // Shards may be still to come.
            Err(error) if waits => eprintln!("note: {error:#}"),
            Err(error) => return Err(error),
        }
        std::thread::sleep(Duration::from_secs(args.every));
    };
    if let Some(page) = &args.page {
        let html = status.html();
        output::write_file(page, |out| out.write_all(html.as_bytes()).context("page"))?;
    }
    match args.format {
        Format::Json => print_json(&status.json())?,
        Format::Text => status.lines().iter().for_each(|line| println!("{line}")),
    }
    if !global.quiet {
        status.merged.lines(global.verbose).iter().for_each(|line| eprintln!("{line}"));
    }
    Ok(match status.enough() {
        Some(true) if status.merged.rejected.is_empty() => FINE,
        Some(_) => NEGATIVE,
        None => UNDECIDED,
    })
}

/// Looks once.
fn once(args: &Args, global: &Global) -> anyhow::Result<FleetStatus> {
    let remote = &args.choice.remote;
    let service = Service::open(&args.service, None, remote, global.quiet)?;
    let newest = Newest::new(&service.recorded, global.threads(), false);
    let folder = tempfile::tempdir().context("a directory for sums of the shards")?;
    let given = Given::take(&args.service.inputs, args.page.as_deref(), remote, global)?;
    // How many samples there are is told by counts without weights.
    let mut sums =
        Sums { choice: args.choice.unweighed(), folder: folder.path(), global: global.clone() };
    let (merged, mut counts) = sums.of(&given)?;
    // The first merge has shown its progress and given its notes.
    sums.global.quiet = true;
    service.refuse_unknown(&args.service, &counts)?;
    let all = given.chosen(&merged)?;
    let judged = judged(&all, &merged);
    let mut shares = None;
    if merged.sources.len() > 1 {
        shares = sums.executions(&given, &merged)?;
        counts = sums.of_files(&judged)?.unwrap_or_default();
    }
    let given_by = shares.as_ref().map_or(&counts, |(_, counts)| counts);
    let weighed = shares.as_ref().map(|(sums, _)| (sums, &all[..]));
    let own = counts.images.iter().find(|one| newest.is(one));
    Ok(FleetStatus {
        name: service.name.clone(),
        builds: builds(&service, &newest, given_by),
        classes: classes(&service, &newest, (&sums, &judged), weighed, (own, given_by))?,
        sources: sources(&merged),
        evidence: own
            .map(|own| Evidence::of(own, &service.recorded.image))
            .as_ref()
            .map(Into::into),
        density: own.and_then(|own| density(own, &service.recorded.image)),
        profile_density: own
            .and_then(|own| profile_of(own, &newest, &service.store).0)
            .and_then(|profile| profile::density::density(&profile)),
        branches_per_byte: own.and_then(|own| branches_per_byte(own, &service.recorded.image)),
        stability: stable(&newest, &sums, &judged)?,
        most_loss_percent: args.loss,
        least_overlap_percent: 100.0 * LEAST_OVERLAP,
        least_density: BOLT_LEAST,
        least_profile_density: PROFGEN_LEAST,
        least_branches_per_byte: PERFORATOR_LEAST,
        merged,
    })
}

/// How shards are added up to be looked at.
#[derive(Clone)]
struct Sums<'s> {
    choice: Choice,
    folder: &'s Path,
    global: Global,
}

impl Sums<'_> {
    fn of(&self, given: &Given) -> anyhow::Result<(MergedFleet, Counts)> {
        let place = self.folder.join("sum.counts");
        let merged = choose::merge(given, &self.choice, Mixing::Raw, &place, &self.global)?;
        choose::refuse_part(&merged)?;
        Ok((merged, choose::read_sum(&place)?))
    }

    /// The sum in executions, in which counts of different sources can be added, and how it is made; none where
    /// a shard does not say how many its counts stand for.
    fn executions(
        &self,
        given: &Given,
        merged: &MergedFleet,
    ) -> anyhow::Result<Option<(Sums<'_>, Counts)>> {
        let choice = Choice { raw: false, executions: true, ..self.choice.clone() };
        let weighed = Sums { choice, ..self.clone() };
        match weighed.of(given) {
            Ok((found, counts)) if found.merged == merged.merged => Ok(Some((weighed, counts))),
            Ok(_) => Ok(None),
            Err(error) if matches!(error.downcast_ref(), Some(Error::Nothing { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The sum of some shards; none where the options take none of them.
    fn of_files(&self, files: &[Chosen]) -> anyhow::Result<Option<Counts>> {
        let given = Given::of(files.iter().map(|one| one.path.clone()).collect());
        match self.of(&given) {
            Ok((_, counts)) => Ok(Some(counts)),
            Err(error) if matches!(error.downcast_ref(), Some(Error::Nothing { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Shards by what their first recording says.
fn grouped<K: Ord>(judged: &[Chosen], of: impl Fn(&Recording) -> K) -> BTreeMap<K, Vec<Chosen>> {
    let mut groups: BTreeMap<K, Vec<Chosen>> = BTreeMap::new();
    for one in judged {
        groups.entry(of(&one.first)).or_default().push(one.clone());
    }
    groups
}

fn total(counts: &[&ImageCounts]) -> f64 {
    let one = |counts: &&ImageCounts| match counts.has_branches() {
        true => counts.branch_total(),
        false => counts.sample_total(),
    };
    counts.iter().map(one).sum::<u128>() as f64
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

/// What each build gave.
fn builds(service: &Service, newest: &Newest<'_>, counts: &Counts) -> Vec<Share> {
    let all = service.builds(counts, newest);
    let whole = total(&all);
    let share = |one: &&ImageCounts| {
        let id = one.build_id.map_or_else(String::new, |id| id.to_string());
        let at_hand = || one.build_id.is_some_and(|id| service.store.find(&id, &one.path).is_ok());
        let note = if newest.is(one) {
            "the newest build"
        } else if at_hand() {
            "older; its program is at hand"
        } else {
            "older; its program is not at hand (--binaries), so that its counts are lost"
        };
        Share {
            name: if id.is_empty() { one.path.clone() } else { id },
            recordings: None,
            percent: percent(total(&[one]), whole),
            overlap_percent: None,
            note: note.to_owned(),
        }
    };
    let mut shares: Vec<Share> = all.iter().map(share).collect();
    shares.sort_by(|one, other| other.percent.total_cmp(&one.percent));
    shares
}

/// What each class of hosts gave, and how far it agrees with the sum of the newest build. How shards are added up to
/// be judged, and, where that differs, to tell what they gave, with the shards; and both sums of all of them.
fn classes(
    service: &Service,
    newest: &Newest<'_>,
    (sums, judged): (&Sums<'_>, &[Chosen]),
    shares: Option<(&Sums<'_>, &[Chosen])>,
    (all, whole): (Option<&ImageCounts>, &Counts),
) -> anyhow::Result<Vec<Share>> {
    let of = |one: &Recording| one.host_class.clone();
    let (giving, shards) = shares.unwrap_or((sums, judged));
    let mut of_class = grouped(judged, of);
    let whole = total(&service.builds(whole, newest));
    let mut found = Vec::new();
    let groups = grouped(shards, of).into_iter().filter(|(class, _)| !class.is_empty());
    for (class, files) in groups.take(MOST_CLASSES) {
        let Some(counts) = giving.of_files(&files)? else { continue };
        let judged = of_class.remove(&class).filter(|_| shares.is_some());
        let alike = judged.map(|files| sums.of_files(&files)).transpose()?.flatten();
        let own = match shares {
            Some(_) => alike.as_ref(),
            None => Some(&counts),
        };
        let own = own.and_then(|own| own.images.iter().find(|one| newest.is(one)));
        let overlap = own.zip(all).and_then(|(own, all)| stability::overlap(own, all));
        found.push(Share {
            name: class,
            recordings: Some(files.len() as u64),
            percent: percent(total(&service.builds(&counts, newest)), whole),
            overlap_percent: overlap.map(|overlap| 100.0 * overlap),
            note: String::new(),
        });
    }
    Ok(found)
}

/// How many recordings are of each source.
fn sources(merged: &MergedFleet) -> Vec<Share> {
    let share = |(source, number): (&String, &u64)| Share {
        name: source.clone(),
        recordings: Some(*number),
        percent: percent(*number as f64, merged.recordings as f64),
        overlap_percent: None,
        note: "by number of recordings".to_owned(),
    };
    merged.sources.iter().map(share).collect()
}

/// How far halves of the recordings agree.
fn stable(
    newest: &Newest<'_>,
    sums: &Sums<'_>,
    judged: &[Chosen],
) -> anyhow::Result<Option<Stable>> {
    let mut groups = Vec::new();
    for files in grouped(judged, |one| stability::group_of(&one.id)).into_values() {
        let counts = sums.of_files(&files)?.unwrap_or_default();
        groups.extend(counts.images.into_iter().find(|one| newest.is(one)));
    }
    Ok(stability::stability(&groups).map(|found| Stable {
        overlap_percent: 100.0 * found.overlap,
        interval_percent: [100.0 * found.low, 100.0 * found.high],
        expected_percent: 100.0 * found.expected(),
    }))
}
