//! clang's `-fsave-optimization-record`: YAML documents, one per decision of the optimiser.
//!
//! Wanted are `--- !Passed` documents of the passes `inline`, `always-inline` and
//! `sample-profile-inline` with the name `Inlined` (or `AlwaysInline`): `Callee` went into
//! `Caller`, and the function that holds the code is `Function`. The compiler writes each key on a
//! line of its own, so lines are read, not YAML in general. Source: LLVM, "Remarks";
//! `llvm/lib/Analysis/InlineAdvisor.cpp`.

use crate::graph::Place;

/// A call that was replaced by the callee's body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inlined {
    /// Mangled name.
    pub callee: String,
    /// Where it is declared; with debug information only.
    pub place: Option<Place>,
    /// Mangled name of the function that holds the code now.
    pub caller: String,
    /// Where that is declared; with debug information only.
    pub caller_place: Option<Place>,
}

/// The inlined calls of a record.
///
/// # Errors
/// The number of the first line that is no record of optimisations, counted from 1.
pub fn inlined(text: &str) -> Result<Vec<Inlined>, usize> {
    let mut found = Vec::new();
    let mut document: Option<Document> = None;
    for (number, line) in text.lines().enumerate() {
        if let Some(kind) = line.strip_prefix("--- ") {
            document = Some(Document { passed: kind.trim() == "!Passed", ..Document::default() });
        } else if line == "..." {
            found.extend(document.take().and_then(Document::inlined));
        } else if let Some(document) = &mut document {
            document.line(line);
        } else if !line.trim().is_empty() {
            return Err(number + 1);
        }
    }
    if document.is_some() {
        return Err(text.lines().count());
    }
    Ok(found)
}

#[derive(Default)]
struct Document {
    passed: bool,
    name: String,
    function: String,
    callee: Option<String>,
    place: Option<Place>,
    caller: Option<String>,
    caller_place: Option<Place>,
    /// The last argument, whose place follows.
    after: Argument,
}

/// What an argument names.
#[derive(Clone, Copy, Default, PartialEq)]
enum Argument {
    Callee,
    Caller,
    #[default]
    Other,
}

impl Document {
    fn line(&mut self, line: &str) {
        let Some((key, value)) = line.split_once(':') else { return };
        let argument = match key {
            "  - Callee" => Argument::Callee,
            "  - Caller" => Argument::Caller,
            _ => Argument::Other,
        };
        let after = std::mem::replace(&mut self.after, argument);
        match key {
            "Name" => self.name = unquoted(value.trim()),
            "Function" => self.function = unquoted(value.trim()),
            "  - Callee" => self.callee = Some(unquoted(value.trim())),
            "  - Caller" => self.caller = Some(unquoted(value.trim())),
            "    DebugLoc" if after == Argument::Callee => self.place = place(value),
            "    DebugLoc" if after == Argument::Caller => self.caller_place = place(value),
            _ => {}
        }
    }

    fn inlined(self) -> Option<Inlined> {
        let is_inlined = self.passed && (self.name == "Inlined" || self.name == "AlwaysInline");
        let callee = self.callee.filter(|_| is_inlined)?;
        // The place is that of the argument, which in chains of inlining may be another function
        // than the holder.
        let caller_place =
            self.caller_place.filter(|_| self.caller.as_ref() == Some(&self.function));
        Some(Inlined { callee, place: self.place, caller: self.function, caller_place })
    }
}

/// `{ File: a.c, Line: 4, Column: 0 }`; line 0 is none.
fn place(text: &str) -> Option<Place> {
    let (file, rest) = text.trim().strip_prefix("{ File: ")?.rsplit_once(", Line: ")?;
    let line = rest.split(',').next()?.trim().parse().ok().filter(|line| *line != 0)?;
    Some(Place { file: unquoted(file.trim()).into(), line })
}

/// A YAML scalar in single or double quotes, or plain.
fn unquoted(value: &str) -> String {
    if let Some(inner) = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return inner.replace("''", "'");
    }
    if let Some(inner) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        // Names have no line ends; an escaped byte 1 may stand before an assembler name.
        return inner.replace("\\\"", "\"").replace("\\\\", "\\").replace("\\x01", "");
    }
    value.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passed_inlining_counts_and_a_missed_one_does_not() {
        let document = |kind: &str, name: &str| {
            format!(
                "--- !{kind}\nPass: inline\nName:            {name}\nFunction:        \
                 main\nArgs:\n  - Callee:          'tiny'\n    DebugLoc: {{ File: a.c, Line: 1, \
                 Column: 0 }}\n...\n"
            )
        };
        let text = document("Passed", "Inlined") + &document("Missed", "NoDefinition");
        let place = Some(Place { file: "a.c".into(), line: 1 });
        let inlined = inlined(&text);
        assert_eq!(
            inlined,
            Ok(vec![Inlined {
                callee: "tiny".into(),
                place,
                caller: "main".into(),
                caller_place: None
            }])
        );
        assert_eq!(super::inlined("Callgraph"), Err(1));
        assert_eq!(super::inlined("--- !Passed\nPass: inline\n"), Err(2));
    }
}
