//! What matching made of a profile: the measure, and the ledger of what has no place any more.

use serde::Serialize;

/// Functions of a profile, those that exist on their own, by what became of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Names {
    /// In the program under the same name.
    pub found: u64,
    /// In the program under a name that differs only in `.__uniq.N` or `.llvm.N`.
    pub renamed: u64,
    /// Several functions of the program could be meant.
    pub ambiguous: u64,
    /// Not in the program.
    pub gone: u64,
}

/// Functions of a profile that the program has, all copies taken together, by what their calls say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdicts {
    /// Every call is where it was: left as they are.
    pub in_place: u64,
    /// Some calls were found again elsewhere, or not all of them: locations moved with the nearest
    /// call.
    pub moved: u64,
    /// The profile knows no call: left as they are, since nothing can be said.
    pub without_calls: u64,
    /// No call was found again, yet every location has code: left as they are.
    pub unconfirmed: u64,
    /// No call was found again: dropped.
    pub lost: u64,
}

/// Samples: body counts of all functions and inlined copies. `all` is the sum of the other fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Samples {
    /// In the profile.
    pub all: u128,
    /// At the location where they were.
    pub stayed: u128,
    /// At another location of their function, or in a call that was inlined at another location.
    pub moved: u128,
    /// Dropped: of functions that the program does not have, also where they were inlined.
    pub of_gone: u128,
    /// Dropped: of functions that could be one of several.
    pub of_ambiguous: u128,
    /// Dropped: of functions whose every call vanished.
    pub of_lost: u128,
    /// Dropped: of lines that were removed between two calls.
    pub of_removed_lines: u128,
    /// Dropped: of locations that two locations moved to, where the larger count stands.
    pub of_collisions: u128,
}

impl Samples {
    /// What is in the new profile.
    pub fn carried(&self) -> u128 {
        self.stayed + self.moved
    }

    /// What is not in the new profile.
    pub fn dropped(&self) -> u128 {
        self.of_gone + self.of_ambiguous + self.of_lost + self.of_removed_lines + self.of_collisions
    }
}

/// Calls that the profile knows: locations of each function with call targets or inlined calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Calls {
    /// In the profile.
    pub all: u64,
    /// Found again in the program.
    pub matched: u64,
    /// Executions of all.
    pub executions: u64,
    /// Executions of those found again.
    pub executions_matched: u64,
    /// Calls of functions with too many of them to compare each with each.
    pub not_compared: u64,
}

/// What matching made of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MatchReport {
    /// Functions of the profile by name.
    pub functions: Names,
    /// Those found, by what their calls say.
    pub verdicts: Verdicts,
    /// What became of the samples.
    pub samples: Samples,
    /// How many calls were found again.
    pub calls: Calls,
    /// Samples at locations for which the program has code, before matching.
    pub with_code_before: u128,
    /// The same in the new profile.
    pub with_code_after: u128,
    /// Functions with the most dropped samples, at most ten, with the number of these.
    pub largest_dropped: Vec<(String, u64)>,
    /// Whether the new profile equals the old one.
    pub unchanged: bool,
}

/// A part in percent; 100 of nothing.
fn percent(part: u128, all: u128) -> f64 {
    if all == 0 { 100.0 } else { part as f64 / all as f64 * 100.0 }
}

impl MatchReport {
    /// Samples that the new profile holds, in percent of the old one's.
    pub fn carried_pct(&self) -> f64 {
        percent(self.samples.carried(), self.samples.all)
    }

    /// Calls found again, in percent of their executions.
    pub fn calls_pct(&self) -> f64 {
        percent(self.calls.executions_matched.into(), self.calls.executions.into())
    }

    /// Samples at locations with code before and after, both in percent of the samples in the
    /// profile at that time.
    pub fn with_code_pct(&self) -> (f64, f64) {
        let after = percent(self.with_code_after, self.samples.carried());
        (percent(self.with_code_before, self.samples.all), after)
    }

    /// The report in words, one fact a line.
    pub fn lines(&self) -> Vec<String> {
        let (names, verdicts, samples, calls) =
            (&self.functions, &self.verdicts, &self.samples, &self.calls);
        let all = names.found + names.renamed + names.ambiguous + names.gone;
        let (before, after) = self.with_code_pct();
        let mut lines = vec![
            format!(
                "{all} functions on their own: {} found, {} renamed, {} gone",
                names.found, names.renamed, names.gone
            ),
            format!(
                "{:.1} % of {} samples carried over: {:.1} % stayed, {:.1} % moved",
                self.carried_pct(),
                samples.all,
                percent(samples.stayed, samples.all),
                percent(samples.moved, samples.all)
            ),
            format!(
                "{:.1} % of the executions of calls found again ({} of {} calls)",
                self.calls_pct(),
                calls.matched,
                calls.all
            ),
            format!(
                "{before:.1} % of the samples had code at their location before, {after:.1} % \
                 have it now"
            ),
        ];
        let mut add = |count: u128, what: &str| {
            if count > 0 {
                lines.push(format!("{count} {what}"));
            }
        };
        add(names.ambiguous.into(), "functions could be one of several, and were dropped");
        add(verdicts.in_place.into(), "functions with every call in place, left as they are");
        add(verdicts.moved.into(), "functions whose calls moved");
        add(verdicts.without_calls.into(), "functions without a call to tell by, left as they are");
        add(
            verdicts.unconfirmed.into(),
            "functions of which no call was found again but every location has code, left as they \
             are",
        );
        add(verdicts.lost.into(), "functions of which no call was found again, dropped");
        add(
            samples.of_gone,
            "samples dropped: of functions that are gone, inlined copies of such included",
        );
        add(samples.of_ambiguous, "samples dropped: of functions that could be one of several");
        add(samples.of_lost, "samples dropped: of functions of which no call was found again");
        add(samples.of_removed_lines, "samples dropped: of lines that were removed");
        add(
            samples.of_collisions,
            "samples dropped: two locations came to one, the larger count stands",
        );
        let without_code = samples.carried() - self.with_code_after.min(samples.carried());
        add(without_code, "samples carried over to lines for which the program has no code");
        add(calls.not_compared.into(), "calls not compared: too many in one function");
        if !self.largest_dropped.is_empty() {
            let largest = self.largest_dropped.iter().take(3);
            let largest: Vec<String> =
                largest.map(|(name, samples)| format!("{name} ({samples})")).collect();
            lines.push(format!("most samples dropped of {}", largest.join(", ")));
        }
        lines
    }
}
