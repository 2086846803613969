//! What does the link command in the archive ask for? Reads and writes lld's `response.txt`.
//!
//! lld writes one option or input a line, an option's separate value on the same line.

use std::path::Path;

/// Options that write files beside the program, run other programs or print at length. They change no byte of the
/// program and are left out, each with its value if it has one.
const DROPPED: &[&str] = &[
    "M",
    "Map",
    "cref",
    "dependency-file",
    "error-handling-script",
    "lto-obj-path",
    "o",
    "opt-remarks-filename",
    "opt-stats-file",
    "output",
    "print-archive-stats",
    "print-map",
    "print-symbol-order",
    "reproduce",
    "save-temps",
    "t",
    "thinlto-cache-dir",
    "thinlto-cache-policy",
    "thinlto-distributor",
    "thinlto-distributor-arg",
    "thinlto-emit-imports-files",
    "thinlto-emit-index-files",
    "thinlto-index-only",
    "thinlto-remote-compiler",
    "thinlto-remote-compiler-arg",
    "time-trace",
    "trace",
    "verbose",
    "why-extract",
];

/// Options that take the symbols out of the program, without which no layout can be verified.
const STRIPPING: &[&str] = &["s", "strip-all", "strip-debug", "S", "discard-all", "x"];

/// The command of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    /// One option with its value, or one input.
    lines: Vec<Vec<String>>,
    output: Option<String>,
}

/// An option without its dashes and value; none for an input.
fn option_of(line: &[String]) -> Option<&str> {
    let first = line.first()?;
    let name = first.strip_prefix("--").or_else(|| first.strip_prefix('-'))?;
    Some(name.split('=').next().unwrap_or(name))
}

/// The words of a line: blanks part them, quotes and backslashes keep what follows.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (_, '\\') => word.get_or_insert_default().extend(letters.next()),
            (Some(open), _) if open == letter => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

impl Response {
    /// Reads a response file.
    pub(crate) fn parse(text: &str) -> Response {
        let all: Vec<Vec<String>> = text.lines().map(words).filter(|line| !line.is_empty()).collect();
        let output =
            all.iter().rev().find(|line| option_of(line) == Some("o")).and_then(|line| line.get(1).cloned());
        let kept = |line: &Vec<String>| option_of(line).is_none_or(|option| !DROPPED.contains(&option));
        Response { output, lines: all.into_iter().filter(kept).collect() }
    }

    /// The program's file name, without directory.
    pub(crate) fn output(&self) -> &str {
        let name =
            self.output.as_deref().map(Path::new).and_then(Path::file_name).and_then(|name| name.to_str());
        name.unwrap_or("a.out")
    }

    /// Is one of these options given?
    pub(crate) fn has(&self, options: &[&str]) -> bool {
        self.lines.iter().any(|line| option_of(line).is_some_and(|option| options.contains(&option)))
    }

    /// The last value of an option, given as `--option=value` or `--option value`.
    pub(crate) fn value(&self, option: &str) -> Option<&str> {
        let line = self.lines.iter().rev().find(|line| option_of(line) == Some(option))?;
        line.get(1).map(String::as_str).or_else(|| line.first()?.split_once('=').map(|(_, value)| value))
    }

    /// Does the last `-z` of these names that is given have the wanted one?
    pub(crate) fn z(&self, wanted: &str, names: &[&str]) -> bool {
        let given = self
            .lines
            .iter()
            .rev()
            .filter(|line| option_of(line) == Some("z"))
            .filter_map(|line| line.get(1));
        given.map(String::as_str).find(|name| names.contains(name)) == Some(wanted)
    }

    /// The inputs named by path, in their order.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.lines
            .iter()
            .filter(|line| option_of(line).is_none())
            .filter_map(|line| line.first())
            .map(String::as_str)
    }

    /// Does the link strip symbols?
    pub(crate) fn strips(&self) -> bool {
        self.has(STRIPPING)
    }

    /// Without the options that strip symbols: these are not loaded when the program runs, so nothing moves.
    pub(crate) fn unstripped(mut self) -> Response {
        self.lines.retain(|line| option_of(line).is_none_or(|option| !STRIPPING.contains(&option)));
        self
    }

    /// Without the options that order sections by a profile, which lld does not take beside an order of symbols.
    pub(crate) fn without_profile_order(mut self) -> Response {
        let ordering = |option: &str| {
            option == "call-graph-ordering-file" || option == "irpgo-profile" || option.starts_with("bp-")
        };
        self.lines.retain(|line| option_of(line).is_none_or(|option| !ordering(option)));
        self
    }

    /// The text of a response file: `first`, then this command, then `last`; each word on a line and quoted.
    pub(crate) fn render(&self, first: &[String], last: &[String]) -> String {
        let words = first.iter().chain(self.lines.iter().flatten()).chain(last);
        words.map(|word| format!("\"{}\"\n", word.replace('\\', "\\\\").replace('"', "\\\""))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "--chroot .\n--build-id=sha1\n-o prog\n--Map=x.map\n-Map y.map\n\"with blank.o\"\na.o\n-z now\n\
                        -z separate-code\n-z noseparate-code\n-s\n--symbol-ordering-file=one\n\
                        --symbol-ordering-file two\n-O1\n--error-handling-script=/bin/sh\n";

    #[test]
    fn options_inputs_and_output_are_told_apart() {
        let response = Response::parse(TEXT);
        assert_eq!(response.output(), "prog");
        assert_eq!(response.paths().collect::<Vec<_>>(), ["with blank.o", "a.o"]);
        assert_eq!(response.value("symbol-ordering-file"), Some("two"));
        assert_eq!(response.value("build-id"), Some("sha1"));
        assert!(!response.z("separate-code", &["separate-code", "noseparate-code"]));
        assert!(!response.has(&["Map", "o", "error-handling-script"]));
        assert!(response.strips() && !response.unstripped().strips());
    }

    #[test]
    fn what_is_written_reads_back() {
        let response = Response::parse("a\\\\b.o\n\"quo\\\"te.o\"\n--entry main\n''\n");
        let again = response.render(&[], &[]);
        let flat: Vec<String> = Response::parse(&again).lines.into_iter().flatten().collect();
        assert_eq!(flat, ["a\\b.o", "quo\"te.o", "--entry", "main", ""]);
    }
}
