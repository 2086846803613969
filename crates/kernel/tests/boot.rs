//! Does a kernel boot into the workload, and does every section succeed there?
//!
//! Needs a kernel image that has what `kernel/small.config` asks for, named by
//! `PLANISH_KERNEL_IMAGE`, for x86-64 or arm64, and qemu for that; `PLANISH_KERNEL_IMAGE_ARM64` names
//! another one.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]

mod said;

use kernel::machine::boot_image;
use kernel::workload;
use record::machine::{Execution, Guest};
use said::Said;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn a_kernel_boots_into_the_workload_and_every_section_succeeds() {
    boots("PLANISH_KERNEL_IMAGE");
}

#[test]
fn a_kernel_for_arm64_boots_into_the_workload_and_every_section_succeeds() {
    boots("PLANISH_KERNEL_IMAGE_ARM64");
}

/// Boots the kernel that a variable names.
fn boots(variable: &str) {
    let Some(image) = std::env::var_os(variable) else {
        eprintln!("skipped: {variable} names no kernel to boot");
        return;
    };
    let kernel = boot_image(Path::new(&image)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let initrd = workload::build(kernel.architecture, None, directory.path()).unwrap();
    for (cpus, settings) in [(1, ""), (2, ""), (1, "PLANISH_SECTIONS=held PLANISH_ROUNDS=10")] {
        let guest = Guest {
            board: kernel.architecture.board(),
            kernel: kernel.path.clone(),
            initrd: Some(initrd.clone()),
            memory_mib: 512,
            cpus,
            append: format!("mitigations=off nokaslr {settings}"),
            execution: Execution::Emulated,
        };
        let argv = guest.argv();
        let output = match Command::new(&argv[0]).args(&argv[1..]).stdin(Stdio::null()).output() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("skipped: {} is not installed", guest.board.emulator());
                return;
            }
            output => output.unwrap(),
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = Said::read(&text);
        assert!(output.status.success() && said.complete(), "{text}");
        assert!(said.others.is_empty() && said.failures().is_empty(), "{:?}", said.others);
        assert!(text.contains("planish-text ffff") && text.contains("planish-notes 0"), "{text}");
        assert_eq!(said.index(false).is_none(), settings.contains("held"));
        assert!(
            said.sections().all(|section| section.held_out || !settings.contains("held")),
            "{text}"
        );
    }
}
