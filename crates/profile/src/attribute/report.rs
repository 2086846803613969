//! What attribution made of the counts, so that nothing is lost unseen.

use std::collections::BTreeMap;

use image::debug::{DebugInfo, DebugProblems};
use image::{Image, ImageAddr};

use super::AttributeError;

/// What stands for a name in [`AttributeReport::outside_by_symbol`] where no symbol covers the
/// code.
pub const NO_SYMBOL: &str = "(no symbol)";

/// The ledger of one attribution. Counts are executions of fall-through ranges, or samples where
/// there were no branch stacks; `counted` is the sum of `matched` and the four reasons below it.
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
    /// The same by name of the symbol that covers it, as assembly and objects built without debug
    /// information have them; under [`NO_SYMBOL`] where none does.
    pub outside_by_symbol: BTreeMap<String, u128>,
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
    /// Calls whose instruction has no call probe: from code without probes, from outside, loops
    /// back to the entry.
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

    /// Adds what began in code that nothing describes.
    pub(super) fn add_outside(&mut self, image: &Image, at: ImageAddr, count: u128) {
        self.outside_functions += count;
        let symbol = image.functions().find(at);
        let name = symbol.map_or(NO_SYMBOL, |symbol| symbol.name);
        match self.outside_by_symbol.get_mut(name) {
            Some(sum) => *sum += count,
            None => drop(self.outside_by_symbol.insert(name.to_owned(), count)),
        }
    }

    /// The `most` symbols with the largest counts of [`AttributeReport::outside_by_symbol`],
    /// largest first, and the number and sum of the others.
    pub fn largest_outside(&self, most: usize) -> (Vec<(&str, u128)>, (usize, u128)) {
        let mut all: Vec<(&str, u128)> =
            self.outside_by_symbol.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        // Names are sorted already, and stay so among equals.
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let others = all.split_off(most.min(all.len()));
        (all, (others.len(), others.iter().map(|(_, count)| count).sum()))
    }

    /// What [`AttributeReport::outside_functions`] lacks.
    pub fn lacking(&self) -> &'static str {
        if self.from_probes { "probes" } else { "debug information" }
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
        add(self.outside_functions, &format!("in code without {}", self.lacking()));
        add(self.outside_code, "outside the executable sections");
        add(self.backwards, "ending before they begin");
        add(self.calls, "calls");
        add(
            self.calls_without_probe,
            "of them from instructions without a call probe: no call target",
        );
        add(self.probes, "probe executions");
        add(self.without_descriptor, "probe executions in functions without name and checksum");
        add(
            u128::from(self.unplaced_functions),
            "functions with probes that no symbol says the place of",
        );
        add(
            u128::from(self.conflicting_descriptors),
            "functions with two checksums, of which the first was taken",
        );
        let of_all =
            format!("of {} instruction executions without a source line", self.instructions);
        add(self.without_line, &of_all);
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
        let enough =
            self.matched.saturating_mul(100) >= self.counted.saturating_mul(u128::from(least_pct));
        if enough { Ok(()) } else { Err(AttributeError::few_matched(image, debug, self)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_without_a_line_are_told_of_how_many() {
        let report =
            AttributeReport { without_line: 3, instructions: 40, ..AttributeReport::default() };
        let lines = report.lines();
        assert!(
            lines.iter().any(|line| line == "3 of 40 instruction executions without a source line"),
            "{lines:?}"
        );
    }
}
