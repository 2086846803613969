//! The qemu command of a machine that boots a kernel of its own.

use super::board::Board;
use std::ffi::OsString;
use std::path::PathBuf;

/// What executes a guest's instructions, and what its clock follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Execution {
    /// qemu's emulator. The clock follows the host's.
    Emulated,
    /// The emulator, and the same run each time: time is counted in executed instructions and
    /// begins at a fixed date, what qemu draws at random comes from a seed, and the kernel lies
    /// where it was linked. Takes three to four times as long. With one CPU only: of several,
    /// nothing says that they take turns at the same places.
    Deterministic,
    /// The host's CPU, through KVM. A plugin sees nothing of such a guest.
    Kvm {
        /// What qemu's `-cpu` gets: `host` for a CPU that can do what the host's can.
        cpu: String,
    },
}

/// A machine with a serial console on qemu's standard output, no disk and no network.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Which machine.
    pub board: Board,
    /// The kernel's boot image (`arch/x86/boot/bzImage`, `arch/arm64/boot/Image`).
    pub kernel: PathBuf,
    /// The archive that becomes the root file system.
    pub initrd: Option<PathBuf>,
    /// Memory, in MiB.
    pub memory_mib: u32,
    /// CPUs, at least 1. qemu runs each on a thread of its own, but takes turns on one where time
    /// is counted in instructions.
    pub cpus: u8,
    /// What is added to the kernel's command line.
    pub append: String,
    /// What executes its instructions.
    pub execution: Execution,
}

impl Guest {
    /// The command with another name for the initrd, to be shown.
    pub fn argv_with_initrd(&self, name: &str) -> Vec<OsString> {
        Guest { initrd: Some(name.into()), ..self.clone() }.argv()
    }

    /// The command, qemu's program first. The kernel ends the machine when it panics, and trusts
    /// its clock.
    pub fn argv(&self) -> Vec<OsString> {
        let memory = self.memory_mib.to_string();
        let (accelerator, cpu) = match &self.execution {
            Execution::Kvm { cpu } => ("kvm", cpu.as_str()),
            Execution::Emulated | Execution::Deterministic => ("tcg", self.board.emulated_cpu()),
        };
        let mut argv = vec![OsString::from(self.board.emulator())];
        argv.extend(self.board.words().iter().map(OsString::from));
        argv.extend(["-accel", accelerator, "-cpu", cpu, "-m", &memory].map(OsString::from));
        argv.extend(
            ["-nodefaults", "-nographic", "-no-reboot", "-serial", "stdio"].map(OsString::from),
        );
        argv.extend(["-monitor", "none", "-smp", &self.cpus.to_string()].map(OsString::from));
        let mut append = self.board.kernel_words().to_owned();
        if self.execution == Execution::Deterministic {
            let fixed =
                ["-icount", "shift=0,sleep=off", "-seed", "1", "-rtc", "base=2024-01-01,clock=vm"];
            argv.extend(fixed.map(OsString::from));
            append.push_str(" nokaslr");
        } else {
            append.push_str(self.board.host_clock_words());
        }
        argv.extend(["-kernel".into(), self.kernel.clone().into_os_string()]);
        if let Some(initrd) = &self.initrd {
            argv.extend(["-initrd".into(), initrd.clone().into_os_string()]);
        }
        if !self.append.is_empty() {
            append.push(' ');
            append.push_str(&self.append);
        }
        argv.extend(["-append".into(), append.into()]);
        argv
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deterministic_machine_has_a_fixed_clock_and_seed_and_no_random_addresses() {
        let mut guest = Guest {
            board: Board::Pc,
            kernel: "bzImage".into(),
            initrd: Some("init.cpio".into()),
            memory_mib: 512,
            cpus: 1,
            append: "mitigations=off".into(),
            execution: Execution::Deterministic,
        };
        let shown =
            |guest: &Guest| guest.argv().join(std::ffi::OsStr::new(" ")).into_string().unwrap();
        let text = shown(&guest);
        for part in [
            "-smp 1 ",
            "-icount shift=0,sleep=off",
            "-seed 1",
            "-rtc base=2024-01-01,clock=vm",
            "-initrd init.cpio",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(
            text.ends_with(
                "-append console=ttyS0 quiet panic=-1 tsc=reliable nokaslr mitigations=off"
            ),
            "{text}"
        );
        (guest.execution, guest.initrd, guest.cpus) = (Execution::Emulated, None, 4);
        guest.append.clear();
        let text = shown(&guest);
        assert!(
            text.ends_with(
                "-kernel bzImage -append console=ttyS0 quiet panic=-1 tsc=reliable no_timer_check"
            ),
            "{text}"
        );
        assert!(!text.contains("icount") && text.contains(" -accel tcg -cpu max -m "), "{text}");
        assert!(text.contains(" -smp 4 "), "{text}");
        guest.board = Board::ArmVirt;
        let text = shown(&guest);
        let cpu = "qemu-system-aarch64 -M virt -accel tcg -cpu max,pauth-impdef=on -m 512 ";
        assert!(text.starts_with(cpu), "{text}");
        assert!(text.ends_with("-append console=ttyAMA0 quiet panic=-1"), "{text}");
        guest.execution = Execution::Deterministic;
        assert!(shown(&guest).ends_with(" panic=-1 nokaslr"));
    }

    #[test]
    fn a_machine_on_the_hosts_cpu_counts_no_instructions() {
        let guest = Guest {
            board: Board::Pc,
            kernel: "bzImage".into(),
            initrd: None,
            memory_mib: 512,
            cpus: 1,
            append: String::new(),
            execution: Execution::Kvm { cpu: "host".to_owned() },
        };
        let text = guest.argv().join(std::ffi::OsStr::new(" ")).into_string().unwrap();
        assert!(text.starts_with("qemu-system-x86_64 -accel kvm -cpu host -m 512 "), "{text}");
        assert!(
            !["icount", "tcg", "nokaslr", "-seed"].iter().any(|word| text.contains(word)),
            "{text}"
        );
    }
}
