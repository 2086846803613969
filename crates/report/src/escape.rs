//! What makes a user's text harmless in HTML, in Markdown and on a terminal?

use std::borrow::Cow;

/// A character that a reader cannot see or that turns the text around it: shown as U+FFFD
/// everywhere.
fn is_hidden(c: char) -> bool {
    let direction = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}');
    // The last two of every plane are no characters, and XML forbids those of the first.
    direction || c.is_control() || (u32::from(c) & 0xfffe) == 0xfffe
}

/// A character that ends a line or a column.
fn is_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}')
}

/// One line of visible characters: line ends and tabs become blanks, what else is hidden U+FFFD.
fn characters(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().map(|c| match c {
        c if is_end(c) => ' ',
        c if is_hidden(c) => '\u{fffd}',
        c => c,
    })
}

/// A name as it may stand in a line of text: nothing in it ends the line, moves the cursor or turns
/// what follows. Line ends and tabs become blanks, every other hidden character U+FFFD.
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.chars().any(|c| is_end(c) || is_hidden(c)) {
        Cow::Owned(characters(text).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// Several lines of text: what is hidden is shown as [`visible`] shows it, but lines and columns
/// stay, and, where `colours` are written, the sequences that set them.
pub fn visible_lines(text: &str, colours: bool) -> Cow<'_, str> {
    let hidden = |c: char| is_hidden(c) && !matches!(c, '\n' | '\t');
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let colour = if colours { colour_sequence(rest) } else { None };
        let (shown, after) = rest.split_at(colour.unwrap_or(c.len_utf8()).min(rest.len()));
        out.push_str(if colour.is_none() && hidden(c) { "\u{fffd}" } else { shown });
        rest = after;
    }
    Cow::Owned(out)
}

/// The length of the sequence that sets a colour, where the text begins with one.
fn colour_sequence(text: &str) -> Option<usize> {
    let codes = text.strip_prefix("\x1b[")?;
    let end = codes.find('m').filter(|end| *end <= 8)?;
    let known = |code: &str| {
        matches!(code, "0" | "1" | "2" | "4" | "31" | "32" | "33" | "34" | "35" | "36")
    };
    codes.get(..end)?.split(';').all(known).then_some("\x1b[".len() + end + 1)
}

/// JSON whose strings hold nothing hidden: the same value, such characters written as `\u` and
/// their number. JSON has them nowhere but in strings.
pub fn json(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| is_hidden(c) && !matches!(c, '\n' | '\t' | '\r');
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if hidden(c) {
            let mut units = [0; 2];
            c.encode_utf16(&mut units)
                .iter()
                .for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// For the content of an element and for quoted attributes, in HTML as well as in XML.
pub(crate) fn html_into(out: &mut String, text: &str) {
    let mut rest = characters(text).peekable();
    while let Some(c) = rest.next() {
        match c {
            // A number keeps its per cent sign at a line's end.
            ' ' if rest.peek() == Some(&'%') => out.push('\u{a0}'),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
}

/// For running text and table cells of GitHub's Markdown.
pub(crate) fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in characters(text) {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // Mentions and references to issues would notify people; the entity reads the same.
            '@' => out.push_str("&#64;"),
            '#' => out.push_str("&#35;"),
            ':' => out.push_str("&#58;"),
            '\\' | '|' | '`' | '*' | '_' | '~' | '[' | ']' | '!' | '$' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// A command or file as code, also within a table cell. Code spans know no escapes, so HTML's
/// element is taken.
pub(crate) fn markdown_code(text: &str) -> String {
    format!("<code>{}</code>", markdown(text))
}

/// For a terminal: nothing that moves the cursor or colours the rest.
pub(crate) fn terminal(text: &str, ascii: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in characters(text) {
        match c {
            c if c.is_ascii() || !ascii => out.push(c),
            '±' => out.push_str("+/-"),
            '−' | '–' | '·' => out.push('-'),
            'µ' => out.push('u'),
            'Δ' => out.push('d'),
            'α' => out.push_str("alpha"),
            '×' => out.push('x'),
            '…' => out.push_str("..."),
            '“' | '”' => out.push('"'),
            '’' => out.push('\''),
            _ => out.push('?'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(text: &str) -> String {
        let mut out = String::new();
        html_into(&mut out, text);
        out
    }

    #[test]
    fn markup_in_a_name_becomes_text() {
        assert_eq!(html("<script>alert(1)</script>"), "&lt;script&gt;alert(1)&lt;/script&gt;");
        assert_eq!(
            html("\"><img src=x onerror='a'>"),
            "&quot;&gt;&lt;img src=x onerror=&#39;a&#39;&gt;"
        );
        assert_eq!(html("]]>&"), "]]&gt;&amp;");
    }

    #[test]
    fn hidden_characters_are_shown() {
        assert_eq!(html("a\u{202e}b\0c\nd\u{ffff}"), "a\u{fffd}b\u{fffd}c d\u{fffd}");
        assert_eq!(terminal("a\x1b[31mb", false), "a\u{fffd}[31mb");
        assert_eq!(terminal("±1 µs\x07", true), "+/-1 us?");
    }

    #[test]
    fn a_name_stays_within_its_line() {
        assert_eq!(
            visible("a\x1b[31m\x07\u{9b}b\nc\td\u{202e}\u{200f}"),
            "a\u{fffd}[31m\u{fffd}\u{fffd}b c d\u{fffd}\u{fffd}"
        );
        assert!(matches!(visible("plain, größer"), Cow::Borrowed(_)));
    }

    #[test]
    fn lines_keep_their_ends_and_only_the_colours_that_are_wanted() {
        let text = "a\tb\n\x1b[31mred\x1b[0m \x1b[2Jgone\x1b]0;t\x07";
        assert_eq!(
            visible_lines(text, false),
            "a\tb\n\u{fffd}[31mred\u{fffd}[0m \u{fffd}[2Jgone\u{fffd}]0;t\u{fffd}"
        );
        assert_eq!(
            visible_lines(text, true),
            "a\tb\n\x1b[31mred\x1b[0m \u{fffd}[2Jgone\u{fffd}]0;t\u{fffd}"
        );
        assert_eq!(visible_lines("\x1b", true), "\u{fffd}");
        assert_eq!(visible_lines("\x1b[m\x1b[", true), "\u{fffd}[m\u{fffd}[");
    }

    #[test]
    fn json_keeps_its_value_without_hidden_characters() {
        let value = serde_json::json!({ "name": "a\u{202e}b\u{9b}\x1b\u{1fffe}" });
        let text = serde_json::to_string(&value).unwrap();
        let shown = json(&text);
        assert!(shown.is_ascii(), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn a_name_does_not_break_a_markdown_table() {
        assert_eq!(markdown("a|b`c<d\ne"), "a\\|b\\`c&lt;d e");
        assert_eq!(markdown_code("x | y"), "<code>x \\| y</code>");
        assert_eq!(markdown("@all fixes #3"), "&#64;all fixes &#35;3");
    }
}
