//! The raw record of a measurement: one JSON object per line, the design first, then every run.

use crate::design::Slot;
use crate::result::Stopped;
use crate::{Design, Error};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, Read, Write};
use std::path::Path;

/// One execution of one binary. All times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Position in the whole measurement, from 0.
    pub sequence: u64,
    /// Round; 0 is the warm-up.
    pub round: u32,
    /// Index into [`Design::benchmarks`].
    #[serde(default)]
    pub benchmark: usize,
    /// Index into [`Design::variants`].
    pub variant: usize,
    /// Index into the variant's binaries; 0 is as built.
    #[serde(default)]
    pub layout: u32,
    /// 1 for the second run of an as-built binary in a round.
    #[serde(default)]
    pub copy: u8,
    /// Start, nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// Elapsed time.
    pub wall_ns: u64,
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub system_ns: u64,
    /// Largest resident set.
    pub max_rss_bytes: u64,
    /// Page faults served without reading.
    pub minor_faults: u64,
    /// Page faults that read from disk.
    pub major_faults: u64,
    /// Times the program gave the CPU away (waited).
    pub voluntary_switches: u64,
    /// Times the CPU was taken away.
    pub involuntary_switches: u64,
    /// Time the hypervisor gave to others meanwhile, all CPUs (clock ticks of /proc/stat).
    pub steal_ticks: u64,
    /// Time that the program stood in the queue for a CPU; absent where the kernel does not tell,
    /// or where others than its first thread did the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_ns: Option<u64>,
    /// Mean time of the gauge's fixed work during the run; absent without [`Design::gauge`], and for
    /// a run too short for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gauge_ns: Option<u64>,
    /// Random bytes added to the environment.
    pub environment_bytes: usize,
    /// Exit code, or 128 + signal.
    pub exit_code: i32,
    /// Bytes on standard output.
    pub output_bytes: u64,
    /// SHA-256 of standard output (without the metrics' numbers), hexadecimal.
    pub output_sha256: String,
    /// The numbers that the metrics' patterns found in the output, by the metrics' labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub printed: BTreeMap<String, f64>,
    /// Counters of the CPU and the kernel, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
}

impl Recorded {
    /// Rounds that every binary of a benchmark finished after the warm-up, the fewest of all
    /// benchmarks; what was stopped or decided early counts by its last round, or the one before.
    pub fn rounds(&self) -> u32 {
        let last = |benchmark| {
            let runs = |round| {
                let own = self.runs.iter().filter(|run| run.benchmark == benchmark);
                own.filter(|run| run.round == round).count()
            };
            let own = self.runs.iter().filter(|run| run.benchmark == benchmark);
            let last = own.map(|run| run.round).max().unwrap_or(0);
            // One that was interrupted has fewer runs than the one before.
            if last > 0 && runs(last) < runs(last - 1) { last - 1 } else { last }
        };
        (0..self.design.benchmarks.len()).map(last).min().unwrap_or(0)
    }

    /// Rounds after which somebody has seen a result: what the file says, and its end where it was
    /// reached.
    pub fn looks(&self) -> Vec<u32> {
        let end = self.design.rounds;
        let ended = self.runs.iter().any(|run| run.round >= end) && end > 0;
        let all = self.design.looked.iter().chain(&self.looked).copied();
        let all: std::collections::BTreeSet<u32> =
            all.chain(ended.then_some(end)).filter(|n| *n > 0).collect();
        all.into_iter().collect()
    }
}

impl Recorded {
    /// The same runs with another variant as the base that the others are compared with.
    ///
    /// What a second block of rounds confirmed was said beside the old base and is left out. The
    /// new base's own layouts match nobody's.
    ///
    /// # Errors
    /// Where no variant, or several, have the name.
    pub fn beside(mut self, base: &str) -> Result<Recorded, Error> {
        let names = || self.design.variants.iter().map(|variant| variant.name.as_str());
        let mut found = names().enumerate().filter(|(_, name)| *name == base);
        let Some((at, _)) = found.next() else {
            let there = names().collect::<Vec<_>>().join(", ");
            return Err(Error::Design(format!(
                "the kept runs have no variant {base:?}; there are: {there}"
            )));
        };
        if found.next().is_some() {
            return Err(Error::Design(format!("several variants of the kept runs are {base:?}")));
        }
        let place = |variant: usize| match variant {
            own if own == at => 0,
            before if before < at => before + 1,
            behind => behind,
        };
        self.runs.iter_mut().for_each(|run| run.variant = place(run.variant));
        if let Some(first) = self.design.variants.get_mut(..=at) {
            first.rotate_right(1);
        }
        let own_layouts = self.design.variants.first().is_some_and(|first| first.own_layouts);
        for other in self.design.variants.iter_mut().skip(1) {
            other.own_layouts |= own_layouts;
        }
        self.drop_second_block();
        Ok(self)
    }

    /// Leaves out the rounds that were to confirm what was said beside the design's own base: they
    /// confirm nothing beside another one.
    pub(crate) fn drop_second_block(&mut self) {
        if std::mem::take(&mut self.design.confirm) {
            let first_block = self.design.rounds;
            self.runs.retain(|run| run.round <= first_block);
        }
    }
}

impl Run {
    /// The place in the round that it filled.
    pub fn slot(&self) -> Slot {
        Slot { variant: self.variant, layout: self.layout, copy: self.copy }
    }
}

/// Everything that a file of runs holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// The design.
    pub design: Design,
    /// The runs in time order.
    pub runs: Vec<Run>,
    /// Variants that were stopped.
    pub stopped: Vec<Stopped>,
    /// Rounds after which an interrupted measurement was told.
    pub looked: Vec<u32>,
    /// Bytes of the whole lines; what lies behind is a torn line.
    pub whole_bytes: u64,
}

/// A line that says that a variant was stopped.
#[derive(Deserialize)]
struct StoppedLine {
    stopped: Stopped,
}

/// A line that says that the result was told after so many rounds.
#[derive(Deserialize)]
struct LookedLine {
    looked: u32,
}

/// The first line of a file of runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Head {
    format: String,
    version: u32,
    design: Design,
}

/// No run takes longer: a year.
const LONGEST_NS: u64 = 366 * 86_400 * 1_000_000_000;
/// Most bytes of a line; the design of a thousand programs, each in a thousand layouts, is the
/// longest.
const MOST_OF_LINE: u64 = 256 << 20;
const FORMAT: &str = "planish-runs";
const VERSION: u32 = 2;

/// Writes the design, the first line of a file of runs.
pub fn write_head(out: &mut impl Write, design: &Design) -> std::io::Result<()> {
    write_line(out, &Head { format: FORMAT.into(), version: VERSION, design: design.clone() })
}

/// Appends one run and hands it to the system, so that an interrupted measurement keeps what it
/// had.
pub fn write_run(out: &mut impl Write, run: &Run) -> std::io::Result<()> {
    write_line(out, run)
}

/// Appends that a variant was stopped.
pub fn write_stopped(out: &mut impl Write, stopped: &Stopped) -> std::io::Result<()> {
    write_line(out, &BTreeMap::from([("stopped", stopped)]))
}

/// Appends that the result was told after so many rounds although more were planned.
pub fn write_looked(out: &mut impl Write, rounds: u32) -> std::io::Result<()> {
    write_line(out, &BTreeMap::from([("looked", rounds)]))
}

fn write_line(out: &mut impl Write, value: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// Reads a file of runs. A last line without an end (the writer was killed) is left out.
pub fn read(path: &Path, mut reader: impl BufRead) -> Result<Recorded, Error> {
    let fail = |line: usize, problem: String| Error::File {
        path: path.to_owned(),
        line: Some(line),
        problem,
    };
    let mut text = String::new();
    let mut found = Recorded::default();
    let mut seen = std::collections::BTreeSet::new();
    for number in 1.. {
        text.clear();
        (&mut reader)
            .take(MOST_OF_LINE)
            .read_line(&mut text)
            .map_err(|e| fail(number, e.to_string()))?;
        if text.len() as u64 >= MOST_OF_LINE {
            return Err(fail(
                number,
                format!("a line of {} MiB or more, which no run has", MOST_OF_LINE >> 20),
            ));
        }
        if !text.ends_with('\n') {
            if number == 1 {
                let problem = if text.is_empty() {
                    "the file is empty"
                } else {
                    "the first line is not whole"
                };
                return Err(fail(1, problem.into()));
            }
            break;
        }
        if number == 1 {
            found.design = read_head(&text).map_err(|problem| fail(1, problem))?;
        } else {
            let problem = |e: serde_json::Error| fail(number, e.to_string());
            if text.starts_with("{\"stopped\"") {
                let line: StoppedLine = serde_json::from_str(&text).map_err(problem)?;
                found.stopped.push(line.stopped);
            } else if text.starts_with("{\"looked\"") {
                let line: LookedLine = serde_json::from_str(&text).map_err(problem)?;
                found.looked.push(line.looked);
            } else {
                let run: Run = serde_json::from_str(&text).map_err(problem)?;
                check(&run, &found.design).map_err(|problem| fail(number, problem))?;
                if !seen.insert((run.benchmark, run.round, run.slot())) {
                    return Err(fail(
                        number,
                        format!("a second run of this binary in round {}", run.round),
                    ));
                }
                found.runs.push(run);
            }
        }
        found.whole_bytes += text.len() as u64;
    }
    Ok(found)
}

fn read_head(text: &str) -> Result<Design, String> {
    /// Read before the rest, so that a file of another version is named as such.
    #[derive(Deserialize)]
    struct Kind {
        format: String,
        version: u32,
    }
    let foreign = |e| format!("this is not a file of runs made by planish compare ({e})");
    let kind: Kind = serde_json::from_str(text).map_err(foreign)?;
    if kind.format != FORMAT || kind.version != VERSION {
        return Err(format!(
            "expected {FORMAT} version {VERSION}, found {} version {}; measure again with this \
             planish",
            kind.format, kind.version
        ));
    }
    let head: Head = serde_json::from_str(text).map_err(foreign)?;
    head.design.check().map_err(|e| e.to_string())?;
    Ok(head.design)
}

fn check(run: &Run, design: &Design) -> Result<(), String> {
    let Some(variant) = design.variants.get(run.variant) else {
        return Err(format!("variant {} is not in the design", run.variant));
    };
    if run.benchmark >= design.benchmarks.len() {
        return Err(format!("benchmark {} is not in the design", run.benchmark));
    }
    if run.layout as usize >= variant.binaries.len() {
        return Err(format!("layout {} of {} is not in the design", run.layout, variant.name));
    }
    if run.exit_code != 0 {
        return Err(format!(
            "a run of {} ended with {}; such runs are never kept",
            variant.name, run.exit_code
        ));
    }
    let times = [run.wall_ns, run.user_ns, run.system_ns];
    if let Some(long) = times.into_iter().find(|&time| time > LONGEST_NS) {
        return Err(format!("a run of {} takes {long} ns, over a year", variant.name));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::tests::design;

    #[test]
    fn written_runs_are_read_back_and_a_torn_last_line_is_left_out() {
        let mut bytes = Vec::new();
        write_head(&mut bytes, &design(3)).unwrap();
        let run = Run { round: 1, variant: 1, wall_ns: 5, queued_ns: Some(3), ..Run::default() };
        write_run(&mut bytes, &run).unwrap();
        write_looked(&mut bytes, 1).unwrap();
        bytes.extend_from_slice(b"{\"sequence\":9,");
        let found = read(Path::new("r"), &bytes[..]).unwrap();
        assert_eq!(found.design, design(3));
        assert_eq!(found.runs, [run]);
        assert_eq!((&found.looked[..], found.looks()), (&[1][..], vec![1]));
        assert_eq!(found.whole_bytes as usize, bytes.len() - "{\"sequence\":9,".len());
    }

    #[test]
    fn another_file_is_refused_with_its_line() {
        let message = read(Path::new("r.jsonl"), &b"{}\n"[..]).unwrap_err().to_string();
        assert!(message.starts_with("r.jsonl, line 1: this is not a file of runs"), "{message}");
        assert!(read(Path::new("r"), &b""[..]).unwrap_err().to_string().contains("empty"));
    }
}
