//! `planish kernel prepare`: the options for profiles, into a tree or out of it.

use crate::cli::{FINE, Format, Global};
use crate::output;
use anyhow::bail;
use kernel::Error;
use kernel::prepare::{FileChange, Standing, standing};
use kernel::tree::{Known, Tree};
use kernel::{patch, write};
use serde_json::json;
use std::path::PathBuf;

/// Give a tree the options AUTOFDO_CLANG and PROPELLER_CLANG, or take them back.
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
  planish kernel prepare linux-6.12 --dry-run > profiles.diff    # look first, or apply it with \
                        patch -p1
  planish kernel prepare linux-6.12
  planish kernel prepare linux-6.12 --revert                     # byte for byte what it was

Exit codes: 0 the tree has the options (with --revert: has ours no longer), 2 it was not changed.")]
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

/// What was done, as a word of the JSON form and a sentence.
struct Done<'a> {
    word: &'static str,
    sentence: String,
    changes: &'a [FileChange],
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let tree = Tree::open(&args.tree)?;
    let found = standing(&tree)?;
    let name = args.tree.display();
    let (changes, word, sentence): (&[FileChange], _, _) = match (&found, args.revert) {
        (Standing::Plain { prepare }, false) => {
            if tree.version.known() == Some(Known::Untried) && !global.quiet {
                eprintln!(
                    "planish: warning: the edits fit Linux {}, but were not tried on any tree of \
                     6.6",
                    tree.version
                );
            }
            (prepare, "prepared", format!("{name}: Linux {}: prepared", tree.version))
        }
        (Standing::Prepared { .. }, false) => (
            &[],
            "was-prepared",
            format!("{name}: Linux {}: is prepared already; nothing to do", tree.version),
        ),
        (Standing::HasTheOptions, false) => {
            let sentence = format!(
                "{name}: Linux {}: has AUTOFDO_CLANG and PROPELLER_CLANG by itself; nothing to do",
                tree.version
            );
            (&[], "has-the-options", sentence)
        }
        (Standing::Half { done, open, .. }, false) => bail!(Error::HalfPrepared {
            tree: args.tree.clone(),
            done: done.join(", "),
            open: open.join(", ")
        }),
        (Standing::Prepared { revert } | Standing::Half { revert, .. }, true) => {
            (revert, "reverted", format!("{name}: Linux {}: taken back", tree.version))
        }
        (Standing::Plain { .. }, true) => (
            &[],
            "was-plain",
            format!("{name}: Linux {}: is not prepared; nothing to take back", tree.version),
        ),
        (Standing::HasTheOptions, true) => bail!(Error::NothingToRevert {
            tree: args.tree.clone(),
            reason: "its AUTOFDO_CLANG and PROPELLER_CLANG are not from planish",
        }),
    };
    if args.dry_run {
        output::print(&patch::unified(changes))?;
        if changes.is_empty() && !global.quiet {
            eprintln!("{sentence}");
        }
        return Ok(FINE);
    }
    write::write(&args.tree, changes)?;
    tell(&tree, &Done { word, sentence, changes }, args, global)?;
    Ok(FINE)
}

fn tell(tree: &Tree, done: &Done<'_>, args: &Args, global: &Global) -> anyhow::Result<()> {
    let kind = |change: &FileChange| match (&change.before, &change.after) {
        (None, _) => "added",
        (_, None) => "removed",
        _ => "edited",
    };
    if args.format == Format::Json {
        let files: Vec<_> = done
            .changes
            .iter()
            .map(|change| json!({"path": change.path, "change": kind(change)}))
            .collect();
        let object = json!({
            "schema": "planish-kernel-prepare",
            "version": 1,
            "tree": args.tree.display().to_string(),
            "linux": tree.version.to_string(),
            "result": done.word,
            "tried": tree.version.known().map(|known| known == Known::Tried),
            "files": files,
        });
        return output::print_json(&object);
    }
    let files: Vec<String> = done
        .changes
        .iter()
        .map(|change| format!("  {:<8} {}\n", kind(change), change.path))
        .collect();
    output::print(&format!("{}\n{}", done.sentence, files.concat()))?;
    if done.word == "prepared" && !global.quiet {
        eprintln!(
            "next: planish kernel config {0} > profile.config, merge it, then planish kernel \
             config {0} --check",
            args.tree.display()
        );
    }
    Ok(())
}
