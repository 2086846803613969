//! How is markup put together so that no data can become markup?
//!
//! Tags, attribute names and raw pieces are `&'static str`, that is literals of this crate;
//! everything else goes through [`escape::html_into`], or as JSON through [`inert`](crate::page::inert). What is written is well-formed XML too.

use crate::escape;
use std::fmt::{self, Display, Write};

/// An attribute: a literal name and a value that is escaped.
pub(crate) type Attribute<'a> = (&'static str, &'a dyn Display);

/// Markup under construction.
#[derive(Debug, Default)]
pub(crate) struct Markup {
    text: String,
}

/// Escapes what is written through it.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        escape::html_into(self.0, text);
        Ok(())
    }
}

impl Markup {
    /// A literal as it is.
    pub(crate) fn raw(&mut self, literal: &'static str) {
        self.text.push_str(literal);
    }

    /// Data as text.
    pub(crate) fn text(&mut self, data: &str) {
        escape::html_into(&mut self.text, data);
    }

    /// JSON as data of a script.
    pub(crate) fn json(&mut self, data: &str) {
        self.text.push_str(&crate::page::inert(data));
    }

    /// `<tag attributes>`.
    pub(crate) fn open(&mut self, tag: &'static str, attributes: &[Attribute]) {
        self.start(tag, attributes);
        self.text.push('>');
    }

    /// `</tag>`.
    pub(crate) fn close(&mut self, tag: &'static str) {
        self.text.push_str("</");
        self.text.push_str(tag);
        self.text.push('>');
    }

    /// `<tag attributes/>`.
    pub(crate) fn empty(&mut self, tag: &'static str, attributes: &[Attribute]) {
        self.start(tag, attributes);
        self.text.push_str("/>");
    }

    /// An element that holds only text.
    pub(crate) fn leaf(&mut self, tag: &'static str, attributes: &[Attribute], data: &str) {
        self.open(tag, attributes);
        self.text(data);
        self.close(tag);
    }

    /// Other markup.
    pub(crate) fn append(&mut self, other: Markup) {
        self.text.push_str(&other.text);
    }

    /// The text.
    pub(crate) fn finish(self) -> String {
        self.text
    }

    fn start(&mut self, tag: &'static str, attributes: &[Attribute]) {
        self.text.push('<');
        self.text.push_str(tag);
        for (name, value) in attributes {
            self.text.push(' ');
            self.text.push_str(name);
            self.text.push_str("=\"");
            // Writing to a string does not fail.
            let _ = write!(Escaped(&mut self.text), "{value}");
            self.text.push('"');
        }
    }
}

/// A length or position in a picture, to a tenth; what is no number is 0.
#[derive(Clone, Copy)]
pub(crate) struct Px(pub(crate) f64);

impl Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bounded = if self.0.is_finite() { self.0.clamp(-1e5, 1e5) } else { 0.0 };
        let tenths = (bounded * 10.0).round() as i64;
        match (tenths / 10, tenths % 10) {
            (whole, 0) => write!(f, "{whole}"),
            (whole, tenth) => {
                let sign = if tenths < 0 && whole == 0 { "-" } else { "" };
                write!(f, "{sign}{whole}.{}", tenth.abs())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_and_content_are_escaped() {
        let mut m = Markup::default();
        m.leaf("p", &[("title", &"a\"b")], "<i>");
        m.empty("br", &[]);
        assert_eq!(m.finish(), "<p title=\"a&quot;b\">&lt;i&gt;</p><br/>");
    }

    #[test]
    fn positions_are_short() {
        let shown =
            [0.0, 1.04, -0.26, 12.96, -3.5, f64::NAN, f64::INFINITY].map(|x| Px(x).to_string());
        assert_eq!(shown, ["0", "1", "-0.3", "13", "-3.5", "0", "0"]);
    }
}
