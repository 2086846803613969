//! Which flags make a build fit for recording, and which make it use a profile?

use crate::config::{Build, Compiler};
use crate::toolchain::Toolchain;
use std::collections::BTreeMap;

/// Which of the two builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase<'a> {
    /// The one that is recorded and measured against.
    Baseline,
    /// The one that uses the profile at this absolute path.
    Profiled(&'a str),
}

/// The variables a build command gets.
///
/// Both builds carry the same debug information: the profile is laid over source lines and discriminators, so the
/// rebuild must produce the same ones. It costs file size, no run time.
pub fn variables(build: &Build, tools: &Toolchain, phase: Phase, out: &str) -> BTreeMap<String, String> {
    let mut compile = vec![build.optimize.as_str()];
    let mut link: Vec<&str> = Vec::new();
    let use_profile = match (phase, build.compiler) {
        (Phase::Baseline, _) => String::new(),
        (Phase::Profiled(path), Compiler::Clang) => format!("-fprofile-sample-use={path}"),
        (Phase::Profiled(path), Compiler::Gcc) => format!("-fauto-profile={path}"),
    };
    match build.compiler {
        Compiler::Clang => {
            // -gmlt is lines and inlining only; discriminators and linkage names come with the second flag; the third
            // gives static functions of one name in two files names of their own, in the profile as well.
            compile.extend(["-gmlt", "-fdebug-info-for-profiling", "-funique-internal-linkage-names"]);
            link.extend([build.optimize.as_str(), "-fuse-ld=lld", "-Wl,--build-id"]);
            if build.thinlto {
                compile.push("-flto=thin");
                link.push("-flto=thin");
            }
        }
        Compiler::Gcc => {
            // -g1 would leave out the inlined calls that the profile is nested by.
            compile.push("-g");
            link.extend([build.optimize.as_str(), "-Wl,--build-id"]);
        }
    }
    compile.push(build.flags.trim());
    link.push(build.flags.trim());
    compile.push(&use_profile);
    if build.thinlto {
        // With ThinLTO functions are inlined across files at link time, and the profile is read there once more.
        link.push(&use_profile);
    }
    if phase != Phase::Baseline {
        if build.compiler == Compiler::Clang {
            // Ext-TSP block placement: -5 % taken branches on SQLite against the default placement. The limit keeps
            // compile time bounded; functions beyond it are placed the old way.
            let ext_tsp = ["-mllvm", "-enable-ext-tsp-block-placement"];
            compile.extend(ext_tsp);
            if build.thinlto {
                link.push("-Wl,-mllvm,-enable-ext-tsp-block-placement");
            }
        }
        compile.push(build.profiled_flags.trim());
        link.push(build.profiled_flags.trim());
    }
    let join = |words: &[&str]| words.iter().filter(|w| !w.is_empty()).copied().collect::<Vec<_>>().join(" ");
    let compile = join(&compile);
    let rust = rust_flags(tools, phase);
    [
        ("PLANISH_CC", tools.cc.clone()),
        ("PLANISH_CXX", tools.cxx.clone()),
        ("PLANISH_LD", tools.ld.clone()),
        ("PLANISH_CFLAGS", compile.clone()),
        ("PLANISH_CXXFLAGS", compile),
        ("PLANISH_LDFLAGS", join(&link)),
        ("PLANISH_RUSTFLAGS", rust),
        ("PLANISH_OUT", out.to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// rustc takes sample profiles with `-Z` flags only, so only nightly builds get them.
fn rust_flags(tools: &Toolchain, phase: Phase) -> String {
    let mut flags = "-Copt-level=3 -Cdebuginfo=line-tables-only".to_owned();
    if tools.nightly_rust {
        flags.push_str(" -Zdebug-info-for-profiling");
        if let Phase::Profiled(path) = phase {
            flags.push_str(&format!(" -Zprofile-sample-use={path}"));
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Command, Compiler};

    fn build(compiler: Compiler, thinlto: bool) -> Build {
        Build {
            command: Command::Line("make".into()),
            binary: "app".into(),
            compiler,
            cc: None,
            cxx: None,
            optimize: "-O3".into(),
            flags: "-DX=1".into(),
            profiled_flags: "-Dfast".into(),
            thinlto,
            sources: vec![],
        }
    }

    fn tools() -> Toolchain {
        Toolchain {
            cc: "clang-22".into(),
            cxx: "clang++-22".into(),
            ld: "ld.lld-22".into(),
            nightly_rust: true,
        }
    }

    #[test]
    fn both_builds_have_the_same_debug_flags_and_only_one_the_profile() {
        let build = build(Compiler::Clang, false);
        let base = variables(&build, &tools(), Phase::Baseline, "o");
        let new = variables(&build, &tools(), Phase::Profiled("/p/app.afdo"), "o");
        assert!(new["PLANISH_CFLAGS"].starts_with(&base["PLANISH_CFLAGS"]), "{new:?}");
        assert!(new["PLANISH_CFLAGS"].contains("-fprofile-sample-use=/p/app.afdo"));
        assert!(!base["PLANISH_CFLAGS"].contains("-Dfast") && new["PLANISH_CFLAGS"].ends_with("-Dfast"));
        assert!(!new["PLANISH_LDFLAGS"].contains("sample-use"));
        assert!(new["PLANISH_RUSTFLAGS"].contains("-Zprofile-sample-use=/p/app.afdo"));
    }

    #[test]
    fn thinlto_gives_the_profile_to_the_linker_too() {
        let new = variables(&build(Compiler::Clang, true), &tools(), Phase::Profiled("/p/a"), "o");
        assert!(
            new["PLANISH_LDFLAGS"].contains("-flto=thin")
                && new["PLANISH_LDFLAGS"].contains("sample-use=/p/a")
        );
    }

    #[test]
    fn gcc_gets_its_own_words() {
        let new = variables(&build(Compiler::Gcc, false), &tools(), Phase::Profiled("/p/a.gcov"), "o");
        assert!(new["PLANISH_CFLAGS"].contains("-fauto-profile=/p/a.gcov"), "{new:?}");
        assert!(
            !new["PLANISH_CFLAGS"].contains("mllvm") && !new["PLANISH_LDFLAGS"].contains("lld"),
            "{new:?}"
        );
    }
}
