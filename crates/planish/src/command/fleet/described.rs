//! Options that say where shards are written, and what no recording knows of itself.

use super::second;
use anyhow::{Context as _, bail};
use fleet::{Recording, inputs};
use std::path::{Path, PathBuf};

/// Options of the commands that make a shard of each input.
#[derive(Clone, Debug, clap::Args)]
pub struct Described {
    /// Where to write the shard of one input; `-` is standard output
    #[arg(short, long, value_name = "FILE", required_unless_present = "into")]
    pub output: Option<PathBuf>,
    /// Write the shards into this directory, as ID.counts
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub into: Option<PathBuf>,
    /// The recording's name among all recordings, which counts once [default: a hash of its bytes]
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// The machine [default: the one that the recording names]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// What kind of machine it is, for `fleet merge --host-class`
    #[arg(long, value_name = "NAME")]
    pub host_class: Option<String>,
    /// Where it stands, as you call it
    #[arg(long, value_name = "NAME")]
    pub region: Option<String>,
    /// The build of the program, as you call it
    #[arg(long, value_name = "TEXT")]
    pub program: Option<String>,
    /// When the recording began: 2026-11-26T17:40:00 (UTC), or seconds since 1970 [default: as the
    /// recording says]
    #[arg(long, value_name = "TIME", value_parser = second)]
    pub begin: Option<u64>,
    /// When it ended
    #[arg(long, value_name = "TIME", value_parser = second)]
    pub end: Option<u64>,
    /// Taken branches of the program for each second of CPU time, if you know them (planish stat);
    /// `fleet merge --executions` weighs samples that are taken by time with it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub branch_rate: Option<u64>,
}

impl Described {
    /// Refuses what makes no sense for so many inputs, and makes the directory.
    pub fn prepare(&self, inputs: usize, json: bool) -> anyhow::Result<()> {
        if self.output.is_some() && inputs != 1 {
            bail!("-o takes the shard of one recording; give --into DIR for several");
        }
        if self.id.is_some() && inputs != 1 {
            bail!("--id names one recording, and {inputs} are given");
        }
        if json && self.is_stream() {
            bail!("-o - and --format json both want standard output; write the shard to a file");
        }
        if let Some(into) = &self.into {
            std::fs::create_dir_all(into).with_context(|| into.display().to_string())?;
        }
        Ok(())
    }

    /// Whether the shard goes to standard output.
    pub fn is_stream(&self) -> bool {
        self.output.as_deref() == Some(Path::new("-"))
    }

    /// Where the shard of a recording is written.
    pub fn place(&self, recording: &Recording) -> anyhow::Result<PathBuf> {
        match (&self.output, &self.into) {
            (Some(output), _) => Ok(output.clone()),
            (None, Some(into)) => Ok(into.join(inputs::file_name(&recording.id))),
            (None, None) => bail!("-o FILE or --into DIR says where to write"),
        }
    }

    /// What the user says of a recording stands before what it says itself.
    pub fn describe(&self, recording: &mut Recording) {
        let texts = [
            (&self.host, &mut recording.host),
            (&self.host_class, &mut recording.host_class),
            (&self.region, &mut recording.region),
            (&self.program, &mut recording.program),
        ];
        for (given, place) in texts {
            if let Some(given) = given {
                place.clone_from(given);
            }
        }
        recording.begin = self.begin.or(recording.begin);
        recording.end = self.end.or(recording.end);
    }
}
