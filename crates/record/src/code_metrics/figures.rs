//! The metrics themselves, their derived shares, and what has to be said about them.

use qemu_branches::geometry::Geometry;
use serde::{Deserialize, Serialize};
use std::ops::Deref;

/// What code costs the instruction side of a simulated core: of a program, or of a kernel in a
/// section of its run. The plugin counts all but the distinct lines and pages, which are counted
/// from its list of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Instructions executed, of a program in user mode, of a machine in its kernel. A repeated
    /// string instruction counts once; what a fault breaks off counts to the end of its block.
    pub instructions: u64,
    /// Branch instructions executed, taken or not: conditional and unconditional jumps, calls,
    /// returns.
    pub branches: u64,
    /// Branches taken: those after which another than the next instruction ran.
    pub taken_branches: u64,
    /// Conditional branches executed.
    pub conditional_branches: u64,
    /// Conditional branches taken.
    pub conditional_taken: u64,
    /// Misses of the first-level instruction cache, in lines.
    pub l1i_misses: u64,
    /// Those of them that miss in the second level too. It sees no data, so this is a lower bound.
    pub l2_misses: u64,
    /// Misses of the instruction translation buffer with pages of 4 KiB.
    pub itlb_4k_misses: u64,
    /// Misses of the instruction translation buffer if all code lay on pages of 2 MiB.
    pub itlb_2m_misses: u64,
    /// Distinct cache lines (of the first level's line size) with executed code.
    #[serde(default)]
    pub code_lines: u64,
    /// Distinct pages of 4 KiB with executed code.
    #[serde(default)]
    pub code_pages_4k: u64,
    /// Distinct pages of 2 MiB with executed code.
    #[serde(default)]
    pub code_pages_2m: u64,
    /// Loads and stores; 0 where no data was simulated, as with the two below.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub data_accesses: u64,
    /// Misses of the first-level data cache, in lines.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub l1d_misses: u64,
    /// Misses of the data translation buffer with pages of 4 KiB.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dtlb_4k_misses: u64,
    /// Places where the flow broke off without a branch: signal handlers, interrupts and faults,
    /// entered or left.
    pub interruptions: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Counters {
    /// Adds the counts of another process; its lines and pages may be the same ones.
    pub(super) fn add(&mut self, other: &Counters) {
        let parts = [
            (&mut self.instructions, other.instructions),
            (&mut self.branches, other.branches),
            (&mut self.taken_branches, other.taken_branches),
            (&mut self.conditional_branches, other.conditional_branches),
            (&mut self.conditional_taken, other.conditional_taken),
            (&mut self.l1i_misses, other.l1i_misses),
            (&mut self.l2_misses, other.l2_misses),
            (&mut self.itlb_4k_misses, other.itlb_4k_misses),
            (&mut self.itlb_2m_misses, other.itlb_2m_misses),
            (&mut self.data_accesses, other.data_accesses),
            (&mut self.l1d_misses, other.l1d_misses),
            (&mut self.dtlb_4k_misses, other.dtlb_4k_misses),
            (&mut self.interruptions, other.interruptions),
        ];
        for (sum, part) in parts {
            *sum = sum.saturating_add(part);
        }
    }

    /// The counts, in the order of a report; less of each is better.
    pub fn figures(&self) -> Vec<Figure> {
        [
            ("instructions", "instructions", self.instructions),
            ("taken branches", "taken_branches", self.taken_branches),
            ("L1i misses", "l1i_misses", self.l1i_misses),
            ("L2 misses (code)", "l2_misses", self.l2_misses),
            ("iTLB misses, 4 KiB", "itlb_4k_misses", self.itlb_4k_misses),
            ("iTLB misses, 2 MiB", "itlb_2m_misses", self.itlb_2m_misses),
            ("code lines touched", "code_lines", self.code_lines),
            ("code pages touched, 4 KiB", "code_pages_4k", self.code_pages_4k),
            ("code pages touched, 2 MiB", "code_pages_2m", self.code_pages_2m),
        ]
        .map(|(name, key, value)| Figure {
            name,
            key,
            unit: "",
            value: value as f64,
            better: Better::Lower,
        })
        .into()
    }
}

/// Layout metrics of one run. Sums over all threads and over forked processes, except where a field
/// says otherwise. Nothing in here depends on time, so two runs compare equal when
/// [`CodeMetrics::deterministic`] holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeMetrics {
    /// The counts.
    #[serde(flatten)]
    pub counters: Counters,
    /// Threads that ran, over all processes.
    pub threads: u64,
    /// Processes that ran under emulation: the program and what it forked.
    pub processes: u64,
    /// Programs that the program started; they ran natively, and nothing of them is counted.
    pub native_programs: u64,
    /// One process, one thread and no interruption: another run gives the same numbers, unless the
    /// program asks for the time, random numbers or its process number. With several threads
    /// the numbers vary from run to run.
    pub deterministic: bool,
    /// The simulated caches.
    #[serde(with = "geometry")]
    pub geometry: Geometry,
    /// The emulated architecture, as uname names it.
    pub architecture: String,
    /// The emulated CPU, as asked for.
    pub cpu: String,
    /// The emulator and its version.
    pub emulator: String,
}

/// Which direction of a figure is the better one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
}

/// One number for a table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figure {
    /// What it is, for a reader.
    pub name: &'static str,
    /// A key for JSON: the field or method of [`CodeMetrics`].
    pub key: &'static str,
    /// Its unit: empty for a count, `%` for a share.
    pub unit: &'static str,
    /// The number; shares in per cent.
    pub value: f64,
    /// Which direction is better.
    pub better: Better,
}

/// Part of a whole; none of nothing.
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Deref for CodeMetrics {
    type Target = Counters;

    fn deref(&self) -> &Counters {
        &self.counters
    }
}

impl CodeMetrics {
    /// Share of all executed branches that were taken, 0 to 1; none without branches.
    pub fn taken_share(&self) -> Option<f64> {
        share(self.taken_branches, self.branches)
    }

    /// Share of the executed conditional branches that were taken, 0 to 1; none without any.
    pub fn conditional_taken_share(&self) -> Option<f64> {
        share(self.conditional_taken, self.conditional_branches)
    }

    /// Share of all executed branches after which the next instruction in memory ran, 0 to 1; none
    /// without branches.
    pub fn fall_through_share(&self) -> Option<f64> {
        share(self.branches.saturating_sub(self.taken_branches), self.branches)
    }

    /// A count per 1000 instructions, as misses are usually given; none without instructions.
    pub fn per_thousand_instructions(&self, count: u64) -> Option<f64> {
        share(count, self.instructions).map(|per_instruction| per_instruction * 1000.0)
    }

    /// All numbers, in the order of a report.
    pub fn figures(&self) -> Vec<Figure> {
        let percent = |name, key, value: Option<f64>, better| {
            Some(Figure { name, key, unit: "%", value: value? * 100.0, better })
        };
        let taken = percent(
            "conditional taken share",
            "conditional_taken_share",
            self.conditional_taken_share(),
            Better::Lower,
        );
        let through = percent(
            "fall-through share",
            "fall_through_share",
            self.fall_through_share(),
            Better::Higher,
        );
        let mut figures = self.counters.figures();
        // Behind the taken branches, which they are shares of.
        figures.splice(2..2, taken.into_iter().chain(through));
        figures
    }

    /// Sentences that a report must print beside the numbers; none for a plain single-threaded
    /// program.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.threads > self.processes {
            remarks.push(format!(
                "{} threads ran: the layout metrics are sums over their simulated cores, and vary \
                 from run to run",
                self.threads
            ));
        }
        if self.processes > 1 {
            remarks.push(format!(
                "{} processes ran: the layout metrics are their sums",
                self.processes
            ));
        }
        if self.native_programs > 0 {
            remarks.push(format!(
                "the program started {} other program{}, of which the layout metrics show nothing",
                self.native_programs,
                if self.native_programs == 1 { "" } else { "s" }
            ));
        }
        if self.interruptions > 0 {
            let often = match self.interruptions {
                1 => "once".to_owned(),
                number => format!("{number} times"),
            };
            remarks.push(format!(
                "signals or faults broke the flow {often}; where they fall may vary from run to \
                 run"
            ));
        }
        remarks
    }
}

/// The geometry in JSON: each part as the text that options take.
mod geometry {
    use super::{Deserialize, Geometry, Serialize};
    use serde::de::Error as _;
    use serde::{Deserializer, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Text {
        l1i: String,
        l2: String,
        itlb4k: String,
        itlb2m: String,
    }

    pub fn serialize<S: Serializer>(geometry: &Geometry, to: S) -> Result<S::Ok, S::Error> {
        let text = Text {
            l1i: geometry.l1i.to_string(),
            l2: geometry.l2.to_string(),
            itlb4k: geometry.itlb_4k.to_string(),
            itlb2m: geometry.itlb_2m.to_string(),
        };
        text.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Geometry, D::Error> {
        let text = Text::deserialize(from)?;
        let mut geometry = Geometry::default();
        let parts = [
            ("l1i", &text.l1i),
            ("l2", &text.l2),
            ("itlb4k", &text.itlb4k),
            ("itlb2m", &text.itlb2m),
        ];
        for (name, value) in parts {
            geometry.set(name, value).map_err(D::Error::custom)?;
        }
        geometry.check().map_err(D::Error::custom)?;
        Ok(geometry)
    }
}
