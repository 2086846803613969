//! Does a program keep its pseudo probes where its blocks are placed?
//!
//! The compiler reads a profile of probes by the probes, which it then may leave out of the code. It
//! must where blocks are placed: clang 22 cannot write the distance between two probes of a function
//! that lies in several sections (`.sleb128 expression is not absolute`). With LTO the linker reads
//! the profile once more, so objects keep them until then.

use std::ffi::{OsStr, OsString};

const REMOVE: [&str; 2] = ["-mllvm", "-sample-profile-remove-probe"];

/// The arguments of a command that compiles C or C++, with those that leave the probes out where
/// that is to be.
pub(super) fn left_out(arguments: &[OsString]) -> Vec<OsString> {
    let words = || arguments.iter().filter_map(|word| word.to_str());
    // As with all flags, the last one counts.
    let has = |on: fn(&str) -> bool, off: &str| {
        words().rfind(|word| on(word) || *word == off).is_some_and(|word| word != off)
    };
    let probes =
        has(|word| word == "-fpseudo-probe-for-profiling", "-fno-pseudo-probe-for-profiling");
    let profile = has(|word| word.starts_with("-fprofile-sample-use="), "-fno-profile-sample-use");
    let linker_compiles = has(|word| word == "-flto" || word.starts_with("-flto="), "-fno-lto");
    let added = if probes && profile && !linker_compiles { &REMOVE[..] } else { &[] };
    let added = added.iter().map(|word| OsStr::new(word).to_owned());
    // In front: behind `--` stand files alone.
    added.chain(arguments.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_stay_where_nothing_reads_a_profile_by_them_or_the_linker_does() {
        let removes = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let all = left_out(&words);
            assert!(all.ends_with(&words), "{all:?}");
            all.len() > words.len()
        };
        const PROBES: &str = "-O2 -fpseudo-probe-for-profiling -c a.c";
        assert!(removes(&format!("-fprofile-sample-use=a.afdo {PROBES}")));
        assert!(removes(&format!("-flto -fno-lto -fprofile-sample-use=a.afdo {PROBES}")));
        assert!(!removes(PROBES));
        assert!(!removes("-O2 -fprofile-sample-use=a.afdo -c a.c"));
        for off in
            ["-flto=thin", "-flto", "-fno-profile-sample-use", "-fno-pseudo-probe-for-profiling"]
        {
            assert!(!removes(&format!("-fprofile-sample-use=a.afdo {PROBES} {off}")), "{off}");
        }
    }
}
