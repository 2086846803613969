//! gcc's `-fdump-ipa-icf-details`: which functions were found identical, and whether they became
//! one.
//!
//! A pair is told by `Semantic equality hit:A/order->B/order`; the answer follows some lines later:
//! `Unified; …` (an alias, a wrapper or redirected calls) or `Not unifying; …`. `-fdump-ipa-clones`
//! says nothing of it. Variables are compared too; they are told apart by the reader's graph, which
//! has functions only. Source: gcc, `gcc/ipa-icf.cc`.

use memchr::memmem::Finder;

/// Two functions that share one body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unified<'t> {
    /// The one whose body stays.
    pub kept: &'t str,
    /// The other one.
    pub dropped: &'t str,
}

const HIT: &str = "Semantic equality hit:";
const NAMES: &str = "Assembler symbol names:";

/// The pairs of a dump that were unified. Text of other passes is passed over.
pub fn unified(text: &str) -> Vec<Unified<'_>> {
    let mut found = Vec::new();
    let hit = Finder::new(HIT);
    let names = Finder::new(NAMES);
    // Such dumps have megabytes of which only what follows a hit is wanted.
    let mut rest = text;
    while let Some(at) = hit.find(rest.as_bytes()) {
        rest = rest.get(at..).unwrap_or_default();
        let mut pair = None;
        while let Some((line, behind)) = next_line(rest) {
            rest = behind;
            if let Some(at) = hit.find(line.as_bytes()) {
                pair = pair_behind(line, at + HIT.len());
            } else if let Some(at) = names.find(line.as_bytes()) {
                // The line before has the names of the source.
                pair = pair_behind(line, at + NAMES.len()).or(pair);
            } else if line.starts_with("Unified;") {
                found.extend(pair.take());
                break;
            } else if line.starts_with("Not unifying") {
                break;
            }
        }
    }
    found
}

fn next_line(text: &str) -> Option<(&str, &str)> {
    let end = memchr::memchr(b'\n', text.as_bytes());
    match end {
        Some(end) => text.split_at_checked(end + 1),
        None => (!text.is_empty()).then_some((text, "")),
    }
}

fn pair_behind(line: &str, at: usize) -> Option<Unified<'_>> {
    let (kept, dropped) = line.get(at..)?.split_once("->")?;
    Some(Unified { kept: bare(kept), dropped: bare(dropped) })
}

/// A name without the number that gcc puts after it.
fn bare(name: &str) -> &str {
    let name = name.trim();
    match name.rsplit_once('/') {
        Some((name, number)) if number.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_unified_counts() {
        let text = "a.c:4:31: optimized: Semantic equality hit:f/13->g/14\na.c:4:31: optimized: \
                    Assembler symbol names:_Zf/13->_Zg/14\n  === merge ===\nNot unifying; cannot \
                    make wrapper\na.c:6:38: optimized: Semantic equality hit:h/15->i/16\nUnified; \
                    Function alias has been created.\n";
        assert_eq!(unified(text), [Unified { kept: "h", dropped: "i" }]);
    }
}
