//! Options that command lines for `perf record` have: done where they mean something here, else
//! answered with a note.

use record::live::{Mode, Sampling};
use record::settings::{Registers, Wrong};
use std::str::FromStr;

/// Registers, or the question which there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// `?`
    Which,
    /// These.
    These(Registers),
}

impl FromStr for Asked {
    type Err = Wrong;
    fn from_str(text: &str) -> Result<Asked, Wrong> {
        match text {
            "?" => Ok(Asked::Which),
            // What -I says alone.
            "" => Ok(Asked::These(Registers::EVERY)),
            _ => text.parse().map(Asked::These),
        }
    }
}

impl Asked {
    /// The registers.
    pub fn registers(this: Option<Asked>) -> Registers {
        match this {
            Some(Asked::These(registers)) => registers,
            Some(Asked::Which) | None => Registers::default(),
        }
    }
}

/// Options with perf's spelling.
#[derive(Debug, clap::Args)]
pub struct PerfArgs {
    /// Record registers with each sample, the kernel's if the kernel was running: all, or
    /// `-I=ax,ip`; `-I=?` lists them
    #[arg(short = 'I', long, value_name = "REGISTERS", num_args = 0..=1, require_equals = true,
          default_missing_value = "")]
    pub intr_regs: Option<Asked>,
    /// Record the raw data of events that have some; that of tracepoints is always recorded
    #[arg(short = 'R', long)]
    pub raw_samples: bool,
    /// Record the CPU of each sample; with -a and -C it always is
    #[arg(long)]
    pub sample_cpu: bool,
    /// Count only user mode, whatever the modifiers of the events say
    #[arg(long, conflicts_with = "all_kernel")]
    pub all_user: bool,
    /// Count only the kernel, whatever the modifiers of the events say
    #[arg(long)]
    pub all_kernel: bool,
    /// Has no effect: planish keeps no cache of build IDs
    #[arg(short = 'N', long)]
    no_buildid_cache: bool,
    /// Has no effect: the kernel gives the build ID with each mapping, and it stays in the
    /// recording
    #[arg(short = 'B', long)]
    no_buildid: bool,
    /// Has no effect: the build IDs of all mappings are recorded anyway
    #[arg(long)]
    buildid_all: bool,
    /// Has no effect: build IDs are in the records of mappings anyway
    #[arg(long)]
    buildid_mmap: bool,
    /// Has no effect: samples always have a time
    #[arg(short = 'T', long)]
    timestamp: bool,
    /// Has no effect: samples always have a period
    #[arg(short = 'P', long = "period")]
    with_period: bool,
    /// Has no effect: samples always have their event's number
    #[arg(long)]
    sample_identifier: bool,
    /// Has no effect: separate threads write the file; --threads uses more of them
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "1",
          value_parser = clap::value_parser!(u8).range(1..))]
    aio: Option<u8>,
}

impl PerfArgs {
    /// Those given that only recordings by the kernel have.
    pub fn given(&self) -> [(bool, &'static str); 5] {
        [
            (self.intr_regs.is_some(), "--intr-regs"),
            (self.raw_samples, "-R"),
            (self.sample_cpu, "--sample-cpu"),
            (self.all_user, "--all-user"),
            (self.all_kernel, "--all-kernel"),
        ]
    }

    /// Puts them into a recording's settings.
    pub fn apply(&self, sampling: Sampling) -> Sampling {
        let only = if self.all_user {
            Some(Mode::User)
        } else if self.all_kernel {
            Some(Mode::Kernel)
        } else {
            None
        };
        Sampling {
            interrupt_registers: Asked::registers(self.intr_regs),
            raw: self.raw_samples,
            cpu: self.sample_cpu,
            only,
            ..sampling
        }
    }

    /// What is to be said of those that mean nothing here.
    pub fn notes(&self) -> Vec<String> {
        let given = [
            (self.no_buildid_cache, "-N", "planish keeps no cache of build IDs"),
            (
                self.no_buildid,
                "-B",
                "the kernel tells build IDs with each mapping, and they stay in the recording",
            ),
            (self.buildid_all, "--buildid-all", "build IDs of all mappings are recorded anyway"),
            (
                self.buildid_mmap,
                "--buildid-mmap",
                "build IDs are in the records of mappings anyway",
            ),
            (self.timestamp, "-T", "samples have their time anyway"),
            (self.with_period, "-P", "samples have their period anyway"),
            (
                self.sample_identifier,
                "--sample-identifier",
                "samples have their event's number anyway",
            ),
            (
                self.aio.is_some(),
                "--aio",
                "rings are emptied by threads of their own; --threads takes more of them",
            ),
        ];
        let given = given.into_iter().filter(|(given, _, _)| *given);
        given.map(|(_, option, why)| format!("{option} changes nothing: {why}")).collect()
    }
}
