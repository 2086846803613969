//! Do the flags reach the objects that they should, in real trees? A prepared tree is configured
//! small, three objects are compiled by the kernel's own make, without and with a profile, and
//! their commands looked at; then objects of each kind for arm64. Needs whole trees in `PLANISH_KERNEL_TREES` (directories, separated by
//! colons), clang-22, lld-22, make, flex, bison, bc and libelf.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use kernel::Architecture;
use kernel::check::{AreaFound, check};
use kernel::command::Area;
use kernel::prepare::{Standing, standing};
use kernel::requirements::Purpose;
use kernel::tree::Tree;
use kernel::{workload, write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const OBJECTS: [&str; 3] =
    ["kernel/sched/core.o", "arch/x86/entry/vdso/vclock_gettime.o", "arch/x86/boot/string.o"];
/// An object of vmlinux, and of areas of arm64 that have no flags; the vDSO is made on the way.
const ARM64_OBJECTS: [&str; 3] = [
    "kernel/softirq.o",
    "arch/arm64/kernel/pi/kaslr_early.o",
    "arch/arm64/kvm/hyp/nvhe/timer-sr.nvhe.o",
];

fn lack() -> Option<&'static str> {
    let missing = |tool: &&str| {
        Command::new(tool)
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .is_err()
    };
    ["clang-22", "ld.lld-22", "llvm-nm-22", "make", "flex", "bison", "bc"]
        .into_iter()
        .find(missing)
        .or_else(|| (!Path::new("/usr/include/libelf.h").exists()).then_some("libelf.h"))
}

/// Runs make for an architecture in a tree; gives what it printed on standard error.
fn make_for(architecture: Architecture, tree: &Path, build: &Path, words: &[&str]) -> String {
    let mut make = Command::new("make");
    make.arg("-C").arg(tree).arg(format!("O={}", build.display()));
    make.args(["LLVM=-22", "-j2"])
        .arg(format!("ARCH={}", architecture.make_word()))
        .args(words)
        .stdin(Stdio::null())
        .env("LC_ALL", "C");
    let output = make.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success(),
        "{words:?}: {}{said}",
        String::from_utf8_lossy(&output.stdout)
    );
    said
}

fn make(tree: &Path, build: &Path, words: &[&str]) -> String {
    make_for(Architecture::X86_64, tree, build, words)
}

/// The tree again, prepared; files are shared with the first by links, which preparing replaces and
/// does not write to.
fn prepared(tree: &Path, copy: &Path) {
    assert!(Command::new("cp").arg("-al").arg(tree).arg(copy).status().unwrap().success());
    match standing(&Tree::open(copy).unwrap()).unwrap() {
        Standing::Plain { prepare } => write::write(copy, &prepare).unwrap(),
        Standing::Prepared { .. } => {}
        other => panic!("{}: {other:?}", tree.display()),
    }
}

fn flags(areas: &[AreaFound], area: Area) -> Vec<String> {
    areas
        .iter()
        .find(|found| found.area == area)
        .unwrap_or_else(|| panic!("no {area:?}"))
        .example
        .1
        .clone()
}

fn objects_of(tree: &Path) {
    // Links need one file system.
    let dir = tempfile::tempdir_in(tree.parent().unwrap()).unwrap();
    let (copy, build) = (dir.path().join("tree"), dir.path().join("build"));
    prepared(tree, &copy);
    std::fs::create_dir(&build).unwrap();
    let all = dir.path().join("all.config");
    std::fs::write(&all, workload::small_config(Purpose::Both, Architecture::X86_64)).unwrap();
    make(&copy, &build, &[&format!("KCONFIG_ALLCONFIG={}", all.display()), "allnoconfig"]);
    let config = kernel::config::Config::read(&build.join(".config")).unwrap();
    let unmet: Vec<_> = kernel::requirements::unmet(&config, Purpose::Both)
        .iter()
        .map(|needed| needed.option)
        .collect();
    assert!(unmet.is_empty(), "{}: {unmet:?}", tree.display());

    let said = make(&copy, &build, &OBJECTS);
    assert!(!said.contains("warning"), "{}: {said}", tree.display());
    let found = check(&build).unwrap();
    assert!(found.wrong.is_empty(), "{}: {:?}", tree.display(), found.wrong);
    let hot = flags(&found.areas, Area::Kernel);
    for flag in ["-fdebug-info-for-profiling", "-fbasic-block-address-map", "-gmlt"] {
        assert!(hot.iter().any(|it| it == flag), "{}: no {flag} in {hot:?}", tree.display());
    }
    for area in [Area::Vdso, Area::Boot] {
        assert_eq!(flags(&found.areas, area), [""; 0], "{}: {area:?}", tree.display());
    }

    // A profile for one object, by planish's own variables; the other stays as it is.
    let profile = dir.path().join("made-up.afdo");
    std::fs::write(&profile, "schedule:100:10\n 1: 100\nwake_up_process:50:10\n 1: 50\n").unwrap();
    let list = dir.path().join("objects");
    std::fs::write(&list, "kernel/sched/core.o\n").unwrap();
    let variables = [
        format!("CLANG_AUTOFDO_PROFILE={}", profile.display()),
        format!("CLANG_AUTOFDO_OBJECTS={}", list.display()),
        "CLANG_AUTOFDO_ROUND=1".to_owned(),
    ];
    let words: Vec<&str> = variables
        .iter()
        .map(String::as_str)
        .chain(["kernel/sched/core.o", "kernel/softirq.o"])
        .collect();
    let said = make(&copy, &build, &words);
    assert!(!said.contains("warning"), "{}: {said}", tree.display());
    let command = |object: &str| std::fs::read_to_string(build.join(object)).unwrap();
    let with = command("kernel/sched/.core.o.cmd");
    for flag in [
        "-fprofile-sample-use=",
        "-disable-layout-fsprofile-loader=true",
        "-enable-ext-tsp-block-placement=true",
    ] {
        assert!(with.contains(flag), "{}: no {flag} in {with}", tree.display());
    }
    assert!(!command("kernel/.softirq.o.cmd").contains("-fprofile-sample-use="));
    arm64_objects_of(&copy, dir.path());
}

/// The same of a prepared tree, configured for arm64 with KVM.
fn arm64_objects_of(tree: &Path, folder: &Path) {
    let make = |build: &Path, words: &[&str]| make_for(Architecture::Arm64, tree, build, words);
    let build = folder.join("arm64");
    std::fs::create_dir(&build).unwrap();
    let all = folder.join("arm64.config");
    let small = workload::small_config(Purpose::Both, Architecture::Arm64);
    std::fs::write(&all, small + "CONFIG_VIRTUALIZATION=y\nCONFIG_KVM=y\n").unwrap();
    make(&build, &[&format!("KCONFIG_ALLCONFIG={}", all.display()), "allnoconfig"]);
    let config = kernel::config::Config::read(&build.join(".config")).unwrap();
    assert_eq!(Architecture::of_config(&config), Some(Architecture::Arm64));
    assert!(config.is_on("KVM") && config.is_on("SERIAL_AMBA_PL011_CONSOLE"));
    let unmet = kernel::requirements::unmet(&config, Purpose::Both);
    assert!(unmet.is_empty(), "{}: {unmet:?}", tree.display());

    let said = make(&build, &ARM64_OBJECTS);
    assert!(!said.contains("warning"), "{}: {said}", tree.display());
    let found = check(&build).unwrap();
    assert!(found.wrong.is_empty(), "{}: {:?}", tree.display(), found.wrong);
    let own = flags(&found.areas, Area::Kernel);
    for flag in ["-fdebug-info-for-profiling", "-fbasic-block-address-map", "-gmlt"] {
        assert!(own.iter().any(|it| it == flag), "{}: no {flag} in {own:?}", tree.display());
    }
    for area in [Area::Vdso, Area::EarlyCode, Area::Hypervisor] {
        assert_eq!(flags(&found.areas, area), [""; 0], "{}: {area:?}", tree.display());
    }
}

#[test]
fn flags_reach_the_kernel_and_nothing_else() {
    let named = std::env::var("PLANISH_KERNEL_TREES").unwrap_or_default();
    let trees: Vec<PathBuf> =
        named.split(':').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    if trees.is_empty() {
        return eprintln!(
            "skipped: objects of prepared trees; name whole kernel trees in PLANISH_KERNEL_TREES"
        );
    }
    if let Some(lack) = lack() {
        return eprintln!("skipped: objects of prepared trees; {lack} is not there");
    }
    trees.iter().for_each(|tree| objects_of(tree));
}
