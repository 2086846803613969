//! What has to be done to a profile so that gcc 12 to 15 make of it what it says.
//!
//! gcc reads something else into a profile than clang does:
//! 1. The counts of an inlined copy that it does not inline again are lost: unlike clang, gcc does
//!    not add them to the function that is called instead. And a copy with counts is inlined again
//!    however seldom it ran. So copies whose total is below 1/10,000 of all counts (what gcc calls
//!    cold elsewhere, `--param hot-bb-count-fraction`) are taken out, their counts added to the
//!    function, and the call counts at its line.
//! 2. It scales what it inlines by the head count, so one that is smaller than the count of the
//!    function's first line makes all of its blocks too hot.
//! 3. A function that is absent is compiled as without a profile: for speed, with all that a
//!    profile turns on (unrolling, vectorising, tracing). With a list of the functions of the
//!    program, those that never ran are there with no counts, and gcc makes them small.
//!
//! Found with the sections and sizes that gcc 12 gives the functions of SQLite
//! (`measurements/2026-11-23-gcc.md`). Cost: a walk over the profile.

use crate::operations::add_function;
use crate::{FunctionProfile, Name, SampleProfile};

/// A copy with less than this share of all counts is cold.
const HOT_FRACTION: u64 = 10_000;

/// The profile as gcc is to read it. The symbol list becomes functions without counts.
pub fn prepare(profile: &SampleProfile) -> SampleProfile {
    let all = profile
        .functions
        .values()
        .fold(0u64, |sum, function| sum.saturating_add(function.body_sum()));
    let hot = (all / HOT_FRACTION).max(1);
    let mut prepared = SampleProfile { symbol_list: Vec::new(), ..profile.clone() };
    let mut alone: Vec<FunctionProfile> = Vec::new();
    for function in prepared.functions.values_mut() {
        take_cold_copies(function, hot, &mut alone);
    }
    for copy in alone {
        add_function(prepared.function(&copy.name), &copy, 1);
    }
    for function in prepared.functions.values_mut() {
        let first = function.body.first_key_value().filter(|(at, _)| at.line_offset == 0);
        function.head = function.head.max(first.map_or(0, |(_, sample)| sample.count));
    }
    for name in &profile.symbol_list {
        prepared.function(&Name::text(name));
    }
    prepared
}

/// Takes the copies out that gcc does not inline again, with what is inlined into them.
fn take_cold_copies(function: &mut FunctionProfile, hot: u64, alone: &mut Vec<FunctionProfile>) {
    for (at, copies) in &mut function.callsites {
        for copy in copies.values_mut() {
            take_cold_copies(copy, hot, alone);
        }
        let cold: Vec<Name> = copies
            .values()
            .filter(|copy| copy.body_sum() < hot)
            .map(|copy| copy.name.clone())
            .collect();
        for name in cold {
            let Some(mut copy) = copies.remove(&name) else { continue };
            copy.head = copy.entry_estimate();
            let call = function.body.entry(*at).or_default();
            call.count = call.count.max(copy.head);
            alone.push(copy);
        }
    }
    function.callsites.retain(|_, copies| !copies.is_empty());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::text;

    fn prepared(text: &str) -> (SampleProfile, SampleProfile) {
        let profile = text::read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
        (prepare(&profile), profile)
    }

    const PROFILE: &str = "main:99000:3\n 0: 3\n 4: 90000\n 5: hot:9000\n  1: 9000\n 6: cold:7\n  0: \
                           5\n  1: 1\n  2: deep:1\n   1: 1\ncold:4:1\n 0: 2\n 1: 2\n";

    #[test]
    fn copies_that_gcc_does_not_inline_go_into_their_functions() {
        let (result, _) = prepared(PROFILE);
        let names: Vec<String> = result.functions.keys().map(Name::to_string).collect();
        assert_eq!(names, ["cold", "deep", "main"]);
        let main = result.functions.get(&Name::text("main"));
        let main = main.unwrap_or_else(|| panic!("main is there"));
        assert_eq!(main.callsites.len(), 1, "{main:?}");
        let calls: Vec<(u32, u64)> =
            main.body.iter().map(|(at, sample)| (at.line_offset, sample.count)).collect();
        assert_eq!(calls, [(0, 3), (4, 90000), (6, 5)]);
        let cold = result.functions.get(&Name::text("cold"));
        assert_eq!(cold.map(|f| (f.head, f.body_sum())), Some((7, 11)));
    }

    #[test]
    fn functions_of_the_symbol_list_are_there_without_counts() {
        let (_, mut profile) = prepared(PROFILE);
        profile.symbol_list = vec!["main".to_owned(), "never".to_owned()];
        let result = prepare(&profile);
        assert!(result.functions.contains_key(&Name::text("never")));
        assert_eq!(result.functions.len(), 4);
        assert!(result.symbol_list.is_empty());
    }
}
