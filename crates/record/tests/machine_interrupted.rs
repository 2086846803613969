//! A recording of a machine that is interrupted leaves neither a file nor a machine.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test")]

mod support;

use record::Error;
use record::kernel::{KernelOptions, record};
use record::machine::{Board, Execution, Failure, Guest};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use support::{compile, has};

/// Processes whose command names a file.
fn processes_with(file: &Path) -> usize {
    let names = |entry: std::io::Result<std::fs::DirEntry>| {
        let command = std::fs::read(entry.unwrap().path().join("cmdline")).unwrap_or_default();
        command.split(|byte| *byte == 0).any(|word| word == file.as_os_str().as_bytes())
    };
    std::fs::read_dir("/proc")
        .unwrap()
        .filter(|entry| entry.is_ok())
        .filter_map(|entry| names(entry).then_some(()))
        .count()
}

#[test]
fn a_signal_ends_the_machine_and_leaves_no_file() {
    if !has("qemu-system-x86_64") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let link = "-Wl,--image-base=0x200000,-Ttext=0x201000,--build-id=none";
    let flags = ["-m32", "-nostdlib", "-static", "-fuse-ld=lld", link, "-DHANGS"];
    let Some(kernel) = compile(dir.path(), "machine.S", &flags) else { return };
    let guest = Guest {
        board: Board::Pc,
        kernel: kernel.clone(),
        initrd: None,
        memory_mib: 64,
        cpus: 1,
        append: String::new(),
        execution: Execution::Emulated,
    };
    let mut running = 0;
    let mut interrupt = |line: &str| {
        if line.starts_with("planish: result") {
            running = processes_with(&kernel);
            let own = std::process::id().to_string();
            assert!(Command::new("kill").args(["-TERM", &own]).status().unwrap().success());
        }
    };
    let output = dir.path().join("perf.data");
    let options = KernelOptions { period: 10, ..KernelOptions::default() };
    let error =
        record(&guest.argv(), &output, &options, &mut |line, _| interrupt(line)).unwrap_err();
    assert!(matches!(&error, Error::Machine { failure: Failure::Interrupted, .. }), "{error}");
    assert_eq!((running, processes_with(&kernel)), (1, 0));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "only the kernel stays");
}
