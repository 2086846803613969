//! Does a kernel boot into the workload, and does every section succeed there?
//!
//! Needs a kernel image that has what `kernel/small.config` asks for, named by
//! `PLANISH_KERNEL_IMAGE`, and qemu.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

mod said;

use kernel::workload;
use said::Said;
use std::process::{Command, Stdio};

#[test]
fn a_kernel_boots_into_the_workload_and_every_section_succeeds() {
    let Some(image) = std::env::var_os("PLANISH_KERNEL_IMAGE") else {
        eprintln!("skipped: PLANISH_KERNEL_IMAGE names no kernel to boot");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let initrd = workload::build(None, directory.path()).unwrap();
    for (processors, settings) in
        [("1", ""), ("2", ""), ("1", "PLANISH_SECTIONS=held PLANISH_ROUNDS=10")]
    {
        let mut command = Command::new("qemu-system-x86_64");
        command.args("-accel tcg -cpu max -m 512 -nodefaults -nographic -no-reboot".split(' '));
        command.args(["-serial", "stdio", "-monitor", "none", "-smp", processors, "-kernel"]);
        command.arg(&image).arg("-initrd").arg(&initrd).arg("-append");
        command.arg(format!(
            "console=ttyS0 quiet mitigations=off panic=-1 nokaslr tsc=reliable {settings}"
        ));
        let output = match command.stdin(Stdio::null()).output() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("skipped: qemu-system-x86_64 is not installed");
                return;
            }
            output => output.unwrap(),
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = Said::read(&text);
        assert!(output.status.success() && said.complete(), "{text}");
        assert!(said.others.is_empty() && said.failures().is_empty(), "{:?}", said.others);
        assert!(
            text.contains("planish-text ffffffff") && text.contains("planish-notes 0"),
            "{text}"
        );
        assert_eq!(said.index(false).is_none(), settings.contains("held"));
        assert!(
            said.sections().all(|section| section.held_out || !settings.contains("held")),
            "{text}"
        );
    }
}
