//! What a guest prints on its console: lines of bounded length, and what its workload says in them.

use std::collections::VecDeque;
use std::io::Read;

/// Longer lines are cut; a kernel's build ID notes, the longest of interest, take a few hundred
/// bytes.
const LINE_BYTES: usize = 16 << 10;
/// Lines that are kept for errors, and how much of each.
const TAIL_LINES: usize = 40;
const TAIL_CHARS: usize = 400;
/// What the workload's own lines have before them.
const PREFIX: &str = "planish: ";
/// Names and reasons are cut: the guest writes them, and they are kept.
const TEXT_CHARS: usize = 400;

/// A section of the workload, announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its number, as its marker has it.
    pub number: u8,
    /// It is held out: measured, but not trained with.
    pub held_out: bool,
    /// What it is.
    pub name: String,
}

/// What a section did, by the guest's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Its number.
    pub number: u8,
    /// Operations that it did.
    pub operations: u64,
    /// How long they took, in nanoseconds of the guest.
    pub nanoseconds: u64,
}

/// How fast its sections of one kind were, by the guest's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    /// Over the held-out sections, else over those to train with.
    pub held_out: bool,
    /// The geometric mean of their rates, each against a fixed one, in tenths of a point: 100
    /// where all are equal.
    pub tenths: u64,
}

/// A line in which the workload tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// `planish: begin FORM`
    Begin {
        /// The form of the lines that follow; [`FORM`](Statement::FORM) is read here.
        form: u32,
    },
    /// `planish: section N train|held NAME`
    Section(Section),
    /// `planish: result N OPERATIONS NANOSECONDS`
    Result(Timing),
    /// `planish: failed N TEXT`
    Failed {
        /// The section's number.
        number: u8,
        /// What went wrong.
        text: String,
    },
    /// `planish: index train|held TENTHS`
    Index(Index),
    /// `planish: end`
    End,
}

impl Statement {
    /// The form of the lines that is read here.
    pub const FORM: u32 = 1;

    /// Reads a line of the console. What stands before the statement is not looked at: firmware and
    /// kernel print there too. `None` for all other lines, also those in which the workload
    /// says something else, and malformed ones.
    pub fn read(line: &str) -> Option<Statement> {
        let (_, rest) = line.split_once(PREFIX)?;
        let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (first, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let first = first.trim_end();
        let section = || first.parse::<u8>().ok();
        match word.trim_end() {
            "begin" => Some(Statement::Begin { form: first.parse().ok()? }),
            "end" => Some(Statement::End),
            "failed" => Some(Statement::Failed { number: section()?, text: shortened(rest) }),
            "section" => {
                let (kind, name) = rest.split_once(' ').unwrap_or((rest, ""));
                let held_out = is_held_out(kind.trim())?;
                Some(Statement::Section(Section {
                    number: section()?,
                    held_out,
                    name: shortened(name),
                }))
            }
            "result" => {
                let (operations, nanoseconds) = rest.trim().split_once(' ')?;
                Some(Statement::Result(Timing {
                    number: section()?,
                    operations: operations.parse().ok()?,
                    nanoseconds: nanoseconds.trim().parse().ok()?,
                }))
            }
            "index" => {
                let tenths = rest.trim().parse().ok()?;
                Some(Statement::Index(Index { held_out: is_held_out(first)?, tenths }))
            }
            _ => None,
        }
    }
}

fn is_held_out(kind: &str) -> Option<bool> {
    match kind {
        "train" => Some(false),
        "held" => Some(true),
        _ => None,
    }
}

fn shortened(text: &str) -> String {
    text.trim().chars().take(TEXT_CHARS).collect()
}

/// Cuts a console's bytes into lines, hands each on until `line` says no, and cuts the long ones.
pub(super) fn lines(mut console: impl Read, mut line: impl FnMut(String) -> bool) {
    let mut current = Vec::new();
    let mut chunk = vec![0; 1 << 16];
    // The rest of a line that was cut.
    let mut skipping = false;
    loop {
        let bytes = match console.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => chunk.get(..count).unwrap_or_default(),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        let mut pieces = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            let ends = pieces.peek().is_some();
            if !skipping {
                let room = LINE_BYTES.saturating_sub(current.len());
                current.extend_from_slice(piece.get(..room).unwrap_or(piece));
            }
            let full = !skipping && current.len() >= LINE_BYTES;
            if (full || ends && !skipping) && !line(plain(&std::mem::take(&mut current))) {
                return;
            }
            skipping = !ends && (skipping || full);
        }
    }
    if !current.is_empty() {
        line(plain(&current));
    }
}

/// The text of a line without terminal sequences (ECMA-48) and control characters.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            // Parameters, then a final character from `@` on; other sequences have one character.
            '\x1b' if rest.next() == Some('[') => {
                rest.by_ref().find(|character| ('@'..='~').contains(character));
            }
            '\t' => plain.push(' '),
            character if character.is_control() => {}
            character => plain.push(character),
        }
    }
    plain
}

/// The last lines.
#[derive(Debug, Default)]
pub(super) struct Tail(VecDeque<String>);

impl Tail {
    pub(super) fn add(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        if self.0.len() == TAIL_LINES {
            self.0.pop_front();
        }
        self.0.push_back(line.chars().take(TAIL_CHARS).collect());
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(bytes: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        lines(bytes, |line| {
            found.push(line);
            true
        });
        found
    }

    #[test]
    fn lines_lose_what_terminals_need_and_are_cut_when_they_never_end() {
        assert_eq!(
            cut(b"\x1b[2J\x1b[1;1Hone\r\ntwo\tthree\n\x1bcfour"),
            ["one", "two three", "four"]
        );
        assert_eq!(cut(b""), [""; 0]);
        let mut endless = vec![b'x'; 3 * LINE_BYTES];
        assert_eq!(cut(&endless)[0].len(), LINE_BYTES);
        assert_eq!(cut(&endless).len(), 1);
        endless.extend(b"\nnext\n");
        assert_eq!(cut(&endless)[1..], ["next"]);
        let exact = [vec![b'x'; LINE_BYTES], b"\nnext\n".to_vec()].concat();
        assert_eq!(cut(&exact)[1..], ["next"]);
    }

    /// A pipe that gives so many bytes at a time.
    struct Drops<'b>(&'b [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            let (now, later) = self.0.split_at(self.1.clamp(1, to.len()).min(self.0.len()));
            to[..now.len()].copy_from_slice(now);
            self.0 = later;
            Ok(now.len())
        }
    }

    proptest::proptest! {
        #[test]
        fn lines_are_the_same_however_the_bytes_arrive(
            pieces in proptest::collection::vec(
                (r"[ -~\x1b\r\t]{0,30}|planish: [a-z]{0,8} [0-9]{0,4} .{0,9}", 0usize..7), 0..20,
            ),
            drop in 1usize..9000,
        ) {
            let line = |(piece, times): &(String, usize)| piece.repeat(times * 100 + 1) + "\n";
            let text: String = pieces.iter().map(line).collect();
            let mut found = Vec::new();
            lines(Drops(text.as_bytes(), drop), |line| {
                let _ = Statement::read(&line);
                found.push(line);
                true
            });
            assert_eq!(found, cut(text.as_bytes()));
            assert_eq!(found.len(), pieces.len());
            let sound = |line: &String| line.len() <= 3 * LINE_BYTES && !line.contains(char::is_control);
            assert!(found.iter().all(sound));
        }
    }

    #[test]
    fn a_watcher_that_is_gone_ends_the_reading() {
        let mut seen = 0;
        lines(&b"a\nb\nc\n"[..], |_| {
            seen += 1;
            seen < 2
        });
        assert_eq!(seen, 2);
    }

    #[test]
    fn the_workload_is_understood() {
        let section = |number, held_out, name: &str| {
            Some(Statement::Section(Section { number, held_out, name: name.to_owned() }))
        };
        assert_eq!(
            Statement::read("planish: section 3 train pipes and files"),
            section(3, false, "pipes and files")
        );
        assert_eq!(Statement::read("x planish: section 101 held"), section(101, true, ""));
        let timing = Timing { number: 3, operations: 1000, nanoseconds: 5_000_000 };
        assert_eq!(
            Statement::read("planish: result 3 1000 5000000"),
            Some(Statement::Result(timing))
        );
        let failed = Statement::Failed { number: 4, text: "no such file".to_owned() };
        assert_eq!(Statement::read("planish: failed 4 no such file"), Some(failed));
        let index = |held_out, tenths| Some(Statement::Index(Index { held_out, tenths }));
        assert_eq!(Statement::read("planish: index train 5840"), index(false, 5840));
        assert_eq!(Statement::read("planish: index held 12 "), index(true, 12));
        assert_eq!(Statement::read("\x1b[2Jplanish: begin 1"), Some(Statement::Begin { form: 1 }));
        assert_eq!(Statement::read("planish: end"), Some(Statement::End));
        for other in [
            "planish:",
            "planish: begin",
            "planish: begin one",
            "planish: section 256 train x",
            "planish: section x train x",
            "planish: section 1 other x",
            "planish: section 1",
            "planish: result 1 x 2",
            "planish: result 1 2",
            "planish: result 1 99999999999999999999 2",
            "planish: index other 1",
            "planish: index train -1",
            "planish: index train",
            "planish: skipped 20 there is no loopback network here",
        ] {
            assert_eq!(Statement::read(other), None, "{other}");
        }
    }

    #[test]
    fn texts_of_a_guest_are_cut() {
        let long = "é".repeat(10_000);
        let Some(Statement::Section(section)) =
            Statement::read(&format!("planish: section 1 held {long}"))
        else {
            panic!("no section")
        };
        let Some(Statement::Failed { text, .. }) =
            Statement::read(&format!("planish: failed 1 {long}"))
        else {
            panic!("no failure")
        };
        assert_eq!((section.name.chars().count(), text.chars().count()), (TEXT_CHARS, TEXT_CHARS));
    }

    #[test]
    fn the_last_lines_are_kept() {
        let mut tail = Tail::default();
        for number in 0..100 {
            tail.add(&format!("{number} {}", "x".repeat(1000)));
            tail.add(" ");
        }
        let lines = tail.into_lines();
        assert_eq!((lines.len(), lines[0].len()), (TAIL_LINES, TAIL_CHARS));
        assert!(lines[0].starts_with("60 ") && lines[39].starts_with("99 "));
    }
}
