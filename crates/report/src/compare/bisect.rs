//! How is a search for a slow commit told?

use compare::bisect::{Found, Side, short};
use std::fmt::Write;

/// The walk and what it found; `good` and `bad` are the commits as the user named them.
pub fn bisect(found: &Found, good: &str, bad: &str) -> String {
    if !found.is_slower() {
        return format!("{bad} is not shown to be slower than {good}: {}\n", found.sentence);
    }
    let mut text = String::new();
    let pct = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
    // Writing to a string cannot fail.
    for step in &found.steps {
        let side = match step.side {
            Side::Good => "good",
            Side::Slow => "slow",
            Side::Unknown => "unclear",
        };
        let (commit, effect) = (short(&step.commit), pct(step.effect));
        let _ = writeln!(text, "  {commit}  {effect:>8}  {side} ({} rounds)", step.rounds);
    }
    let Some(culprit) = &found.culprit else {
        text.push_str(
            "the first slow commit is one of these; more --rounds or --layouts would tell them \
             apart:\n",
        );
        let commits = found.undecided.iter().map(|commit| format!("  {}\n", short(commit)));
        text.extend(commits);
        return text;
    };
    let _ = writeln!(text, "first slow commit: {} {}", short(&culprit.commit), culprit.subject);
    let _ = writeln!(text, "  against its parent: {}", culprit.sentence);
    let _ = writeln!(text, "  slowdown of the whole range: {}", pct(found.slowdown.effect));
    text
}
