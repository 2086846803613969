//! Which flags make a build fit for recording, and which make it use a profile or a layout?

mod rust;

pub use rust::remarks_of;

use crate::config::{Build, Compiler};
use crate::gnu_link;
use crate::optimization::Optimize;
use crate::reuse::{GCC_FLAGS, probes};
use crate::rust::CARGO_LTO;
use crate::toolchain::Toolchain;
use rust::rust_flags;
use std::collections::BTreeMap;

/// Where the builds' knowledge of the program's runs comes from. Paths are as flags name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase<'a> {
    /// None: the program that is recorded and measured against.
    Baseline,
    /// The sample profile at this path.
    Profiled(&'a str),
    /// None, but the program counts its own blocks when it runs: into this folder, where the
    /// compiler decides that (gcc).
    Instrumented(&'a str),
    /// What an instrumented program counted, merged in this file, or in this folder (gcc).
    Counted(&'a str),
}

impl Phase<'_> {
    fn has_profile(self) -> bool {
        matches!(self, Phase::Profiled(_) | Phase::Counted(_))
    }
}

/// What a build is made fit for besides its phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras<'a> {
    /// The program says where its basic blocks lie, so that a layout can be computed from its
    /// recording.
    pub address_map: bool,
    /// The program keeps its relocations, which BOLT needs.
    pub relocations: bool,
    /// The program is recorded for a layout, or laid out.
    pub for_layout: bool,
    /// rustc optimises all code as one module, and the linker makes code of it.
    pub fat_lto: bool,
    /// Its link is repeated with the functions in other places.
    pub keeps_link: bool,
    /// Where gcc finds lld, which alone repeats a link.
    pub named_lld: Option<&'a str>,
    /// What rustc links by in the compiler's place, so that the link is seen.
    pub linker: Option<&'a str>,
    /// The layout to apply: cc profile and ld profile, as flags name them. The compiler gets the
    /// first from [`crate::reuse`], the linker, which compiles with LTO, by its own flag.
    pub layout: Option<(&'a str, &'a str)>,
}

/// The variables a build command gets.
///
/// All builds carry the same debug information: the profile is laid over source lines and
/// discriminators, so the rebuild must produce the same ones. It costs file size, no run time.
pub fn variables(
    build: &Build,
    options: &Optimize,
    tools: &Toolchain,
    (phase, extras): (Phase, Extras),
    out: &str,
) -> BTreeMap<String, String> {
    let mut flags =
        Flags { compile: vec![build.optimize.clone()], link: vec![build.optimize.clone()] };
    match build.compiler {
        Compiler::Clang => {
            // -gmlt is lines and inlining only; discriminators and linkage names come with the
            // second flag; the third gives static functions of one name in two files
            // names of their own, in the profile as well.
            flags.compile("-gmlt -fdebug-info-for-profiling -funique-internal-linkage-names");
            flags.link("-fuse-ld=lld -Wl,--build-id");
        }
        Compiler::Gcc => {
            // In front of the user's own.
            if let Phase::Profiled(_) = phase {
                flags.compile(GCC_FLAGS);
            }
            // -g1 would leave out the inlined calls that the profile is nested by.
            flags.compile("-g");
            flags.link("-Wl,--build-id");
        }
    }
    if build.thinlto {
        flags.both("-flto=thin");
    }
    // Before the user's own, of which the last one counts.
    flags.link(build.pages.link_flags(build));
    flags.both(build.flags.trim());
    add_profile(&mut flags, build, phase);
    if phase.has_profile() {
        add_options(&mut flags, build, options);
        flags.both(build.profiled_flags.trim());
    }
    let words = build.flags.split_whitespace();
    if build.compiler == Compiler::Clang && probes::has_probes(words) {
        match phase {
            // Where the linker compiles, it is the last to read the profile by the probes; from
            // other objects [`crate::reuse`] takes them.
            Phase::Profiled(_) if extras.for_layout => {
                flags.link(&format!("-Wl,-mllvm,{}", probes::LEAVE_OUT));
            }
            // Counters take the place of probes, which nobody would read.
            Phase::Instrumented(_) | Phase::Counted(_) => {
                flags.compile("-fno-pseudo-probe-for-profiling");
            }
            Phase::Baseline | Phase::Profiled(_) => {}
        }
    }
    add_extras(&mut flags, extras);
    let compile = flags.compile.join(" ");
    let link = flags.link.join(" ");
    let through_linker = options.linker_compiles_rust(build).then_some(link.as_str());
    let rust = rust_flags(tools, phase, extras, options.inline_by_benefit, through_linker);
    // With full link-time optimisation rustc hands the linker one module, optimised; with the thin
    // one of cargo it would leave it nothing to compile.
    let lto = if extras.fat_lto { "fat" } else { "off" };
    let cargo = through_linker.map(|_| (CARGO_LTO, lto.to_owned()));
    [
        ("PLANISH_CC", tools.cc.clone()),
        ("PLANISH_CXX", tools.cxx.clone()),
        ("PLANISH_LD", tools.ld.clone()),
        ("PLANISH_CFLAGS", compile.clone()),
        ("PLANISH_CXXFLAGS", compile),
        ("PLANISH_LDFLAGS", link),
        ("PLANISH_RUSTFLAGS", rust),
        ("PLANISH_OUT", out.to_owned()),
    ]
    .into_iter()
    .chain(cargo)
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

struct Flags {
    compile: Vec<String>,
    link: Vec<String>,
}

impl Flags {
    fn compile(&mut self, flags: &str) {
        self.compile.extend((!flags.is_empty()).then(|| flags.to_owned()));
    }

    fn link(&mut self, flags: &str) {
        self.link.extend((!flags.is_empty()).then(|| flags.to_owned()));
    }

    fn both(&mut self, flags: &str) {
        self.compile(flags);
        self.link(flags);
    }
}

fn add_profile(flags: &mut Flags, build: &Build, phase: Phase) {
    match (phase, build.compiler) {
        (Phase::Baseline, _) => {}
        (Phase::Profiled(path), compiler) => {
            let flag =
                if compiler == Compiler::Clang { "-fprofile-sample-use" } else { "-fauto-profile" };
            flags.compile(&format!("{flag}={path}"));
            if compiler == Compiler::Clang {
                // So that the debug information tells which files got the profile; gcc records its
                // flags by itself.
                flags.compile("-grecord-command-line");
                // With LTO functions are inlined across files at link time, and the profile is read
                // there once more. A project may turn LTO on by itself, and lld reads the file for
                // nothing else.
                flags.link(&format!("-Wl,--lto-sample-profile={path}"));
            }
        }
        (Phase::Instrumented(_), Compiler::Clang) => flags.both("-fprofile-generate"),
        (Phase::Counted(path), Compiler::Clang) => flags.both(&format!("-fprofile-use={path}")),
        // Each object counts into a file named after its path; with threads plain counters lose
        // counts.
        (Phase::Instrumented(folder), Compiler::Gcc) => {
            flags.both(&format!("-fprofile-generate={folder} -fprofile-update=prefer-atomic"));
        }
        // Code that never ran has no counters, and those of threads may not add up: neither is an
        // error.
        (Phase::Counted(path), Compiler::Gcc) => {
            flags.both(&format!("-fprofile-use={path} -fprofile-correction -Wno-missing-profile"));
        }
    }
}

/// LLVM's inliner does so by itself where a profile was instrumented, and with a sample profile only
/// where it is told (`llvm/lib/Analysis/InlineCost.cpp`, `isCostBenefitAnalysisEnabled`).
const INLINE_BY_BENEFIT: &str = "-inline-enable-cost-benefit-analysis";

/// The named options of `[optimize]`.
fn add_options(flags: &mut Flags, build: &Build, options: &Optimize) {
    if build.compiler == Compiler::Clang && options.ext_tsp {
        // Ext-TSP block placement: -3.6 % taken branches on SQLite against the default placement.
        // The compiler's own limit of blocks keeps compile time bounded; functions beyond
        // it are placed the old way.
        flags.compile("-mllvm -enable-ext-tsp-block-placement");
        flags.link("-Wl,-mllvm,-enable-ext-tsp-block-placement");
    }
    if build.compiler == Compiler::Clang && options.inline_by_benefit {
        flags.compile(&format!("-mllvm {INLINE_BY_BENEFIT}"));
        flags.link(&format!("-Wl,-mllvm,{INLINE_BY_BENEFIT}"));
    }
    // What the code generator is told by a function's attributes goes through LTO by itself; the
    // rest the linker must be told, too: also where only the project itself knows that it uses LTO,
    // since without LTO lld generates no code. clang hands these two on from the flags of the link.
    for (wanted, flag) in [
        (options.split_functions, "-fsplit-machine-functions"),
        (options.function_sections, "-ffunction-sections"),
    ] {
        if wanted {
            flags.compile(flag);
            flags.link(if build.compiler == Compiler::Clang { flag } else { "" });
        }
    }
    if options.group_text {
        flags.link("-Wl,-z,keep-text-section-prefix");
    }
    if let Some(bytes) = options.align_functions {
        flags.compile(&format!("-falign-functions={bytes}"));
    }
    if let Some(bytes) = options.align_loops {
        flags.compile(&format!("-falign-loops={bytes}"));
        if build.compiler == Compiler::Clang {
            flags.link(&format!("-Wl,-mllvm,-align-loops={bytes}"));
        }
    }
}

/// Layouts are for clang and lld alone. The compiler and the linker get the same: with LTO, which a
/// project may turn on by itself, the linker generates the code.
fn add_extras(flags: &mut Flags, extras: Extras) {
    if extras.address_map {
        flags.compile("-fbasic-block-address-map");
        flags.link("-Wl,--lto-basic-block-address-map");
    }
    if extras.relocations {
        flags.link("-Wl,--emit-relocs");
    }
    if extras.keeps_link {
        // lld moves sections; with LTO it makes one for each function by itself.
        flags.compile("-ffunction-sections");
        flags.link(&extras.named_lld.map(gnu_link::flags).unwrap_or_default());
    }
    if let Some((cc, ld)) = extras.layout {
        flags.link(&format!("-Wl,--lto-basic-block-sections={cc}"));
        // Names of functions that the linker removed are no reason for a warning each.
        flags.link(&format!("-Wl,--symbol-ordering-file={ld} -Wl,--no-warn-symbol-ordering"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Command, Compiler};
    use crate::pages::Pages;

    fn build(compiler: Compiler, thinlto: bool) -> Build {
        Build {
            command: Command::Line("make".into()),
            binary: "app".into(),
            release: None,
            libraries: Vec::new(),
            compiler,
            cc: None,
            cxx: None,
            optimize: "-O3".into(),
            flags: "-DX=1".into(),
            profiled_flags: "-Dfast".into(),
            thinlto,
            pages: Pages::Auto,
            sources: vec![],
        }
    }

    fn tools() -> Toolchain {
        Toolchain {
            cc: "clang-22".into(),
            cxx: "clang++-22".into(),
            ld: "ld.lld-22".into(),
            rust_takes_z: true,
            ..Toolchain::default()
        }
    }

    fn variables(
        build: &Build,
        tools: &Toolchain,
        phase: Phase,
        out: &str,
    ) -> BTreeMap<String, String> {
        super::variables(build, &Optimize::default(), tools, (phase, Extras::default()), out)
    }

    #[test]
    fn named_options_are_for_builds_with_a_profile() {
        let options = Optimize {
            ext_tsp: false,
            inline_by_benefit: false,
            split_functions: true,
            group_text: true,
            align_functions: Some(64),
            align_loops: Some(32),
            ..Optimize::default()
        };
        let flags = |thinlto, phase| {
            let build = build(Compiler::Clang, thinlto);
            super::variables(&build, &options, &tools(), (phase, Extras::default()), "o")
        };
        let named = "-fsplit-machine-functions -falign-functions=64 -falign-loops=32";
        let new = flags(false, Phase::Profiled("/p/a"));
        assert!(
            new["PLANISH_CFLAGS"].contains(named) && !new["PLANISH_CFLAGS"].contains("mllvm"),
            "{new:?}"
        );
        assert!(new["PLANISH_LDFLAGS"].contains("-Wl,-z,keep-text-section-prefix"), "{new:?}");
        assert!(!new["PLANISH_RUSTFLAGS"].contains("llvm-args"), "{new:?}");
        let usual =
            variables(&build(Compiler::Clang, false), &tools(), Phase::Profiled("/p/a"), "o");
        let option = "-inline-enable-cost-benefit-analysis";
        assert!(usual["PLANISH_CFLAGS"].contains(&format!("-mllvm {option}")), "{usual:?}");
        assert!(usual["PLANISH_LDFLAGS"].contains(&format!("-Wl,-mllvm,{option}")), "{usual:?}");
        let new = flags(true, Phase::Counted("/p/a"));
        assert!(new["PLANISH_CFLAGS"].contains(&format!("-fprofile-use=/p/a {named}")), "{new:?}");
        let link = &new["PLANISH_LDFLAGS"];
        assert!(
            link.contains("-fsplit-machine-functions") && link.contains("-mllvm,-align-loops=32"),
            "{link}"
        );
        let base = flags(false, Phase::Instrumented("/p"));
        assert!(
            !base["PLANISH_CFLAGS"].contains("align")
                && base["PLANISH_LDFLAGS"].contains("-fprofile-generate")
        );
    }

    #[test]
    fn a_layout_is_given_to_who_compiles() {
        let extras =
            Extras { address_map: true, layout: Some(("/p/cc", "/p/ld")), ..Extras::default() };
        let flags = |thinlto| {
            let build = build(Compiler::Clang, thinlto);
            super::variables(
                &build,
                &Optimize::default(),
                &tools(),
                (Phase::Profiled("/p/a"), extras),
                "o",
            )
        };
        let (plain, lto) = (flags(false), flags(true));
        let order = "-Wl,--symbol-ordering-file=/p/ld -Wl,--no-warn-symbol-ordering";
        assert!(!plain["PLANISH_LDFLAGS"].contains("-flto"), "{plain:?}");
        assert!(plain["PLANISH_CFLAGS"].contains("-fbasic-block-address-map"), "{plain:?}");
        // Also without thinlto: the project may turn LTO on by itself.
        for link in [&plain["PLANISH_LDFLAGS"], &lto["PLANISH_LDFLAGS"]] {
            for flag in
                ["-Wl,--lto-basic-block-sections=/p/cc", "-Wl,--lto-basic-block-address-map", order]
            {
                assert!(link.contains(flag), "{flag}: {link}");
            }
        }
    }

    #[test]
    fn the_linker_leaves_probes_out_of_code_that_is_laid_out() {
        let flags = |own: &str, phase, for_layout| {
            let build = Build { flags: own.into(), ..build(Compiler::Clang, false) };
            let extras = Extras { for_layout, ..Extras::default() };
            super::variables(&build, &Optimize::default(), &tools(), (phase, extras), "o")
        };
        let probes = "-O2 -fpseudo-probe-for-profiling";
        let profiled = Phase::Profiled("/p/a");
        let link = &flags(probes, profiled, true)["PLANISH_LDFLAGS"];
        assert!(link.contains("-Wl,-mllvm,-sample-profile-remove-probe"), "{link}");
        for (own, phase, for_layout) in [
            (probes, profiled, false),
            (probes, Phase::Baseline, true),
            (probes, Phase::Counted("/p/c"), true),
            ("-fpseudo-probe-for-profiling -fno-pseudo-probe-for-profiling", profiled, true),
            ("", profiled, true),
        ] {
            let kept = flags(own, phase, for_layout);
            assert!(!format!("{kept:?}").contains("remove-probe"), "{own}: {kept:?}");
        }
        let counted = flags(probes, Phase::Counted("/p/c"), true);
        assert!(counted["PLANISH_CFLAGS"].ends_with(" -fno-pseudo-probe-for-profiling"));
    }

    #[test]
    fn both_builds_have_the_same_debug_flags_and_only_one_the_profile() {
        let build = build(Compiler::Clang, false);
        let base = variables(&build, &tools(), Phase::Baseline, "o");
        let new = variables(&build, &tools(), Phase::Profiled("/p/app.afdo"), "o");
        assert!(new["PLANISH_CFLAGS"].starts_with(&base["PLANISH_CFLAGS"]), "{new:?}");
        assert!(new["PLANISH_CFLAGS"].contains("-fprofile-sample-use=/p/app.afdo"));
        assert!(
            !base["PLANISH_CFLAGS"].contains("-Dfast") && new["PLANISH_CFLAGS"].ends_with("-Dfast")
        );
        assert!(!base["PLANISH_LDFLAGS"].contains("sample-profile"));
        assert!(
            new["PLANISH_CFLAGS"].contains("-grecord-command-line"),
            "the files tell that they got it"
        );
    }

    #[test]
    fn rustc_keeps_linkage_names_and_symbols_in_all_builds() {
        let build = build(Compiler::Clang, false);
        let of = |phase| variables(&build, &tools(), phase, "o")["PLANISH_RUSTFLAGS"].clone();
        let base = of(Phase::Baseline);
        assert_eq!(base, "-Copt-level=3 -Cdebuginfo=1 -Cstrip=none -Zdebug-info-for-profiling");
        let remarks = "-Cremark=sample-profile -Zremark-dir=/p/app.afdo.remarks";
        let inlines = "-Cllvm-args=-inline-enable-cost-benefit-analysis";
        let profiled = format!("{base} -Zprofile-sample-use=/p/app.afdo {remarks} {inlines}");
        assert_eq!(of(Phase::Profiled("/p/app.afdo")), profiled);
        assert_eq!(of(Phase::Instrumented("/p")), format!("{base} -Cprofile-generate=/p"));
        let extras = Extras { relocations: true, ..Extras::default() };
        let bolt = rust_flags(&tools(), Phase::Baseline, extras, true, None);
        assert_eq!(bolt, format!("{base} -Clink-arg=-Wl,--emit-relocs"));
        assert_eq!(of(Phase::Counted("/p/c")), format!("{base} -Cprofile-use=/p/c"));
    }

    #[test]
    fn the_linker_gets_the_profile_too_whoever_turned_lto_on() {
        for thinlto in [false, true] {
            let build = build(Compiler::Clang, thinlto);
            let link =
                &variables(&build, &tools(), Phase::Profiled("/p/a"), "o")["PLANISH_LDFLAGS"];
            assert_eq!(link.contains("-flto=thin"), thinlto, "{link}");
            assert!(link.contains("-Wl,--lto-sample-profile=/p/a"), "{link}");
        }
    }

    #[test]
    fn gcc_gets_its_own_words() {
        let new =
            variables(&build(Compiler::Gcc, false), &tools(), Phase::Profiled("/p/a.gcov"), "o");
        assert!(new["PLANISH_CFLAGS"].contains("-fauto-profile=/p/a.gcov"), "{new:?}");
        assert!(!new["PLANISH_CFLAGS"].contains("-grecord-command-line"), "{new:?}");
        let of = |phase| {
            variables(&build(Compiler::Gcc, false), &tools(), phase, "o")["PLANISH_LDFLAGS"].clone()
        };
        assert!(
            of(Phase::Instrumented("/p/pgo"))
                .contains("-fprofile-generate=/p/pgo -fprofile-update=")
        );
        assert!(of(Phase::Counted("/p/pgo")).contains("-fprofile-use=/p/pgo "));
        assert!(
            !new["PLANISH_CFLAGS"].contains("mllvm") && !new["PLANISH_LDFLAGS"].contains("lld"),
            "{new:?}"
        );
    }

    #[test]
    fn a_layout_reaches_code_of_rustc_through_the_linker() {
        let options = Optimize {
            steps: vec![crate::optimization::Stage::Autofdo, crate::optimization::Stage::Propeller],
            ..Optimize::default()
        };
        let of = |compiler, phase| {
            let extras =
                Extras { address_map: true, layout: Some(("/l/c", "/l/o")), ..Extras::default() };
            let build = build(compiler, false);
            super::variables(&build, &options, &tools(), (phase, extras), "o")
        };
        let relink = of(Compiler::Clang, Phase::Profiled("/p/a"));
        let flags = &relink["PLANISH_RUSTFLAGS"];
        for wanted in [
            "-Clinker-plugin-lto",
            "-Clinker=clang-22",
            "-Clink-arg=-fuse-ld=lld",
            "-Clink-arg=-Wl,--lto-sample-profile=/p/a",
            "-Clink-arg=-Wl,--lto-basic-block-address-map",
            "-Clink-arg=-Wl,--lto-basic-block-sections=/l/c",
            "-Clink-arg=-Wl,--symbol-ordering-file=/l/o",
        ] {
            assert!(flags.contains(wanted), "{wanted}: {flags}");
        }
        assert!(flags.ends_with("-Clink-arg=-O3"), "{flags}");
        assert_eq!(relink["CARGO_PROFILE_RELEASE_LTO"], "off");
        // rustc links counters of its own.
        let counted = of(Compiler::Clang, Phase::Instrumented("/p"));
        assert!(!counted["PLANISH_RUSTFLAGS"].contains("-Clink-arg=-fprofile"), "{counted:?}");
        let gcc = of(Compiler::Gcc, Phase::Profiled("/p/a"));
        assert!(
            !gcc["PLANISH_RUSTFLAGS"].contains("-Clink")
                && !gcc.contains_key("CARGO_PROFILE_RELEASE_LTO")
        );
    }
}
