//! `planish fleet binaries`: a store of the programs of all builds, by build ID.

use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::command::report::id_paths::{by_id, by_id_all, with_suffix};
use crate::output::{self, print_json};
use anyhow::{Context as _, bail};
use image::debug_files::DebugSearch;
use image::{BuildId, Image};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

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
    /// The store: a directory, made if it is not there
    #[arg(long, required = true, value_name = "DIR")]
    pub store: PathBuf,
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
    /// The store
    #[arg(long, required = true, value_name = "DIR")]
    pub store: PathBuf,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Runs the tool asked for.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    match &args.tool {
        Tool::Add(args) => add(args, global),
        Tool::Find(args) => find(args),
    }
}

fn add(args: &AddArgs, global: &Global) -> anyhow::Result<u8> {
    let mut added: Vec<Value> = Vec::new();
    for file in &args.files {
        let image = Image::open(file)?;
        let Some(id) = image.build_id() else {
            bail!("{}: it has no build ID; link it with -Wl,--build-id", file.display());
        };
        let place = by_id(&args.store, id);
        copy(&image, &place)?;
        let debug = DebugSearch::default().find(&image)?.image;
        let debug_place = with_suffix(&place, ".debug");
        if let Some(debug) = &debug {
            copy(debug, &debug_place)?;
        }
        if !global.quiet && args.format == Format::Text {
            let also = if debug.is_some() { ", with its debug file" } else { "" };
            eprintln!("added {} as {}{also}", file.display(), place.display());
        }
        added.push(json!({
            "file": file, "build_id": id.to_string(), "path": place,
            "debug_file": debug.map(|_| debug_place),
        }));
    }
    if args.format == Format::Json {
        print_json(&json!({
            "schema": "planish-fleet-binaries", "version": 1, "binaries": added,
        }))?;
    }
    Ok(FINE)
}

/// What is there already has the same build ID, and stays.
fn copy(image: &Image, place: &Path) -> anyhow::Result<()> {
    if place.exists() {
        return Ok(());
    }
    let directory = beside::directory_of(place);
    std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    output::write_file(place, |out| out.write_all(image.bytes()).context("program"))
}

fn find(args: &FindArgs) -> anyhow::Result<u8> {
    let place = |id: &BuildId| by_id_all(&args.store, id).into_iter().find(|place| place.is_file());
    let found: Vec<(String, Option<PathBuf>)> =
        args.ids.iter().map(|id| (id.to_string(), place(id))).collect();
    match args.format {
        Format::Json => {
            let one =
                |(id, path): &(String, Option<PathBuf>)| json!({ "build_id": id, "path": path });
            let all: Vec<Value> = found.iter().map(one).collect();
            print_json(&json!({
                "schema": "planish-fleet-binaries", "version": 1, "binaries": all,
            }))?;
        }
        Format::Text => {
            for (id, path) in &found {
                match path {
                    Some(path) => output::print(&format!("{}\n", path.display()))?,
                    None => eprintln!("{id}: not in {}", args.store.display()),
                }
            }
        }
    }
    Ok(if found.iter().all(|(_, path)| path.is_some()) { FINE } else { NEGATIVE })
}
