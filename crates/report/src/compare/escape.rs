//! What makes a user's text harmless in HTML, in Markdown and on a terminal?

/// A character that a reader cannot see or that turns the text around it: shown as U+FFFD everywhere.
fn is_hidden(c: char) -> bool {
    let direction = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
    // The last two of every plane are no characters, and XML forbids those of the first.
    direction || c.is_control() || (u32::from(c) & 0xfffe) == 0xfffe
}

/// One line of visible characters: line ends and tabs become blanks, what else is hidden U+FFFD.
fn visible(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().map(|c| match c {
        '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => ' ',
        c if is_hidden(c) => '\u{fffd}',
        c => c,
    })
}

/// For the content of an element and for quoted attributes, in HTML as well as in XML.
pub(crate) fn html_into(out: &mut String, text: &str) {
    let mut rest = visible(text).peekable();
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
    for c in visible(text) {
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

/// A command or file as code, also within a table cell. Code spans know no escapes, so HTML's element is taken.
pub(crate) fn markdown_code(text: &str) -> String {
    format!("<code>{}</code>", markdown(text))
}

/// For a terminal: nothing that moves the cursor or colours the rest.
pub(crate) fn terminal(text: &str, ascii: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible(text) {
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
        assert_eq!(html("\"><img src=x onerror='a'>"), "&quot;&gt;&lt;img src=x onerror=&#39;a&#39;&gt;");
        assert_eq!(html("]]>&"), "]]&gt;&amp;");
    }

    #[test]
    fn hidden_characters_are_shown() {
        assert_eq!(html("a\u{202e}b\0c\nd\u{ffff}"), "a\u{fffd}b\u{fffd}c d\u{fffd}");
        assert_eq!(terminal("a\x1b[31mb", false), "a\u{fffd}[31mb");
        assert_eq!(terminal("±1 µs\x07", true), "+/-1 us?");
    }

    #[test]
    fn a_name_does_not_break_a_markdown_table() {
        assert_eq!(markdown("a|b`c<d\ne"), "a\\|b\\`c&lt;d e");
        assert_eq!(markdown_code("x | y"), "<code>x \\| y</code>");
        assert_eq!(markdown("@all fixes #3"), "&#64;all fixes &#35;3");
    }
}
