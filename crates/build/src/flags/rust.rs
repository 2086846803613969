//! Which flags does rustc get?

use super::{Extras, INLINE_BY_BENEFIT, Phase};
use crate::toolchain::{Toolchain, compiler_of};

/// Where rustc's remarks about a profile go, and are looked for: it records no command line, so
/// these alone say that it used the profile.
pub fn remarks_of(profile: &str) -> String {
    format!("{profile}.remarks")
}

/// rustc takes sample profiles with `-Z` flags only, so it gets them where it takes these; counters
/// it takes always.
///
/// `line-tables-only` would leave out the linkage names, which are all that rustc finds functions
/// of a profile by. cargo strips debug information from programs whose profile asks for none; its
/// flags stand before these.
///
/// `link` is there if the linker compiles rustc's code: what it is handed.
pub(super) fn rust_flags(
    tools: &Toolchain,
    phase: Phase,
    extras: Extras,
    inline_by_benefit: bool,
    link: Option<&str>,
) -> String {
    let mut flags = "-Copt-level=3 -Cdebuginfo=1 -Cstrip=none".to_owned();
    if tools.rust_takes_z {
        flags.push_str(" -Zdebug-info-for-profiling");
    }
    match phase {
        Phase::Baseline => {}
        Phase::Profiled(path) if tools.rust_takes_z => {
            flags.push_str(&format!(" -Zprofile-sample-use={path}"));
            // A relink uses the profile as the build before it did, whose remarks stay.
            if extras.layout.is_none() {
                let remarks = remarks_of(path);
                flags.push_str(&format!(" -Cremark=sample-profile -Zremark-dir={remarks}"));
            }
            if inline_by_benefit {
                flags.push_str(&format!(" -Cllvm-args={INLINE_BY_BENEFIT}"));
            }
        }
        Phase::Profiled(_) => {}
        // LLVM_PROFILE_FILE says where; build scripts that hand rustc's flags on to a compiler of C
        // take none without a value.
        Phase::Instrumented(folder) => flags.push_str(&format!(" -Cprofile-generate={folder}")),
        Phase::Counted(path) => flags.push_str(&format!(" -Cprofile-use={path}")),
    }
    let own = compiler_of(&tools.cc);
    let linker = extras.linker.unwrap_or(&own);
    match link {
        // rustc links its own library of counters.
        Some(link) => {
            flags.push_str(&format!(" -Clinker-plugin-lto -Clinker={linker}"));
            let words = link.split_whitespace().filter(|word| !word.starts_with("-fprofile-"));
            // The last level counts: rustc's own. What rustc has optimised as a whole gets code
            // alone: a second pass over it makes LLVM 22 refuse the module (two flags "CG Profile").
            let last: &[&str] =
                if extras.fat_lto { &["-Wl,--lto-O0", "-Wl,--lto-CGO3"] } else { &["-O3"] };
            let words = words.chain(last.iter().copied());
            words.for_each(|word| flags.push_str(&format!(" -Clink-arg={word}")));
        }
        None => {
            if extras.relocations {
                flags.push_str(" -Clink-arg=-Wl,--emit-relocs");
            }
            if extras.keeps_link {
                // rustc's own choice may be a linker that keeps nothing.
                flags.push_str(&format!(" -Clinker={linker} -Clink-arg=-fuse-ld=lld"));
            }
        }
    }
    flags
}
