//! `planish kernel profile`: the sample profile of a kernel and of its modules, in one.

use super::together::Counted;
use crate::cli::{FINE, Format, Global};
use crate::command::profile::print_evidence;
use crate::output;
use kernel::together;
use profile::format::{self, Format as ProfileFormat};
use report::Form;
use std::path::PathBuf;

/// Make the sample profile of a kernel and its modules from a recording or its counts.
///
/// One build reads one profile, so vmlinux and all modules of the recorded build go into one. Modules in which hardly
/// anything was counted are left out and named. `planish profile` makes the profile of one image.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish kernel profile out kernel.data -o kernel.afdo
  planish kernel profile out perf.data --module ../driver/driver.ko \\
      -o kernel.afdo
  planish kernel build linux-6.12 --build out --profile kernel.afdo

Exit codes: 0 fine, 2 wrong usage or input, such as counts of another build.")]
pub struct Args {
    #[command(flatten)]
    counted: Counted,
    /// Where to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    output::refuse_inputs([args.output.as_path()], args.counted.files())?;
    let (images, found) = args.counted.read(global)?;
    let input = args.counted.first_input();
    let (profile, told) = together::profile(&images, &found, input, global.threads())?;
    let bytes = format::write(&profile, ProfileFormat::ExtBinary, &Default::default())?;
    output::write_file(&args.output, |out| Ok(out.write_all(&bytes)?))?;
    match args.format {
        Format::Json => {
            let told =
                report::kernel::together::Written::of(&told, std::slice::from_ref(&args.output));
            output::print_json(&Form::first("planish-kernel-profile", told))?;
        }
        Format::Text if !global.quiet => {
            eprint!("{}", report::kernel::together::text(&told, global.verbose));
            if let Some(evidence) = together::evidence(&images, &found, input) {
                eprintln!("of vmlinux alone:");
                print_evidence(&report::Evidence::from(&evidence));
            }
            let (build, output) = (output::word(&args.counted.build), output::word(&args.output));
            eprintln!(
                "next: planish kernel build TREE --build {build} --profile {output}, with \
                 --first-round if this kernel had no profile{}",
                args.counted.outside()
            );
        }
        Format::Text => {}
    }
    Ok(FINE)
}
