//! Patterns that users write: regular expressions, and what is wrong with one, in a line.

use regex::bytes::Regex;
use regex_syntax::ParserBuilder;

/// Reads a pattern for the bytes that programs print.
///
/// # Errors
/// What is wrong, and at which character.
pub fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| {
        let place = |column: usize, kind: String| format!("at its character {column}: {kind}");
        match ParserBuilder::new().utf8(false).build().parse(text) {
            Err(regex_syntax::Error::Parse(wrong)) => {
                place(wrong.span().start.column, wrong.kind().to_string())
            }
            Err(regex_syntax::Error::Translate(wrong)) => {
                place(wrong.span().start.column, wrong.kind().to_string())
            }
            // It is a pattern, but too large a one.
            _ => error.to_string(),
        }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_one_line_with_its_place() {
        assert!(pattern("Time: ([0-9.]+)").unwrap().is_match(b"Time: 1.5"));
        let said = |text: &str| pattern(text).unwrap_err();
        assert_eq!(said("Time: ([0-9.+"), "at its character 8: unclosed character class");
        assert_eq!(said(r"é\p{None}"), "at its character 2: Unicode property not found");
        assert!(said(&"(a{500}){500}".repeat(9)).contains("size limit"));
    }
}
