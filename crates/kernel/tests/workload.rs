//! Does the workload compile with the compilers there are, run, say what the console reader reads,
//! and lie in an archive that another program reads?

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

mod said;

use kernel::Architecture;
use kernel::config::Config;
use kernel::workload::{self, SMALL_CONFIG, SOURCES};
use said::Said;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Whether the program starts.
fn is_there(program: &str) -> bool {
    let started =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    started.is_ok_and(|status| status.success())
}

/// The workload by this compiler; `None`, with the reason said, where a compiler or the static
/// library is missing.
fn program(compiler: &str) -> Option<Vec<u8>> {
    if cfg!(not(target_arch = "x86_64")) {
        eprintln!("skipped: the workload is for x86-64");
        return None;
    }
    if !is_there(compiler) {
        eprintln!("skipped: {compiler} is not installed");
        return None;
    }
    match workload::program(Architecture::X86_64, Some(OsStr::new(compiler))) {
        Ok(bytes) => Some(bytes),
        Err(kernel::Error::Workload { said, .. })
            if ["cannot find -l", "unable to find library", "file not found", "No such file"]
                .iter()
                .any(|lack| said.contains(lack)) =>
        {
            eprintln!("skipped: no C library to link statically: {said}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The program as a file that can be run.
fn placed(directory: &Path, bytes: &[u8]) -> PathBuf {
    let path = directory.join("init");
    std::fs::write(&path, bytes).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

/// What a run in a temporary directory says, and whether it ended well.
fn run(program: &Path, settings: &[(&str, &str)]) -> (Said, bool, String) {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    command.arg("--here").env("TMPDIR", scratch.path()).stdin(Stdio::null());
    for name in ["PLANISH_SECTIONS", "PLANISH_LOAD", "PLANISH_ROUNDS"] {
        command.env_remove(name);
    }
    let output = command.envs(settings.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "it leaves nothing behind");
    (Said::read(&text), output.status.success(), text)
}

/// Number and name of each section of the table in the sources.
fn table() -> Vec<(u32, String)> {
    let (_, text) = SOURCES.iter().find(|(name, _)| *name == "sections.h").unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("SECTION("));
    rows.map(|row| {
        let mut fields = row.split(", ");
        (fields.next().unwrap().parse().unwrap(), fields.next().unwrap().to_owned())
    })
    .collect()
}

#[test]
fn every_section_succeeds_as_a_program_twice_and_by_each_compiler() {
    for compiler in ["clang-22", "gcc"] {
        let Some(bytes) = program(compiler) else { continue };
        let scratch = tempfile::tempdir().unwrap();
        let path = placed(scratch.path(), &bytes);
        for _ in 0..2 {
            let (said, well, text) = run(&path, &[("PLANISH_ROUNDS", "1")]);
            assert!(said.complete() && well, "{compiler}: {text}");
            let names: BTreeSet<_> = said.sections().map(|section| &section.name).collect();
            let (skipped, others): (Vec<_>, Vec<_>) =
                said.others.iter().partition(|line| line.starts_with("planish: skipped "));
            let sections = skipped.iter().filter(|line| line.contains("no loopback")).count();
            assert_eq!((names.len() + sections, others), (table().len(), Vec::new()), "{text}");
            assert!(said.index(false) > Some(0) && said.index(true) > Some(0), "{text}");
        }
    }
}

#[test]
fn sections_and_loads_are_chosen_by_the_environment() {
    let Some(bytes) = program("cc") else { return };
    let scratch = tempfile::tempdir().unwrap();
    let path = placed(scratch.path(), &bytes);
    let names = |settings: &[(&str, &str)]| {
        let (said, well, text) = run(&path, &[settings, &[("PLANISH_ROUNDS", "1")]].concat());
        assert!(well && said.ended(), "{text}");
        said.sections().map(|section| section.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&[("PLANISH_SECTIONS", "epoll,allocate")]), ["epoll", "allocate"]);
    let pipes = "pipe_latency,pipe_ring,pipe_stream";
    assert_eq!(
        names(&[("PLANISH_SECTIONS", pipes), ("PLANISH_LOAD", "low")]),
        ["pipe_latency", "pipe_stream"]
    );
    assert_eq!(
        names(&[("PLANISH_SECTIONS", pipes), ("PLANISH_LOAD", "high")]),
        ["pipe_ring", "pipe_stream"]
    );
    let (held, _, text) = run(&path, &[("PLANISH_SECTIONS", "held"), ("PLANISH_ROUNDS", "1")]);
    assert!(held.complete() && held.sections().all(|section| section.held_out), "{text}");
    assert!(held.index(false).is_none() && held.index(true).is_some());
}

#[test]
fn a_check_that_does_not_hold_fails_its_section_only() {
    let Some(bytes) = program("cc") else { return };
    let scratch = tempfile::tempdir().unwrap();
    let path = placed(scratch.path(), &bytes);
    // Too few descriptors for the 128 of this section, and enough for the other.
    let script =
        format!("ulimit -n 40; PLANISH_SECTIONS=epoll,directory exec '{}' --here", path.display());
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let said = Said::read(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(1));
    assert!(said.ended() && !said.complete());
    assert_eq!(said.sections().count(), 2, "the other section runs too");
    let epoll = said.sections().find(|section| section.name == "epoll").unwrap();
    let [(number, why)] = said.failures()[..] else { panic!("{:?}", said.statements) };
    assert_eq!(number, epoll.number);
    assert!(why.starts_with("train_event.c, line "), "{why}");
}

#[test]
fn every_section_has_its_marker_in_the_program_once() {
    for compiler in ["clang-22", "gcc"] {
        let Some(bytes) = program(compiler) else { continue };
        let count = |number: u32| {
            let mut marker = vec![0x0f, 0x1f, 0x84, 0x00];
            marker.extend_from_slice(&(0x504c_0000 + number).to_le_bytes());
            bytes.windows(marker.len()).filter(|window| *window == marker).count()
        };
        assert_eq!(count(0), 1, "{compiler}: the end of a section");
        // commands.c has markers of its own, twenty to train with and twenty held out.
        let of_command = |number| usize::from(matches!(number, 1..=20 | 101..=120));
        for (number, name) in table() {
            assert_eq!(count(number), 1 + of_command(number), "{compiler}: {name}");
        }
        assert_eq!(count(99), 0);
    }
}

#[test]
fn the_table_numbers_training_and_held_out_sections_apart() {
    let table = table();
    let numbers: BTreeSet<_> = table.iter().map(|(number, _)| *number).collect();
    let names: BTreeSet<_> = table.iter().map(|(_, name)| name).collect();
    assert_eq!((numbers.len(), names.len()), (table.len(), table.len()));
    assert!(numbers.iter().all(|number| matches!(number, 1..=99 | 101..=199)));
    let of = |prefix: &str| {
        let files = SOURCES.iter().filter(|(name, _)| name.starts_with(prefix));
        files.map(|(_, text)| *text).collect::<String>()
    };
    for (number, name) in &table {
        let (own, other) = if *number < 100 { ("train_", "held_") } else { ("held_", "train_") };
        let body = format!("bool section_{name}(struct run *run)");
        assert!(
            of(own).contains(&body) && !of(other).contains(&body),
            "{name} stands in a file {own}*.c"
        );
    }
}

#[test]
fn the_document_lists_every_section_with_its_number() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/kernel.md");
    let text = std::fs::read_to_string(document).unwrap();
    for (number, name) in table() {
        let row =
            text.lines().find(|line| line.starts_with('|') && line.contains(&format!("`{name}`")));
        let numbers =
            row.unwrap_or_else(|| panic!("{name} is not in {document}")).split('|').nth(1).unwrap();
        let mut ends = numbers.split([',', ' ']).filter_map(|word| word.parse::<u32>().ok());
        let first = ends.next().unwrap();
        let last = ends.next_back().unwrap_or(first);
        assert!((first..=last).contains(&number), "{name} is {number}, {document} says {numbers}");
    }
}

#[test]
fn the_archive_is_read_by_cpio_and_the_same_each_time() {
    if program("cc").is_none() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let compiler = Some(OsStr::new("cc"));
    let path =
        workload::build(Architecture::X86_64, compiler, &scratch.path().join("new")).unwrap();
    assert_eq!(path, scratch.path().join("new/initrd.cpio"));
    let bytes = std::fs::read(&path).unwrap();
    let again =
        workload::build(Architecture::X86_64, compiler, &scratch.path().join("new")).unwrap();
    assert_eq!(std::fs::read(again).unwrap(), bytes);
    assert_eq!(std::fs::read_dir(scratch.path().join("new")).unwrap().count(), 1);
    if !is_there("cpio") {
        eprintln!("skipped: cpio is not installed");
        return;
    }
    let cpio = |words: &[&str]| {
        let file = std::fs::File::open(&path).unwrap();
        let mut command = Command::new("cpio");
        let output = command
            .args(words)
            .current_dir(&scratch)
            .stdin(file)
            .env("LC_ALL", "C")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let listed = cpio(&["-t", "--quiet"]);
    assert_eq!(
        listed.lines().collect::<Vec<_>>(),
        ["dev", "proc", "sys", "tmp", "dev/console", "dev/null", "init"]
    );
    let listing = cpio(&["-tvn", "--quiet"]);
    let line =
        |name: &str| listing.lines().find(|line| line.ends_with(&format!(" {name}"))).unwrap();
    assert!(
        line("dev/console").starts_with("crw-------") && line("dev/console").contains("5,   1")
    );
    assert!(line("dev/null").contains("1,   3"), "{listing}");
    assert!(line("init").starts_with("-rwxr-xr-x"));
    cpio(&["-i", "--quiet", "init"]);
    assert_eq!(
        std::fs::read(scratch.path().join("init")).unwrap(),
        workload::program(Architecture::X86_64, compiler).unwrap()
    );
}

/// Whether the workload for arm64 compiles here, and its sections succeed, emulated.
#[test]
fn the_workload_for_arm64_runs_and_has_its_own_markers() {
    let lacks = ["unable to find", "file not found", "cannot open", "No such file", "cannot find"];
    let bytes = match workload::program(Architecture::Arm64, None) {
        Ok(bytes) => bytes,
        Err(kernel::Error::Workload { said, .. }) if lacks.iter().any(|l| said.contains(l)) => {
            return eprintln!("skipped: no C library for arm64 to link statically: {said}");
        }
        Err(kernel::Error::NoCompiler { tried }) => {
            return eprintln!("skipped: no compiler for arm64: {tried}");
        }
        Err(error) => panic!("{error}"),
    };
    // movk xzr, #0x4c00 + N, lsl #48, for the first section and for none.
    for word in [0xf2e9_803f_u32, 0xf2e9_801f] {
        assert!(bytes.chunks_exact(4).any(|at| at == word.to_le_bytes()), "no {word:x}");
    }
    if !is_there("qemu-aarch64") {
        return eprintln!("skipped: qemu-aarch64 is not installed");
    }
    let scratch = tempfile::tempdir().unwrap();
    let program = placed(scratch.path(), &bytes);
    let mut command = Command::new("qemu-aarch64");
    command.arg(program).arg("--here").env("TMPDIR", scratch.path()).stdin(Stdio::null());
    command.env("PLANISH_SECTIONS", "syscall,thread").env("PLANISH_ROUNDS", "10");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = Said::read(&text);
    assert!(output.status.success() && said.failures().is_empty(), "{text}");
    assert_eq!(said.sections().count(), 2, "{text}");
}

#[test]
fn a_missing_compiler_and_one_that_fails_are_told_with_what_to_do() {
    let scratch = tempfile::tempdir().unwrap();
    let missing =
        workload::build(Architecture::X86_64, Some(OsStr::new("no-such-compiler")), scratch.path())
            .unwrap_err();
    assert!(
        missing.to_string().contains("no-such-compiler not found; install clang or gcc"),
        "{missing}"
    );
    let failing = workload::build(Architecture::X86_64, Some(OsStr::new("false")), scratch.path())
        .unwrap_err();
    assert!(failing.to_string().contains("libc6-dev"), "{failing}");
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn the_small_configuration_is_a_configuration_and_has_what_the_workload_needs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("small.config");
    std::fs::write(&path, SMALL_CONFIG).unwrap();
    let config = Config::read(&path).unwrap();
    for option in [
        "INET",
        "UNIX",
        "TMPFS",
        "EPOLL",
        "FUTEX",
        "PERF_EVENTS",
        "SERIAL_8250_CONSOLE",
        "SERIAL_AMBA_PL011_CONSOLE",
        "SMP",
    ] {
        assert!(config.is_on(option), "{option}");
    }
    assert!(!config.is_on("MODULES") && !config.is_on("BLOCK"));
}
