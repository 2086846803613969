//! What does gcc get besides where it compiles with a sample profile, and what where it crashes?
//!
//! `-fauto-profile` gives -O2 the cost model that -O3 has for vectorising. With it, gcc 12 divides by
//! zero at times, where a loop has no samples (`vect_do_peeling`); it also stops where the counts of
//! clones do not add up (`update_specialized_profile`). Which function that happens in depends on the
//! recording. Such an object is compiled more carefully; the build goes on, and says so.

use super::{code_of, is_code};
use crate::Error;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Beside gcc's sample profile (`measurements/2026-11-29-gcc.md`): `-fauto-profile` unrolls loops
/// everywhere, which does not pay; and functions are cloned too seldom for constant arguments, since
/// lines share the counts by which gcc sees what a clone saves. What depends on the level
/// of optimisation is added to each command.
pub(crate) const FLAGS: &str = "-fno-unroll-loops --param=ipa-cp-eval-threshold=50";

/// The flag with which gcc reads a sample profile.
const PROFILE: &str = "-fauto-profile";

/// How gcc decides what to vectorise, and how it does so at -O2 by itself.
const COSTS: &str = "-fvect-cost-model=";
const COSTS_OF_O2: &str = "-fvect-cost-model=very-cheap";

/// What gcc says where it ends by its own fault.
const CRASH: &[u8] = b"internal compiler error";

/// What it then gets besides, before it has to do without the profile.
const CAREFUL: [&[&str]; 2] = [&[COSTS_OF_O2], &[COSTS_OF_O2, "-fno-ipa-cp-clone"]];

/// What every line holds that tells of such an object.
pub const TOLD: &str = "ended with an internal error over the sample profile";

/// Whether a recorded command line is that of an object of a rebuild that had to do without the
/// profile: the other flags come with it alone.
pub(crate) fn is_without_profile(recorded: &str) -> bool {
    recorded.contains("ipa-cp-eval-threshold=50") && !recorded.contains(PROFILE)
}

/// Whether a compiler reads a sample profile by these arguments, and compiles files with it:
/// standard input could not be read again.
pub(super) fn is_used(arguments: &[OsString]) -> bool {
    arguments.iter().any(is_profile) && source(arguments).is_some() && !has(arguments, "-")
}

/// Compiles, more carefully where the compiler crashes; the result is its exit code.
pub(super) fn compile(
    compiler: &OsStr,
    arguments: &[OsString],
    warn: &dyn Fn(String),
) -> Result<u8, Error> {
    let mut usual = arguments.to_vec();
    usual.extend(costs_of_o2(arguments).map(OsString::from));
    let (mut code, mut crashed) = watched(compiler, &usual)?;
    let careful = CAREFUL.into_iter().filter(|flags| !flags.iter().all(|flag| has(&usual, flag)));
    // -fno-auto-profile would also turn off what the level has by itself.
    let without = arguments.iter().filter(|word| !is_profile(word)).cloned().collect();
    let tries = careful
        .map(|flags| (with(&usual, flags), format!("with {}", flags.join(" "))))
        .chain([(without, "without it".to_owned())]);
    for (words, how) in tries {
        if !crashed {
            break;
        }
        (code, crashed) = watched(compiler, &words)?;
        if !crashed {
            let name = Path::new(compiler).file_name().unwrap_or(compiler).to_string_lossy();
            let source = source(arguments).map_or_else(Default::default, |s| s.to_string_lossy());
            warn(format!("{name} {TOLD}: {source} is compiled {how}"));
        }
    }
    Ok(code)
}

fn is_profile(word: &OsString) -> bool {
    word.to_string_lossy().starts_with(PROFILE)
}

fn has(arguments: &[OsString], flag: &str) -> bool {
    arguments.iter().any(|word| word == flag)
}

fn with(arguments: &[OsString], flags: &[&str]) -> Vec<OsString> {
    arguments.iter().cloned().chain(flags.iter().map(OsString::from)).collect()
}

/// The cost model of -O2, where that is the level and no other model is asked for.
fn costs_of_o2(arguments: &[OsString]) -> Option<&'static str> {
    let mut words = arguments.iter().rev().filter_map(|word| word.to_str());
    let is_free = !words.clone().any(|word| word.starts_with(COSTS));
    (is_free && words.find(|word| word.starts_with("-O")) == Some("-O2")).then_some(COSTS_OF_O2)
}

/// The last of the sources that are compiled.
fn source(arguments: &[OsString]) -> Option<&OsString> {
    let is_source =
        |word: &&OsString| Path::new(word).extension().and_then(OsStr::to_str).is_some_and(is_code);
    arguments.iter().rfind(is_source)
}

/// Runs the compiler, and passes on what it says; whether it crashed.
fn watched(compiler: &OsStr, arguments: &[OsString]) -> Result<(u8, bool), Error> {
    let failed =
        |source| Error::File { path: compiler.into(), action: "cannot start the compiler", source };
    let mut command = Command::new(compiler);
    // In English, so that it is understood.
    command.args(arguments).env("LC_ALL", "C.UTF-8").stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let mut crashed = false;
    let heard = child.stderr.take().map_or(Ok(()), |said| {
        BufReader::new(said).split(b'\n').try_for_each(|line| {
            let line = line?;
            crashed |= line.windows(CRASH.len()).any(|words| words == CRASH);
            // Nobody may listen any more.
            let _ = std::io::stderr().write_all(&[&line, &b"\n"[..]].concat());
            Ok(())
        })
    });
    let code = code_of(child.wait().map_err(failed)?);
    heard.map_err(failed)?;
    Ok((code, crashed && code != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn sources_with_a_sample_profile_alone_are_watched() {
        assert!(is_used(&words("-O2 -fauto-profile=/p/a.gcov -c a.c -o a.o")));
        assert!(is_used(&words("-fauto-profile=a.gcov a.cpp -o a")));
        for other in [
            "-O2 -c a.c",
            "-fauto-profile=a.gcov a.o -o a",
            "-fprofile-use -c a.c",
            "-fauto-profile=a.gcov -x c - -c -o a.o",
        ] {
            assert!(!is_used(&words(other)), "{other}");
        }
    }

    #[test]
    fn an_object_without_its_profile_is_known_by_the_other_flags() {
        assert!(is_without_profile(&format!("GNU C17 -O2 {FLAGS}")));
        assert!(!is_without_profile(&format!("{FLAGS} -O2 {PROFILE}=a.gcov")));
        assert!(!is_without_profile("-O2 -fno-unroll-loops"));
    }

    #[test]
    fn the_cost_model_is_that_of_the_level_that_counts() {
        for (line, model) in [
            ("-O2 -c a.c", Some(COSTS_OF_O2)),
            ("-O3 -c a.c -O2", Some(COSTS_OF_O2)),
            ("-O2 -g -O3 -c a.c", None),
            ("-O2 -fvect-cost-model=cheap -c a.c", None),
            ("-c a.c", None),
        ] {
            assert_eq!(costs_of_o2(&words(line)), model, "{line}");
        }
    }

    /// A compiler that crashes unless it is told what is said here; gcc's own crashes depend on
    /// version and recording.
    #[test]
    fn an_object_is_compiled_by_the_first_flags_that_the_compiler_accepts() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let compiler = folder.path().join("gcc");
        let said = std::cell::RefCell::new(Vec::new());
        let ran = |script: &str, line: &str| {
            std::fs::write(&compiler, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&compiler, std::fs::Permissions::from_mode(0o755)).unwrap();
            said.borrow_mut().clear();
            let warn = |line: String| said.borrow_mut().push(line);
            let code = compile(compiler.as_os_str(), &words(line), &warn).unwrap();
            (code, said.borrow().join("\n"))
        };
        let crash = "echo 'a.c:1: internal compiler error: in f' >&2; exit 1";
        let line = "-O3 -fauto-profile=a.gcov -c a.c -o a.o";
        for (accepts, code, told) in [
            ("*-O3*", 0, None),
            (
                "*-fvect-cost-model=very-cheap*",
                0,
                Some("a.c is compiled with -fvect-cost-model=very-cheap"),
            ),
            ("*-fno-ipa-cp-clone*", 0, Some("very-cheap -fno-ipa-cp-clone")),
            ("'-O3 -c a.c -o a.o'", 0, Some("a.c is compiled without it")),
            ("nothing", 1, None),
        ] {
            let script = format!("case \"$*\" in {accepts}) exit 0;; esac; {crash}");
            let (ended, said) = ran(&script, line);
            assert_eq!(ended, code, "{accepts}");
            match told {
                Some(told) => assert!(said.contains(told) && said.contains(TOLD), "{said}"),
                None => assert_eq!(said, ""),
            }
        }
        // Some compile all the same, and talk of it.
        let fine = ran("echo 'internal compiler error' >&2", line);
        assert_eq!(fine, (0, String::new()));
        // An error in the source is none of the compiler's.
        assert_eq!(ran("echo 'a.c:1: error: x' >&2; exit 1", line), (1, String::new()));
        // What was given from the start is not tried again.
        let tried = folder.path().join("tried");
        let script = format!("echo >>{}; {crash}", tried.display());
        assert_eq!(ran(&script, "-O2 -fauto-profile=a.gcov -c a.c"), (1, String::new()));
        assert_eq!(std::fs::read_to_string(tried).unwrap().lines().count(), 3);
    }
}
