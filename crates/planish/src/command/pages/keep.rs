//! `planish pages keep`: holds text in memory until ended.

use super::{size, warm};
use crate::cli::{FINE, Global, NEGATIVE};
use crate::output::print;
use anyhow::Context as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Hold text in memory on its superpages until ended; print a systemd unit that does.
///
/// Cached superpages are split or dropped when memory is short; locked ones are not. Ends by itself
/// when a file is replaced, so that the unit starts it again with the new one.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Programs, whose libraries are held with them, libraries, or numbers of processes
    #[arg(value_name = "FILE|PID", required = true)]
    what: Vec<String>,
    /// Only the files named, not their libraries
    #[arg(long)]
    alone: bool,
    /// Print a systemd unit that does this, and end
    #[arg(long)]
    unit: bool,
}

/// How often the files are looked at.
const LOOK: Duration = Duration::from_millis(500);

pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    if args.unit {
        return unit(args);
    }
    let mut files = Vec::new();
    for what in &args.what {
        files.extend(warm::files_of(what, args.alone)?);
    }
    let stop = super::super::compare::stop_flag()?;
    let warmed = superpages::warm_all(files)?;
    let mut kept = Vec::new();
    for file in warmed.iter().filter(|file| file.eligible_bytes > 0) {
        if !file.is_whole() {
            eprint!("planish: {}", report::pages::warmed(file));
        }
        kept.push(superpages::keep(&file.path).with_context(|| file.path.display().to_string())?);
    }
    let locked: u64 = kept.iter().map(|one| one.locked_bytes).sum();
    let huge: u64 = kept.iter().map(|one| one.superpage_bytes).sum();
    if locked == 0 {
        eprintln!(
            "planish: no text of these files can lie on superpages; planish pages check says why"
        );
        return Ok(NEGATIVE);
    }
    if !global.quiet {
        print(&format!(
            "holding {} of text of {} files, {} of it on superpages\n",
            size(locked),
            kept.len(),
            size(huge)
        ))?;
    }
    while !stop.load(Ordering::Relaxed) {
        if kept.iter().any(superpages::Kept::is_replaced) {
            eprintln!("planish: a file was replaced; start again to hold the new one");
            return Ok(NEGATIVE);
        }
        std::thread::sleep(LOOK);
    }
    Ok(FINE)
}

/// A unit that holds the files. Paths are absolute; processes have no place in it, since their
/// numbers change.
fn unit(args: &Args) -> anyhow::Result<u8> {
    let own = std::env::current_exe().context("the path of this program")?;
    let mut words = vec![own.display().to_string(), "pages".into(), "keep".into()];
    if args.alone {
        words.push("--alone".into());
    }
    for what in &args.what {
        let path = std::fs::canonicalize(what)
            .with_context(|| format!("{what}: a unit holds files, so give a file that exists"))?;
        // What is no program would be tried again every few seconds for ever.
        superpages::text_bytes(&path)?;
        words.push(path.display().to_string());
    }
    print(&superpages::unit(&words))?;
    Ok(FINE)
}
