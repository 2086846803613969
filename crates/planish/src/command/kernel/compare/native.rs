//! `planish kernel compare --native`: CPU times of kernels that are processes of this machine.

use super::Args;
use crate::cli::Global;
use crate::command::INTERRUPTED;
use crate::command::compare::{Bar, Told, concluded, stop_flag};
use compare::gate::Gate;
use compare::{AnalysisOptions, Keep, Settings};
use kernel::Error;
use kernel::experiment::{Images, KernelVariant, Timing, design, timed};

/// Rounds where each variant has orders: an order is a build of its own, and few runs tell it well enough.
const ROUNDS: u32 = 5;

/// Runs the images, judges, and tells; the exit code.
pub(super) fn run(
    args: &Args,
    built: &[(KernelVariant, Images)],
    margin: Option<f64>,
    options: &AnalysisOptions,
    gates: &[Gate],
    global: &Global,
) -> anyhow::Result<u8> {
    let has_orders = built.iter().any(|(_, images)| images.images.len() > 1);
    let rounds = args.rounds.or(has_orders.then_some(ROUNDS));
    let settings = Settings { rounds, margin, ..Settings::default() };
    let design = design(built, &settings)?;
    // What a kernel says of itself while it runs is of no use later.
    let directory = tempfile::tempdir()?;
    let timing = Timing {
        sections: args.sections.as_deref().unwrap_or("all"),
        percent: 100,
        keep: Keep { raw: args.raw.as_deref(), resume: args.resume },
        directory: directory.path(),
    };
    let analysis =
        match timed(built, design, &timing, options, &*stop_flag()?, &mut Bar::new(global)) {
            Err(Error::Compare(error @ compare::Error::Interrupted(_))) => {
                eprintln!("planish: {error}");
                return Ok(INTERRUPTED);
            }
            other => other?.0,
        };
    let told = Told { analysis, raw: args.raw.iter().cloned().collect() };
    concluded(told, &args.output, gates, global)
}
