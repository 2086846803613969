//! How is a recording of a kernel told?

use kernel::recording::Recording;

/// One line; another one where samples were lost.
pub fn text(done: &Recording) -> String {
    let taken = done.taken_branches.unwrap_or_default();
    let what = match done.samples {
        Some(samples) => format!("{samples} samples of {taken} taken branches of the kernel"),
        None => format!("{taken} taken branches of the kernel, each counted"),
    };
    let (sections, seconds) = (done.sections.len(), done.seconds);
    let line = format!("{}: {what}, in {sections} sections, {seconds:.1} s\n", done.output);
    match done.lost_samples {
        None | Some(0) => line,
        Some(lost) => format!("{line}warning: {lost} samples were lost; is the disk full?\n"),
    }
}
