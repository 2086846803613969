//! Which shards of a fleet are added up, with which weights: what `fleet merge` and `fleet profile` have
//! in common.

use super::given::Given;
use super::remote::Remote;
use super::{duration, look, second};
use crate::cli::Global;
use crate::output;
use crate::progress;
use anyhow::{Context, anyhow, bail};
use counts::{Counts, artefact};
use fleet::law::Mixing;
use fleet::plan::Options;
use fleet::{Error, LEAST_MEMORY, Merged, Partition, Plan, Shard, Weight, time};
use report::fleet::{Aside, MergedFleet};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Options of both.
#[derive(Clone, Debug, clap::Args)]
pub struct Choice {
    /// What the counts of an input are multiplied by, in steps of 1/65536; as often as inputs
    #[arg(long, value_name = "NUMBER")]
    pub weight: Vec<Weight>,
    /// Leave out recordings that ended before: 2026-11-26, 2026-11-26T17:40:00 (UTC), seconds since
    /// 1970, or an age like 7d
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub since: Option<Since>,
    /// Count half after each so long a time: seconds, or 90s, 15m, 12h, 7d, 2w
    #[arg(long, value_name = "HALF-LIFE", value_parser = half_life)]
    pub decay: Option<NonZeroU64>,
    /// The time that ages are counted from [default: now]
    #[arg(long, value_name = "TIME", value_parser = second)]
    pub now: Option<u64>,
    /// Take so many recordings of each host at most, the newest ones
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_per_host: Option<u32>,
    /// Take only recordings of this class of hosts
    #[arg(long, value_name = "NAME")]
    pub host_class: Option<String>,
    /// Weigh the counts of each shard by the executions that one of them stands for, so that different
    /// sources (branch stacks of hardware, of software, …) add up
    #[arg(long, conflicts_with = "raw")]
    pub executions: bool,
    /// Add counts of different sources as they are
    #[arg(long)]
    pub raw: bool,
    /// What the counts of a source weigh besides, such as clock=0.5; may be given for several
    #[arg(long, value_name = "SOURCE=NUMBER", value_parser = of_source)]
    pub source_weight: Vec<(String, Weight)>,
    /// Memory to use at most, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    #[arg(value_parser = clap::value_parser!(u64).range(LEAST_MEMORY >> 20..1 << 30))]
    pub memory: u64,
    /// Fail if a file cannot be read or merged, in place of merging the others
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub remote: Remote,
}

impl Choice {
    /// The same choice of recordings, with all weights left out.
    pub fn unweighed(&self) -> Choice {
        Choice {
            weight: Vec::new(),
            decay: None,
            executions: false,
            raw: true,
            source_weight: Vec::new(),
            ..self.clone()
        }
    }
}

fn of_source(text: &str) -> Result<(String, Weight), String> {
    let known = fleet::origin::SOURCES;
    let (source, number) =
        text.split_once('=').ok_or("expected SOURCE=NUMBER, such as clock=0.5")?;
    if !known.contains(&source) && !source.starts_with("simulated") {
        return Err(format!("expected one of {}, found `{source}`", known.join(", ")));
    }
    let weight = number.parse().map_err(|error: fleet::weight::NoWeight| error.to_string())?;
    Ok((source.to_owned(), weight))
}

/// What `--since` says.
#[derive(Clone, Copy, Debug)]
pub enum Since {
    /// A second since 1970.
    Second(u64),
    /// So many seconds before `--now`.
    Ago(u64),
}

fn since(text: &str) -> Result<Since, &'static str> {
    let ago = || time::seconds(text).map(Since::Ago);
    let read = time::second(text).map(Since::Second).or_else(ago);
    read.ok_or("expected a time like 2026-11-26T17:40:00, or an age like 7d")
}

fn half_life(text: &str) -> Result<NonZeroU64, &'static str> {
    // A duration is none of no seconds.
    duration(text).map(|seconds| NonZeroU64::new(seconds).unwrap_or(NonZeroU64::MIN))
}

/// What a command asks of a merge beside the choice.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Part of the rows.
    pub partition: Option<Partition>,
    /// What is done with counts of different sources if no option says it.
    pub unsaid: Mixing,
    /// Where files of levels are kept until all is merged.
    pub keep: Option<PathBuf>,
}

impl From<Mixing> for Wanted {
    fn from(unsaid: Mixing) -> Wanted {
        Wanted { unsaid, ..Wanted::default() }
    }
}

/// Adds up the shards that are given, into a file or a stream.
///
/// # Errors
/// If nothing can be merged, or, with `--strict`, not all.
pub fn merge(
    given: &Given,
    choice: &Choice,
    wanted: impl Into<Wanted>,
    output: &Path,
    global: &Global,
) -> anyhow::Result<MergedFleet> {
    let options = options(choice, wanted.into(), global.threads())?;
    let merged = add_up(given, choice, &options, output, global);
    merged.map(|merged| given.merged(merged)).map_err(|error| given.error(error))
}

fn add_up(
    given: &Given,
    choice: &Choice,
    options: &Options,
    output: &Path,
    global: &Global,
) -> anyhow::Result<MergedFleet> {
    let strict = choice.strict;
    let files = weighed(given, choice)?;
    let mut rejected = given.rejected.clone();
    let given = files.len() + rejected.len();
    output::refuse_inputs([output], files.iter().map(|(path, _)| *path))?;
    refuse(&rejected, strict)?;
    let mut shards = Vec::new();
    let looked = jobs::run(files.len(), global.threads(), |number| {
        let mut bad = Vec::new();
        let shard = files.get(number).map(|(path, _)| look(path, &mut bad));
        shard.transpose().map(|shard| (shard.flatten(), bad))
    });
    for (found, (_, weight)) in looked.into_iter().zip(&files) {
        let (shard, bad) = found?;
        rejected.extend(bad);
        refuse(&rejected, strict)?;
        shards.extend(shard.map(|shard| (shard, *weight)));
    }
    // What went to a stream cannot be taken back.
    let mut checked = output == Path::new("-");
    if checked {
        check(&mut shards, &mut rejected)?;
    }
    loop {
        refuse(&rejected, strict)?;
        if let (true, Some(first)) = (shards.is_empty(), rejected.first()) {
            bail!("nothing to merge: of {given} files none can be; {}", first.why);
        }
        let plan = Plan::of(&shards, options)?;
        if let (true, Some((shard, why))) = (strict, plan.rejected.first()) {
            bail!("{}: {why}", shard.path.display());
        }
        match write(output, &plan, options, global) {
            Ok(rows) => return Ok(MergedFleet::of(&plan, rows, given, rejected)),
            Err(error) if is_of_shard(&error) && !checked && !strict => {
                drop(plan);
                // One bad file is seldom alone, and each would cost a merge.
                checked = true;
                check(&mut shards, &mut rejected)?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Reads a result, whose counts must be such as a profile can hold.
///
/// # Errors
/// Where it cannot be read.
pub fn read_sum(place: &Path) -> anyhow::Result<Counts> {
    match artefact::read(place, std::fs::File::open(place)?) {
        Err(counts::Error::Malformed { expected, .. }) if expected == artefact::NARROW => bail!(
            "a count of the shards together is 2^64 or more, which no recording has; leave out the \
             shard that has it, or give it a small --weight"
        ),
        read => Ok(read?),
    }
}

/// Part of a result says nothing about a service.
///
/// # Errors
/// Where it is one.
pub fn refuse_part(merged: &MergedFleet) -> anyhow::Result<()> {
    match &merged.part {
        Some(part) => bail!("the inputs are part {part} of a result; give all parts"),
        None => Ok(()),
    }
}

/// With `--strict`, the first rejected file is an error.
fn refuse(rejected: &[Aside], strict: bool) -> anyhow::Result<()> {
    match rejected.first().filter(|_| strict) {
        Some(first) => Err(anyhow!("{}", first.why)),
        None => Ok(()),
    }
}

fn is_of_shard(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Error>().is_some_and(|error| error.shard().is_some())
}

/// Reads all rows of all files, and rejects those with bad ones.
fn check(shards: &mut Vec<(Shard, Weight)>, rejected: &mut Vec<Aside>) -> Result<(), Error> {
    let mut good = Vec::with_capacity(shards.len());
    for (shard, weight) in shards.drain(..) {
        match fleet::check(&shard) {
            Ok(()) => good.push((shard, weight)),
            Err(error) if error.shard().is_some() => {
                rejected.push(Aside { path: shard.path, why: error.to_string() });
            }
            Err(error) => return Err(error),
        }
    }
    *shards = good;
    Ok(())
}

fn options(args: &Choice, wanted: Wanted, threads: usize) -> anyhow::Result<Options> {
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_secs());
    let now = match args.now {
        Some(now) => now,
        None => clock().context("the clock is before 1970; give --now")?,
    };
    Ok(Options {
        since: args.since.map(|since| match since {
            Since::Second(second) => second,
            Since::Ago(seconds) => now.saturating_sub(seconds),
        }),
        decay: args.decay,
        now,
        max_per_host: args.max_per_host.map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
        host_class: args.host_class.clone(),
        partition: wanted.partition.filter(|partition| partition.of > 1),
        mixing: match (args.executions, args.raw) {
            (true, _) => Mixing::Executions,
            (_, true) => Mixing::Raw,
            _ => wanted.unsaid,
        },
        by_source: args.source_weight.iter().cloned().collect(),
        memory: args.memory << 20,
        keep: wanted.keep,
        threads,
    })
}

/// The files with the weights of the inputs that name them.
fn weighed<'g>(given: &'g Given, args: &Choice) -> anyhow::Result<Vec<(&'g Path, Weight)>> {
    let (number, weights) = (given.inputs, args.weight.len());
    if weights != 0 && weights != number {
        bail!(
            "the number of --weight is {weights} and that of inputs is {number}: give one weight \
             for each, in the same order"
        );
    }
    let weight = |input: &usize| args.weight.get(*input).copied().unwrap_or(Weight::ONE);
    Ok(given.files.iter().map(|(path, input)| (path.as_path(), weight(input))).collect())
}

/// Merges into the output.
fn write(
    output: &Path,
    plan: &Plan<'_>,
    options: &Options,
    global: &Global,
) -> anyhow::Result<Merged> {
    let bytes = plan.chosen.iter().fold(0u64, |sum, chosen| sum.saturating_add(chosen.shard.bytes));
    let bar = progress::Bytes::new("merge", bytes, global.quiet);
    let mut merged = None;
    output::write_file(output, |out| {
        merged = Some(fleet::merge(plan, options, output, out, &|bytes| bar.add(bytes))?);
        Ok(())
    })?;
    merged.context("the output was not written")
}
