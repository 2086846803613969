//! Which service is it that shards are looked at for? A program by its file name, in all of its builds, of
//! which one is the newest.

use super::at_hand::AtHand;
use super::builds::Newest;
use super::remote::Remote;
use anyhow::{anyhow, bail};
use counts::{Counts, ImageCounts};
use image::Image;
use profile::recorded::Recorded;
use std::path::{Path, PathBuf};

/// Arguments that say it.
#[derive(Debug, clap::Args)]
pub struct ServiceArgs {
    /// Counts files, directories with files *.counts in or below them, patterns with * and ?; or
    /// any of these in a store, as s3://BUCKET/KEY or gs://BUCKET/KEY
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    /// The build that the profile is for, with debug information
    #[arg(long = "for", value_name = "BINARY")]
    pub binary: PathBuf,
    /// The file name under which hosts run the service [default: that of BINARY]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Look in this directory for the programs of other builds (.build-id/xx/yyyy, or by file name)
    /// and their debug files, or in this bucket (s3://BUCKET/KEY, gs://BUCKET/KEY); repeatable
    #[arg(long, value_name = "DIR")]
    pub binaries: Vec<PathBuf>,
}

/// A service.
pub struct Service {
    /// Its file name.
    pub name: String,
    /// Where the programs of its builds are.
    pub store: AtHand,
    /// Its newest build.
    pub recorded: Recorded,
}

impl Service {
    /// Opens the newest build; `debuginfod` servers are asked where they are named.
    ///
    /// # Errors
    /// Where it cannot be read, or a store cannot be asked.
    pub fn open(
        args: &ServiceArgs,
        debuginfod: Option<&str>,
        remote: &Remote,
        quiet: bool,
    ) -> anyhow::Result<Service> {
        let store = AtHand::new(&args.binaries, debuginfod, remote, quiet)?;
        let image = Image::open(&args.binary)?;
        store.find_debug_file(&image);
        let recorded = Recorded::find(image, store.search())?;
        let name = match (&args.name, args.binary.file_name()) {
            (Some(name), _) => name.clone(),
            (None, Some(name)) => name.to_string_lossy().into_owned(),
            (None, None) => bail!("{}: expected a file", args.binary.display()),
        };
        Ok(Service { name, store, recorded })
    }

    fn is_named(&self, counts: &ImageCounts) -> bool {
        Path::new(&counts.path).file_name().is_some_and(|file| *file == *self.name)
    }

    /// The counts of its builds.
    pub fn builds<'c>(&self, counts: &'c Counts, newest: &Newest<'_>) -> Vec<&'c ImageCounts> {
        let own = |image: &&ImageCounts| newest.is(image) || self.is_named(image);
        counts.images.iter().filter(own).collect()
    }

    /// Refuses a name that the user gave and nothing has which was counted: it would leave out all other builds.
    ///
    /// # Errors
    /// Where there is none of it.
    pub fn refuse_unknown(&self, args: &ServiceArgs, counts: &Counts) -> anyhow::Result<()> {
        match args.name.is_none() || counts.images.iter().any(|image| self.is_named(image)) {
            true => Ok(()),
            false => Err(self.nowhere(counts)),
        }
    }

    /// That no shard counts it.
    pub fn nowhere(&self, counts: &Counts) -> anyhow::Error {
        let others: Vec<&str> = counts.images.iter().take(5).map(|image| &*image.path).collect();
        anyhow!(
            "no shard counts a program called {}; there are {}; --name says how it is called",
            self.name,
            if others.is_empty() { "none".to_owned() } else { others.join(", ") }
        )
    }
}
