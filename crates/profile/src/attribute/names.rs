//! Under which name a function goes into a profile, and which addresses are entries of functions.

use image::debug::DwarfFunction;
use image::{Image, ImageAddr};

/// The name that the compiler looks up: without the suffixes that LLVM appends after it has read
/// the profile (`.llvm.123` of promoted local functions, `.part.0`). A suffix is removed where
/// nothing but its own text follows.
///
/// Names of `-funique-internal-linkage-names` (`.__uniq.123`) are whole: the compiler looks them up
/// as such.
pub fn canonical_name(name: &str) -> &str {
    let mut name = name;
    for suffix in [".llvm.", ".part."] {
        let ends_name = |at: &usize| name.rfind('.') == Some(at + suffix.len() - 1);
        if let Some(at) = name.rfind(suffix).filter(ends_name) {
            name = name.get(..at).unwrap_or(name);
        }
    }
    name
}

/// The name of the function that control enters at `at`, or `None` when that is not where it
/// begins.
///
/// A function with one range begins there. Of a function in several ranges only the one begins it
/// whose symbol has its name; the others have names like `foo.cold`.
pub(crate) fn entered<'f>(
    image: &Image,
    function: &'f DwarfFunction,
    at: ImageAddr,
) -> Option<&'f str> {
    if function.name.is_empty() || !function.ranges.iter().any(|range| range.start == at) {
        return None;
    }
    let is_entry = function.ranges.len() == 1
        || image.functions().at(at).any(|symbol| canonical_name(symbol.name) == function.name);
    is_entry.then(|| canonical_name(&function.name))
}

/// Whether a function exists many times under one name that says nothing, so that its counts would
/// be mixed up.
pub(super) fn is_ambiguous(name: &str) -> bool {
    name.starts_with("__cxx_global_var_init") || name.starts_with("__tls_init")
}

#[cfg(test)]
mod tests {
    use super::canonical_name;

    #[test]
    fn suffixes_that_come_after_the_profile_are_removed() {
        assert_eq!(canonical_name("foo.llvm.1234"), "foo");
        assert_eq!(canonical_name("foo.part.0"), "foo");
        assert_eq!(canonical_name("foo.part.0.llvm.12"), "foo");
    }

    #[test]
    fn suffixes_that_the_compiler_knows_stay() {
        for name in [
            "foo",
            "foo.cold",
            "foo.isra.0",
            "foo.llvm.12.cold",
            "_ZL3foo.__uniq.99",
            "foo.constprop.1",
        ] {
            assert_eq!(canonical_name(name), name);
        }
    }
}
