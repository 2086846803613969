//! `planish kernel compare --native`: CPU times of kernels that are processes of this machine.

use super::measuring::{Measured, Measuring, sizes};
use crate::command::compare::{Bar, stop_flag};
use compare::{Keep, Settings};
use kernel::Error;
use kernel::experiment::{Images, KernelVariant, Timing, design, timed};
use std::path::Path;

/// Rounds where each variant has orders: an order is a build of its own, and few runs tell it well enough.
const ROUNDS: u32 = 5;

/// Runs the images, and judges; none where the user ended it.
pub(super) fn measured(
    measuring: &Measuring<'_>,
    built: &[(KernelVariant, Images)],
    raw: Option<&Path>,
) -> anyhow::Result<Option<Measured>> {
    let Measuring { args, margin, options, global, .. } = measuring;
    let has_orders = built.iter().any(|(_, images)| images.images.len() > 1);
    let rounds = args.rounds.or(has_orders.then_some(ROUNDS));
    let settings = Settings { rounds, margin: *margin, ..Settings::default() };
    let design = design(built, &settings)?;
    let sizes = sizes(&design);
    // What a kernel says of itself while it runs is of no use later.
    let directory = tempfile::tempdir()?;
    let timing = Timing {
        sections: args.sections.as_deref().unwrap_or("all"),
        percent: 100,
        keep: Keep { raw, resume: args.resume.into() },
        directory: directory.path(),
    };
    match timed(built, design, &timing, options, &*stop_flag()?, &mut Bar::new(global)) {
        Err(Error::Compare(error @ compare::Error::Interrupted(_))) => {
            eprintln!("planish: {error}");
            Ok(None)
        }
        other => {
            let raw = raw.iter().map(|path| path.to_path_buf()).collect();
            Ok(Some(Measured { analysis: other?.0, raw, sizes }))
        }
    }
}
