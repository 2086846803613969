//! How records get from the rings into files, as the options say it: compression, threads, sizes,
//! changes of file.

use crate::Error;
use crate::backlog::USUAL_BYTES;
use crate::cpus::cpu_list;
use crate::effort::Effort;
use crate::settings::{RingPages, Wrong};
use perfdata::write::{CompressedKind, Compressor};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How the records are streamed.
#[derive(Clone, Debug, Default)]
pub struct Streaming {
    /// Size of each ring; as large as allowed, up to 16 MiB, when none (`-m`).
    pub ring: Option<RingPages>,
    /// Size of each AUX area, where an event writes AUX data; as large as allowed, up to 16 MiB,
    /// when none (`-m ,SIZE`).
    pub aux: Option<RingPages>,
    /// A reader is woken when so many bytes are in a ring; an eighth of the ring when none
    /// (`--mmap-flush`).
    pub wake_bytes: Option<u32>,
    /// Whether and how the records are compressed (`-z`, `--no-compress`).
    pub compression: Compression,
    /// Bytes that may wait for a slow disk, of all files together; 64 MiB when none (`--backlog`).
    pub backlog: Option<u64>,
    /// A reader for each of these, and a directory with a file of each; one reader and one file
    /// when none (`--threads`).
    pub threads: Option<Spread>,
    /// The readers stay on the CPUs whose rings they read (`--affinity`).
    pub affinity: Option<Affinity>,
    /// Real-time priority of the readers, 1 to 99 (`-r`).
    pub realtime: Option<i32>,
    /// The recording ends when it has so many bytes (`--max-size`).
    pub max_bytes: Option<u64>,
    /// When to go on in another file (`--switch-output`).
    pub switch: Option<Switch>,
    /// Rings are written over themselves, and into the file only when asked for (`--overwrite`).
    pub overwrite: bool,
    /// Fifos for commands and their answers (`--control`).
    pub control: Option<Control>,
    /// An output that belongs to somebody else is replaced.
    pub force: bool,
    /// Where the pipe form (output `-`) goes in place of standard output.
    pub pipe: Option<Arc<OwnedFd>>,
    /// When the recording ends by itself.
    pub until: Until,
}

/// When a recording ends, beside when its target does and when a signal asks for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Until {
    /// So long after its first sample could come.
    pub after: Option<Duration>,
    /// When this says so; it is asked ten times a second.
    pub asked: Option<fn() -> bool>,
}

impl Until {
    /// Whether a recording that began then is over.
    pub(crate) fn is_over(&self, began: Instant) -> bool {
        self.after.is_some_and(|after| began.elapsed() >= after)
            || self.asked.is_some_and(|asked| asked())
    }

    /// When it is over at the latest.
    pub(crate) fn end(&self, began: Instant) -> Option<Instant> {
        self.after.and_then(|after| began.checked_add(after))
    }
}

/// Whether and how deep records are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// With zstd, as deep as the place where they go needs.
    #[default]
    Adapting,
    /// With zstd of this level, 1 to 22.
    Level(i32),
    /// Not at all.
    Off,
}

impl Compression {
    /// What compresses; none without compression.
    pub(crate) fn compressor(self) -> Result<Option<Compressor>, Error> {
        let begin = |level| Compressor::new(CompressedKind::Unaligned, level);
        self.first_level().map(begin).transpose().map_err(Error::compression)
    }

    /// The level to begin with; none without compression.
    pub(crate) fn first_level(self) -> Option<i32> {
        match self {
            Compression::Adapting => Some(Effort::FIRST),
            Compression::Level(level) => Some(level),
            Compression::Off => None,
        }
    }
}

impl Streaming {
    /// Bytes that may wait for a slow disk.
    pub(crate) fn backlog(&self) -> u64 {
        self.backlog.unwrap_or(USUAL_BYTES)
    }

    /// With how many bytes in a ring of a size its reader is woken. Files of a limited size need it
    /// more often, or they get much larger.
    pub(crate) fn wake(&self, ring_bytes: usize) -> u32 {
        let switch = match self.switch {
            Some(Switch::Bytes(bytes)) => bytes,
            _ => u64::MAX,
        };
        let limit = self.max_bytes.unwrap_or(u64::MAX).min(switch);
        let usual = (ring_bytes as u64 / 8).min(limit / 32).max(4096);
        self.wake_bytes.unwrap_or(u32::try_from(usual).unwrap_or(u32::MAX))
    }
}

/// What readers are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spread {
    /// One for each CPU.
    Cpu,
    /// One for each core, which may be several CPUs.
    Core,
    /// One for each package, which is what goes into a socket.
    Package,
    /// One for each NUMA node.
    Node,
    /// One for each of these, and one for the CPUs that are in none.
    Masks(Vec<Mask>),
}

/// A reader of the rings of some CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    /// Whose rings it reads.
    pub rings: Vec<i32>,
    /// Where it may run.
    pub near: Vec<i32>,
}

impl FromStr for Spread {
    type Err = Wrong;
    /// `cpu`, `core`, `package`, `node` (perf's `numa`), or lists of CPUs as `0-3/0:4-7/4`: whose
    /// rings are read, behind a slash where, and a colon between two readers. No ring has two
    /// readers.
    fn from_str(text: &str) -> Result<Spread, Wrong> {
        let expected = "cpu, core, package, node or numa, or lists of CPUs with rings and places, \
                        as 0-3/0:4-7/4, no CPU with two readers";
        match text {
            "cpu" => Ok(Spread::Cpu),
            "core" => Ok(Spread::Core),
            "package" => Ok(Spread::Package),
            "node" | "numa" => Ok(Spread::Node),
            _ => {
                let masks = text.split(':').map(|part| {
                    let (rings, near) = part.split_once('/')?;
                    Some(Mask { rings: cpu_list(rings).ok()?, near: cpu_list(near).ok()? })
                });
                let masks: Option<Vec<Mask>> = masks.collect();
                let masks = masks.ok_or_else(|| wrong(text, expected))?;
                let mut all: Vec<i32> =
                    masks.iter().flat_map(|mask| &mask.rings).copied().collect();
                let count = all.len();
                all.sort_unstable();
                all.dedup();
                if all.len() == count {
                    Ok(Spread::Masks(masks))
                } else {
                    Err(wrong(text, expected))
                }
            }
        }
    }
}

/// How far readers may move from the CPU of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// Within its NUMA node.
    Node,
    /// Not at all.
    Cpu,
    /// Wherever the system lets them run, as where nothing is said.
    System,
}

impl FromStr for Affinity {
    type Err = Wrong;
    /// `node`, `cpu`, or `sys`.
    fn from_str(text: &str) -> Result<Affinity, Wrong> {
        match text {
            "node" => Ok(Affinity::Node),
            "cpu" => Ok(Affinity::Cpu),
            "sys" => Ok(Affinity::System),
            _ => Err(wrong(text, "node, cpu or sys")),
        }
    }
}

/// When a recording goes on in another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// When SIGUSR2 comes.
    Signal,
    /// When the file has so many bytes, and when SIGUSR2 comes.
    Bytes(u64),
    /// After so much time, and when SIGUSR2 comes.
    Time(Duration),
}

impl FromStr for Switch {
    type Err = Wrong;
    /// `signal`, a size as `100M`, or a time as `30s`.
    fn from_str(text: &str) -> Result<Switch, Wrong> {
        let expected = || wrong(text, "signal, a size (B, K, M, G), or a time (s, m, h, d)");
        if text == "signal" {
            return Ok(Switch::Signal);
        }
        if let Ok(bytes) = bytes(text) {
            return Ok(Switch::Bytes(bytes));
        }
        let unit = text.chars().last().ok_or_else(expected)?;
        let seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86400,
            _ => return Err(expected()),
        };
        let number: u64 =
            text.strip_suffix(unit).and_then(|number| number.parse().ok()).ok_or_else(expected)?;
        let seconds =
            number.checked_mul(seconds).filter(|seconds| *seconds > 0).ok_or_else(expected)?;
        Ok(Switch::Time(Duration::from_secs(seconds)))
    }
}

/// Reads a size with its unit: `500K`, `2G`. perf's `m` after a number is minutes, so the units are
/// capitals.
pub fn bytes(text: &str) -> Result<u64, Wrong> {
    let expected = || wrong(text, "a size with B, K, M or G");
    let units = [("B", 0), ("K", 10), ("M", 20), ("G", 30)];
    let found = units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
    let (number, shift) = found.ok_or_else(expected)?;
    let number: u64 = number.parse().map_err(|_| expected())?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(expected)
}

/// Where commands come from, and where their answers go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Fifo of commands.
    pub commands: PathBuf,
    /// Fifo of answers.
    pub answers: Option<PathBuf>,
}

impl FromStr for Control {
    type Err = Wrong;
    /// `fifo:PATH` or `fifo:PATH,ANSWERS`.
    fn from_str(text: &str) -> Result<Control, Wrong> {
        let paths = text.strip_prefix("fifo:").filter(|paths| !paths.is_empty());
        let paths = paths.ok_or_else(|| wrong(text, "fifo:PATH or fifo:PATH,ANSWERS"))?;
        let (commands, answers) =
            paths.split_once(',').map_or((paths, None), |(a, b)| (a, Some(b)));
        Ok(Control { commands: commands.into(), answers: answers.map(PathBuf::from) })
    }
}

fn wrong(found: &str, expected: &str) -> Wrong {
    Wrong { found: found.to_owned(), expected: expected.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_read_as_perf_reads_them() {
        assert_eq!("signal".parse(), Ok(Switch::Signal));
        assert_eq!("10M".parse(), Ok(Switch::Bytes(10 << 20)));
        assert_eq!("10m".parse(), Ok(Switch::Time(Duration::from_secs(600))));
        assert_eq!(bytes("3K"), Ok(3072));
        for wrong in ["", "0s", "M", "10x", "99999999999G", "-1s", "ü"] {
            assert!(wrong.parse::<Switch>().is_err(), "{wrong}");
        }
        let both = Control { commands: "a".into(), answers: Some("b".into()) };
        assert_eq!("fifo:a,b".parse(), Ok(both));
        assert!("fd:1".parse::<Control>().is_err() && "fifo:".parse::<Control>().is_err());
        assert_eq!("core".parse(), Ok(Spread::Core));
        assert_eq!("numa".parse(), Ok(Spread::Node));
        assert_eq!("package".parse(), Ok(Spread::Package));
        let masks = vec![
            Mask { rings: vec![0, 1, 2], near: vec![0] },
            Mask { rings: vec![3, 5], near: vec![3, 4, 5] },
        ];
        assert_eq!("0-2/0:3,5/3-5".parse(), Ok(Spread::Masks(masks)));
        for wrong in ["0-1", "0/", "/0", "0/0:", "0-1/0:1/1", "socket", "0/0:x/1"] {
            assert!(wrong.parse::<Spread>().is_err(), "{wrong}");
        }
        assert_eq!("sys".parse(), Ok(Affinity::System));
        assert!("core".parse::<Affinity>().is_err());
    }
}
