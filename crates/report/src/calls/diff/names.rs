//! Under which name are the clones of a function one row?

/// What compilers add to the name of a function that they copy, split or rename; a number may
/// follow.
const ADDED: [&str; 9] =
    ["llvm", "cold", "part", "isra", "constprop", "lto_priv", "hot", "unlikely", "__uniq"];

/// The name without what a compiler adds, which changes from build to build: `.llvm.N`, `.cold`,
/// `.part.N`, `.isra.N`, `.constprop.N`, `.lto_priv.N` and the like, and the hash of Rust's names
/// (`17h…E`).
pub fn lasting(name: &str) -> &str {
    let mut rest = name;
    while let Some((before, last)) = rest.rsplit_once('.') {
        let added = |word: &str| ADDED.contains(&word);
        let number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
        rest = match before.rsplit_once('.') {
            _ if added(last) && !before.is_empty() => before,
            Some((earlier, word)) if number && added(word) && !earlier.is_empty() => earlier,
            _ => break,
        };
    }
    without_hash(rest).unwrap_or(rest)
}

fn without_hash(name: &str) -> Option<&str> {
    const DIGITS: usize = 16;
    let inner = name.strip_suffix('E').filter(|_| name.starts_with("_ZN"))?;
    let at = inner.len().checked_sub(DIGITS)?;
    let hash = inner.get(at..)?;
    hash.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(())?;
    inner.get(..at)?.strip_suffix("17h")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_have_the_name_of_their_function() {
        for (name, expected) in [
            ("f", "f"),
            ("f.llvm.123456", "f"),
            ("f.part.0.cold", "f"),
            ("f.isra.0.constprop.1", "f"),
            ("f.lto_priv.3.cold", "f"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "_ZN4core3fmt5write"),
            ("_ZN4core3fmt5write17h0123456789abcdefE.llvm.7", "_ZN4core3fmt5write"),
            ("f.5", "f.5"),
            (".cold", ".cold"),
            (".part.0", ".part.0"),
            ("a.b", "a.b"),
            ("", ""),
            ("E", "E"),
            ("_ZN17hE", "_ZN17hE"),
            ("_ZNéééééééééE", "_ZNéééééééééE"),
        ] {
            assert_eq!(lasting(name), expected);
        }
    }
}
