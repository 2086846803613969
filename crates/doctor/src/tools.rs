//! Which compilers, linkers and helpers are installed, in which version, and what does each really
//! accept?
//!
//! A flag counts as supported when the compiler compiles an empty function with it without a word.
//! Linkers are asked for their help text, since linking needs more than a linker. All are asked
//! from a neutral directory: what the one they are asked about names or holds is not run.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use programs::{Surroundings, is_program};

use crate::Finding;

/// What was found, and whether `--branches=emulated` works.
pub struct Tools {
    /// What was looked at.
    pub findings: Vec<Finding>,
    /// qemu with plugin support and our plugin are both there.
    pub can_emulate: bool,
}

/// A thing a compiler may support: its name for people, and the flags that are tried.
type Feature = (&'static str, &'static [&'static str]);

const CLANG_FEATURES: &[Feature] = &[
    ("sample profiles", &["-O2", "-fdebug-info-for-profiling", "-funique-internal-linkage-names"]),
    ("block address maps", &["-O2", "-fbasic-block-address-map"]),
    ("function splitting", &["-O2", "-fsplit-machine-functions"]),
    ("flow-sensitive discriminators", &["-O2", "-mllvm", "-enable-fs-discriminator=true"]),
    ("ThinLTO", &["-O2", "-flto=thin"]),
];

const GCC_FEATURES: &[Feature] =
    &[("block partition", &["-O2", "-freorder-blocks-and-partition"]), ("LTO", &["-O2", "-flto"])];

/// Ordering options by the linkers that know them, and the name people use.
const LINKER_FEATURES: &[(&str, &str)] = &[
    ("symbol-ordering-file", "symbol order"),
    ("section-ordering-file", "section order"),
    ("call-graph-profile-sort", "call graph sort"),
    ("bp-startup-sort", "startup order"),
];

/// Looks at everything, side by side: most of the time is spent starting programs.
pub fn examine() -> Tools {
    let looks: [fn(&Surroundings) -> Finding; 6] = [clang, gcc, rust, linkers, profile_tools, perf];
    let plugin = record::plugin(None).ok();
    let around = &Surroundings::here();
    let (mut findings, emulator) = jobs::beside(looks, |look| look(around), || emulator(around));
    let can_emulate = emulator.is_some() && plugin.is_some();
    findings.push(emulation(around, emulator, plugin));
    findings.extend(left_out(around));
    Tools { findings, can_emulate }
}

/// The entries of PATH in which nothing was looked for.
fn left_out(around: &Surroundings) -> Option<Finding> {
    let entries: Vec<String> = around.left_out().iter().map(ToString::to_string).collect();
    if entries.is_empty() {
        return None;
    }
    Some(Finding::limited(
        "PATH",
        format!("nothing was looked for in {}", entries.join(", ")),
        "look from another directory, with absolute entries; what a directory holds is not run to \
         look at it",
    ))
}

/// `NAME-23` down to `NAME-MIN`, then plain `NAME`: the newest first, as distributions name them.
fn newest(
    around: &Surroundings,
    name: &str,
    versions: std::ops::RangeInclusive<u32>,
) -> Option<PathBuf> {
    let numbered = versions.rev().find_map(|version| around.find(&format!("{name}-{version}")));
    numbered.or_else(|| around.find(name))
}

/// Standard output and standard error of a run without input; `None` when the program does not
/// start.
fn output_of(around: &Surroundings, program: &Path, arguments: &[&str]) -> Option<String> {
    let output = around.ask(program).args(arguments).output().ok()?;
    Some(
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr),
    )
}

/// The first word of the version text that looks like a version number.
fn version_in(text: &str) -> Option<&str> {
    let numbered =
        |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    text.split(|c: char| c.is_whitespace() || "()-+~,".contains(c)).find(numbered)
}

/// `name version`, as the lines of the report show a tool.
fn describe(around: &Surroundings, program: &Path) -> String {
    let name =
        program.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let text = output_of(around, program, &["--version"]).unwrap_or_default();
    match version_in(&text) {
        Some(version) => format!("{name} {version}"),
        None => format!("{name} (no version found)"),
    }
}

/// Whether the compiler takes these flags without an error or a warning.
fn compiles(around: &Surroundings, compiler: &Path, flags: &[&str]) -> bool {
    let child = around
        .ask(compiler)
        .args(flags)
        // To standard output and not to /dev/null: a compiler that fails removes its output file,
        // and root's does.
        .args(["-Werror", "-x", "c", "-S", "-o", "-", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return false };
    if let Some(mut input) = child.stdin.take() {
        // A compiler that dislikes the flags closes its input early; its exit status is the answer.
        let _ = input.write_all(b"int planish_probe(int x) { return x + 1; }\n");
    }
    child.wait().is_ok_and(|status| status.success())
}

/// The names of the supported features, then those that are not.
fn sort_features(
    around: &Surroundings,
    compiler: &Path,
    features: &[Feature],
) -> (Vec<&'static str>, Vec<&'static str>) {
    let try_out = |(_, flags): &Feature| compiles(around, compiler, flags);
    let (answers, ()) = jobs::beside(features, try_out, || ());
    let pick = |wanted: bool| {
        let paired = features.iter().zip(&answers);
        paired.filter(|(_, answer)| **answer == wanted).map(|((name, _), _)| *name).collect()
    };
    (pick(true), pick(false))
}

fn clang(around: &Surroundings) -> Finding {
    let subject = "clang";
    let Some(clang) = newest(around, "clang", 17..=23) else {
        let found = if around.find("gcc").is_some() {
            "not installed; gcc alone is there"
        } else {
            "not installed"
        };
        return Finding::missing(
            subject,
            found,
            "apt-get install clang-22 lld-22 llvm-22 (or make setup)",
        );
    };
    let name = describe(around, &clang);
    let (has, lacks) = sort_features(around, &clang, CLANG_FEATURES);
    if !has.contains(&"sample profiles") {
        let next = "a clang of version 17 or newer (apt-get install clang-22), and the C headers \
                    (libc6-dev)";
        return Finding::missing(
            subject,
            format!("{name} does not compile with the profiling flags"),
            next,
        );
    }
    let found = format!("{name}: {}", has.join(", "));
    if lacks.is_empty() {
        return Finding::good(subject, found);
    }
    Finding::limited(
        subject,
        format!("{found}; not: {}", lacks.join(", ")),
        "clang 20 or newer has them all",
    )
}

fn gcc(around: &Surroundings) -> Finding {
    let subject = "gcc";
    let Some(gcc) = newest(around, "gcc", 12..=17)
        .filter(|_| around.find("gcc").is_none())
        .or_else(|| around.find("gcc"))
    else {
        return Finding::limited(
            subject,
            "not installed",
            "apt-get install gcc, only for programs built with gcc",
        );
    };
    let name = describe(around, &gcc);
    // GCC lists the option only when it was configured with it; reading needs a profile, which is
    // not at hand.
    let auto = output_of(around, &gcc, &["-Q", "--help=common"])
        .is_some_and(|text| text.contains("-fauto-profile"));
    let (has, _) = sort_features(around, &gcc, GCC_FEATURES);
    let mut features = has;
    if auto {
        features.insert(0, "sample profiles (-fauto-profile)");
        return Finding::good(subject, format!("{name}: {}", features.join(", ")));
    }
    Finding::limited(
        subject,
        format!("{name} without -fauto-profile"),
        "a gcc configured with auto-profile",
    )
}

fn rust(around: &Surroundings) -> Finding {
    let subject = "rustc";
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo/bin/rustc"));
    let Some(rustc) = around.find("rustc").or_else(|| home().filter(|path| is_program(path)))
    else {
        return Finding::limited(
            subject,
            "not installed",
            "only for programs written in Rust: rustup, or make setup",
        );
    };
    let name = describe(around, &rustc);
    let text = output_of(around, &rustc, &["-vV"]).unwrap_or_default();
    let llvm =
        text.lines().find_map(|line| line.strip_prefix("LLVM version: ")).unwrap_or("unknown");
    let found = format!("{name} with LLVM {llvm}");
    // Whoever knows the switch may use it with a stable compiler.
    if output_of(around, &rustc, &["-Zhelp"])
        .is_some_and(|help| help.contains("profile-sample-use"))
    {
        return Finding::good(subject, format!("{found}: -Zprofile-sample-use"));
    }
    Finding::limited(
        subject,
        format!("{found}: sample profiles are a nightly option"),
        "a nightly compiler with -Zprofile-sample-use, or RUSTC_BOOTSTRAP=1 in the build command, which --cargo and init set; \
         needed only for programs written in Rust",
    )
}

fn linkers(around: &Surroundings) -> Finding {
    let subject = "linkers";
    let mut described = Vec::new();
    let mut orders = false;
    let lld = newest(around, "ld.lld", 17..=23);
    let others = ["mold", "ld.gold", "ld.bfd"].into_iter().filter_map(|name| around.find(name));
    for linker in lld.iter().cloned().chain(others) {
        let help = output_of(around, &linker, &["--help"]).unwrap_or_default();
        let known = LINKER_FEATURES
            .iter()
            .filter(|(option, _)| help.contains(option))
            .map(|(_, name)| *name);
        let known: Vec<&str> = known.collect();
        orders |= !known.is_empty();
        let features =
            if known.is_empty() { "no order files".to_owned() } else { known.join(", ") };
        described.push(format!("{} ({features})", describe(around, &linker)));
    }
    let found = if described.is_empty() { "none found".to_owned() } else { described.join("; ") };
    if lld.is_some() && orders {
        return Finding::good(subject, found);
    }
    Finding::limited(subject, found, "apt-get install lld-22: orders functions after a profile")
}

fn profile_tools(around: &Surroundings) -> Finding {
    let subject = "LLVM profile tools";
    let tools: Vec<PathBuf> = ["llvm-profdata", "llvm-profgen", "llvm-readelf"]
        .iter()
        .filter_map(|name| newest(around, name, 17..=23))
        .collect();
    let found = tools.iter().map(|tool| describe(around, tool)).collect::<Vec<_>>().join(", ");
    if tools.len() == 3 {
        return Finding::good(subject, found);
    }
    let found = if found.is_empty() { "none".into() } else { format!("only {found}") };
    Finding::limited(
        subject,
        found,
        "apt-get install llvm-22; planish itself does without, tests and bench use them",
    )
}

fn perf(around: &Surroundings) -> Finding {
    let subject = "perf";
    match around.find("perf") {
        Some(perf) => Finding::good(subject, describe(around, &perf)),
        None => Finding::limited(
            subject,
            "not installed",
            "apt-get install linux-perf, to record elsewhere than with planish record; not needed \
             otherwise",
        ),
    }
}

/// A qemu-user that takes plugins, for this machine's instruction set.
fn emulator(around: &Surroundings) -> Option<PathBuf> {
    let qemu = around.find(&format!("qemu-{}", env::consts::ARCH))?;
    output_of(around, &qemu, &["--help"])?.contains("-plugin").then_some(qemu)
}

fn emulation(around: &Surroundings, emulator: Option<PathBuf>, plugin: Option<PathBuf>) -> Finding {
    let subject = "emulated branch stacks";
    match (emulator, plugin) {
        (Some(qemu), Some(_)) => {
            Finding::good(subject, format!("{} and the plugin", describe(around, &qemu)))
        }
        (Some(qemu), None) => Finding::limited(
            subject,
            format!(
                "{} is there, the plugin libplanish_qemu_branches.so is not",
                describe(around, &qemu)
            ),
            "make build puts it beside planish; an installed planish wants it in ../lib/planish",
        ),
        (None, _) => Finding::limited(
            subject,
            format!("no qemu-{} with plugin support", env::consts::ARCH),
            "apt-get install qemu-user (7.2 or newer)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_every_tools_words() {
        assert_eq!(version_in("Debian clang version 22.1.8 (1~deb12u1)"), Some("22.1.8"));
        assert_eq!(version_in("gcc (Debian 12.2.0-14+deb12u1) 12.2.0"), Some("12.2.0"));
        assert_eq!(version_in("rustc 1.96.0 (abc 2026-05-25)"), Some("1.96.0"));
        assert_eq!(version_in("qemu-x86_64 version 7.2.22 (Debian 1:7.2+dfsg-7)"), Some("7.2.22"));
        assert_eq!(version_in("mold 1.10.1 (compatible with GNU ld)"), Some("1.10.1"));
        assert_eq!(version_in("nothing here"), None);
    }

    #[test]
    fn a_flag_no_compiler_knows_is_not_supported() {
        let around = &Surroundings::here();
        let Some(compiler) = newest(around, "clang", 17..=23).or_else(|| around.find("gcc")) else {
            eprintln!("skipped: no C compiler");
            return;
        };
        assert!(compiles(around, &compiler, &["-O2"]));
        assert!(!compiles(around, &compiler, &["-fno-such-flag-exists"]));
    }
}
