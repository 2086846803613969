//! The dumps of compilers to what they say of functions.

use crate::facts::{End, Facts};
use crate::graph::{Place, Reason, Source};
use crate::scan::{Dump, DumpKind};
use crate::{Error, icf, ipa_clones, remarks};
use std::borrow::Cow;
use std::io::Read as _;

/// Adds what a dump says. `buffer` is kept between dumps, to spare allocations.
pub(crate) fn read(dump: &Dump, facts: &mut Facts, buffer: &mut Vec<u8>) -> Result<(), Error> {
    let io = |source| Error::Io { path: dump.path.clone(), source };
    buffer.clear();
    std::fs::File::open(&dump.path).and_then(|mut file| file.read_to_end(buffer)).map_err(io)?;
    // The check for whole UTF-8 is many times faster than the conversion.
    let text = match std::str::from_utf8(buffer) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(buffer),
    };
    let bad = |line: usize, expected| Error::Dump {
        path: dump.path.clone(),
        line,
        expected,
        found: text.lines().nth(line.saturating_sub(1)).unwrap_or_default().chars().take(80).collect(),
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
            let inlined = remarks::inlined(&text)
                .map_err(|line| bad(line, "YAML documents of optimisations, each from `---` to `...`"))?;
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

fn end(facts: &mut Facts, name: &str, place: Option<Place>) -> End {
    match place {
        Some(place) => facts.placed(name, &place.file, place.line),
        None => facts.named(name),
    }
}
