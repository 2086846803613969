//! Where do branch stacks come from? What may be asked for, and the one rule of `auto`.

use crate::{elf, live, plugin, software};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;

/// Where branch stacks come from, as somebody asks for it (`--branches`, `branches` in
/// planish.toml).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Branches {
    /// Whatever suits the machine: [`automatic`].
    #[default]
    Auto,
    /// The CPU's branch records (LBR, BRS, BRBE), or an error.
    Hardware,
    /// qemu-user with planish's plugin.
    Emulated,
    /// Looking ahead from stops of the native program.
    Software,
    /// None: plain samples.
    None,
}

impl Branches {
    /// The word for `--branches=`.
    pub fn word(self) -> &'static str {
        match self {
            Branches::Auto => "auto",
            Branches::Hardware => "hardware",
            Branches::Emulated => "emulated",
            Branches::Software => "software",
            Branches::None => "none",
        }
    }
}

/// Which branch stacks can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    /// The kernel gives those of the CPU.
    pub hardware: bool,
    /// Threads can be stopped, and the interpreter knows their machine.
    pub software: bool,
    /// The emulator and its plugin are here.
    pub emulation: bool,
}

impl Offered {
    /// What this machine offers to native programs.
    pub fn natively() -> Offered {
        let hardware = live::has_hardware_branches();
        Offered { hardware, software: !hardware && software::probe().is_ok(), emulation: false }
    }

    /// What it offers to a command whose CPU records no branches.
    pub fn without_hardware(argv: &[OsString]) -> Offered {
        let found = elf::program(argv, None)
            .and_then(|program| plugin::emulator(program.machine))
            .and_then(|_| plugin::plugin(None));
        Offered { hardware: false, software: software::probe().is_ok(), emulation: found.is_ok() }
    }
}

/// When `auto` takes emulation, whose stacks are exact and take 5 to 25 times as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emulation {
    /// Somebody waits.
    Never,
    /// Where nothing else can be had.
    Last,
    /// Before software stacks: the program is short, and nobody waits.
    BeforeSoftware,
}

/// What `auto` means: the CPU's branch records, else software stacks, else none; emulation where it
/// is allowed.
pub fn automatic(offered: Offered, emulation: Emulation) -> Branches {
    let hardware = (offered.hardware, Branches::Hardware);
    let software = (offered.software, Branches::Software);
    let emulated = (offered.emulation, Branches::Emulated);
    let order: &[(bool, Branches)] = match emulation {
        Emulation::Never => &[hardware, software],
        Emulation::Last => &[hardware, software, emulated],
        Emulation::BeforeSoftware => &[hardware, emulated, software],
    };
    order.iter().find(|(here, _)| *here).map_or(Branches::None, |(_, branches)| *branches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_comes_first_and_emulation_only_where_it_is_allowed() {
        use Emulation::{BeforeSoftware, Last, Never};
        let chosen = |hardware, software, emulation, allowed| {
            automatic(Offered { hardware, software, emulation }, allowed)
        };
        for allowed in [Never, Last, BeforeSoftware] {
            assert_eq!(chosen(true, true, true, allowed), Branches::Hardware);
            assert_eq!(chosen(false, true, false, allowed), Branches::Software);
            assert_eq!(chosen(false, false, false, allowed), Branches::None);
        }
        assert_eq!(chosen(false, true, true, Last), Branches::Software);
        assert_eq!(chosen(false, true, true, BeforeSoftware), Branches::Emulated);
        assert_eq!(chosen(false, false, true, Last), Branches::Emulated);
        assert_eq!(chosen(false, false, true, Never), Branches::None);
    }
}
