//! What can the terminal show?

use crate::escape;
use crate::style::{Colour, Style};

/// What the caller knows of the terminal; a [`Style`] alone stands for 100 columns of UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// Colours or none.
    pub style: Style,
    /// Columns; below 76 tables become lists.
    pub width: usize,
    /// True when the locale is not UTF-8: nothing but ASCII is written.
    pub ascii: bool,
}

impl Default for Screen {
    fn default() -> Screen {
        Screen { style: Style::default(), width: 100, ascii: false }
    }
}

impl From<Style> for Screen {
    fn from(style: Style) -> Screen {
        Screen { style, ..Screen::default() }
    }
}

impl Screen {
    /// Text that this terminal shows and that does nothing else to it.
    pub(crate) fn text(self, text: &str) -> String {
        escape::terminal(text, self.ascii)
    }

    /// Text in a colour.
    pub(crate) fn paint(self, colour: Colour, text: &str) -> String {
        self.style.paint(colour, &self.text(text))
    }

    /// One sign or its ASCII stand-in.
    pub(crate) fn sign(self, sign: &'static str, ascii: &'static str) -> &'static str {
        if self.ascii { ascii } else { sign }
    }

    /// Lines no wider than the terminal, each after `indent` blanks.
    pub(crate) fn wrap(self, text: &str, indent: usize) -> Vec<String> {
        let room = self.width.saturating_sub(indent).max(20);
        let text = self.text(text);
        // A number keeps its per cent sign.
        let mut words: Vec<String> = Vec::new();
        for word in text.split_whitespace() {
            match words.last_mut().filter(|_| word.starts_with('%')) {
                Some(number) => *number += &format!(" {word}"),
                None => words.push(word.to_owned()),
            }
        }
        let mut lines = Vec::new();
        let mut line = String::new();
        for word in &words {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
                lines.push(format!("{:indent$}{line}", ""));
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        if !line.is_empty() {
            lines.push(format!("{:indent$}{line}", ""));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_wrapped_between_words() {
        let screen = Screen { width: 24, ..Screen::default() };
        assert_eq!(
            screen.wrap("one two three four five six", 2),
            ["  one two three four", "  five six"]
        );
    }
}
