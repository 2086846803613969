//! The dumps of compilers to what they say of functions.

use crate::facts::{End, Facts};
use crate::graph::{Place, Reason, Source};
use crate::scan::{Dump, DumpKind};
use crate::{Error, icf, ipa_clones, remarks};
use std::borrow::Cow;
use std::io::Read as _;

/// Adds what a dump says. `buffer` is kept between dumps, to spare allocations.
pub(crate) fn read(dump: &Dump, facts: &mut Facts, buffer: &mut Vec<u8>) -> Result<(), Error> {
    load(dump, buffer)?;
    // The check for whole UTF-8 is many times faster than the conversion.
    let text = match std::str::from_utf8(buffer) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(buffer),
    };
    let bad = |line: usize, expected| Error::Dump {
        path: dump.path.clone(),
        line,
        expected,
        found: shown(text.lines().nth(line.saturating_sub(1)).unwrap_or_default()),
    };
    let source = match dump.kind {
        DumpKind::IpaClones => {
            for (number, line) in text.lines().enumerate() {
                match ipa_clones::line(line).map_err(|expected| bad(number + 1, expected))? {
                    ipa_clones::Line::Clone { from, to, reason } => {
                        let from = facts.placed(from.name, from.file, from.line);
                        let to = facts.placed(to.name, to.file, to.line);
                        facts.tie(from, to, reason, Source::IpaClones);
                    }
                    ipa_clones::Line::Removal(named) => {
                        let End { name, place } = facts.placed(named.name, named.file, named.line);
                        facts.places.extend(place.map(|place| (name, place)));
                    }
                }
            }
            if !text.is_empty() && !text.ends_with('\n') {
                return Err(bad(text.lines().count(), "a line end after the last line"));
            }
            Source::IpaClones
        }
        DumpKind::Icf => {
            for pair in icf::unified(&text) {
                let (kept, dropped) = (facts.named(pair.kept), facts.named(pair.dropped));
                facts.tie(kept, dropped, Reason::Folded, Source::IcfDump);
                facts.tie(dropped, kept, Reason::Folded, Source::IcfDump);
            }
            Source::IcfDump
        }
        DumpKind::Remarks => {
            let inlined = remarks::inlined(&text).map_err(|line| {
                bad(line, "YAML documents of optimisations, each from `---` to `...`")
            })?;
            for call in inlined {
                let callee = end(facts, &call.callee, call.place);
                let caller = end(facts, &call.caller, call.caller_place);
                facts.tie(callee, caller, Reason::Inlined, Source::Remarks);
            }
            Source::Remarks
        }
    };
    facts.sources.push(source);
    Ok(())
}

/// Bytes that are read at once.
const CHUNK: u64 = 1 << 20;

/// Reads a whole dump. No text holds a NUL byte, but files that a full disk or a crash left do:
/// reading ends there, so that a file of holes fills no memory.
fn load(dump: &Dump, buffer: &mut Vec<u8>) -> Result<(), Error> {
    let io = |source| Error::Io { path: dump.path.clone(), source };
    let mut file = std::fs::File::open(&dump.path).map_err(io)?;
    buffer.clear();
    loop {
        let before = buffer.len();
        if file.by_ref().take(CHUNK).read_to_end(buffer).map_err(io)? == 0 {
            return Ok(());
        }
        let new = buffer.get(before..).unwrap_or_default();
        if let Some(at) = memchr::memchr(0, new) {
            let read = buffer.get(..before + at).unwrap_or_default();
            let start = memchr::memrchr(b'\n', read).map_or(0, |end| end + 1);
            let cut = String::from_utf8_lossy(read.get(start..).unwrap_or_default());
            return Err(Error::Dump {
                path: dump.path.clone(),
                line: memchr::memchr_iter(b'\n', read).count() + 1,
                expected: "text without NUL bytes",
                found: shown(&cut),
            });
        }
    }
}

/// The start of a line for people.
fn shown(line: &str) -> String {
    let plain = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    line.chars().take(80).map(plain).collect()
}

fn end(facts: &mut Facts, name: &str, place: Option<Place>) -> End {
    match place {
        Some(place) => facts.placed(name, &place.file, place.line),
        None => facts.named(name),
    }
}
