//! Does a program keep its pseudo probes where its blocks are placed?
//!
//! The compiler reads a profile of probes by the probes, which it then may leave out of the code. It
//! must where blocks are placed: clang 22 cannot write the distance between two probes of a function
//! that lies in several sections (`.sleb128 expression is not absolute`). With LTO the linker reads
//! the profile once more, so objects keep them until then.

use std::ffi::OsString;

/// Leaves the probes out, as clang and lld name it.
pub(crate) const LEAVE_OUT: &str = "-sample-profile-remove-probe";

/// Whether flags ask for probes.
pub(crate) fn has_probes<'w>(words: impl DoubleEndedIterator<Item = &'w str>) -> bool {
    let on = |word: &str| word == "-fpseudo-probe-for-profiling";
    is_on(words, on, "-fno-pseudo-probe-for-profiling")
}

/// Whether a command that compiles C or C++ is the last to read the profile by the probes.
pub(super) fn can_go(arguments: &[OsString]) -> bool {
    let words = || arguments.iter().filter_map(|word| word.to_str());
    let profile = |word: &str| word.starts_with("-fprofile-sample-use=");
    let lto = |word: &str| word == "-flto" || word.starts_with("-flto=");
    has_probes(words())
        && is_on(words(), profile, "-fno-profile-sample-use")
        && !is_on(words(), lto, "-fno-lto")
}

/// As with all flags, the last one counts.
fn is_on<'w>(
    mut words: impl DoubleEndedIterator<Item = &'w str>,
    on: impl Fn(&str) -> bool,
    off: &str,
) -> bool {
    words.rfind(|word| on(word) || *word == off).is_some_and(|word| word != off)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_stay_where_nothing_reads_a_profile_by_them_or_the_linker_does() {
        let go = |line: &str| can_go(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        const PROBES: &str = "-O2 -fpseudo-probe-for-profiling -c a.c";
        assert!(go(&format!("-fprofile-sample-use=a.afdo {PROBES}")));
        assert!(go(&format!("-flto -fno-lto -fprofile-sample-use=a.afdo {PROBES}")));
        assert!(!go(PROBES));
        assert!(!go("-O2 -fprofile-sample-use=a.afdo -c a.c"));
        for off in
            ["-flto=thin", "-flto", "-fno-profile-sample-use", "-fno-pseudo-probe-for-profiling"]
        {
            assert!(!go(&format!("-fprofile-sample-use=a.afdo {PROBES} {off}")), "{off}");
        }
    }
}
