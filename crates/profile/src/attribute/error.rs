//! Why counts could not be attributed, in numbers and with the next step.

use std::path::PathBuf;

use counts::ImageCounts;
use image::Image;
use image::debug::{DebugInfo, Language};

use super::AttributeReport;

/// Why no profile could be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttributeError {
    /// The counts are empty.
    #[error(
        "{path}: no {what} were counted in this image; record it while it runs, with branch \
         stacks (planish record --branches=auto) where the machine has them"
    )]
    NoCounts {
        /// The image as the recording names it.
        path: String,
        /// What was looked for.
        what: &'static str,
    },
    /// There is nothing that maps addresses to lines.
    #[error("{path}: no debug information{hint}", path = path.display())]
    NoDebugInformation {
        /// The image.
        path: PathBuf,
        /// What was found instead, and the next step.
        hint: String,
    },
    /// The debug information describes almost nothing of what ran.
    #[error(
        "{path}: only {matched} of {counted} counts ({pct:.2} %) fall into functions that {debug} describes{hint}",
        path = path.display(), debug = debug.display()
    )]
    FewMatched {
        /// The image.
        path: PathBuf,
        /// The file with the debug information.
        debug: PathBuf,
        /// Counts in functions.
        matched: u128,
        /// All counts.
        counted: u128,
        /// The share in percent.
        pct: f64,
        /// Likely causes and the next step.
        hint: Box<str>,
    },
    /// The counts hold no branch stacks, and probes are counted by them alone.
    #[error(
        "{path}: a profile of probes needs branch stacks, and these are {samples} samples \
         without; record with planish record --branches=auto, or make a profile of lines with \
         --probes ignore"
    )]
    ProbesNeedBranches {
        /// The image as the recording names it.
        path: String,
        /// Samples.
        samples: u128,
    },
    /// There are no probes in the image.
    #[error(
        "{path}: no pseudo probes in it; rebuild with clang -fpseudo-probe-for-profiling and record again, or make a \
         profile of lines with --probes ignore", path = path.display()
    )]
    NoProbes {
        /// The image.
        path: PathBuf,
    },
    /// The probes describe almost nothing of what ran.
    #[error(
        "{path}: only {matched} of {counted} counts ({pct:.2} %) fall into functions with probes; {hint}",
        path = path.display()
    )]
    FewProbed {
        /// The image.
        path: PathBuf,
        /// Counts in functions.
        matched: u128,
        /// All counts.
        counted: u128,
        /// The share in percent.
        pct: f64,
        /// Likely cause and the next step.
        hint: String,
    },
    /// No function got a count.
    #[error("{path}: none of {counted} counts reached a source line; {next}", path = path.display())]
    Empty {
        /// The image.
        path: PathBuf,
        /// All counts.
        counted: u128,
        /// What to do.
        next: &'static str,
    },
    /// The debug information could not be read.
    #[error(transparent)]
    Image(#[from] image::Error),
}

const REBUILD: &str = "rebuild with -g1 -fdebug-info-for-profiling (or -g) and record again";

/// The same for rustc, which leaves linkage names out of `line-tables-only`, and for cargo, which
/// strips.
const REBUILD_RUST: &str = "rebuild with -Cdebuginfo=1 -Cstrip=none -Zdebug-info-for-profiling \
                            (in RUSTFLAGS; a stable rustc takes the last one with \
                            RUSTC_BOOTSTRAP=1 in the environment) and record again";

/// The flags of the compiler that made the image: the language is that of most of its debug
/// information; where there is none, what the compilers left in `.comment` must do.
fn rebuild(image: &Image, debug: Option<&DebugInfo<'_>>) -> &'static str {
    let rust = match debug.and_then(|debug| debug.main_unit(1)) {
        Some(unit) => unit.language == Language::Rust,
        None => image.has_code_of_rustc(),
    };
    if rust { REBUILD_RUST } else { REBUILD }
}

/// Fewer counts say nothing of where an image runs.
const FEW: u128 = 1000;

impl AttributeError {
    /// Whether the image hardly ran: what was counted in it is its start-up code, or its calls to
    /// libraries, of which no source tells.
    pub fn is_of_hardly_anything(&self) -> bool {
        match self {
            AttributeError::NoCounts { .. } => true,
            AttributeError::Empty { counted, .. }
            | AttributeError::FewMatched { counted, .. }
            | AttributeError::FewProbed { counted, .. } => *counted < FEW,
            _ => false,
        }
    }

    pub(super) fn no_counts(counts: &ImageCounts, branches: bool) -> AttributeError {
        let what = if branches { "branches" } else { "samples" };
        AttributeError::NoCounts { path: counts.path.clone(), what }
    }

    pub(super) fn no_debug_information(image: &Image, debug: &DebugInfo<'_>) -> AttributeError {
        let mut hint = match image.has_only_dynamic_symbols() {
            true => ": it is stripped; give the file from before strip with --debug-file, or "
                .to_owned(),
            false => ": it was built without, or stripped of it (then name the file that has it \
                      with --debug-file); "
                .to_owned(),
        };
        hint += rebuild(image, None);
        for rejected in debug.rejected() {
            hint += &format!("; not taken: {} ({})", rejected.path.display(), rejected.reason);
        }
        AttributeError::NoDebugInformation { path: image.path().to_owned(), hint }
    }

    pub(super) fn few_matched(
        image: &Image,
        debug: &DebugInfo<'_>,
        report: &AttributeReport,
    ) -> AttributeError {
        let hint = if report.problems.missing_dwo > 0 || report.problems.damaged_units > 0 {
            let first = report.problems.first.clone().unwrap_or_default();
            format!(
                "; {} units lack their .dwo file, {} are damaged: {first}",
                report.problems.missing_dwo, report.problems.damaged_units
            )
        } else {
            format!(
                ": {} are in code without debug information, {} outside its code; is it the build \
                 that was recorded? If so, {}",
                report.outside_functions,
                report.outside_code,
                rebuild(image, Some(debug))
            )
        };
        AttributeError::FewMatched {
            path: image.path().to_owned(),
            debug: debug.path(),
            matched: report.matched,
            counted: report.counted,
            pct: report.matched_pct(),
            hint: hint.into(),
        }
    }

    pub(super) fn few_probed(image: &Image, report: &AttributeReport) -> AttributeError {
        let hint = if report.unplaced_functions > 0 {
            format!(
                "{} functions of .pseudo_probe have no symbol: it is stripped; give the file from \
                 before strip",
                report.unplaced_functions
            )
        } else {
            format!(
                "{} are in code without probes, {} outside its code; is it the build that was \
                 recorded? If so, rebuild all of it with -fpseudo-probe-for-profiling, or make a \
                 profile of lines with --probes ignore",
                report.outside_functions, report.outside_code
            )
        };
        AttributeError::FewProbed {
            path: image.path().to_owned(),
            matched: report.matched,
            counted: report.counted,
            pct: report.matched_pct(),
            hint,
        }
    }

    pub(super) fn empty(
        image: &Image,
        debug: &DebugInfo<'_>,
        report: &AttributeReport,
    ) -> AttributeError {
        let next = rebuild(image, Some(debug));
        AttributeError::Empty { path: image.path().to_owned(), counted: report.counted, next }
    }
}
