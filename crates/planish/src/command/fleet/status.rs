//! `planish fleet status`: what each build and class of hosts gave, and whether there are enough recordings
//! for a profile.

use super::at_hand::AtHand;
use super::builds::Newest;
use super::choose::{self, Choice};
use super::given::Given;
use super::{duration, look};
use crate::cli::{FINE, Format, Global, NEGATIVE, UNDECIDED};
use crate::command::percent::percent_of_all;
use crate::output::{self, print_json};
use anyhow::{Context as _, bail};
use counts::density::{BOLT_LEAST, density};
use counts::evidence::{Evidence, LEAST_OVERLAP};
use counts::{Counts, ImageCounts};
use fleet::law::Mixing;
use fleet::{Recording, stability};
use image::Image;
use profile::recorded::Recorded;
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
    /// Counts files, directories with files *.counts in or below them, patterns with * and ?; or
    /// any of these in a store, as s3://BUCKET/KEY or gs://BUCKET/KEY
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    /// The build that a profile is to be made for
    #[arg(long = "for", value_name = "BINARY")]
    pub binary: PathBuf,
    /// The file name under which hosts run the service [default: that of BINARY]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Look in this directory for the programs of other builds, or in this bucket (s3://BUCKET/KEY,
    /// gs://BUCKET/KEY); repeatable
    #[arg(long, value_name = "DIR")]
    pub binaries: Vec<PathBuf>,
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
        output::refuse_inputs([page.as_path()], [args.binary.as_path()])?;
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

/// Merges files, and reads the result.
fn sum(
    given: &Given,
    choice: &Choice,
    folder: &Path,
    global: &Global,
) -> anyhow::Result<(MergedFleet, Counts)> {
    let place = folder.join("sum.counts");
    let merged = choose::merge(given, choice, None, Mixing::Raw, &place, global)?;
    choose::refuse_part(&merged)?;
    Ok((merged, choose::read_sum(&place)?))
}

fn once(args: &Args, global: &Global) -> anyhow::Result<FleetStatus> {
    let remote = &args.choice.remote;
    let store = AtHand::new(&args.binaries, None, remote, global.quiet)?;
    let image = Image::open(&args.binary)?;
    store.find_debug_file(&image);
    let recorded = Recorded::find(image, store.search())?;
    let newest = Newest::new(&recorded, global.threads(), false);
    let name = match (&args.name, args.binary.file_name()) {
        (Some(name), _) => name.clone(),
        (None, Some(name)) => name.to_string_lossy().into_owned(),
        (None, None) => bail!("{}: expected a file", args.binary.display()),
    };
    let folder = tempfile::tempdir().context("a directory for sums of the shards")?;
    // How many samples there are is told by counts without weights.
    let choice = args.choice.unweighed();
    let given = Given::take(&args.inputs, args.page.as_deref(), remote, global)?;
    let (merged, mut counts) = sum(&given, &choice, folder.path(), global)?;
    // Stacks and samples of clocks are not compared.
    let given = if merged.sources.len() > 1 {
        let judged = given.of_one_kind(&merged)?;
        counts = sum(&judged, &choice, folder.path(), &quiet(global))?.1;
        judged
    } else {
        given
    };
    let is_service = |counts: &&ImageCounts| {
        let file = Path::new(&counts.path).file_name();
        newest.is(counts) || file.is_some_and(|file| *file == *name)
    };
    let own = |counts: &Counts| counts.images.iter().find(|one| newest.is(one)).cloned();
    let all = own(&counts);
    let services: Vec<&ImageCounts> = counts.images.iter().filter(is_service).collect();
    let whole: f64 = services.iter().map(|one| counted(one)).sum();
    let percent = |part: f64| if whole > 0.0 { 100.0 * part / whole } else { 0.0 };
    let builds = services.iter().map(|one| {
        let id = one.build_id.map_or_else(String::new, |id| id.to_string());
        let note = if newest.is(one) {
            "the newest build"
        } else if one.build_id.as_ref().is_some_and(|id| store.find(id, &one.path).is_ok()) {
            "older; its program is at hand"
        } else {
            "older; its program is not at hand (--binaries), so that its counts are lost"
        };
        let name = if id.is_empty() { one.path.clone() } else { id };
        let note = note.to_owned();
        Share {
            name,
            recordings: None,
            percent: percent(counted(one)),
            overlap_percent: None,
            note,
        }
    });
    let mut builds: Vec<Share> = builds.collect();
    builds.sort_by(|one, other| other.percent.total_cmp(&one.percent));
    let shards = shards(&given)?;
    let mut classes = Vec::new();
    for (class, number) in
        merged.classes.iter().filter(|(class, _)| !class.is_empty()).take(MOST_CLASSES)
    {
        if args.choice.host_class.as_ref().is_some_and(|asked| asked != class) {
            continue;
        }
        // A class may have none of the kind of samples that the others have.
        let own_choice = choice.unweighed_of(class);
        let counts = sum(&given, &own_choice, folder.path(), &quiet(global));
        let counts = counts.map(|(_, counts)| counts).unwrap_or_default();
        let part = counts.images.iter().filter(is_service).map(counted).sum();
        let both = own(&counts).zip(all.as_ref());
        let overlap = both.and_then(|(own, all)| stability::overlap(&own, all));
        classes.push(Share {
            name: class.clone(),
            recordings: Some(*number),
            percent: percent(part),
            overlap_percent: overlap.map(|overlap| 100.0 * overlap),
            note: String::new(),
        });
    }
    let mut groups = Vec::new();
    for paths in groups_of(&shards).into_values() {
        // A group may have none that the options take.
        if let Ok((_, counts)) = sum(&Given::of(paths), &choice, folder.path(), &quiet(global)) {
            groups.extend(own(&counts));
        }
    }
    let stable = stability::stability(&groups).map(|found| Stable {
        overlap_percent: 100.0 * found.overlap,
        interval_percent: [100.0 * found.low, 100.0 * found.high],
        expected_percent: 100.0 * found.expected(),
    });
    let sources = merged.sources.iter().map(|(source, number)| Share {
        name: source.clone(),
        recordings: Some(*number),
        percent: 100.0 * *number as f64 / merged.recordings.max(1) as f64,
        overlap_percent: None,
        note: "share of the recordings".to_owned(),
    });
    let sources = sources.collect();
    Ok(FleetStatus {
        name,
        builds,
        classes,
        sources,
        evidence: all
            .as_ref()
            .map(|all| report::Evidence::from(&Evidence::of(all, &recorded.image))),
        density: all.as_ref().and_then(|all| density(all, &recorded.image)),
        stability: stable,
        most_loss_percent: args.loss,
        least_overlap_percent: 100.0 * LEAST_OVERLAP,
        least_density: BOLT_LEAST,
        merged,
    })
}

/// Without progress and without notes, which the first merge has given.
fn quiet(global: &Global) -> Global {
    let mut quiet = global.clone();
    quiet.quiet = true;
    quiet
}

fn counted(counts: &ImageCounts) -> f64 {
    let sum = if counts.has_branches() { counts.branch_total() } else { counts.sample_total() };
    sum as f64
}

/// The files of shards, with their first recordings.
fn shards(given: &Given) -> anyhow::Result<Vec<(PathBuf, Recording)>> {
    let mut found = Vec::new();
    for (path, _) in &given.files {
        // What is rejected was told of.
        let shard = look(path, &mut Vec::new())?;
        let first = shard.and_then(|shard| shard.description.recordings.into_iter().next());
        found.extend(first.map(|first| (path.clone(), first)));
    }
    Ok(found)
}

/// The files by the group of their recording.
fn groups_of(shards: &[(PathBuf, Recording)]) -> BTreeMap<usize, Vec<PathBuf>> {
    let mut groups: BTreeMap<usize, Vec<PathBuf>> = BTreeMap::new();
    for (path, recording) in shards {
        groups.entry(stability::group_of(&recording.id)).or_default().push(path.clone());
    }
    groups
}
