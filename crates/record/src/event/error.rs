//! What is wrong with the text of an event, and what was probably meant.

/// Why a text names no event that can be opened here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text breaks off or holds something that has no place there.
    #[error("event {text:?}, character {at}: expected {expected}")]
    Syntax {
        /// The whole text.
        text: String,
        /// Position, counted in characters from 1.
        at: usize,
        /// What could have stood there.
        expected: &'static str,
    },
    /// No event has this name.
    #[error("there is no event {name:?} on this machine{}", nearest_clause(.nearest))]
    Unknown {
        /// As given.
        name: String,
        /// Names like it, the nearest first.
        nearest: Vec<String>,
    },
    /// No PMU has this name.
    #[error("there is no PMU {name:?} on this machine (it has {})", known.join(", "))]
    UnknownPmu {
        /// As given.
        name: String,
        /// The PMUs there are.
        known: Vec<String>,
    },
    /// A term between the slashes that the PMU does not know.
    #[error("{event} knows no term {term:?}{}", nearest_clause(.nearest))]
    UnknownTerm {
        /// The event or PMU.
        event: String,
        /// As given.
        term: String,
        /// Terms like it, the nearest first.
        nearest: Vec<String>,
    },
    /// A term's value that does not fit.
    #[error("term {term} of an event: {value:?} is not {expected}")]
    Value {
        /// The term.
        term: String,
        /// As given.
        value: String,
        /// What fits.
        expected: String,
    },
    /// Modifiers that mean nothing, or nothing together.
    #[error("modifiers {text:?} of an event: {reason}")]
    Modifiers {
        /// As given, without the colon.
        text: String,
        /// What is wrong.
        reason: String,
    },
    /// A tracepoint that cannot be looked up.
    #[error("tracepoint {name}: {reason}")]
    Tracepoint {
        /// As given.
        name: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A tracepoint that this user may not look up.
    #[error("tracepoint {name}: {reason}")]
    Denied {
        /// As given.
        name: String,
        /// What to do.
        reason: String,
    },
    /// An event that perf has and planish has not.
    #[error("event {name:?}: {reason}")]
    NotBuilt {
        /// As given.
        name: String,
        /// What it is, and what to use.
        reason: &'static str,
    },
}

fn nearest_clause(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        names => format!("; did you mean {}?", names.join(", ")),
    }
}
