//! The text of `-e` as a tree: groups of events with terms and modifiers, before anything is looked
//! up.
//!
//! Every part keeps its spelling, so that printing gives the text back: perf names an event by its
//! text, and so do we. Blanks between the parts are left out, though perf keeps them in names.

use super::error::Error;
use super::modifiers;
use super::names;
use std::fmt;

/// The events of one text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventList {
    /// In the order of the text.
    pub groups: Vec<Group>,
}

/// Events that are scheduled together, or a single one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// `{…}` with the name before it; `None` for an event outside braces.
    pub braces: Option<String>,
    /// At least one.
    pub events: Vec<Spec>,
    /// What follows the closing brace, without the colon; empty when nothing does.
    pub modifiers: String,
}

/// One event as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// What it is called.
    pub name: Name,
    /// What stands between the slashes, when there are any.
    pub terms: Option<Vec<Term>>,
    /// What follows, with its colon where one was written.
    pub modifiers: String,
}

/// An event's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// A name of any kind: hardware, software, cache, raw, a PMU, or a PMU's event.
    Plain(String),
    /// `system:name`.
    Tracepoint(String, String),
}

/// `key` or `key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Before the `=`.
    pub key: String,
    /// After it.
    pub value: Option<Value>,
}

/// A term's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// As it stands.
    Plain(String),
    /// In single quotes, which are not part of it.
    Quoted(String),
    /// In double quotes, which are not part of it either.
    DoublyQuoted(String),
}

impl Value {
    /// The value without quotes.
    pub fn text(&self) -> &str {
        match self {
            Value::Plain(text) | Value::Quoted(text) | Value::DoublyQuoted(text) => text,
        }
    }
}

impl fmt::Display for EventList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        separated(f, &self.groups)
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.braces {
            None => separated(f, &self.events),
            Some(name) => {
                write!(f, "{name}{}{{", if name.is_empty() { "" } else { ":" })?;
                separated(f, &self.events)?;
                write!(
                    f,
                    "}}{}{}",
                    if self.modifiers.is_empty() { "" } else { ":" },
                    self.modifiers
                )
            }
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Name::Plain(name) => f.write_str(name)?,
            Name::Tracepoint(system, name) => write!(f, "{system}:{name}")?,
        }
        if let Some(terms) = &self.terms {
            f.write_str("/")?;
            separated(f, terms)?;
            f.write_str("/")?;
        }
        f.write_str(&self.modifiers)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            None => f.write_str(&self.key),
            Some(Value::Plain(value)) => write!(f, "{}={value}", self.key),
            Some(Value::Quoted(value)) => write!(f, "{}='{value}'", self.key),
            Some(Value::DoublyQuoted(value)) => write!(f, "{}=\"{value}\"", self.key),
        }
    }
}

fn separated<Item: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[Item]) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if index == 0 { "" } else { "," })?;
    }
    Ok(())
}

/// Reads the text of one `-e`.
pub fn parse(text: &str) -> Result<EventList, Error> {
    let mut parser = Parser { text, at: 0 };
    let mut groups = vec![parser.group()?];
    while parser.eat(',') {
        groups.push(parser.group()?);
    }
    parser.blanks();
    if parser.peek().is_some() {
        return Err(parser.expected("a comma or the end"));
    }
    Ok(EventList { groups })
}

/// Reads from `text[at..]`; `at` is always at the start of a character.
struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Passes over blanks.
    fn blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Passes over a character and the blanks before it.
    fn eat(&mut self, wanted: char) -> bool {
        let begun = self.at;
        self.blanks();
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        } else {
            self.at = begun;
        }
        found
    }

    /// Everything up to one of the characters, or the end.
    fn until(&mut self, stops: &[char]) -> &'t str {
        let rest = self.rest();
        let taken = &rest[..rest.find(stops).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    fn expected(&self, expected: &'static str) -> Error {
        let before = self.text.get(..self.at).unwrap_or_default();
        Error::Syntax { text: self.text.to_owned(), at: before.chars().count() + 1, expected }
    }

    fn group(&mut self) -> Result<Group, Error> {
        self.blanks();
        let rest = self.rest();
        let name = &rest[..rest.find(['{', '}', ',', '/']).unwrap_or(rest.len())];
        if rest.get(name.len()..).is_none_or(|after| !after.starts_with('{')) {
            return Ok(Group {
                braces: None,
                events: vec![self.event()?],
                modifiers: String::new(),
            });
        }
        let name = name.trim_end();
        let name = name.strip_suffix(':').unwrap_or(name).to_owned();
        if name.contains(':') {
            return Err(self.expected("a name without colons before `{`"));
        }
        self.until(&['{']);
        self.eat('{');
        let mut events = vec![self.event()?];
        while self.eat(',') {
            events.push(self.event()?);
        }
        if !self.eat('}') {
            return Err(self.expected("a comma or `}`"));
        }
        let begun = self.at;
        let text = self.until(&[',', '{', '}', '/']).trim();
        let Some(text) = text
            .strip_prefix(':')
            .filter(|text| !text.is_empty())
            .or(text.is_empty().then_some(""))
        else {
            self.at = begun;
            return Err(self.expected("`:` and modifiers, a comma or the end after `}`"));
        };
        modifiers::parse(text)?;
        Ok(Group { braces: Some(name), events, modifiers: text.to_owned() })
    }

    fn event(&mut self) -> Result<Spec, Error> {
        self.blanks();
        let begun = self.at;
        if self.rest().starts_with("mem:") {
            let name = self.until(&[',', '{', '}']).to_owned();
            return Err(Error::NotBuilt {
                name,
                reason: "breakpoints are not supported; use perf for them",
            });
        }
        let head = self.until(&[',', '{', '}', '/', '\'', '"', '=']).trim_end();
        if head.is_empty() {
            return Err(self.expected("the name of an event"));
        }
        if let Some('{' | '\'' | '"' | '=') = self.peek() {
            return Err(self.expected("a comma, `:` and modifiers, or `/` and terms"));
        }
        let head = split_head(head).ok_or_else(|| {
            self.at = begun;
            self.expected("NAME, NAME:MODIFIERS, SYSTEM:TRACEPOINT or SYSTEM:TRACEPOINT:MODIFIERS")
        })?;
        let (name, mut tail) = head;
        let terms = if self.eat('/') {
            if !tail.is_empty() {
                return Err(self.expected("modifiers behind the terms, not before them"));
            }
            let terms = self.terms()?;
            tail = self.until(&[',', '{', '}', '/', '\'', '"', '=']).trim();
            Some(terms)
        } else {
            None
        };
        let letters = tail.strip_prefix(':').unwrap_or(tail);
        if tail.len() > letters.len() && letters.is_empty() {
            return Err(self.expected("modifiers after the colon"));
        }
        modifiers::parse(letters)?;
        if !matches!(self.peek(), None | Some(',' | '}')) {
            return Err(self.expected("a comma or the end of the event"));
        }
        Ok(Spec { name, terms, modifiers: tail.to_owned() })
    }

    /// What stands before the closing quote, which is passed over.
    fn quoted(&mut self, quote: char, expected: &'static str) -> Result<String, Error> {
        let text = self.until(&[quote]).to_owned();
        if self.eat(quote) { Ok(text) } else { Err(self.expected(expected)) }
    }

    /// Terms up to and with the closing slash.
    fn terms(&mut self) -> Result<Vec<Term>, Error> {
        let mut terms = Vec::new();
        if self.eat('/') {
            return Ok(terms);
        }
        loop {
            self.blanks();
            let key = self.until(&['=', ',', '/', '\'', '"', '{', '}']).trim_end().to_owned();
            if key.is_empty() {
                return Err(self.expected("a term"));
            }
            let value = if !self.eat('=') {
                None
            } else if self.eat('\'') {
                Some(Value::Quoted(self.quoted('\'', "the closing `'`")?))
            } else if self.eat('"') {
                Some(Value::DoublyQuoted(self.quoted('"', "the closing `\"`")?))
            } else {
                let plain = self.until(&[',', '/', '\'', '"', '=', '{', '}']).trim().to_owned();
                if plain.is_empty() {
                    return Err(self.expected("a value"));
                }
                Some(Value::Plain(plain))
            };
            terms.push(Term { key, value });
            if self.eat('/') {
                return Ok(terms);
            }
            if !self.eat(',') {
                return Err(self.expected("a comma or the closing `/`"));
            }
        }
    }
}

/// `name`, `name:modifiers`, `system:name` or `system:name:modifiers`, and the modifiers with their
/// colon. `a:b` is an event with modifiers when `a` is one of the kernel's own or `b` can only be
/// modifiers.
fn split_head(head: &str) -> Option<(Name, &str)> {
    let parts: Vec<&str> = head.split(':').collect();
    if parts.iter().any(|part| part.is_empty()) {
        return None;
    }
    match parts.as_slice() {
        [name] => Some((Name::Plain((*name).to_owned()), "")),
        [name, tail] if names::is_generic(name) || modifiers::parse(tail).is_ok() => {
            Some((Name::Plain((*name).to_owned()), head.get(name.len()..)?))
        }
        [system, name] => Some((Name::Tracepoint((*system).to_owned(), (*name).to_owned()), "")),
        [system, name, tail] => {
            let tail = head.get(head.len() - tail.len() - 1..)?;
            Some((Name::Tracepoint((*system).to_owned(), (*name).to_owned()), tail))
        }
        _ => None,
    }
}
