//! One line of what `perf script` prints of samples with call chains and branch stacks.

use crate::script::{Entry, leading_numbers, parse_entry, parse_mapping, without_file_names};
use address_spaces::Change;

/// What a line says.
pub(super) enum Line {
    /// A mapping of a process (the same again for a listing that shows no pids); `None` where it
    /// does not parse.
    Mapping(Option<(i32, Change, Option<Change>)>),
    /// The branch stack that ends a sample.
    Branches(Branches),
    /// A frame of the chain of the sample that follows.
    Frame(u64),
    /// The start of a sample, with its pid where it shows one.
    Header(Option<i32>),
    /// Nothing, or a comment.
    Blank,
}

/// A line with a branch stack.
pub(super) struct Branches {
    /// The process, where the line shows it.
    pub pid: Option<i32>,
    /// Newest first.
    pub branches: Vec<Entry>,
}

/// perf indents frames by a tab and fills addresses up to 16 digits; pids are filled up to fewer.
const FRAME_INDENT: &str = "        ";

impl Line {
    pub fn parse(line: &str) -> Line {
        if let Some(at) = line.find("PERF_RECORD_MMAP") {
            return Line::Mapping(parse_mapping(line.get(at..).unwrap_or("")));
        }
        let indented = line.starts_with('\t') || line.starts_with(FRAME_INDENT);
        let line = &without_file_names(line);
        let mut words = line.split_whitespace();
        let Some(first) = words.next().filter(|word| !word.starts_with('#')) else {
            return Line::Blank;
        };
        let branches: Vec<Entry> = line.split_whitespace().filter_map(parse_entry).collect();
        if !branches.is_empty() {
            return Line::Branches(Branches { pid: leading_numbers(line).0, branches });
        }
        match u64::from_str_radix(first, 16) {
            Ok(address) if indented => Line::Frame(address),
            _ => Line::Header(pid_of(line)),
        }
    }
}

/// The pid in the line before the frames: before the time (`12.345678:`), else the last number.
fn pid_of(line: &str) -> Option<i32> {
    let timed = line.split_whitespace().any(|word| word.ends_with(':') && word.contains('.'));
    if timed {
        return leading_numbers(line).0;
    }
    line.split_whitespace().rev().find_map(|word| word.split('/').next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_headers_and_branch_stacks_are_told_apart() {
        let frame = |line: &str| match Line::parse(line) {
            Line::Frame(address) => address,
            _ => 0,
        };
        assert_eq!(frame("\t          4005dc"), 0x40_05dc);
        assert_eq!(frame("\t    555555555180 main+0x10 (/tmp/a b/program)"), 0x5555_5555_5180);
        assert_eq!(frame("                4005dc"), 0x40_05dc);
        let pid = |line: &str| match Line::parse(line) {
            Line::Header(pid) => pid,
            _ => None,
        };
        assert_eq!(pid(" 1234 "), Some(1234));
        assert_eq!(pid("my app  77/78 "), Some(77));
        assert_eq!(pid("program 4321 [000] 12.5:       1000 taken-branches:u: "), Some(4321));
        let Line::Branches(found) = Line::parse(" 0x1/0x2/P/-/-/0  0x3/0x4/M/-/-/0  ") else {
            panic!("a branch stack");
        };
        assert_eq!(
            found.branches.iter().map(|e| (e.from, e.to)).collect::<Vec<_>>(),
            [(1, 2), (3, 4)]
        );
        assert!(matches!(Line::parse("  \t "), Line::Blank));
        assert!(matches!(Line::parse("PERF_RECORD_MMAP2 1"), Line::Mapping(None)));
    }
}
