//! What the names and addresses of a symbol table say: suffixes of copies and parts, and names for
//! the same bytes.

use crate::graph::Reason;
use image::{Function, Functions, Image, Label};

/// What gcc and clang put after a name (before a number, where one follows) when they make a
/// function from another.
const SUFFIXES: [(&str, Reason); 13] = [
    ("cold", Reason::Cold),
    ("part", Reason::Part),
    ("isra", Reason::ScalarReplacement),
    ("constprop", Reason::ConstantPropagation),
    ("specialized", Reason::ConstantPropagation),
    ("argprom", Reason::ScalarReplacement),
    ("_omp_fn", Reason::Outlined),
    ("_omp_cpyfn", Reason::Outlined),
    ("lto_priv", Reason::LinkTime),
    ("llvm", Reason::LinkTime),
    ("localalias", Reason::SameAddress),
    ("resolver", Reason::TargetClone),
    ("default", Reason::TargetClone),
];

/// Begins of the names that `target_clones` takes, on x86 and AArch64.
const TARGETS: [&str; 10] =
    ["arch_", "avx", "sse", "popcnt", "fma", "bmi", "aes", "sve", "dotprod", "crypto"];

/// The function that a name's last suffix says it was made from, and how: `f.constprop.0.isra.0`
/// was made from `f.constprop.0`. `None` for a name of the source.
pub fn origin(name: &str) -> Option<(&str, Reason)> {
    if let Some(base) = vector_version_of(name) {
        return Some((base, Reason::Copy("vector version".to_owned())));
    }
    // clang hangs further names behind: `f.omp_outlined.omp.reduction.reduction_func`.
    if let Some((base, _)) = name.split_once(".omp_outlined").filter(|(base, _)| !base.is_empty()) {
        return Some((base, Reason::Outlined));
    }
    let unnumbered = match name.rsplit_once('.') {
        Some((rest, number))
            if !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()) =>
        {
            rest
        }
        _ => name,
    };
    let (base, suffix) = unnumbered.rsplit_once('.')?;
    if base.is_empty() {
        return None;
    }
    if let Some((_, reason)) = SUFFIXES.iter().find(|(known, _)| *known == suffix) {
        return Some((base.trim_end_matches('.'), reason.clone()));
    }
    // `f.sse4.2` ends in a number that belongs to the target.
    let is_target = |suffix: &str| TARGETS.iter().any(|target| suffix.starts_with(target));
    is_target(suffix).then_some((base, Reason::TargetClone))
}

/// The function of which `#pragma omp declare simd` made this one: `_ZGVbN4v_f` is `f` for SSE,
/// unmasked, four lanes of one vector. Source: the vector function ABIs of x86-64 (2.2) and AArch64
/// (3.5). Guard variables of C++ begin alike and go on with no lower-case letter.
fn vector_version_of(name: &str) -> Option<&str> {
    let rest = name
        .strip_prefix("_ZGV")?
        .strip_prefix(['b', 'c', 'd', 'e', 'n', 's'])?
        .strip_prefix(['M', 'N'])?;
    let (lanes, base) = rest.split_once('_')?;
    let lanes = lanes
        .strip_prefix('x')
        .unwrap_or_else(|| lanes.trim_start_matches(|c: char| c.is_ascii_digit()));
    let known = lanes.bytes().all(|byte| byte.is_ascii_digit() || b"vlRLUusan".contains(&byte));
    (known && !base.is_empty()).then_some(base)
}

/// Groups of functions that have several names for the same bytes; the names of a group are sorted.
pub fn same_bytes(functions: Functions<'_>) -> Vec<Vec<&str>> {
    let mut all: Vec<Function<'_>> =
        functions.iter().filter(|f| f.size != 0 && !f.size_inferred).collect();
    all.sort_by_key(|f| (f.address, f.size, f.name));
    all.dedup_by_key(|f| (f.address, f.size, f.name));
    all.chunk_by(|a, b| (a.address, a.size) == (b.address, b.size))
        .filter(|group| group.len() > 1)
        .map(|group| group.iter().map(|f| f.name).collect())
        .collect()
}

/// Each with the next, both ways: enough to tie a group for a closure, and few.
pub(crate) fn both_ways<T: Copy>(group: &[T]) -> impl Iterator<Item = (T, T)> {
    group.iter().zip(group.iter().skip(1)).flat_map(|(a, b)| [(*a, *b), (*b, *a)])
}

/// Names that stand at one address more than once: functions of several objects of one name (static
/// ones) that the linker folded; sorted.
pub fn repeated(image: &Image) -> Vec<&str> {
    let mut all: Vec<_> = image.labels().into_iter().filter(|label| label.size != 0).collect();
    all.sort_unstable_by_key(|label| (label.address, label.size, label.name));
    let same =
        |a: &Label<'_>, b: &Label<'_>| (a.address, a.size, a.name) == (b.address, b.size, b.name);
    let groups = all.chunk_by(same).filter(|group| group.len() > 1);
    let mut names: Vec<&str> =
        groups.filter_map(|group| group.first()).map(|label| label.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_peeled_one_by_one() {
        let of = |name| origin(name).map(|(base, reason)| (base, reason.word().to_owned()));
        let expect = |base, word: &str| Some((base, word.to_owned()));
        assert_eq!(of("f.constprop.0.isra.0"), expect("f.constprop.0", "isra"));
        assert_eq!(of("f.cold"), expect("f", "cold"));
        assert_eq!(of("f.cold.3"), expect("f", "cold"));
        assert_eq!(of("f._omp_fn.0"), expect("f", "outlined"));
        assert_eq!(
            of("f.omp_outlined_debug__.omp.reduction.reduction_func"),
            expect("f", "outlined")
        );
        assert_eq!(of("f.sse4.2"), expect("f", "target clone"));
        assert_eq!(of("f.arch_haswell"), expect("f", "target clone"));
        assert_eq!(of("f.llvm.123456789"), expect("f", "link-time"));
        assert_eq!(of("_ZGVbN4v_f"), expect("f", "vector version"));
        assert_eq!(of("_ZGVeM16vl8u__Z3addii"), expect("_Z3addii", "vector version"));
        assert_eq!(of("_ZGVsMxv_f"), expect("f", "vector version"));
        for guard in ["_ZGVZ3foovE1x", "_ZGVN1a1bE", "_ZGV1x", "_ZGVb_f", "_ZGVbN4v_"] {
            assert_eq!(origin(guard), None, "{guard}");
        }
        for name in ["main", "f.123", "a.b", ".cold", "", ".", "f.__uniq.12345"] {
            assert_eq!(origin(name), None, "{name}");
        }
    }
}
