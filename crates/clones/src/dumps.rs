//! The dumps of compilers to what they say of functions.

use crate::graph::{Reason, Source};
use crate::read::{End, Facts};
use crate::scan::{Dump, DumpKind};
use crate::{Error, icf, ipa_clones, remarks};

/// Adds what a dump says.
pub(crate) fn read(dump: &Dump, facts: &mut Facts) -> Result<(), Error> {
    let io = |source| Error::Io { path: dump.path.clone(), source };
    let bytes = std::fs::read(&dump.path).map_err(io)?;
    let text = String::from_utf8_lossy(&bytes);
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
                        let end = |named: ipa_clones::Named<'_>| End {
                            name: named.name.to_owned(),
                            place: Some(named.place()),
                        };
                        facts.ties.push((end(from), end(to), reason, Source::IpaClones));
                    }
                    ipa_clones::Line::Removal(named) => {
                        facts.places.push((named.name.to_owned(), named.place()));
                    }
                }
            }
            if !bytes.is_empty() && !bytes.ends_with(b"\n") {
                return Err(bad(text.lines().count(), "a line end after the last line"));
            }
            Source::IpaClones
        }
        DumpKind::Icf => {
            for pair in icf::unified(&text) {
                let ends = [(pair.kept, pair.dropped), (pair.dropped, pair.kept)];
                for (from, to) in ends {
                    facts.ties.push((End::named(from), End::named(to), Reason::Folded, Source::IcfDump));
                }
            }
            Source::IcfDump
        }
        DumpKind::Remarks => {
            let inlined = remarks::inlined(&text)
                .map_err(|line| bad(line, "YAML documents of optimisations, each from `---` to `...`"))?;
            for call in inlined {
                let callee = End { name: call.callee, place: call.place };
                let caller = End { name: call.caller, place: call.caller_place };
                facts.ties.push((callee, caller, Reason::Inlined, Source::Remarks));
            }
            Source::Remarks
        }
    };
    facts.sources.push(source);
    Ok(())
}
