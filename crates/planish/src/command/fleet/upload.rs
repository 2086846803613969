//! `planish fleet upload`: shards into an object store, each once, however often you run it.
//!
//! A shard's key follows from its recordings, so that who uploads it again, or from another host, names
//! the same object. Nothing is remembered here: what is there is the store's to say.

use super::remote::{Retry, open};
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output::print_json;
use crate::progress;
use anyhow::{Context as _, bail};
use fleet::{Shard, inputs};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use stores::{Address, Error, Fate, Put, Store};

/// Files that are looked at before any of them is sent, and removed before the next are.
const BATCH: usize = 256;

/// Arguments of `planish fleet upload`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directories with shards *.counts in or below them, shards, or patterns with * and ?; what
    /// begins with a dot is not whole yet and is left alone
    #[arg(required = true, value_name = "SPOOL|FILE")]
    pub inputs: Vec<PathBuf>,
    /// Where to: s3://BUCKET/KEY or gs://BUCKET/KEY; each shard becomes KEY/ID.counts, ID being that of
    /// its recording
    #[arg(long, required = true, value_name = "ADDRESS")]
    pub to: Address,
    /// Remove each shard here once it is there
    #[arg(long)]
    pub remove: bool,
    /// Replace objects that hold other counts of the same recordings; without it they stay, and the
    /// summary names them
    #[arg(long)]
    pub replace: bool,
    /// How to print what was uploaded; text goes to standard error
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    #[command(flatten)]
    pub retry: Retry,
}

/// What became of a file.
#[derive(Clone, Debug)]
enum Outcome {
    Done(Put),
    /// It is not there, for this reason.
    Failed(String),
    /// Somebody took it away meanwhile.
    Gone,
}

/// A file, its object, and what became of it.
struct Told {
    path: PathBuf,
    address: Option<Address>,
    outcome: Outcome,
    removed: bool,
}

/// A shard that is to be sent.
struct Ready {
    path: PathBuf,
    key: String,
    /// What tells it from a file that takes its name meanwhile.
    identity: Option<(u64, u64, i64, i64)>,
}

/// Runs the tool.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let files = files(&args.inputs)?;
    // Nothing to do is no reason to hide that it could not be done.
    let store = if files.is_empty() { Some(open(&args.to, args.retry)?) } else { None };
    let bytes = files.iter().filter_map(|path| path.metadata().ok()).map(|found| found.len());
    let bar = progress::Bytes::new("upload", bytes.sum(), global.quiet);
    let mut upload = Upload { args, store, bar, told: Vec::with_capacity(files.len()) };
    // The first one alone: where it is refused, so are the others, and one error says it.
    let (first, rest) = files.split_at(files.len().min(1));
    upload.send(first)?;
    for batch in rest.chunks(BATCH) {
        upload.send(batch)?;
    }
    tell(args, &upload.told, global)
}

/// The shards of all inputs, each once; an empty directory is as good as a full one.
fn files(named: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let (mut files, mut seen) = (Vec::new(), BTreeSet::new());
    for input in named {
        if Address::is_meant(input) {
            bail!("{}: is in a store already; give files of this machine", input.display());
        }
        let found = match input.is_dir() {
            true => inputs::in_directory(input)?,
            false => inputs::expand(input)?,
        };
        // One that goes away later was taken by somebody; one that never was there is a mistake.
        if found.contains(input) && input.symlink_metadata().is_err() {
            bail!("{}: there is no such file", input.display());
        }
        files.extend(found.into_iter().filter(|path| seen.insert(path.clone())));
    }
    Ok(files)
}

struct Upload<'a> {
    args: &'a Args,
    /// Opened once there is something to send.
    store: Option<Store>,
    bar: progress::Bytes,
    told: Vec<Told>,
}

impl Upload<'_> {
    /// Sends some files, and removes those that are there if that is asked for.
    fn send(&mut self, files: &[PathBuf]) -> anyhow::Result<()> {
        let (mut ready, mut again): (Vec<Ready>, Vec<Ready>) = (Vec::new(), Vec::new());
        let mut keys = BTreeSet::new();
        for path in files {
            match self.look(path) {
                // Two of one name cannot be sent at once: each would find that nothing is there.
                Ok(one) if keys.insert(one.key.clone()) => ready.push(one),
                Ok(one) => again.push(one),
                Err(outcome) => self.note(path.clone(), None, outcome, false),
            }
        }
        self.put(ready)?;
        for one in again {
            self.put(vec![one])?;
        }
        Ok(())
    }

    /// Reads a file as whoever merges it will.
    fn look(&self, path: &Path) -> Result<Ready, Outcome> {
        let failed = |error: fleet::Error| match path.symlink_metadata() {
            Err(_) => Outcome::Gone,
            Ok(_) => Outcome::Failed(error.to_string()),
        };
        let identity = identity(path);
        let shard = Shard::open(path).map_err(failed)?;
        fleet::check(&shard).map_err(failed)?;
        Ok(Ready { path: path.to_owned(), key: self.args.to.key_below(&name(&shard)), identity })
    }

    fn put(&mut self, ready: Vec<Ready>) -> anyhow::Result<()> {
        if ready.is_empty() {
            return Ok(());
        }
        let store = match &mut self.store {
            Some(store) => store,
            none => none.insert(open(&self.args.to, self.args.retry)?),
        };
        let files: Vec<(String, PathBuf)> =
            ready.iter().map(|one| (one.key.clone(), one.path.clone())).collect();
        let bar = &self.bar;
        let done = store.put(&files, self.args.replace, &|bytes| bar.add(bytes));
        for (done, one) in done.into_iter().zip(ready) {
            let outcome = match done {
                Ok(put) => Outcome::Done(put),
                Err(error @ Error::Denied { .. }) if self.told.is_empty() => {
                    return Err(error.into());
                }
                Err(Error::File { .. }) if one.path.symlink_metadata().is_err() => Outcome::Gone,
                Err(error) => Outcome::Failed(error.to_string()),
            };
            let is_there =
                matches!(outcome, Outcome::Done(Put { fate: Fate::Uploaded | Fate::Present, .. }));
            let mut removed = false;
            if self.args.remove && is_there && identity(&one.path) == one.identity {
                let gone = std::fs::remove_file(&one.path);
                gone.with_context(|| format!("{}: cannot be removed", one.path.display()))?;
                removed = true;
            }
            self.note(one.path, Some(self.args.to.with_key(&one.key)), outcome, removed);
        }
        Ok(())
    }

    fn note(&mut self, path: PathBuf, address: Option<Address>, outcome: Outcome, removed: bool) {
        self.told.push(Told { path, address, outcome, removed });
    }
}

/// What tells a file from another one of its name.
fn identity(path: &Path) -> Option<(u64, u64, i64, i64)> {
    let found = path.symlink_metadata().ok()?;
    Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

/// The name of a shard's object: after its recording, or, if it has several, after what it says of
/// them.
fn name(shard: &Shard) -> String {
    let description = &shard.description;
    match (&description.recordings[..], &description.partition) {
        ([one], None) if one.weights.is_empty() => inputs::file_name(&one.id),
        _ => {
            let hash = Sha256::digest(description.text().as_bytes());
            let digits = hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            inputs::file_name(&format!("merged-{digits}"))
        }
    }
}

impl Told {
    /// What became of it, in a word, and why.
    fn fate(&self) -> (&'static str, Option<String>) {
        match &self.outcome {
            Outcome::Done(Put { fate: Fate::Uploaded, .. }) => ("uploaded", None),
            Outcome::Done(Put { fate: Fate::Present, .. }) => ("present", None),
            Outcome::Done(Put { fate: Fate::Differs, .. }) => {
                let why = "other counts of the same recordings are there; --replace puts these in \
                           their place";
                ("differs", Some(why.to_owned()))
            }
            Outcome::Failed(why) => ("failed", Some(why.clone())),
            Outcome::Gone => ("gone", None),
        }
    }

    fn json(&self) -> Value {
        let (fate, why) = self.fate();
        json!({
            "path": self.path, "object": self.address.as_ref().map(Address::to_string),
            "fate": fate, "reason": why, "removed": self.removed,
        })
    }
}

fn tell(args: &Args, told: &[Told], global: &Global) -> anyhow::Result<u8> {
    const MOST_NAMED: usize = 10;
    let number = |fate: &str| told.iter().filter(|one| one.fate().0 == fate).count();
    let fates = ["uploaded", "present", "differs", "failed", "gone"];
    let [uploaded, present, differs, failed, gone] = fates.map(number);
    let sent = told.iter().map(|one| match one.outcome {
        Outcome::Done(Put { fate: Fate::Uploaded, bytes }) => bytes,
        _ => 0,
    });
    let (sent, removed) = (sent.sum::<u64>(), told.iter().filter(|one| one.removed).count());
    if args.format == Format::Json {
        print_json(&json!({
            "schema": "planish-fleet-upload", "version": 1, "to": args.to.to_string(),
            "uploaded": uploaded, "present": present, "differs": differs, "failed": failed,
            "gone": gone, "removed": removed, "bytes_uploaded": sent,
            "files": told.iter().map(Told::json).collect::<Vec<_>>(),
        }))?;
    }
    if !global.quiet {
        let files =
            if told.len() == 1 { "1 shard".to_owned() } else { format!("{} shards", told.len()) };
        let size = report::bytes(sent as f64);
        eprintln!("uploaded {uploaded} of {files}, {size}, to {}; {present} there before", args.to);
        if removed > 0 {
            eprintln!("removed {removed} here");
        }
        if gone > 0 {
            eprintln!("note: {gone} went away meanwhile");
        }
    }
    let bad = || told.iter().filter(|one| matches!(one.fate().0, "differs" | "failed"));
    let most = if global.verbose { usize::MAX } else { MOST_NAMED };
    for one in bad().take(most) {
        let (fate, why) = one.fate();
        let (why, path) = (why.unwrap_or_default(), one.path.display().to_string());
        let named = if why.contains(&path) { String::new() } else { format!("{path}: ") };
        eprintln!("{fate}: {named}{why}");
    }
    if bad().count() > most {
        eprintln!("and {} more (-v names them)", bad().count() - most);
    }
    Ok(if differs + failed == 0 { FINE } else { NEGATIVE })
}
