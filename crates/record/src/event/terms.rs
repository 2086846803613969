//! The terms between an event's slashes: bits of its config words, and how this one event is to be
//! sampled.

use super::error::Error;
use super::machine::Pmu;
use super::names::{nearest, raw};
use super::syntax::{Term, Value};
use crate::settings::{BranchFilter, CallGraph};
use perfdata::EventAttr;

/// What an event's own terms say about sampling it; nothing where the recording's settings apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `name=`
    pub name: Option<String>,
    /// `period=`
    pub period: Option<u64>,
    /// `freq=`, in hertz
    pub frequency: Option<u64>,
    /// `time=`: whether samples carry the time. They do in any case; kept for what reads the event
    /// elsewhere.
    pub time: Option<bool>,
    /// `call-graph=`; `Some(None)` for `no`.
    pub call_graph: Option<Option<CallGraph>>,
    /// `stack-size=`, in bytes
    pub stack_bytes: Option<u32>,
    /// `max-stack=`, in frames
    pub max_stack: Option<u16>,
    /// `inherit`, `no-inherit`
    pub inherit: Option<bool>,
    /// `branch_type=`
    pub branch_filter: Option<BranchFilter>,
}

const SAMPLING: [&str; 10] = [
    "name",
    "period",
    "freq",
    "time",
    "call-graph",
    "stack-size",
    "max-stack",
    "inherit",
    "no-inherit",
    "branch_type",
];
const WORDS: [&str; 3] = ["config", "config1", "config2"];

/// A term's number, decimal or with 0x; a term without a value stands for 1.
fn number(term: &Term, most: u64) -> Result<u64, Error> {
    let Some(value) = &term.value else { return Ok(1) };
    let text = value.text();
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    };
    number
        .filter(|number| *number <= most)
        .ok_or_else(|| wrong(term, &format!("a number up to {most:#x}")))
}

fn wrong(term: &Term, expected: &str) -> Error {
    let value = term.value.as_ref().map(Value::text).unwrap_or_default();
    Error::Value { term: term.key.clone(), value: value.to_owned(), expected: expected.to_owned() }
}

fn flag(term: &Term) -> Result<bool, Error> {
    number(term, 1).map(|number| number == 1)
}

fn text(term: &Term) -> Result<&str, Error> {
    term.value.as_ref().map(Value::text).ok_or_else(|| wrong(term, "a text behind `=`"))
}

fn needed(term: &Term, least: u64, most: u64) -> Result<u64, Error> {
    if term.value.is_none() {
        return Err(wrong(term, "a number behind `=`"));
    }
    number(term, most)?
        .checked_sub(least)
        .map(|above| above + least)
        .ok_or_else(|| wrong(term, &format!("a number from {least} to {most}")))
}

impl Settings {
    /// Takes in a term about sampling; `false` when it is none.
    fn take(&mut self, term: &Term) -> Result<bool, Error> {
        match term.key.as_str() {
            "name" => self.name = Some(text(term)?.to_owned()),
            "period" => self.period = Some(needed(term, 1, i64::MAX as u64)?),
            "freq" => self.frequency = Some(needed(term, 1, u64::from(u32::MAX))?),
            "time" => self.time = Some(flag(term)?),
            "call-graph" => {
                self.call_graph = Some(match text(term)? {
                    "no" => None,
                    how => Some(how.parse().map_err(|_| wrong(term, "fp, dwarf, lbr or no"))?),
                });
            }
            "stack-size" => {
                self.stack_bytes =
                    Some(needed(term, 8, u64::from(CallGraph::MOST_BYTES))? as u32 & !7)
            }
            "max-stack" => self.max_stack = Some(needed(term, 1, u64::from(u16::MAX))? as u16),
            "inherit" => self.inherit = Some(flag(term)?),
            "no-inherit" => self.inherit = Some(!flag(term)?),
            "branch_type" => {
                let filter = text(term)?
                    .parse()
                    .map_err(|error: crate::settings::Wrong| wrong(term, &error.expected))?;
                self.branch_filter = Some(filter);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The terms of an event that has no PMU: only those about sampling.
pub(crate) fn of_generic(event: &str, terms: &[Term]) -> Result<Settings, Error> {
    let mut settings = Settings::default();
    for term in terms {
        if !settings.take(term)? {
            let known = SAMPLING.iter().map(|known| (*known).to_owned());
            return Err(unknown(event, term, known));
        }
    }
    Ok(settings)
}

fn unknown(event: &str, term: &Term, known: impl Iterator<Item = String>) -> Error {
    Error::UnknownTerm {
        event: event.to_owned(),
        term: term.key.clone(),
        nearest: nearest(&term.key, known),
    }
}

/// The terms of a PMU's event, whose bits go into `attr`.
pub(crate) fn of_pmu(pmu: &Pmu, terms: &[Term], attr: &mut EventAttr) -> Result<Settings, Error> {
    let mut settings = Settings::default();
    for term in terms {
        if !settings.take(term)? {
            bits(pmu, term, attr, true)?;
        }
    }
    Ok(settings)
}

/// A term that fills bits: a config word, a field of the PMU's format, a raw number, or one of the
/// PMU's events.
fn bits(pmu: &Pmu, term: &Term, attr: &mut EventAttr, aliases: bool) -> Result<(), Error> {
    if let Some(word) = WORDS.iter().position(|word| *word == term.key) {
        let value = needed(term, 0, u64::MAX)?;
        config(attr, word).into_iter().for_each(|word| *word = value);
    } else if let Some(format) = pmu.formats.get(&term.key) {
        let (mask, value) = format.spread(number(term, format.largest())?);
        let word = config(attr, format.word).ok_or(Error::NotBuilt {
            name: format!("{}/{}/", pmu.name, term.key),
            reason: "the term lies in config3, which is newer than the attributes that planish \
                     writes",
        })?;
        *word = *word & !mask | value;
    } else if let (None, true, Some(alias)) = (&term.value, aliases, pmu.alias(&term.key)) {
        for part in alias.split(',').filter(|part| !part.is_empty()) {
            let (key, value) =
                part.split_once('=').map_or((part, None), |(key, value)| (key, Some(value)));
            // Some events leave a field to the user (`config=?`).
            if value == Some("?") {
                continue;
            }
            let value = value.map(|value| Value::Plain(value.to_owned()));
            bits(pmu, &Term { key: key.to_owned(), value }, attr, false)?;
        }
    } else if let (None, Some(raw)) = (&term.value, raw(&term.key)) {
        attr.config = raw;
    } else {
        let known = SAMPLING.iter().chain(&WORDS).map(|known| (*known).to_owned());
        return Err(unknown(&format!("PMU {}", pmu.name), term, known.chain(pmu.words())));
    }
    Ok(())
}

fn config(attr: &mut EventAttr, word: usize) -> Option<&mut u64> {
    [&mut attr.config, &mut attr.config1, &mut attr.config2].into_iter().nth(word)
}
