//! gcc's `-fdump-ipa-clones`: one line per copy of a function and per function that lost its body.
//!
//! ```text
//! Callgraph clone;ORIGINAL;order;file;line;column;COPY;order;file;line;column;reason           (gcc 7.1 and later)
//! Callgraph clone;ORIGINAL;order;file;line;column;<-;COPY;order;file;line;column;optimization:;reason      (before)
//! Callgraph removal;NAME;order;file;line;column
//! ```
//!
//! Names are those of the assembler. "inlining to" says that the original's body went into the
//! second function; any other reason is the kind of copy. The arrow of the older form points from
//! the copy to what it was made of; SUSE's kgraft-analysis-tool quotes `ovl_setxattr.part.3 … <- …
//! ovl_setxattr … inlining to`, a part that went back into its function. Source: gcc,
//! `gcc/cgraphclones.cc` and `gcc/ipa-inline-transform.cc`.

use crate::graph::Reason;

/// A function as a dump names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named<'t> {
    /// Assembler name.
    pub name: &'t str,
    /// Source file.
    pub file: &'t str,
    /// Line of its declaration.
    pub line: u32,
}

/// A line of a dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line<'t> {
    /// `to` holds a copy of `from`.
    Clone {
        /// The original.
        from: Named<'t>,
        /// The copy, or the function that it was inlined into.
        to: Named<'t>,
        /// Why.
        reason: Reason,
    },
    /// The function has no body of its own any more.
    Removal(Named<'t>),
}

/// The longer form has 14.
const FIELDS: usize = 15;

/// Reads one line without its end.
///
/// # Errors
/// When it is neither form; the text says what was expected.
pub fn line(text: &str) -> Result<Line<'_>, &'static str> {
    let mut fields = [""; FIELDS];
    let mut count = 0;
    for field in text.split(';') {
        // What is too long is of neither form; one slot more than they need shows it.
        let Some(slot) = fields.get_mut(count) else { break };
        *slot = field;
        count += 1;
    }
    match fields.get(..count).unwrap_or_default() {
        ["Callgraph clone", a, _, af, al, _, b, _, bf, bl, _, reason] => Ok(Line::Clone {
            from: named(a, af, al)?,
            to: named(b, bf, bl)?,
            reason: self::reason(reason),
        }),
        ["Callgraph clone", a, _, af, al, _, "<-", b, _, bf, bl, _, "optimization:", reason] => {
            Ok(Line::Clone {
                from: named(a, af, al)?,
                to: named(b, bf, bl)?,
                reason: self::reason(reason),
            })
        }
        ["Callgraph removal", name, _, file, line, _] => {
            Ok(Line::Removal(named(name, file, line)?))
        }
        ["Callgraph clone", ..] => Err("`Callgraph clone` with 12 (before gcc 7.1: 14) fields"),
        ["Callgraph removal", ..] => Err("`Callgraph removal` with 6 fields"),
        _ => Err("`Callgraph clone;…` or `Callgraph removal;…`"),
    }
}

fn named<'t>(name: &'t str, file: &'t str, line: &str) -> Result<Named<'t>, &'static str> {
    // Functions of the compiler's own have no place: line 0, or -1 in some versions.
    let line = line.parse::<i64>().map_err(|_| "a line number in the fifth or tenth field")?;
    if name.is_empty() {
        return Err("a function name in the second field");
    }
    Ok(Named { name, file, line: u32::try_from(line).unwrap_or(0) })
}

fn reason(word: &str) -> Reason {
    match word {
        "inlining to" => Reason::Inlined,
        "constprop" => Reason::ConstantPropagation,
        "isra" => Reason::ScalarReplacement,
        "part" | "fnsplit" => Reason::Part,
        "(null)" | "" | "lto_priv" => Reason::LinkTime,
        "_omp_fn" | "_omp_cpyfn" => Reason::Outlined,
        other => Reason::Copy(other.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn both_grammars_name_the_original_and_the_copy() {
        let new = "Callgraph clone;tiny;11;a.c;2;12;main;19;a.c;11;5;inlining to";
        let old = "Callgraph clone;tiny;11;a.c;2;12;<-;main;19;a.c;11;5;optimization:;inlining to";
        assert_eq!(line(new), line(old));
        let Line::Clone { from, to, reason } = line(new).unwrap() else { panic!() };
        assert_eq!((from.name, to.name, to.line, reason), ("tiny", "main", 11, Reason::Inlined));
        assert_eq!(
            line("Callgraph removal;x;1;a.c;2;12").unwrap(),
            Line::Removal(Named { name: "x", file: "a.c", line: 2 })
        );
    }

    #[test]
    fn a_cut_line_is_refused_with_what_was_expected() {
        let whole = "Callgraph clone;tiny;11;a.c;2;12;main;19;a.c;11;5;inlining to";
        for end in 0..whole.len() - "inlining to".len() {
            assert!(line(&whole[..end]).is_err(), "{}", &whole[..end]);
        }
    }
}
