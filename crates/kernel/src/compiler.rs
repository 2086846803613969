//! Was a profile taken from a kernel that the compiler of this build made?
//!
//! Input: what compilers state of themselves, in the `.comment` of the kernel that was recorded and
//! to `--version`. Another compiler, or another major release, numbers discriminators, inlines and
//! names clones in its own way, so that counts can end up on other code; minor releases repair
//! errors.

use crate::error::Error;
use std::path::Path;

/// A family of compilers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// LLVM's.
    Clang,
    /// GNU's.
    Gcc,
}

/// A release of a compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Whose.
    pub family: Family,
    /// Major, minor, patch level.
    pub version: [u32; 3],
}

impl Release {
    /// Reads `Debian clang version 22.1.8 (1~deb12u1)`, `GCC: (Debian 12.2.0-14) 12.2.0` and their
    /// like; `None` where neither family is named or no number follows.
    pub fn parse(text: &str) -> Option<Release> {
        let (family, rest) = match text.split_once("clang version ") {
            Some((_, rest)) => (Family::Clang, rest),
            None => (Family::Gcc, after_brackets(text.strip_prefix("GCC: ")?)),
        };
        let digits = rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        let mut version = [0; 3];
        for (number, part) in
            version.iter_mut().zip(digits.split('.').filter(|part| !part.is_empty()))
        {
            *number = part.parse().ok()?;
        }
        (version != [0; 3]).then_some(Release { family, version })
    }

    fn major(&self) -> (Family, u32) {
        let [major, ..] = self.version;
        (self.family, major)
    }
}

/// What follows the name of the distributor in round brackets, which may hold brackets and numbers
/// too.
fn after_brackets(text: &str) -> &str {
    let mut open = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => open += 1,
            ')' => open = open.saturating_sub(1),
            c if open == 0 && !c.is_whitespace() => return text.get(at..).unwrap_or_default(),
            _ => {}
        }
    }
    ""
}

/// How a profile fits a compiler that may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The same release.
    Same,
    /// The same major release; the one that the profile names differs in what follows.
    Minor(String),
    /// The profile names no compiler, or none that is known here.
    ProfileUnknown,
    /// The compiler states no release that is known here.
    BuildUnknown,
}

/// Compares the compilers that the profile `path` names with what the compiler of the build states.
/// Of several that the profile names, as one does that was merged, each must fit.
///
/// # Errors
/// One of them is another compiler or another major release.
pub fn fit<'p>(
    path: &Path,
    named: impl Iterator<Item = &'p str>,
    build: &str,
) -> Result<Fit, Error> {
    let mut known = named.filter_map(|text| Some((text, Release::parse(text)?))).peekable();
    let Some(own) = Release::parse(build) else { return Ok(Fit::BuildUnknown) };
    if known.peek().is_none() {
        return Ok(Fit::ProfileUnknown);
    }
    let mut fit = Fit::Same;
    for (text, release) in known {
        if release.major() != own.major() {
            let next = match release.major() {
                (Family::Clang, major) => {
                    format!("build with that one (--llvm=-{major}), or record")
                }
                (Family::Gcc, _) => "record".to_owned(),
            };
            let (path, profile, build) = (path.to_owned(), text.to_owned(), build.to_owned());
            return Err(Error::ForeignCompiler { path, profile, build, next });
        }
        if release != own {
            fit = Fit::Minor(text.to_owned());
        }
    }
    Ok(fit)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    #[test]
    fn what_compilers_state_of_themselves_is_read() {
        let read = |text| Release::parse(text).map(|release| (release.family, release.version));
        for (text, version) in [
            ("Debian clang version 22.1.8 (1~deb12u1)", [22, 1, 8]),
            ("clang version 19.1.0", [19, 1, 0]),
            ("clang version 23.0.0git (https://github.com/llvm/llvm-project 0123abc)", [23, 0, 0]),
            ("Ubuntu clang version 18.1.3 (1ubuntu1)", [18, 1, 3]),
            (
                "Android (12470979, +pgo, +bolt, +lto, +mlgo, based on r522817c) clang version 18.0.3 (https://a/b 1)",
                [18, 0, 3],
            ),
        ] {
            assert_eq!(read(text), Some((Family::Clang, version)), "{text}");
        }
        for (text, version) in [
            ("GCC: (Debian 12.2.0-14+deb12u1) 12.2.0", [12, 2, 0]),
            ("GCC: (GNU) 13.2.1 20231011 (Red Hat 13.2.1-4)", [13, 2, 1]),
            ("GCC: (Buildroot 2021.11 (x) 7) 10", [10, 0, 0]),
        ] {
            assert_eq!(read(text), Some((Family::Gcc, version)), "{text}");
        }
        for text in [
            "",
            "rustc version 1.85.0",
            "clang version git",
            "GCC: (12.2.0",
            "GCC: ",
            "clang version 99999999999",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn another_compiler_or_major_release_is_refused_and_a_minor_one_is_told() {
        let path = Path::new("kernel.afdo");
        let own = "Debian clang version 22.1.8 (1~deb12u1)";
        let of = |named: &[&str]| fit(path, named.iter().copied(), own);
        assert_eq!(of(&[own]).unwrap(), Fit::Same);
        assert_eq!(of(&["clang version 22.1.8", "rustc version 1.85.0"]).unwrap(), Fit::Same);
        assert_eq!(
            of(&["clang version 22.1.0", own]).unwrap(),
            Fit::Minor("clang version 22.1.0".to_owned())
        );
        assert_eq!(of(&[]).unwrap(), Fit::ProfileUnknown);
        assert_eq!(of(&["rustc version 1.85.0"]).unwrap(), Fit::ProfileUnknown);
        assert_eq!(fit(path, [own].into_iter(), "cc 1").unwrap(), Fit::BuildUnknown);
        let refused = of(&["clang version 21.1.8", own]).unwrap_err().to_string();
        for part in ["kernel.afdo", "clang version 21.1.8", own, "--llvm=-21", "--any-compiler"] {
            assert!(refused.contains(part), "no `{part}` in: {refused}");
        }
        let gcc = of(&[own, "GCC: (Debian 12.2.0-14) 12.2.0"]).unwrap_err().to_string();
        assert!(gcc.contains("12.2.0-14") && !gcc.contains("--llvm"), "{gcc}");
    }
}
