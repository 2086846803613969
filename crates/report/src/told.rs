//! A result that was kept as JSON, told again: which one is it, and how does each form of it look?

use crate::{Optimization, Style, compare, json};
use ::compare::result::Measurement;

/// A kept result.
#[derive(Clone, Debug)]
pub enum Told {
    /// Of `planish compare`.
    Measurement(Box<Measurement>),
    /// Of `planish optimize`.
    Optimization(Box<Optimization>),
}

impl Told {
    /// Reads what was kept; none where it is something else.
    ///
    /// # Errors
    /// Where the result that it says to be is damaged.
    pub fn read(text: &str) -> serde_json::Result<Option<Told>> {
        let value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        Ok(match value.get("schema").and_then(|schema| schema.as_str()) {
            Some("planish-compare") => Some(Told::Measurement(serde_json::from_value(value)?)),
            Some("planish-optimize") => Some(Told::Optimization(serde_json::from_value(value)?)),
            _ => None,
        })
    }

    /// Lines for people.
    pub fn terminal(&self, style: Style) -> String {
        match self {
            Told::Measurement(measured) => compare::terminal(measured, &[], style),
            Told::Optimization(run) => run.terminal(style),
        }
    }

    /// Markdown.
    pub fn markdown(&self) -> String {
        match self {
            Told::Measurement(measured) => compare::markdown(measured),
            Told::Optimization(run) => run.markdown(),
        }
    }

    /// A page with tables and pictures.
    pub fn html(&self) -> String {
        match self {
            Told::Measurement(measured) => compare::html(measured, &[]),
            Told::Optimization(run) => run.html(),
        }
    }

    /// Indented JSON.
    ///
    /// # Errors
    /// None: every value can be written.
    pub fn json(&self) -> serde_json::Result<String> {
        let text = match self {
            Told::Measurement(measured) => serde_json::to_string_pretty(measured)?,
            Told::Optimization(run) => serde_json::to_string_pretty(run)?,
        };
        Ok(json(&text).into_owned() + "\n")
    }
}
