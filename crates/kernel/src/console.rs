//! What did the workload say on the console of its guest? Sections, results, failures, indexes.
//!
//! Lines that start, perhaps after other characters, with `planish: ` and a known word are read; all others are the
//! kernel's or the firmware's. The console is a guest's, so nothing on it is trusted: numbers that do not fit are no
//! numbers, texts are cut, and there is a limit to what is kept.

use crate::shortened;

/// Sections that are kept; the workload has far fewer.
const MOST_SECTIONS: usize = 1000;

/// Other messages that are kept.
const MOST_NOTES: usize = 100;

/// The form of the lines that is known here, which `planish: begin` states.
const VERSION: &str = "1";

/// Whether a section may be trained on, or is kept apart to judge what training did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// For profiles and layouts.
    Training,
    /// For their evaluation only.
    HeldOut,
}

impl Kind {
    fn parse(word: &str) -> Option<Kind> {
        match word {
            "train" => Some(Kind::Training),
            "held" => Some(Kind::HeldOut),
            _ => None,
        }
    }
}

/// How a section ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Neither result nor failure was said: it was cut off.
    Unknown,
    /// It ran and its checks held.
    Done {
        /// What it counts: calls, messages, pages, processes.
        operations: u64,
        /// Time of the measured part by the guest's clock.
        nanoseconds: u64,
    },
    /// A check did not hold; the text says which.
    Failed(String),
}

/// One section that the workload began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its number, also in its marker.
    pub number: u32,
    /// For training or held out.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
}

/// What was said up to now.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Sections {
    sections: Vec<Section>,
    notes: Vec<String>,
    /// Lines of the workload that could not be used: malformed, about a section that was not begun or is over, or
    /// beyond the limits.
    pub unused: usize,
    /// The index over training sections; 100 where every rate is its reference.
    pub index_training: Option<u64>,
    /// The index over held-out sections.
    pub index_held_out: Option<u64>,
    /// Whether the workload began, in a form that is known here.
    pub begun: bool,
    /// Whether it came to its end.
    pub ended: bool,
}

impl Sections {
    /// Takes one line of the console.
    pub fn line(&mut self, line: &str) {
        // The firmware leaves terminal sequences before the first line.
        let Some((_, said)) = line.split_once("planish: ") else { return };
        let said = said.trim_end();
        let (word, rest) = said.split_once(' ').unwrap_or((said, ""));
        let used = match word {
            "begin" => self.begin(rest),
            "section" => self.section(rest),
            "result" => self.result(rest),
            "failed" => self.failed(rest),
            "index" => self.index(rest),
            "end" => self.end(),
            _ => self.note(said),
        };
        if used.is_none() {
            self.unused = self.unused.saturating_add(1);
        }
    }

    /// The sections in the order in which they began.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Sections that failed, with the reason.
    pub fn failures(&self) -> impl Iterator<Item = (&Section, &str)> {
        self.sections.iter().filter_map(|section| match &section.outcome {
            Outcome::Failed(why) => Some((section, why.as_str())),
            _ => None,
        })
    }

    /// What else the workload said: sections skipped, mounts that failed, what a child found wrong.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether it began and ended, and every section ran and succeeded.
    pub fn complete(&self) -> bool {
        let done = |section: &Section| matches!(section.outcome, Outcome::Done { .. });
        self.begun && self.ended && !self.sections.is_empty() && self.sections.iter().all(done)
    }

    fn begin(&mut self, rest: &str) -> Option<()> {
        (rest == VERSION && !self.begun).then(|| self.begun = true)
    }

    fn end(&mut self) -> Option<()> {
        (self.begun && !self.ended).then(|| self.ended = true)
    }

    fn section(&mut self, rest: &str) -> Option<()> {
        let mut words = rest.split_ascii_whitespace();
        let (number, kind, name) = (words.next()?.parse().ok()?, Kind::parse(words.next()?)?, words.next()?);
        let known = self.sections.iter().any(|section| section.number == number);
        let fits = self.begun && !self.ended && !known && self.sections.len() < MOST_SECTIONS;
        let section = Section { number, kind, name: shortened(name), outcome: Outcome::Unknown };
        fits.then(|| self.sections.push(section))
    }

    /// The section of this number, if it is the one that runs.
    fn running(&mut self, number: &str) -> Option<&mut Section> {
        let number: u32 = number.parse().ok()?;
        let runs = |section: &&mut Section| section.number == number && section.outcome == Outcome::Unknown;
        self.sections.last_mut().filter(runs)
    }

    fn result(&mut self, rest: &str) -> Option<()> {
        let mut words = rest.split_ascii_whitespace();
        let number = words.next()?;
        let (operations, nanoseconds) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        self.running(number)?.outcome = Outcome::Done { operations, nanoseconds };
        Some(())
    }

    fn failed(&mut self, rest: &str) -> Option<()> {
        let (number, why) = rest.split_once(' ').unwrap_or((rest, ""));
        // 0 stands for the process of all sections.
        if number == "0" {
            self.note(why)?;
        }
        match number {
            "0" => self.sections.last_mut().filter(|section| section.outcome == Outcome::Unknown),
            _ => self.running(number),
        }?
        .outcome = Outcome::Failed(shortened(why));
        Some(())
    }

    fn index(&mut self, rest: &str) -> Option<()> {
        let (kind, value) = rest.split_once(' ')?;
        let index = match Kind::parse(kind)? {
            Kind::Training => &mut self.index_training,
            Kind::HeldOut => &mut self.index_held_out,
        };
        let value = value.parse().ok()?;
        index.is_none().then(|| *index = Some(value))
    }

    fn note(&mut self, said: &str) -> Option<()> {
        (self.notes.len() < MOST_NOTES).then(|| self.notes.push(shortened(said)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    fn said(text: &str) -> Sections {
        let mut sections = Sections::default();
        text.lines().for_each(|line| sections.line(line));
        sections
    }

    #[test]
    fn a_whole_run_is_read() {
        let run = said(
            "\x1b[2Jplanish: begin 1\r\nplanish: section 1 train syscall\r\nplanish: result 1 10 20\r\n\
             [    1.0] a line of the kernel\nplanish: section 101 held walk\nplanish: result 101 3 4\n\
             planish: index train 99\nplanish: index held 12\nplanish: end\nreboot: Restarting system\n",
        );
        assert!(run.complete() && run.unused == 0);
        assert_eq!((run.index_training, run.index_held_out), (Some(99), Some(12)));
        let first = run.sections().first().unwrap();
        assert_eq!((first.number, first.kind, first.name.as_str()), (1, Kind::Training, "syscall"));
        assert_eq!(first.outcome, Outcome::Done { operations: 10, nanoseconds: 20 });
        assert_eq!(run.sections().get(1).unwrap().kind, Kind::HeldOut);
    }

    #[test]
    fn a_failure_and_a_run_that_was_cut_off_are_told() {
        let run = said(
            "planish: begin 1\nplanish: section 2 train a\nplanish: failed 2 wrong bytes\nplanish: section 3 train b",
        );
        assert!(!run.complete() && run.begun && !run.ended);
        assert_eq!(
            run.failures().map(|(section, why)| (section.number, why)).collect::<Vec<_>>(),
            [(2, "wrong bytes")]
        );
        assert_eq!(run.sections().get(1).unwrap().outcome, Outcome::Unknown);
        let run = said(
            "planish: begin 1\nplanish: section 3 train b\nplanish: failed 0 ended by signal 11\nplanish: end",
        );
        assert_eq!(run.failures().count(), 1);
        assert_eq!(run.notes(), ["ended by signal 11"]);
    }

    #[test]
    fn hostile_lines_are_counted_and_change_nothing() {
        let run = said(
            "planish: section 1 train early\nplanish: end\nplanish: begin 2\nplanish: begin 1\nplanish: begin 1\n\
             planish: section 1 train a\nplanish: section 1 train again\nplanish: section x train a\n\
             planish: section 2 none a\nplanish: section 2\nplanish: result 1 99999999999999999999 1\n\
             planish: result 7 1 1\nplanish: result 1 1 1\nplanish: result 1 2 2\nplanish: failed 1 late\n\
             planish: index other 1\nplanish: index train -1\nplanish: index train 5\nplanish: index train 6\n",
        );
        assert_eq!(run.unused, 15);
        assert_eq!(run.sections().len(), 1);
        assert_eq!(run.sections().first().unwrap().outcome, Outcome::Done { operations: 1, nanoseconds: 1 });
        assert_eq!(run.index_training, Some(5));
    }

    proptest::proptest! {
        #[test]
        fn any_lines_can_be_read(
            lines in proptest::collection::vec("(planish: )?(begin|section|result|failed|index|end)? ?[ -~é]{0,20}", 0..40)
        ) {
            let mut run = Sections::default();
            for line in &lines {
                run.line(line);
            }
            let kept = run.sections().len() + run.notes().len() + run.unused;
            proptest::prop_assert!(kept <= 2 * lines.len());
            proptest::prop_assert!(run.sections().is_empty() || run.begun);
        }
    }

    #[test]
    fn a_console_without_end_fills_no_memory() {
        let mut run = said("planish: begin 1");
        let long = "x".repeat(100_000);
        for number in 0..5000 {
            run.line(&format!("planish: section {number} train {long}"));
            run.line(&format!("planish: note {long}"));
        }
        assert_eq!((run.sections().len(), run.notes().len()), (MOST_SECTIONS, MOST_NOTES));
        assert!(run.sections().iter().all(|section| section.name.len() < 100));
        assert_eq!(run.unused, 5000 - MOST_SECTIONS + 5000 - MOST_NOTES);
    }
}
