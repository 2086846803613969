//! How long do kernels take that are processes? Every image of every variant runs in each round, in random order, and tells
//! the CPU time of each section; `compare` judges over the orders as it judges programs over layouts.

use super::builds::Images;
use super::native;
use super::variant::KernelVariant;
use crate::Error;
use crate::time::{Boots, Clock, judged};
use compare::{Analysis, AnalysisOptions, Design, Keep, Recorded, Teller};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A run that takes longer is ended: it takes a second or two.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How kernels are run.
#[derive(Clone, Copy, Debug)]
pub struct Timing<'a> {
    /// Names of sections, `train`, `held` or `all`, separated by commas.
    pub sections: &'a str,
    /// The work of a section, in per cent of the usual one.
    pub percent: u32,
    /// Where the runs are kept.
    pub keep: Keep<'a>,
    /// Where kernels write what they say of themselves.
    pub directory: &'a Path,
}

/// Runs all images of the design, and judges.
///
/// # Errors
/// When a kernel fails or hangs, or kernels run different sections; [`compare::Error::Interrupted`] where the user ended
/// it before there was anything to tell.
pub fn timed(
    variants: &[(KernelVariant, Images)],
    design: Design,
    timing: &Timing<'_>,
    options: &AnalysisOptions,
    stop: &AtomicBool,
    teller: &mut dyn Teller,
) -> Result<(Analysis, Recorded), Error> {
    let of = |kernel: &Path, directory: &Path| {
        native::argv(kernel, timing.sections, timing.percent, directory)
    };
    // The directory is another one each time, and changes nothing.
    let words = of(Path::new("{bin}"), Path::new("DIRECTORY"));
    let boots = Boots {
        kernels: variants
            .iter()
            .map(|(_, images)| {
                images.images.iter().map(|image| of(image, timing.directory)).collect()
            })
            .collect(),
        command: words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        initrd: String::new(),
        clock: Clock::Process,
        hint: None,
        timeout: TIMEOUT,
        keep: timing.keep,
    };
    judged(boots, design, options, stop, teller)
}
