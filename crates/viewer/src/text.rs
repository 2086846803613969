//! How does a name fit into some cells? Whatever is in it: names of 1 MB, wide and hidden
//! characters, sequences that terminals obey.

use ratatui_core::text::Span;
use std::borrow::Cow;

/// The cells that a text takes.
pub(crate) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// As a terminal without UTF-8 can show it.
fn plain(text: Cow<'_, str>, ascii: bool) -> Cow<'_, str> {
    if !ascii || text.is_ascii() {
        return text;
    }
    Cow::Owned(text.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect())
}

/// What stands for characters that are left out.
fn gap(ascii: bool) -> &'static str {
    if ascii { "..." } else { "…" }
}

/// A name in at most `cells` cells, harmless, what does not fit left out of its middle. Takes time
/// for the cells, not for the name.
pub(crate) fn middle(text: &str, cells: usize, ascii: bool) -> String {
    // No character is narrower than nothing, but names of many such are cut too.
    let most = cells.saturating_mul(4).saturating_add(16);
    if text.len() <= most {
        let shown = plain(report::visible(text), ascii);
        if width(&shown) <= cells {
            return shown.into_owned();
        }
    }
    let gap = gap(ascii);
    let Some(room) = cells.checked_sub(width(gap)).filter(|room| *room > 0) else {
        return head(text, cells, ascii);
    };
    let back = room / 2;
    let tail: Vec<char> = text.chars().rev().take(most).collect();
    let tail = taken(tail.into_iter(), back, ascii);
    let tail: String = tail.chars().rev().collect();
    let front = head(text, room.saturating_sub(width(&tail)), ascii);
    front + gap + &tail
}

/// The start of a text, harmless, in at most `cells` cells.
pub(crate) fn head(text: &str, cells: usize, ascii: bool) -> String {
    taken(text.chars().take(cells.saturating_mul(4).saturating_add(16)), cells, ascii)
}

fn taken(characters: impl Iterator<Item = char>, cells: usize, ascii: bool) -> String {
    let mut out = String::new();
    let mut used = 0;
    let mut buffer = [0; 4];
    for c in characters {
        let shown = plain(report::visible(c.encode_utf8(&mut buffer)), ascii).into_owned();
        let wide = width(&shown);
        // What has no width would pile up on one cell.
        if wide == 0 {
            continue;
        }
        if used + wide > cells {
            break;
        }
        used += wide;
        out.push_str(&shown);
    }
    out
}

/// A text in lines of at most `cells` cells, at most `lines` of them: what is wanted whole.
pub(crate) fn wrapped(text: &str, cells: usize, ascii: bool) -> Vec<String> {
    /// A name of 1 MB is looked at from its begin.
    const MOST_LINES: usize = 4000;
    let mut lines = Vec::new();
    let cells = cells.max(2);
    let shown = plain(report::visible(text), ascii);
    let (mut line, mut used) = (String::new(), 0);
    for c in shown.chars() {
        let wide = width(c.encode_utf8(&mut [0; 4]));
        if wide == 0 {
            continue;
        }
        if used + wide > cells {
            lines.push(std::mem::take(&mut line));
            used = 0;
            if lines.len() >= MOST_LINES {
                line.push_str(gap(ascii));
                break;
            }
        }
        line.push(c);
        used += wide;
    }
    lines.push(line);
    lines
}

/// The start of a line of text in at most `cells` cells, marked where it is cut.
pub(crate) fn start(text: &str, cells: usize, ascii: bool) -> String {
    let most = cells.saturating_mul(4).saturating_add(16);
    let shown = head(text, cells, ascii);
    let is_whole = text.len() <= most && width(&report::visible(text)) <= cells;
    let gap = gap(ascii);
    match cells.checked_sub(width(gap)) {
        Some(room) if !is_whole => head(text, room, ascii) + gap,
        _ => shown,
    }
}

/// A line at its blanks, set in as it was.
pub(crate) fn folded(line: &str, cells: usize, ascii: bool) -> Vec<String> {
    let indent = line.len() - line.trim_start().len();
    let mut out = vec![" ".repeat(indent)];
    for word in line.trim_start().split(' ') {
        let Some(last) = out.last_mut() else { continue };
        let begins = last.trim().is_empty();
        if width(last) + 1 + width(word) > cells && !begins {
            out.push(" ".repeat(indent + 2) + word);
        } else {
            last.push_str(if begins { "" } else { " " });
            last.push_str(word);
        }
    }
    out.into_iter().flat_map(|line| wrapped(&line, cells, ascii)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_in_their_middle() {
        assert_eq!(middle("short", 9, false), "short");
        assert_eq!(middle("a_long_name_of_a_function", 11, false), "a_lon…ction");
        assert_eq!(middle("a_long_name_of_a_function", 11, true), "a_lo...tion");
        assert_eq!(middle("abcdef", 1, false), "a");
        assert_eq!(middle("abcdef", 0, false), "");
        assert_eq!((start("abc", 3, false), start("abcd", 3, false)), ("abc".into(), "ab…".into()));
        assert_eq!(folded("  one two three", 9, false), ["  one two", "    three"]);
    }

    #[test]
    fn whatever_a_name_holds_it_keeps_to_its_cells_and_is_harmless() {
        let megabyte = "漢\u{301}\x1b[2J".repeat(1 << 17);
        let names = [
            "漢字漢字漢字漢字漢字",
            "a\x1b[31m\x07\u{202e}b\nc\td",
            "e\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}",
            "👩‍👩‍👧‍👦 family",
            "\u{fffd}",
            &megabyte,
        ];
        for name in names {
            for cells in 0..40 {
                for ascii in [false, true] {
                    let start = start(name, cells, ascii);
                    assert!(width(&start) <= cells, "{cells}: {start:?}");
                    let shown = middle(name, cells, ascii);
                    assert!(width(&shown) <= cells, "{cells}: {shown:?}");
                    assert!(!shown.contains(['\x1b', '\n', '\t', '\u{202e}']), "{shown:?}");
                    assert!(!ascii || shown.is_ascii(), "{shown:?}");
                }
            }
            let lines = wrapped(name, 10, false);
            assert!(lines.len() <= 4001 && lines.iter().all(|line| width(line) <= 10));
        }
        assert_eq!(wrapped("abcdef", 4, false), ["abcd", "ef"]);
    }
}
