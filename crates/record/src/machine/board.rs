//! Which machine does qemu emulate, and how is it asked for?

use std::ffi::OsStr;
use std::path::Path;

/// A machine that qemu knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Board {
    /// A PC of 64 bit.
    #[default]
    Pc,
    /// qemu's own Arm machine of 64 bit, `virt`.
    ArmVirt,
}

impl Board {
    const ALL: [Board; 2] = [Board::Pc, Board::ArmVirt];

    /// qemu's program for it.
    pub fn emulator(self) -> &'static str {
        match self {
            Board::Pc => "qemu-system-x86_64",
            Board::ArmVirt => "qemu-system-aarch64",
        }
    }

    /// The Debian package that has this program.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Board::Pc => "qemu-system-x86",
            Board::ArmVirt => "qemu-system-arm",
        }
    }

    /// Its processor, as the kernel names it to programs (`uname -m`).
    pub fn processor(self) -> &'static str {
        match self {
            Board::Pc => "x86_64",
            Board::ArmVirt => "aarch64",
        }
    }

    /// The machine whose program a command begins with, if it is one of these.
    pub fn of_emulator(program: &OsStr) -> Option<Board> {
        let name = Path::new(program).file_name()?;
        Board::ALL.into_iter().find(|board| name == board.emulator())
    }

    /// qemu's words that choose it.
    pub(super) fn words(self) -> &'static [&'static str] {
        match self {
            // What the program begins with by itself.
            Board::Pc => &[],
            Board::ArmVirt => &["-M", "virt"],
        }
    }

    /// What `-cpu` gets for all that the emulator can do.
    pub(super) fn emulated_cpu(self) -> &'static str {
        match self {
            Board::Pc => "max",
            // The usual signatures of pointers take an emulator most of its time.
            Board::ArmVirt => "max,pauth-impdef=on",
        }
    }

    /// What the kernel is told: where its console is, to end the machine when it panics, and to
    /// trust its clock.
    pub(super) fn kernel_words(self) -> &'static str {
        match self {
            Board::Pc => "console=ttyS0 quiet panic=-1 tsc=reliable",
            Board::ArmVirt => "console=ttyAMA0 quiet panic=-1",
        }
    }

    /// What it is told besides where its clock follows the host's.
    pub(super) fn host_clock_words(self) -> &'static str {
        match self {
            // Where the host is busy, the kernel sees too few ticks in a check of its timer and
            // panics.
            Board::Pc => " no_timer_check",
            Board::ArmVirt => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_tells_its_machine() {
        let of = |program: &str| Board::of_emulator(OsStr::new(program));
        assert_eq!(of("qemu-system-aarch64"), Some(Board::ArmVirt));
        assert_eq!(of("/opt/bin/qemu-system-x86_64"), Some(Board::Pc));
        assert_eq!([of("qemu-system-arm"), of("sh"), of("")], [None; 3]);
    }
}
