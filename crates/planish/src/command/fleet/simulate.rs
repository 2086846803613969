//! `planish fleet simulate`: shards as a fleet would deliver them, out of real counts.

use super::{duration, second};
use crate::cli::{FINE, Format, Global};
use crate::command::percent::percent_of_all;
use crate::output::{self, print_json};
use crate::progress;
use anyhow::{Context as _, bail};
use counts::{Counts, artefact};
use fleet::simulate::{Fleet, MOST_SOURCES, shard};
use random::Random;
use std::path::{Path, PathBuf};

/// Arguments of `planish fleet simulate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Counts of one build each, the oldest first
    #[arg(required = true, value_name = "COUNTS")]
    pub inputs: Vec<PathBuf>,
    /// Write the shards into this directory, which must be empty or absent
    #[arg(long, required = true, value_name = "DIR")]
    pub into: PathBuf,
    /// Hosts, which get the newer builds one after the other
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub hosts: u32,
    /// Recordings of each host
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub recordings: u32,
    /// Time of a recording
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub window: u64,
    /// When the first ones begin
    #[arg(long, value_name = "TIME", default_value = "2026-01-01", value_parser = second)]
    pub begin: u64,
    /// How much of the real counts a recording of a host in the middle has, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent_of_all)]
    pub share: f64,
    /// How much hosts differ: host n is 1 ÷ n^SKEW as busy as the first (0: all are alike)
    #[arg(long, value_name = "SKEW", default_value_t = 0.5, value_parser = skew)]
    pub skew: f64,
    /// Kinds of sources, which take turns among the hosts: each next one takes a quarter of the samples,
    /// so that one of its counts stands for four times as many executions
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_SOURCES)))]
    pub sources: u32,
    /// Deliver this many of every hundred shards twice
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent_of_all)]
    pub duplicates: f64,
    /// Cut off this many of every hundred shards
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent_of_all)]
    pub truncated: f64,
    /// What all chance depends on
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How to print what was written; text goes to standard error
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

fn skew(text: &str) -> Result<f64, &'static str> {
    let read: Option<f64> = text.parse().ok();
    read.filter(|skew| (0.0..=4.0).contains(skew)).ok_or("expected a number from 0 to 4")
}

/// Runs the tool.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let into = &args.into;
    let named = || into.display().to_string();
    std::fs::create_dir_all(into).with_context(named)?;
    if std::fs::read_dir(into).with_context(named)?.next().is_some() {
        bail!("{}: there is something in it; shards of two fleets do not mix", into.display());
    }
    let builds: Vec<Counts> = args
        .inputs
        .iter()
        .map(|path| Ok(artefact::read(path, crate::input::regular(path)?)?))
        .collect::<anyhow::Result<_>>()?;
    let fleet = Fleet {
        hosts: args.hosts,
        windows: args.recordings,
        seconds: args.window,
        begin: args.begin,
        share: args.share / 100.0,
        skew: args.skew,
        sources: args.sources,
        seed: args.seed,
    };
    let mut fault = Random::new(args.seed ^ 0x5eed);
    let (mut shards, mut twice, mut cut, mut rows) = (0u64, 0u64, 0u64, 0u64);
    let all = u64::from(args.hosts) * u64::from(args.recordings);
    let bar = progress::Bytes::new("simulate", all, global.quiet);
    for host in 0..args.hosts {
        for window in 0..args.recordings {
            let (recording, counts) = shard(&fleet, &builds, host, window);
            rows += counts.images.iter().map(rows_of).sum::<u64>();
            let place = into.join(format!("host{host}-{window}.counts"));
            let mut bytes = Vec::new();
            fleet::write(&place, &counts, recording, &mut bytes)?;
            shards += 1;
            if fault.unit() * 100.0 < args.duplicates {
                deliver(&into.join(format!("host{host}-{window}-again.counts")), &bytes)?;
                twice += 1;
            }
            if fault.unit() * 100.0 < args.truncated {
                // A delivery that broke off.
                bytes.truncate(bytes.len() / 2);
                cut += 1;
            }
            deliver(&place, &bytes)?;
            bar.add(1);
        }
    }
    if args.format == Format::Json {
        print_json(&serde_json::json!({
            "schema": "planish-fleet-simulate", "version": 1, "shards": shards,
            "duplicates": twice, "truncated": cut, "rows": rows,
        }))?;
    } else if !global.quiet {
        eprintln!(
            "wrote {shards} shards with {rows} rows to {}, {twice} of them twice, {cut} cut off",
            into.display()
        );
    }
    Ok(FINE)
}

fn rows_of(image: &counts::ImageCounts) -> u64 {
    let half = &image.first_half;
    let rows = [
        image.samples.len(),
        image.branches.len(),
        image.fall_throughs.len(),
        half.samples.len(),
        half.branches.len(),
        half.fall_throughs.len(),
    ];
    rows.iter().sum::<usize>() as u64
}

fn deliver(place: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    output::write_file(place, |out| out.write_all(bytes).context("shard"))
}
