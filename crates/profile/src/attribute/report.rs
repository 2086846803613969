//! What attribution made of the counts, so that nothing is lost unseen.

use image::Image;
use image::debug::{DebugInfo, DebugProblems};

use super::AttributeError;

/// The ledger of one attribution. Counts are executions of fall-through ranges, or samples where there were no
/// branch stacks; `counted` is the sum of `matched` and the four reasons below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributeReport {
    /// Whether branch stacks were used rather than samples.
    pub from_branches: bool,
    /// Whether the profile is one of pseudo probes rather than of lines.
    pub from_probes: bool,
    /// Functions in the profile that exist on their own.
    pub functions: u64,
    /// Everything that was to be attributed.
    pub counted: u128,
    /// What began in a function of the debug information, or in one with probes.
    pub matched: u128,
    /// What began in code that the debug information does not describe, or that has no probes.
    pub outside_functions: u128,
    /// What began outside the executable sections.
    pub outside_code: u128,
    /// Ranges that end before they begin.
    pub backwards: u128,
    /// Branches to the first instruction of a function.
    pub calls: u128,
    /// Branches to anywhere else.
    pub branches_elsewhere: u128,
    /// Executions of instructions for which the debug information has no line.
    pub without_line: u128,
    /// Calls whose instruction has no call probe: from code without probes, from outside, loops back to the entry.
    pub calls_without_probe: u128,
    /// Executions of probes whose function has no descriptor, so that its name is unknown.
    pub without_descriptor: u128,
    /// Executions of probes altogether.
    pub probes: u128,
    /// Functions with probes whose place no symbol says.
    pub unplaced_functions: u64,
    /// Descriptors that contradict an earlier one of the same function.
    pub conflicting_descriptors: u64,
    /// Executions of instructions altogether.
    pub instructions: u128,
    /// Places in touched functions whose bytes are no instructions.
    pub undecodable_places: u64,
    /// Functions left out because many share their name (`__cxx_global_var_init`).
    pub initializers: u64,
    /// Damaged or missing parts of the debug information.
    pub problems: DebugProblems,
}

impl AttributeReport {
    /// The share of the counts that fell into functions, in percent.
    pub fn matched_pct(&self) -> f64 {
        if self.counted == 0 { 0.0 } else { self.matched as f64 * 100.0 / self.counted as f64 }
    }

    /// The report in words, one fact a line.
    pub fn lines(&self) -> Vec<String> {
        let unit = if self.from_branches { "range executions" } else { "samples" };
        let mut lines = vec![format!(
            "{} of {} {unit} in functions ({:.1} %)",
            self.matched,
            self.counted,
            self.matched_pct()
        )];
        let mut add = |count: u128, what: &str| {
            if count > 0 {
                lines.push(format!("{count} {what}"));
            }
        };
        let what =
            if self.from_probes { "in code without probes" } else { "in code without debug information" };
        add(self.outside_functions, what);
        add(self.outside_code, "outside the executable sections");
        add(self.backwards, "ending before they begin");
        add(self.calls, "calls");
        add(self.calls_without_probe, "of them from instructions without a call probe: no call target");
        add(self.probes, "probe executions");
        add(self.without_descriptor, "probe executions in functions without name and checksum");
        add(u128::from(self.unplaced_functions), "functions with probes that no symbol says the place of");
        add(
            u128::from(self.conflicting_descriptors),
            "functions with two checksums, of which the first was taken",
        );
        add(self.without_line, "instruction executions without a source line");
        add(u128::from(self.undecodable_places), "places that hold no instructions");
        add(u128::from(self.initializers), "functions left out because many share their name");
        add(u128::from(self.problems.damaged_units), "units of damaged debug information");
        add(u128::from(self.problems.missing_dwo), "units whose .dwo file is missing");
        lines.extend(self.problems.first.clone());
        lines
    }

    /// Refuses a profile that would say next to nothing.
    pub(super) fn check(
        &self,
        image: &Image,
        debug: &DebugInfo<'_>,
        least_pct: u32,
    ) -> Result<(), AttributeError> {
        let enough = self.matched.saturating_mul(100) >= self.counted.saturating_mul(u128::from(least_pct));
        if enough { Ok(()) } else { Err(AttributeError::few_matched(image, debug, self)) }
    }
}
