//! How are the findings of `planish doctor` told to people?

use crate::numbers::numbered;
use crate::{Colour, Style, visible};
use doctor::{Finding, State};
use std::fmt::Write as _;

/// One block per area, one line per finding, the next step indented below it; nothing of nothing.
pub fn findings(findings: &[Finding], style: Style) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let width = findings.iter().map(|finding| finding.subject.len()).max().unwrap_or(0);
    let mut text = String::new();
    for block in findings.chunk_by(|one, other| one.area == other.area) {
        let area = block.first().map_or("", |finding| &finding.area);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", visible(area));
        for Finding { subject, state, found, next, .. } in block {
            let word = match state {
                State::Good => style.paint(Colour::Good, "ok     "),
                State::Limited => style.paint(Colour::Care, "limited"),
                State::Missing => style.paint(Colour::Bad, "MISSING"),
            };
            let _ = writeln!(text, "  {word}  {subject:width$}  {}", visible(found));
            if let Some(next) = next {
                let _ = writeln!(text, "           {:width$}  next: {}", "", visible(next));
            }
        }
        text.push('\n');
    }
    let of = |state| findings.iter().filter(|finding| finding.state == state).count();
    let limited = of(State::Limited);
    let restrictions = numbered(limited as u64, "restriction", "restrictions");
    let _ = match of(State::Missing) {
        0 => writeln!(text, "ready; {restrictions}"),
        1 => writeln!(text, "not ready: 1 needed thing is missing, {restrictions}"),
        more => writeln!(text, "not ready: {more} needed things are missing, {restrictions}"),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_thing_is_named_with_its_next_step_and_no_colour_codes_when_plain() {
        let found = [
            Finding::good("cpu", "2 CPUs").of("machine"),
            Finding::missing("debug info", "none", "build with -g").of("a.out"),
        ];
        let text = findings(&found, Style { colour: false });
        assert!(!text.contains('\x1b'), "{text}");
        assert!(text.starts_with("machine\n  ok       cpu         2 CPUs\n\na.out\n"), "{text}");
        assert!(text.contains("next: build with -g"), "{text}");
        assert!(text.ends_with("not ready: 1 needed thing is missing, 0 restrictions\n"), "{text}");
        assert!(findings(&found, Style { colour: true }).contains("\x1b[31mMISSING"));
        assert_eq!(findings(&[], Style::default()), "");
    }
}
