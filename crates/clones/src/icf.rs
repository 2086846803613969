//! gcc's `-fdump-ipa-icf-details`: which functions were found identical, and whether they became one.
//!
//! A pair is told by `Semantic equality hit:A/order->B/order`; the answer follows some lines later: `Unified; …` (an
//! alias, a wrapper or redirected calls) or `Not unifying; …`. `-fdump-ipa-clones` says nothing of it. Variables are
//! compared too; they are told apart by the reader's graph, which has functions only. Source: gcc, `gcc/ipa-icf.cc`.

/// Two functions that share one body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unified<'t> {
    /// The one whose body stays.
    pub kept: &'t str,
    /// The other one.
    pub dropped: &'t str,
}

/// The pairs of a dump that were unified. Text of other passes is passed over.
pub fn unified(text: &str) -> Vec<Unified<'_>> {
    let mut found = Vec::new();
    let mut pair = None;
    for line in text.lines() {
        if let Some((_, names)) = line.split_once("Semantic equality hit:") {
            pair = names.split_once("->").map(|(a, b)| Unified { kept: bare(a), dropped: bare(b) });
        } else if let Some((_, names)) = line.split_once("Assembler symbol names:") {
            // The line before has the names of the source.
            let assembler = names.split_once("->").map(|(a, b)| Unified { kept: bare(a), dropped: bare(b) });
            pair = assembler.or(pair);
        } else if line.starts_with("Unified;") {
            found.extend(pair.take());
        } else if line.starts_with("Not unifying") {
            pair = None;
        }
    }
    found
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
        let text = "a.c:4:31: optimized: Semantic equality hit:f/13->g/14\n\
            a.c:4:31: optimized: Assembler symbol names:_Zf/13->_Zg/14\n  === merge ===\n\
            Not unifying; cannot make wrapper\n\
            a.c:6:38: optimized: Semantic equality hit:h/15->i/16\nUnified; Function alias has been created.\n";
        assert_eq!(unified(text), [Unified { kept: "h", dropped: "i" }]);
    }
}
