//! `planish kernel layout`: the layout of a kernel and of its modules, in one.

use super::together::Counted;
use crate::cli::{FINE, Format, Global};
use crate::command::layout::names_directory;
use crate::output;
use anyhow::bail;
use kernel::together;
use layout::write::files::{FileKind, with_suffix};
use report::Form;
use std::path::PathBuf;

/// Lay out a kernel and its modules, from a recording or its counts.
///
/// One build reads one layout, so vmlinux and all modules of the recorded build, which need their block maps
/// (CONFIG_PROPELLER_CLANG), go into one. Modules in which hardly anything was counted are left out and named. `planish
/// layout` lays out one image, and says what its layout is worth.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish kernel layout out kernel.data --prefix kernel
  planish kernel build linux-6.12 --build out --profile kernel.afdo \\
      --layout kernel

Exit codes: 0 fine, 2 wrong usage or input, such as counts of another build.")]
pub struct Args {
    #[command(flatten)]
    counted: Counted,
    /// What the names of the two files begin with
    #[arg(long, value_name = "PREFIX")]
    prefix: PathBuf,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    if names_directory(&args.prefix) {
        bail!(
            "--prefix {}: is a directory; give what the names of the files begin with, such as {}",
            args.prefix.display(),
            args.prefix.join("kernel").display()
        );
    }
    let files = FileKind::PROPELLER_SUFFIXES.map(|suffix| with_suffix(&args.prefix, suffix));
    output::refuse_inputs(files.iter().map(PathBuf::as_path), args.counted.files())?;
    let (images, found) = args.counted.read(global)?;
    let (merged, told) = together::layout(&images, &found, args.counted.first_input())?;
    let [cc, ld] = &files;
    beside::named::write_together(&[
        (cc.clone(), merged.cc.as_str()),
        (ld.clone(), merged.ld.as_str()),
    ])?;
    match args.format {
        Format::Json => {
            let told = report::kernel::together::Written::of(&told, &files);
            output::print_json(&Form::first("planish-kernel-layout", told))?;
        }
        Format::Text if !global.quiet => {
            eprint!("{}", report::kernel::together::text(&told, global.verbose));
            let (build, prefix) = (output::word(&args.counted.build), output::word(&args.prefix));
            eprintln!(
                "next: planish kernel build TREE --build {build} --profile FILE --layout {prefix}, \
                 FILE being what this kernel was built with{}",
                args.counted.outside()
            );
        }
        Format::Text => {}
    }
    Ok(FINE)
}
