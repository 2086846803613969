//! What samples are to carry, as the options say it: call graphs, branch filters, registers,
//! clocks, ring sizes.

use perfdata::branch_sample as branch;
use std::str::FromStr;

/// A value of an option that fits nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not {expected}")]
pub struct Wrong {
    /// As given.
    pub found: String,
    /// What fits.
    pub expected: String,
}

fn wrong(found: &str, expected: impl Into<String>) -> Wrong {
    Wrong { found: found.to_owned(), expected: expected.into() }
}

/// How the callers of a sample are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallGraph {
    /// The kernel follows frame pointers.
    FramePointers,
    /// The sample carries registers and so many bytes of stack, to be unwound later.
    Dwarf {
        /// A multiple of 8.
        stack_bytes: u32,
    },
    /// The CPU's call stack mode of its branch records.
    BranchRecords,
}

impl CallGraph {
    /// perf's own.
    const STACK_BYTES: u32 = 8192;
    /// A sample's size is a 16-bit number, and other fields need room too.
    pub const MOST_BYTES: u32 = 65528;
}

impl FromStr for CallGraph {
    type Err = Wrong;
    /// `fp`, `dwarf`, `dwarf,SIZE` or `lbr`, as perf's `--call-graph`.
    fn from_str(text: &str) -> Result<CallGraph, Wrong> {
        let expected =
            format!("fp, dwarf, dwarf,SIZE (8 to {} bytes) or lbr", CallGraph::MOST_BYTES);
        match text.split_once(',').map_or((text, None), |(how, size)| (how, Some(size))) {
            ("fp", None) => Ok(CallGraph::FramePointers),
            ("lbr", None) => Ok(CallGraph::BranchRecords),
            ("dwarf", None) => Ok(CallGraph::Dwarf { stack_bytes: CallGraph::STACK_BYTES }),
            ("dwarf", Some(size)) => {
                let size: Option<u32> = size.parse().ok();
                let size = size.filter(|size| (8..=CallGraph::MOST_BYTES).contains(size));
                // perf rounds up to eight bytes.
                let stack_bytes = size.ok_or_else(|| wrong(text, expected))?.next_multiple_of(8);
                Ok(CallGraph::Dwarf { stack_bytes })
            }
            _ => Err(wrong(text, expected)),
        }
    }
}

/// Which branches the CPU records: `branch_sample_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchFilter(pub u64);

impl BranchFilter {
    /// `-b`
    pub const ANY: BranchFilter = BranchFilter(branch::ANY);
    /// What `lbr` call graphs ask for.
    pub(crate) const CALL_STACK: u64 =
        branch::USER | branch::CALL_STACK | branch::NO_CYCLES | branch::NO_FLAGS | branch::HW_INDEX;
}

const BRANCH_WORDS: [(&str, u64); 20] = [
    ("u", branch::USER),
    ("k", branch::KERNEL),
    ("hv", branch::HV),
    ("any", branch::ANY),
    ("any_call", branch::ANY_CALL),
    ("any_ret", branch::ANY_RETURN),
    ("ind_call", branch::IND_CALL),
    ("abort_tx", branch::ABORT_TX),
    ("in_tx", branch::IN_TX),
    ("no_tx", branch::NO_TX),
    ("cond", branch::COND),
    ("ind_jmp", branch::IND_JUMP),
    ("call", branch::CALL),
    ("no_flags", branch::NO_FLAGS),
    ("no_cycles", branch::NO_CYCLES),
    ("save_type", branch::TYPE_SAVE),
    ("stack", branch::CALL_STACK),
    ("hw_index", branch::HW_INDEX),
    ("priv", branch::PRIV_SAVE),
    ("counter", branch::COUNTERS),
];

impl FromStr for BranchFilter {
    type Err = Wrong;
    /// Words of perf's `-j`, separated by commas.
    fn from_str(text: &str) -> Result<BranchFilter, Wrong> {
        let mut mask = 0;
        for word in text.split(',') {
            let found = BRANCH_WORDS.iter().find(|(known, _)| *known == word);
            let (_, bit) = found.ok_or_else(|| {
                let known: Vec<&str> = BRANCH_WORDS.iter().map(|(word, _)| *word).collect();
                wrong(word, format!("one of {}", known.join(", ")))
            })?;
            mask |= bit;
        }
        // As perf: privilege levels alone leave the choice of levels to the event.
        let levels = branch::USER | branch::KERNEL | branch::HV;
        Ok(BranchFilter(if mask & !levels == 0 { branch::ANY } else { mask }))
    }
}

/// Registers of each sample, by the kernel's numbering (`asm/perf_regs.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers(pub u64);

#[cfg(target_arch = "aarch64")]
const REGISTERS: [(&str, u32); 35] = [
    ("x0", 0),
    ("x1", 1),
    ("x2", 2),
    ("x3", 3),
    ("x4", 4),
    ("x5", 5),
    ("x6", 6),
    ("x7", 7),
    ("x8", 8),
    ("x9", 9),
    ("x10", 10),
    ("x11", 11),
    ("x12", 12),
    ("x13", 13),
    ("x14", 14),
    ("x15", 15),
    ("x16", 16),
    ("x17", 17),
    ("x18", 18),
    ("x19", 19),
    ("x20", 20),
    ("x21", 21),
    ("x22", 22),
    ("x23", 23),
    ("x24", 24),
    ("x25", 25),
    ("x26", 26),
    ("x27", 27),
    ("x28", 28),
    ("x29", 29),
    ("lr", 30),
    ("sp", 31),
    ("pc", 32),
    ("fp", 29),
    ("vg", 46),
];
#[cfg(target_arch = "aarch64")]
const MINIMAL: u64 = 1 << 31 | 1 << 32;
#[cfg(target_arch = "aarch64")]
const ALL: u64 = (1 << 33) - 1;

#[cfg(not(target_arch = "aarch64"))]
const REGISTERS: [(&str, u32); 20] = [
    ("ax", 0),
    ("bx", 1),
    ("cx", 2),
    ("dx", 3),
    ("si", 4),
    ("di", 5),
    ("bp", 6),
    ("sp", 7),
    ("ip", 8),
    ("flags", 9),
    ("cs", 10),
    ("ss", 11),
    ("r8", 16),
    ("r9", 17),
    ("r10", 18),
    ("r11", 19),
    ("r12", 20),
    ("r13", 21),
    ("r14", 22),
    ("r15", 23),
];
#[cfg(not(target_arch = "aarch64"))]
const MINIMAL: u64 = 1 << 7 | 1 << 8;
#[cfg(not(target_arch = "aarch64"))]
const ALL: u64 = 0xff_0fff;

impl Registers {
    /// What unwinding by DWARF needs at least: stack pointer and program counter.
    pub(crate) const MINIMAL: u64 = MINIMAL;
    /// All that user mode has.
    pub(crate) const ALL: u64 = ALL;
    /// Every one that has a name here.
    pub const EVERY: Registers = Registers(ALL);

    /// Their names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        REGISTERS.iter().map(|(name, _)| *name)
    }
}

impl FromStr for Registers {
    type Err = Wrong;
    /// Names separated by commas, as perf's `--user-regs`.
    fn from_str(text: &str) -> Result<Registers, Wrong> {
        let mut mask = 0;
        for word in text.split(',') {
            let lower = word.to_ascii_lowercase();
            let found = REGISTERS.iter().find(|(name, _)| *name == lower);
            let (_, bit) = found.ok_or_else(|| {
                let names: Vec<&str> = REGISTERS.iter().map(|(name, _)| *name).collect();
                wrong(word, format!("a register ({})", names.join(", ")))
            })?;
            mask |= 1 << bit;
        }
        Ok(Registers(mask))
    }
}

/// The clock of the samples' times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock(pub i32);

const CLOCKS: [(&str, i32); 10] = [
    ("realtime", libc::CLOCK_REALTIME),
    ("real", libc::CLOCK_REALTIME),
    ("monotonic", libc::CLOCK_MONOTONIC),
    ("mono", libc::CLOCK_MONOTONIC),
    ("monotonic_raw", libc::CLOCK_MONOTONIC_RAW),
    ("raw", libc::CLOCK_MONOTONIC_RAW),
    ("boottime", libc::CLOCK_BOOTTIME),
    ("boot", libc::CLOCK_BOOTTIME),
    ("tai", libc::CLOCK_TAI),
    ("clock_tai", libc::CLOCK_TAI),
];

impl FromStr for Clock {
    type Err = Wrong;
    /// A name, with or without `CLOCK_`, or a number.
    fn from_str(text: &str) -> Result<Clock, Wrong> {
        let lower = text.to_ascii_lowercase();
        let name = lower.strip_prefix("clock_").unwrap_or(&lower);
        let named = CLOCKS.iter().find(|(known, _)| *known == name).map(|(_, clock)| *clock);
        let number =
            || name.parse().ok().filter(|number| CLOCKS.iter().any(|(_, clock)| clock == number));
        named.or_else(number).map(Clock).ok_or_else(|| {
            wrong(text, "a clock: realtime, monotonic, monotonic_raw, boottime or tai")
        })
    }
}

/// Size of a ring, in pages of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPages(pub usize);

impl RingPages {
    /// The same in bytes.
    pub(crate) fn bytes(self) -> usize {
        self.0.saturating_mul(4096)
    }
}

/// Sizes of rings and of AUX areas, each where one is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingSizes {
    /// Of each ring.
    pub ring: Option<RingPages>,
    /// Of each AUX area.
    pub aux: Option<RingPages>,
}

impl FromStr for RingSizes {
    type Err = Wrong;
    /// `RING`, `RING,AUX` or `,AUX`, as perf's `-m`.
    fn from_str(text: &str) -> Result<RingSizes, Wrong> {
        let (ring, aux) =
            text.split_once(',').map_or((text, None), |(ring, aux)| (ring, Some(aux)));
        let ring = if ring.is_empty() && aux.is_some() { None } else { Some(ring.parse()?) };
        Ok(RingSizes { ring, aux: aux.map(str::parse).transpose()? })
    }
}

impl FromStr for RingPages {
    type Err = Wrong;
    /// A number of pages, which must be a power of two, or of bytes with B, K, M or G, which is
    /// rounded up to one.
    fn from_str(text: &str) -> Result<RingPages, Wrong> {
        let expected =
            || wrong(text, "a power of two (pages), or a size with B, K, M or G, up to 1G");
        let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
        let number: usize = digits.parse().map_err(|_| expected())?;
        let unit = match text.get(digits.len()..).unwrap_or_default() {
            "" if number.is_power_of_two() => 4096,
            "B" => 1,
            "K" | "k" => 1 << 10,
            "M" | "m" => 1 << 20,
            "G" | "g" => 1 << 30,
            _ => return Err(expected()),
        };
        let bytes = number
            .checked_mul(unit)
            .filter(|bytes| (1..=1 << 30).contains(bytes))
            .ok_or_else(expected)?;
        Ok(RingPages(bytes.div_ceil(4096).next_power_of_two()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_read_as_perf_reads_them() {
        assert_eq!("dwarf,4001".parse(), Ok(CallGraph::Dwarf { stack_bytes: 4008 }));
        assert_eq!("dwarf".parse(), Ok(CallGraph::Dwarf { stack_bytes: 8192 }));
        assert!("dwarf,0".parse::<CallGraph>().is_err() && "fp,1".parse::<CallGraph>().is_err());
        assert_eq!("any_call,u".parse(), Ok(BranchFilter(branch::ANY_CALL | branch::USER)));
        assert_eq!("u".parse(), Ok(BranchFilter::ANY));
        assert!("any,".parse::<BranchFilter>().is_err());
        assert_eq!("CLOCK_BOOTTIME".parse(), Ok(Clock(7)));
        assert_eq!("7".parse(), Ok(Clock(7)));
        assert!("2".parse::<Clock>().is_err());
        assert_eq!("64".parse(), Ok(RingPages(64)));
        assert_eq!("5M".parse(), Ok(RingPages(2048)));
        for wrong in ["3", "0", "M", "-1", "1T", "99999999999G", "2G"] {
            assert!(wrong.parse::<RingPages>().is_err(), "{wrong}");
        }
        let sizes = |text: &str| text.parse::<RingSizes>().map(|sizes| (sizes.ring, sizes.aux));
        assert_eq!(sizes("64"), Ok((Some(RingPages(64)), None)));
        assert_eq!(sizes(",4M"), Ok((None, Some(RingPages(1024)))));
        assert_eq!(sizes("1M,2"), Ok((Some(RingPages(256)), Some(RingPages(2)))));
        for wrong in ["", ",", "1,", "1,2,3", ",3"] {
            assert!(sizes(wrong).is_err(), "{wrong}");
        }
        assert!("ax,zz".parse::<Registers>().unwrap_err().to_string().contains("r15"));
    }
}
