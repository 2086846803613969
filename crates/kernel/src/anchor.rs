//! Where in a text does an edit go, and how is it taken back?
//!
//! Input: the text of one file and the edits of that file. Output: the edited text, or the text as
//! it was. Invariants: an anchor matches exactly once or the edit fails; `undo(apply(text))` is
//! `text`, byte for byte; nothing is guessed. Lines are compared with runs of blanks taken as one,
//! so that an anchor survives another indentation.

use crate::text_order;

/// One change of one file.
#[derive(Clone, Copy, Debug)]
pub struct Edit {
    /// What is edited, as a person would call it.
    pub construct: &'static str,
    /// How.
    pub change: Change,
}

/// How a file is changed.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// New lines beside a line.
    Insert {
        /// The line, which must be there exactly once.
        anchor: Line,
        /// On which side.
        place: Place,
        /// Whole lines, with their last line end.
        text: &'static str,
    },
    /// Lines become others. Both are whole lines, byte for byte.
    Replace {
        /// What must be there exactly once.
        old: &'static str,
        /// What stands there then.
        new: &'static str,
    },
    /// A second body for the linker script's `TEXT_TEXT`, made of the lines of the first.
    TextOrder,
    /// No change: what the other edits rely on.
    Holds {
        /// The line, which must be there exactly once.
        anchor: Line,
    },
    /// No change: what must not be there.
    Absent {
        /// The text.
        text: &'static str,
        /// Why it hinders, and what to do.
        reason: &'static str,
    },
}

/// Which line is meant.
#[derive(Clone, Copy, Debug)]
pub enum Line {
    /// The whole line is this.
    Is(&'static str),
    /// The line starts so.
    Starts(&'static str),
}

/// The side of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In front of it.
    Before,
    /// Behind it.
    After,
}

/// Why an edit does not fit a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// The anchor is not there exactly once.
    Anchor {
        /// The text that is looked for.
        expected: String,
        /// How often it is there.
        found: usize,
    },
    /// Something is there that must not be.
    Present {
        /// What.
        text: &'static str,
        /// Why it hinders.
        reason: &'static str,
    },
}

/// Runs of blanks as one, none at the ends.
fn blanks_as_one(line: &str) -> String {
    line.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

impl Line {
    fn wanted(self) -> &'static str {
        match self {
            Line::Is(text) | Line::Starts(text) => text,
        }
    }

    fn matches(self, line: &str) -> bool {
        let line = blanks_as_one(line);
        match self {
            Line::Is(text) => line == text,
            Line::Starts(text) => line.starts_with(text),
        }
    }

    /// Where the only line that matches begins and ends, its line end included.
    fn find(self, text: &str) -> Result<(usize, usize), Misfit> {
        let mut found = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let end = start + line.len();
            if self.matches(line) {
                found.push((start, end));
            }
            start = end;
        }
        match found.as_slice() {
            [only] => Ok(*only),
            others => {
                Err(Misfit::Anchor { expected: self.wanted().to_owned(), found: others.len() })
            }
        }
    }
}

/// The only place of whole lines in a text; else how often they are there.
fn only(text: &str, lines: &str) -> Result<usize, usize> {
    let places = text.match_indices(lines).map(|(at, _)| at);
    let places: Vec<usize> = places.filter(|at| line_starts(text, *at)).collect();
    match places.as_slice() {
        [at] => Ok(*at),
        others => Err(others.len()),
    }
}

fn line_starts(text: &str, at: usize) -> bool {
    at == 0 || text.as_bytes().get(at - 1) == Some(&b'\n')
}

fn spliced(text: &str, from: usize, to: usize, with: &str) -> String {
    let (head, tail) = (text.get(..from).unwrap_or(text), text.get(to..).unwrap_or_default());
    [head, with, tail].concat()
}

fn first_line(lines: &str) -> String {
    lines.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}

impl Change {
    /// The text with this change made.
    pub fn apply(self, text: &str) -> Result<String, Misfit> {
        match self {
            Change::Insert { anchor, place, text: lines } => {
                let (start, end) = anchor.find(text)?;
                let at = if place == Place::Before { start } else { end };
                // A last line without its line end would swallow the first new one.
                let cut =
                    place == Place::After && !text.get(..at).unwrap_or_default().ends_with('\n');
                if cut {
                    return Err(Misfit::Anchor {
                        expected: anchor.wanted().to_owned() + "\\n",
                        found: 0,
                    });
                }
                Ok(spliced(text, at, at, lines))
            }
            Change::Replace { old, new } => {
                let at = only(text, old)
                    .map_err(|found| Misfit::Anchor { expected: first_line(old), found })?;
                Ok(spliced(text, at, at + old.len(), new))
            }
            Change::TextOrder => text_order::apply(text).map_err(|wrong| Misfit::Anchor {
                expected: wrong.expected.to_owned(),
                found: wrong.found,
            }),
            Change::Holds { anchor } => anchor.find(text).map(|_| text.to_owned()),
            Change::Absent { text: unwanted, reason } => match text.contains(unwanted) {
                true => Err(Misfit::Present { text: unwanted, reason }),
                false => Ok(text.to_owned()),
            },
        }
    }

    /// The text without this change; `None` where the change is not in it exactly once.
    fn undo(self, text: &str) -> Option<String> {
        match self {
            Change::Insert { text: lines, .. } => {
                only(text, lines).ok().map(|at| spliced(text, at, at + lines.len(), ""))
            }
            Change::Replace { old, new } => {
                only(text, new).ok().map(|at| spliced(text, at, at + new.len(), old))
            }
            Change::TextOrder => text_order::undo(text),
            Change::Holds { .. } | Change::Absent { .. } => Some(text.to_owned()),
        }
    }

    /// Whether this change would leave a trace in a text; conditions leave none.
    fn leaves_a_trace(self) -> bool {
        !matches!(self, Change::Holds { .. } | Change::Absent { .. })
    }
}

/// How a text stands to the edits of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// No edit is in it, and all fit.
    Plain {
        /// The text with all edits.
        edited: String,
    },
    /// All edits are in it.
    Edited {
        /// The text as it was before them.
        plain: String,
    },
    /// No edit is in it, and one does not fit.
    Unfit {
        /// What was to be edited.
        construct: &'static str,
        /// Why it does not fit.
        misfit: Misfit,
    },
    /// Some edits are in it, or changed ones.
    Half {
        /// The constructs that are edited.
        there: Vec<&'static str>,
        /// Those that are not.
        missing: Vec<&'static str>,
    },
}

/// The text with all edits made, or which does not fit.
pub fn apply(text: &str, edits: &[Edit]) -> Result<String, (&'static str, Misfit)> {
    let mut edited = text.to_owned();
    for edit in edits {
        edited = edit.change.apply(&edited).map_err(|misfit| (edit.construct, misfit))?;
    }
    Ok(edited)
}

/// How this text stands to these edits.
pub fn state(text: &str, edits: &[Edit]) -> State {
    let with_trace = || edits.iter().filter(|edit| edit.change.leaves_a_trace());
    let (there, missing): (Vec<&Edit>, Vec<&Edit>) =
        with_trace().partition(|edit| edit.change.undo(text).is_some());
    let names = |edits: &[&Edit]| edits.iter().map(|edit| edit.construct).collect::<Vec<_>>();
    if there.is_empty() {
        return match apply(text, edits) {
            // A text that holds what an edit writes, twice or elsewhere, would not come back.
            Ok(edited) if edited != text && undo(&edited, edits).as_deref() != Some(text) => {
                State::Half { there: names(&missing), missing: Vec::new() }
            }
            Ok(edited) => State::Plain { edited },
            Err((construct, misfit)) => State::Unfit { construct, misfit },
        };
    }
    match undo(text, edits) {
        // Taken back is only what would come out again in the same way.
        Some(plain) if apply(&plain, edits).is_ok_and(|again| again == text) => {
            State::Edited { plain }
        }
        _ => State::Half { there: names(&there), missing: names(&missing) },
    }
}

/// The text without any of the edits; `None` where one is not in it exactly once.
fn undo(text: &str, edits: &[Edit]) -> Option<String> {
    edits.iter().rev().try_fold(text.to_owned(), |undone, edit| edit.change.undo(&undone))
}
