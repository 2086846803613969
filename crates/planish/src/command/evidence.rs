//! Says whether the samples behind a profile or a layout are enough.

use counts::evidence::Evidence;

/// The numbers with their words, as results hold them.
pub fn told(of: &Evidence) -> report::Evidence {
    report::Evidence {
        samples: of.samples,
        branch_stacks: of.branch_stacks,
        executions: of.executions,
        functions_90: of.functions_90,
        functions_99: of.functions_99,
        split_half_overlap: of.split_half_overlap,
        expected_overlap: of.expected_overlap,
        enough: of.enough,
        times_more: of.times_more,
        line: of.line(),
        warning: of.warning(),
    }
}

/// The line on standard error, and a warning where there are too few.
pub fn print(of: &report::Evidence) {
    eprintln!("{:>20}: {}", "evidence", of.line);
    if let Some(warning) = &of.warning {
        eprintln!("warning: {warning}");
    }
}
