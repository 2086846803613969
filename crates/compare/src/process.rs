//! One run of one binary: start it, wait, and read what it used and printed.

use crate::design::Slot;
use crate::gauge::{Gauge, Reading};
use crate::metric::{Counter, Source};
use crate::{Benchmark, Design, Error, Metric, Run, bind, sys};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use workload::{USED_VARIABLE, Used};

pub(crate) struct Outcome {
    pub(crate) run: Run,
    /// What it printed; [`CUT`] stands for the numbers of metrics.
    pub(crate) stdout: Vec<u8>,
    /// What stands where metrics look for their numbers, by their labels.
    pub(crate) matched: BTreeMap<String, String>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) timed_out: bool,
    pub(crate) flooded: bool,
}

/// A program may print so much to one of its two outputs, which wait in memory; one that prints
/// more is ended.
const MOST_OUTPUT_BYTES: u64 = 1 << 30;

/// Most bytes that are read of what a workload tells.
const MOST_TOLD_BYTES: u64 = 1 << 16;

/// Enough output to show a difference; what is longer is only hashed.
const KEPT_BYTES: usize = 1 << 20;

/// Most characters of a line that a message shows.
const SHOWN_CHARS: usize = 80;

/// What messages show in place of the number of a metric, which may differ.
const CUT: &[u8] = b"<number>";

/// What every run of a benchmark has in common.
pub(crate) struct Launcher<'a> {
    pub(crate) design: &'a Design,
    pub(crate) stop: &'a AtomicBool,
    counters: Vec<Counter>,
    readers: Vec<Vec<(String, regex::bytes::Regex)>>,
    gauge: Option<Gauge>,
}

impl<'a> Launcher<'a> {
    pub(crate) fn new(
        design: &'a Design,
        stop: &'a AtomicBool,
        counters: Vec<Counter>,
    ) -> Result<Launcher<'a>, Error> {
        let reader = |metric: &Metric| Some((metric.label(), metric.reader()?));
        let readers = design
            .benchmarks
            .iter()
            .map(|b| b.metrics.iter().filter_map(reader).collect())
            .collect();
        // On the CPU that this thread was pinned to.
        let gauge = design.gauge.then(Gauge::new).transpose()?;
        Ok(Launcher { design, stop, counters, readers, gauge })
    }

    /// The command of a run, for messages.
    pub(crate) fn command(&self, benchmark: usize, slot: Slot) -> String {
        let of = self.design.benchmarks.get(benchmark).zip(self.binary(slot));
        of.map_or_else(String::new, |(of, binary)| bind(&of.command, binary).join(" "))
    }

    /// Runs one binary once.
    pub(crate) fn once(
        &self,
        benchmark: usize,
        slot: Slot,
        environment_bytes: usize,
        limit: Option<Duration>,
    ) -> Result<Outcome, Error> {
        let system = |action| move |source| Error::System { action, source };
        let (Some(of), Some(binary)) = (self.design.benchmarks.get(benchmark), self.binary(slot))
        else {
            return Err(Error::Design("a run outside the design was asked for".into()));
        };
        let words = bind(&of.command, binary);
        let mut stdout = sys::memory_file()?;
        let mut stderr = sys::memory_file()?;
        let mut command = prepared(&words, environment_bytes, [&stdout, &stderr])
            .map_err(system("sharing the program's output file"))?;
        if let Some(path) =
            self.design.variants.get(slot.variant).and_then(|v| v.library_path.as_ref())
        {
            command.env("LD_LIBRARY_PATH", path);
        }
        let mut told = sys::memory_file()?;
        command.env(USED_VARIABLE, sys::path_of(&told));
        let (counters, _) = sys::Counters::open(&self.counters);
        let steal_before = steal_ticks();
        let start_unix_ns =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64);
        let reading = self.gauge.as_ref().map(Gauge::begin);
        let start = Instant::now();
        let child = command.spawn().map_err(|source| Error::Start {
            program: words.first().cloned().unwrap_or_default(),
            source,
        })?;
        let full = |file: &File| file.metadata().is_ok_and(|about| about.len() > MOST_OUTPUT_BYTES);
        let flooded = || full(&stdout) || full(&stderr);
        let ended = sys::wait(child.id(), limit, || self.stop.load(Ordering::Relaxed), flooded)?;
        let gauge_ns = reading.and_then(Reading::end);
        let wall_ns = ended.at.duration_since(start).as_nanos() as u64;
        let steal_ticks = steal_ticks().saturating_sub(steal_before);
        let counters = counters.read().into_iter().map(|(c, n)| (c.name().to_owned(), n)).collect();
        drop(command);

        let read = system("reading the program's output");
        let printed = self.readers.get(benchmark).map_or(&[][..], |r| r);
        let output = hash_output(&mut stdout, printed).map_err(read)?;
        let mut complaint = Vec::new();
        stderr
            .rewind()
            .and_then(|()| stderr.take(KEPT_BYTES as u64).read_to_end(&mut complaint))
            .map_err(read)?;
        let told = used_by_program(&mut told).map_err(system("reading what the program used"))?;
        let run = Run {
            benchmark,
            variant: slot.variant,
            layout: slot.layout,
            copy: slot.copy,
            start_unix_ns,
            wall_ns,
            steal_ticks,
            environment_bytes,
            exit_code: ended.code,
            output_bytes: output.bytes,
            output_sha256: output.hash,
            printed: output.printed,
            counters,
            queued_ns: queued(&ended),
            gauge_ns,
            ..used(&ended.usage)
        };
        let run = match told {
            Some(told) => of_program(run, told),
            None => run,
        };
        Ok(Outcome {
            run,
            stdout: output.kept,
            matched: output.matched,
            stderr: complaint,
            timed_out: ended.timed_out,
            flooded: ended.flooded,
        })
    }

    fn binary(&self, slot: Slot) -> Option<&'a std::path::PathBuf> {
        self.design.variants.get(slot.variant)?.binaries.get(slot.layout as usize)
    }
}

/// The program with its arguments, writing into `outputs`: standard output and standard error.
fn prepared(
    words: &[String],
    environment_bytes: usize,
    outputs: [&File; 2],
) -> std::io::Result<Command> {
    let [stdout, stderr] = outputs;
    let mut command = Command::new(words.first().map_or("", String::as_str));
    command
        .args(words.iter().skip(1))
        .env("PLANISH_PADDING", "x".repeat(environment_bytes))
        // Its own group, so that what it leaves running can be ended with it.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?);
    Ok(command)
}

/// Time in the queue for a CPU, where the first thread did the work: those of other threads and
/// processes are gone.
fn queued(ended: &sys::Ended) -> Option<u64> {
    let all = sys::nanoseconds(ended.usage.ru_utime) + sys::nanoseconds(ended.usage.ru_stime);
    // Nine tenths: the two clocks differ a little.
    ended.first_thread.filter(|(ran, _)| *ran >= all / 10 * 9).map(|(_, queued)| queued)
}

/// What the kernel says that a program used; the rest of the run is not filled in.
fn used(usage: &libc::rusage) -> Run {
    let count = |n: libc::c_long| n.max(0) as u64;
    Run {
        user_ns: sys::nanoseconds(usage.ru_utime),
        system_ns: sys::nanoseconds(usage.ru_stime),
        max_rss_bytes: count(usage.ru_maxrss) * 1024,
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
        ..Run::default()
    }
}

/// What `planish workload` tells of the program, where the command was one.
fn used_by_program(file: &mut File) -> std::io::Result<Option<Used>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(MOST_TOLD_BYTES).read_to_end(&mut bytes)?;
    Used::read(&bytes)
}

/// The run with what the program alone used: set-up, client and planish itself are left out.
fn of_program(run: Run, used: Used) -> Run {
    Run {
        wall_ns: used.wall_ns,
        user_ns: used.user_ns,
        system_ns: used.system_ns,
        max_rss_bytes: used.max_rss_bytes,
        minor_faults: used.minor_faults,
        major_faults: used.major_faults,
        voluntary_switches: used.voluntary_switches.unwrap_or_default(),
        involuntary_switches: used.involuntary_switches.unwrap_or_default(),
        // The first thread of the process that was waited for did not do the work.
        queued_ns: None,
        ..run
    }
}

struct Output {
    hash: String,
    bytes: u64,
    kept: Vec<u8>,
    printed: BTreeMap<String, f64>,
    /// What stands where metrics look for their numbers, as it was printed.
    matched: BTreeMap<String, String>,
}

/// Hashes the output; where metrics read their numbers from it, those numbers are cut out before.
fn hash_output(
    file: &mut File,
    readers: &[(String, regex::bytes::Regex)],
) -> std::io::Result<Output> {
    file.rewind()?;
    let mut hash = Sha256::new();
    let mut bytes = 0u64;
    let mut kept = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let got = file.read(&mut buffer)?;
        if got == 0 {
            break;
        }
        bytes += got as u64;
        if !readers.is_empty() || kept.len() < KEPT_BYTES {
            kept.extend_from_slice(&buffer[..got]);
        }
        if readers.is_empty() {
            hash.update(&buffer[..got]);
        }
    }
    let (mut printed, mut matched) = (BTreeMap::new(), BTreeMap::new());
    if !readers.is_empty() {
        let mut cuts = Vec::new();
        for (label, reader) in readers {
            let Some(number) = reader.captures(&kept).and_then(|c| c.get(1)) else { continue };
            cuts.push(number.range());
            let text = String::from_utf8_lossy(number.as_bytes());
            printed.extend(text.trim().parse().ok().map(|value: f64| (label.clone(), value)));
            matched.insert(label.clone(), text.chars().take(SHOWN_CHARS).collect());
        }
        cuts.sort_by_key(|cut| (cut.start, cut.end));
        let mut left = Vec::with_capacity(kept.len());
        let mut at = 0;
        for cut in cuts {
            let before = kept.get(at..cut.start).unwrap_or_default();
            hash.update(before);
            left.extend_from_slice(before);
            left.extend_from_slice(CUT);
            at = at.max(cut.end);
        }
        let rest = kept.get(at..).unwrap_or_default();
        hash.update(rest);
        left.extend_from_slice(rest);
        kept = left;
    }
    let hash = hex::encode(hash.finalize());
    Ok(Output { hash, bytes, kept, printed, matched })
}

/// What to look for where one program fails and another does not.
const OTHERS_END_WELL: &str = "as another program ends well, look for a source that was changed \
    between the builds, for undefined behaviour, or for a wrong compilation";

/// Why a run cannot be compared: it ended otherwise than the reference, or printed something else,
/// or no number.
pub(crate) fn problem(
    design: &Design,
    outcome: &Outcome,
    reference: Option<&(Run, Vec<u8>)>,
) -> Option<Error> {
    let run = &outcome.run;
    let benchmark = design.benchmarks.get(run.benchmark)?;
    let variant = design.variants.get(run.variant)?;
    let (name, round) = (variant.name.clone(), run.round);
    let command = bind(&benchmark.command, variant.binaries.get(run.layout as usize)?).join(" ");
    if outcome.timed_out {
        let seconds = run.wall_ns as f64 / 1e9;
        return Some(Error::Hangs { variant: name, round, seconds, command });
    }
    if outcome.flooded {
        return Some(Error::Floods { variant: name, round, gib: MOST_OUTPUT_BYTES >> 30, command });
    }
    let expected = reference.map_or(0, |(first, _)| first.exit_code);
    if run.exit_code != expected {
        let found = ended_words(run, expected, &command, &outcome.stderr);
        let others_do = reference.is_some_and(|(first, _)| first.variant != run.variant);
        let remedy = match others_do {
            true => OTHERS_END_WELL,
            false => "fix the program or the command first",
        };
        return Some(Error::Ended { variant: name, round, found, remedy });
    }
    if let Some((first, printed)) = reference
        && !design.ignore_output
        && run.output_sha256 != first.output_sha256
    {
        let base = design.variants.get(first.variant)?.name.clone();
        let difference = first_difference(printed, &outcome.stdout);
        return Some(Error::Output { variant: name, base, round, difference });
    }
    let metric = missing_number(benchmark, run)?;
    let Source::Output { pattern, .. } = &metric.source else { return None };
    Some(Error::NoValue {
        benchmark: benchmark.name.clone(),
        variant: name,
        round,
        pattern: pattern.clone(),
        found: outcome.matched.get(&metric.label()).cloned(),
    })
}

fn missing_number<'b>(benchmark: &'b Benchmark, run: &Run) -> Option<&'b Metric> {
    // Effects of the metric that decides are ratios, so that 0 is no number there.
    let missing = |(place, m): &(usize, &Metric)| {
        let value = m.value(run);
        let fine = |value: f64| place > &0 || value > 0.0;
        matches!(m.source, Source::Output { .. }) && !value.is_some_and(fine)
    };
    benchmark.metrics.iter().enumerate().find(missing).map(|(_, metric)| metric)
}

fn ended_words(run: &Run, expected: i32, command: &str, stderr: &[u8]) -> String {
    let words = |code: i32| {
        if code > 128 { format!("signal {}", code - 128) } else { format!("exit code {code}") }
    };
    let text = String::from_utf8_lossy(stderr);
    let last: Vec<&str> = text.lines().rev().take(5).collect();
    let stderr: String = last.iter().rev().map(|line| format!("\n  {line}")).collect();
    format!("{} instead of {} ({command}{stderr})", words(run.exit_code), words(expected))
}

fn first_difference(expected: &[u8], found: &[u8]) -> String {
    let mut lines = 1usize;
    let mut left = expected.split(|&b| b == b'\n');
    let mut right = found.split(|&b| b == b'\n');
    loop {
        match (left.next(), right.next()) {
            (None, None) => break "the difference lies beyond the first MiB".to_owned(),
            (a, b) if a == b => lines += 1,
            (a, b) => break format!("line {lines} is {} instead of {}", shown(b), shown(a)),
        }
    }
}

fn shown(line: Option<&[u8]>) -> String {
    match line {
        None => "missing".to_owned(),
        Some(line) => {
            format!(
                "{:?}",
                String::from_utf8_lossy(line).chars().take(SHOWN_CHARS).collect::<String>()
            )
        }
    }
}

/// Time taken by the hypervisor, from the first line of /proc/stat; 0 where there is none.
fn steal_ticks() -> u64 {
    let mut bytes = [0u8; 256];
    let got = File::open("/proc/stat").and_then(|mut file| file.read(&mut bytes)).unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..got]);
    text.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse().ok()).unwrap_or(0)
}
