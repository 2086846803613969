//! How are object stores asked: for how long, and with how much room? And how does a result get into
//! one?

use anyhow::{Context as _, bail};
use beside::scratch::Scratch;
use std::path::Path;
use std::time::Duration;
use stores::{Address, Error, Settings, Store};

/// Most seconds that a request is repeated: what is signed with it ends after a while.
const MOST_PATIENCE: u64 = 600;

/// Options of commands that ask stores.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Object stores")]
pub struct Retry {
    /// Repeat a request to an object store that fails, for this long: seconds, or 90s, 5m; up to 10m
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = patience)]
    retry_for: u64,
}

/// Options of commands that read objects of stores.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Object stores")]
pub struct Remote {
    #[command(flatten)]
    pub retry: Retry,
    /// Disk space that objects may take in TMPDIR while they are read, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 65536)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    pub disk: u64,
}

fn patience(text: &str) -> Result<u64, &'static str> {
    let read = fleet::time::seconds(text).filter(|seconds| *seconds <= MOST_PATIENCE);
    read.ok_or("expected seconds, or a number with s or m, up to 10m")
}

impl Retry {
    fn settings(self) -> Settings {
        Settings { patience: Duration::from_secs(self.retry_for) }
    }
}

/// The bucket of an address, for as patient a command as `retry` says.
///
/// # Errors
/// Where it cannot be asked.
pub fn open(address: &Address, retry: Retry) -> Result<Store, Error> {
    terminal::survive_lost_connections();
    Store::open(address, &retry.settings())
}

/// Has `write` write the output: at its place, or, if that is the address of an object, in a file for
/// a while, which then becomes the object at once.
///
/// # Errors
/// Those of `write`, and where the object cannot be put.
pub fn written<T>(
    output: &Path,
    retry: Retry,
    write: impl FnOnce(&Path) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    if !Address::is_meant(output) {
        return write(output);
    }
    let address = Address::of(output)?;
    if address.is_folder() {
        bail!("{address}: names no object; add a name, such as all.counts");
    }
    let store = open(&address, retry)?;
    let folder = Scratch::new().context("a directory for the result")?;
    let place = folder.path().join("result");
    let value = write(&place)?;
    let put = store.put(&[(address.key().to_owned(), place)], true, &|_| ());
    put.into_iter().next().context("nothing was put")??;
    Ok(value)
}
