//! How is a recording of a kernel told?

use crate::numbers::numbered;
use kernel::recording::Recording;

/// One line; another one where samples were lost.
pub fn text(done: &Recording) -> String {
    let taken = done.taken_branches.unwrap_or_default();
    let what = match done.samples {
        Some(samples) => {
            let samples = numbered(samples, "sample", "samples");
            format!("{samples} of {taken} taken branches of the kernel")
        }
        None => {
            let taken = numbered(taken, "taken branch", "taken branches");
            format!("{taken} of the kernel, each counted")
        }
    };
    let sections = numbered(done.sections.len() as u64, "section", "sections");
    let line = format!("{}: {what}, in {sections}, {:.1} s\n", done.output, done.seconds);
    match done.lost_samples {
        None | Some(0) => line,
        Some(lost) => {
            let lost = numbered(lost, "sample was", "samples were");
            format!("{line}warning: {lost} lost; is the disk full?\n")
        }
    }
}
