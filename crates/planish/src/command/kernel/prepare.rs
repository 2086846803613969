//! `planish kernel prepare`: the options for profiles, into a tree or out of it.

use crate::cli::{FINE, Format, Global};
use crate::output;
use kernel::prepare::changes;
use kernel::tree::{Known, Tree};
use kernel::{patch, write};
use report::Form;
use std::path::PathBuf;

/// Add the options AUTOFDO_CLANG and PROPELLER_CLANG to a kernel tree, or remove them.
///
/// Every edit is placed by a construct of the kernel that must be there exactly once. All are
/// worked out in memory first: if one does not fit, nothing is written, and the message names the
/// file and the construct. With both options off the flags and the linker script are those of the
/// tree.
///
/// A tree that has the options, from planish or from Linux itself, is left as it is; that is no
/// error (exit code 0).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish kernel prepare linux-6.12 --dry-run > profiles.diff  # for patch -p1
  planish kernel prepare linux-6.12
  planish kernel prepare linux-6.12 --revert        # byte for byte what it was

Exit codes: 0 the tree has the options (with --revert: has ours no longer), 2
it was not changed.")]
pub struct Args {
    /// The top directory of the Linux sources
    #[arg(value_name = "TREE")]
    tree: PathBuf,
    /// Print the changes as a unified diff, write nothing
    #[arg(long)]
    dry_run: bool,
    /// Take the edits back
    #[arg(long)]
    revert: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t, conflicts_with = "dry_run")]
    format: Format,
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let tree = Tree::open(&args.tree)?;
    let (changes, done) = changes(&tree, args.revert)?;
    let prepared = done.result == "prepared" && !global.quiet;
    if prepared && tree.version.known() == Some(Known::Untried) {
        eprintln!(
            "planish: warning: the edits fit Linux {}, but were not tried on any tree of 6.6",
            tree.version
        );
    }
    if args.dry_run {
        output::print(&patch::unified(&changes))?;
        if changes.is_empty() && !global.quiet {
            eprintln!("{}", report::kernel::prepare::sentence(&done));
        }
        return Ok(FINE);
    }
    write::write(&args.tree, &changes)?;
    if args.format == Format::Json {
        output::print_json(&Form::first("planish-kernel-prepare", done))?;
        return Ok(FINE);
    }
    output::print(&report::kernel::prepare::text(&done))?;
    if prepared {
        eprintln!(
            "next: planish kernel config {0} > profile.config, merge it, then planish kernel \
             config check {0}",
            output::word(&args.tree)
        );
    }
    Ok(FINE)
}
