//! `planish fleet binaries`: a store of the programs of all builds, by build ID.

use super::remote::{self, Retry};
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::command::report::id_paths::{by_id, by_id_all, with_suffix};
use crate::command::report::servers::Servers;
use crate::output::{self, print_json};
use anyhow::{Context as _, bail};
use debuginfod::Kind;
use image::debug_files::{DebugSearch, has_debug_information};
use image::{BuildId, Image};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use stores::{Address, Store};

/// Arguments of `planish fleet binaries`.
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    tool: Tool,
}

/// What can be done with a store.
#[derive(Debug, clap::Subcommand)]
enum Tool {
    /// Copy programs and libraries, with their separate debug files, into a store
    Add(AddArgs),
    /// Say where a store has the programs of build IDs
    Find(FindArgs),
}

/// Arguments of `planish fleet binaries add`.
#[derive(Debug, clap::Args)]
pub struct AddArgs {
    /// Programs and libraries with a build ID
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The store: a directory, made if it is not there, or s3://BUCKET/KEY or gs://BUCKET/KEY
    #[arg(long, required = true, value_name = "DIR")]
    pub store: PathBuf,
    #[command(flatten)]
    pub retry: Retry,
    /// How to print what was added; text goes to standard error
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Arguments of `planish fleet binaries find`.
#[derive(Debug, clap::Args)]
pub struct FindArgs {
    /// Build IDs, in hex
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<BuildId>,
    /// The store: a directory, or s3://BUCKET/KEY or gs://BUCKET/KEY
    #[arg(long, required = true, value_name = "DIR")]
    pub store: PathBuf,
    /// Fetch those that the store lacks from debuginfod servers (URL or, without it, those that
    /// DEBUGINFOD_URLS lists), and keep them in debuginfod's cache
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub debuginfod: Option<String>,
    #[command(flatten)]
    pub retry: Retry,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Runs the tool asked for.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    match &args.tool {
        Tool::Add(args) => add(args, global),
        Tool::Find(args) => find(args, global),
    }
}

fn add(args: &AddArgs, global: &Global) -> anyhow::Result<u8> {
    let store = Place::open(&args.store, args.retry)?;
    let mut added: Vec<Value> = Vec::new();
    for file in &args.files {
        let image = Image::open(file)?;
        let Some(id) = image.build_id() else {
            bail!("{}: it has no build ID; link it with -Wl,--build-id", file.display());
        };
        let name = by_id(Path::new(""), id);
        let place = store.add(&image, &name)?;
        let debug = DebugSearch::default().find(&image)?.image;
        let debug_place =
            debug.as_ref().map(|debug| store.add(debug, &with_suffix(&name, ".debug")));
        let debug_place = debug_place.transpose()?;
        if !global.quiet && debug.is_none() && !has_debug_information(&image) {
            eprintln!(
                "note: {} has no debug information, and none was found: counts of it give no profile; add the file \
                 from before it was stripped, or put its debug file beside it",
                file.display()
            );
        }
        if !global.quiet && args.format == Format::Text {
            let also = if debug_place.is_some() { ", with its debug file" } else { "" };
            eprintln!("added {} as {place}{also}", file.display());
        }
        added.push(json!({
            "file": file, "build_id": id.to_string(), "path": place,
            "debug_file": debug_place,
        }));
    }
    if args.format == Format::Json {
        print_json(&json!({
            "schema": "planish-fleet-binaries", "version": 1, "binaries": added,
        }))?;
    }
    Ok(FINE)
}

/// Where a store is.
enum Place {
    Directory(PathBuf),
    Bucket(Address, Store),
}

impl Place {
    fn open(store: &Path, retry: Retry) -> anyhow::Result<Place> {
        if !Address::is_meant(store) {
            return Ok(Place::Directory(store.to_owned()));
        }
        let address = Address::of(store)?;
        let store = remote::open(&address, retry)?;
        Ok(Place::Bucket(address, store))
    }

    /// Adds a file under a name; where it is then. What is there already has the same build ID, and
    /// stays.
    fn add(&self, image: &Image, name: &Path) -> anyhow::Result<String> {
        match self {
            Place::Directory(directory) => {
                let place = directory.join(name);
                copy(image, &place)?;
                Ok(place.display().to_string())
            }
            Place::Bucket(address, store) => {
                let key = address.key_below(&name.to_string_lossy());
                let place = address.with_key(&key).to_string();
                let put = store.put(&[(key, image.path().to_owned())], false, &|_| ());
                put.into_iter().collect::<Result<Vec<_>, _>>()?;
                Ok(place)
            }
        }
    }

    /// Where the program of a build is; none if it is not there.
    fn find(&self, id: &BuildId) -> anyhow::Result<Option<String>> {
        match self {
            Place::Directory(directory) => {
                let mut places = by_id_all(directory, id).into_iter();
                let found = places.find(|place| place.is_file());
                Ok(found.map(|place| place.display().to_string()))
            }
            Place::Bucket(address, store) => {
                for name in by_id_all(Path::new(""), id).into_iter().rev() {
                    let key = address.key_below(&name.to_string_lossy());
                    if store.head(&key)?.is_some() {
                        return Ok(Some(address.with_key(&key).to_string()));
                    }
                }
                Ok(None)
            }
        }
    }
}

fn copy(image: &Image, place: &Path) -> anyhow::Result<()> {
    if place.exists() {
        return Ok(());
    }
    let directory = beside::directory_of(place);
    std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    output::write_file(place, |out| out.write_all(image.bytes()).context("program"))
}

fn find(args: &FindArgs, global: &Global) -> anyhow::Result<u8> {
    let store = Place::open(&args.store, args.retry)?;
    if let Place::Directory(directory) = &store
        && !directory.is_dir()
    {
        bail!("{}: there is no such directory", directory.display());
    }
    let servers = args.debuginfod.as_deref();
    let servers = servers.map(|url| Servers::new(url, global.quiet)).transpose()?;
    let mut found: Vec<(String, Option<String>)> = Vec::new();
    for id in &args.ids {
        let mut place = store.find(id)?;
        if let (None, Some(servers)) = (&place, &servers) {
            match servers.find(id, Kind::Executable) {
                Ok(fetched) => place = Some(fetched.display().to_string()),
                Err(why) => eprintln!("{id}: {why}"),
            }
        }
        found.push((id.to_string(), place));
    }
    match args.format {
        Format::Json => {
            let one =
                |(id, path): &(String, Option<String>)| json!({ "build_id": id, "path": path });
            let all: Vec<Value> = found.iter().map(one).collect();
            print_json(&json!({
                "schema": "planish-fleet-binaries", "version": 1, "binaries": all,
            }))?;
        }
        Format::Text => {
            for (id, path) in &found {
                match path {
                    Some(path) => output::print(&format!("{path}\n"))?,
                    None => eprintln!("{id}: not in {}", args.store.display()),
                }
            }
        }
    }
    Ok(if found.iter().all(|(_, path)| path.is_some()) { FINE } else { NEGATIVE })
}
