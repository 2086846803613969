//! With which compiler is make called?

use super::word;
use crate::Error;
use crate::architecture::Architecture;
use programs::Surroundings;
use std::num::NonZeroUsize;
use std::path::Path;

/// How make is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Make {
    /// LLVM=: the release of clang and lld; absent for the newest that is installed.
    pub llvm: Option<String>,
    /// CC=, where it is more than the clang of that release.
    pub cc: Option<String>,
    /// How many jobs it runs; absent for one per CPU.
    pub jobs: Option<NonZeroUsize>,
}

/// The oldest clang that both options work with.
const OLDEST_CLANG: u32 = 19;
/// The newest release whose name is looked for.
const NEWEST_CLANG: u32 = 40;

impl Make {
    /// The value of LLVM=.
    ///
    /// # Errors
    /// Where the compiler or its tools are not installed.
    pub fn release(&self) -> Result<String, Error> {
        let around = Surroundings::running();
        let there = |name: &str| around.named(name).is_some();
        if let Some(cc) = &self.cc {
            let last = cc.split_whitespace().last().unwrap_or_default();
            if !last.contains("clang") || !cc.split_whitespace().all(there) {
                return Err(Error::Wanted(format!(
                    "--cc '{cc}': expected a clang that is installed, after a wrapper such as \
                     ccache if there is one"
                )));
            }
        }
        if let Some(llvm) = &self.llvm {
            // kbuild takes a number without a dash for `clang` without a release.
            let number =
                llvm.trim_start_matches('-').parse::<u32>().ok().filter(|number| *number > 1);
            let suffix = number.map_or(String::new(), |number| format!("-{number}"));
            if number.is_none() && llvm != "1" {
                return Err(Error::Wanted(format!(
                    "--llvm '{llvm}': expected a release such as -22, or 1 for clang and ld.lld \
                     without a number"
                )));
            }
            if let Some(tool) = ["clang", "ld.lld", "llvm-nm"]
                .iter()
                .find(|tool| !there(&format!("{tool}{suffix}")))
            {
                return Err(Error::Wanted(format!(
                    "--llvm '{llvm}': no {tool}{suffix} in PATH; install clang, lld and llvm of \
                     that release"
                )));
            }
            return Ok(if suffix.is_empty() { "1".to_owned() } else { suffix });
        }
        let newest = (OLDEST_CLANG..=NEWEST_CLANG).rev().find(|release| {
            there(&format!("clang-{release}")) && there(&format!("ld.lld-{release}"))
        });
        match newest {
            Some(release) => Ok(format!("-{release}")),
            None if there("clang") && there("ld.lld") => Ok("1".to_owned()),
            None => Err(Error::Wanted(format!(
                "neither clang-{OLDEST_CLANG} and ld.lld-{OLDEST_CLANG} nor newer ones are in \
                 PATH; install clang and lld (Debian: clang-22 lld-22), or name the release with \
                 --llvm=-N"
            ))),
        }
    }

    /// The command that make compiles C with; `more` are words after those of [`Make::words`],
    /// which count first.
    ///
    /// # Errors
    /// As [`Make::release`].
    pub fn compiler(&self, more: &[String]) -> Result<String, Error> {
        let given = |name: &str| more.iter().rev().find_map(|word| word.strip_prefix(name));
        if let Some(cc) = given("CC=").or(self.cc.as_deref()) {
            return Ok(cc.to_owned());
        }
        let release =
            given("LLVM=").map_or_else(|| self.release(), |release| Ok(release.to_owned()))?;
        Ok(match release.as_str() {
            directory if directory.ends_with('/') => format!("{directory}clang"),
            suffix if suffix.starts_with('-') => format!("clang{suffix}"),
            _ => "clang".to_owned(),
        })
    }

    /// The number of jobs.
    pub fn jobs(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.jobs.map_or_else(all, NonZeroUsize::get)
    }

    /// The words of make before variables of profiles and targets.
    ///
    /// # Errors
    /// As [`Make::release`], and where make cannot take the name of a directory.
    pub fn words(
        &self,
        tree: &Path,
        build: &Path,
        architecture: Architecture,
    ) -> Result<Vec<String>, Error> {
        self.words_for(tree, build, architecture.make_word())
    }

    /// The same for an architecture, as make names it.
    ///
    /// # Errors
    /// As [`Make::words`].
    pub fn words_for(
        &self,
        tree: &Path,
        build: &Path,
        architecture: &str,
    ) -> Result<Vec<String>, Error> {
        let text = |path: &Path| -> Result<String, Error> {
            word(&std::path::absolute(path).map_err(Error::io(path))?)
        };
        let mut words = vec!["-C".to_owned(), text(tree)?];
        if !is_same(tree, build) {
            words.push(format!("O={}", text(build)?));
        }
        words.extend([format!("LLVM={}", self.release()?), format!("ARCH={architecture}")]);
        words.extend(self.cc.as_ref().map(|cc| format!("CC={cc}")));
        words.push(format!("-j{}", self.jobs()));
        Ok(words)
    }
}

fn is_same(tree: &Path, build: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(tree).is_some() && real(tree) == real(build)
}
