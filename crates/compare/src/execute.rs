//! Runs a design: every binary once per round, in random order, one after the other.

use crate::{Design, Error, Metric, Run, bind, sys};
use regex::bytes::Regex;
use sha2::{Digest, Sha256};
use std::io::{Read, Seek};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Where a measurement stands after a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Runs finished, the warm-up included.
    pub done: u64,
    /// Runs the design asks for.
    pub total: u64,
}

/// Runs the whole design, handing every finished run to `observe`.
///
/// `stop` ends the measurement early: the run that was under way is thrown away, an unfinished round stays in the
/// result (the analysis leaves it out). Every run must end and print as the first run of the base does.
pub fn run(
    design: &Design,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(&Run, Progress) -> Result<(), Error>,
) -> Result<Vec<Run>, Error> {
    design.check()?;
    let reader = design.metric.reader();
    let total = (u64::from(design.rounds) + 1) * design.variants.len() as u64;
    let mut reference: Option<(Run, Vec<u8>)> = None;
    let mut runs: Vec<Run> = Vec::new();
    for round in 0..=design.rounds {
        // The very first run is the base's, so that a broken variant is reported as differing from the base.
        let order = if round == 0 { (0..design.variants.len()).collect() } else { design.order(round) };
        for (position, variant) in order.into_iter().enumerate() {
            let bytes = design.environment_bytes(round, position);
            let outcome = once(design, variant, bytes, reader.as_ref(), stop)?;
            if stop.load(Ordering::Relaxed) {
                return Ok(runs);
            }
            let mut run = outcome.run;
            run.sequence = runs.len() as u64;
            run.round = round;
            if let Some((first, printed)) = &reference {
                check_end(design, &run, first.exit_code, &outcome.stderr)?;
                check_output(design, &run, first, printed, &outcome.stdout)?;
            } else {
                check_end(design, &run, 0, &outcome.stderr)?;
                reference = Some((run.clone(), outcome.stdout));
            }
            if let (Metric::Output { pattern, .. }, None) = (&design.metric, run.printed) {
                let variant = design.variants[variant].name.clone();
                return Err(Error::NoValue { variant, round, pattern: pattern.clone() });
            }
            observe(&run, Progress { done: runs.len() as u64 + 1, total })?;
            runs.push(run);
        }
    }
    Ok(runs)
}

struct Outcome {
    run: Run,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// Enough output to show a difference; what is longer is only hashed.
const KEPT_BYTES: usize = 1 << 20;

fn once(
    design: &Design,
    variant: usize,
    environment_bytes: usize,
    reader: Option<&Regex>,
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    let system = |action| move |source| Error::System { action, source };
    let words = bind(&design.command, &design.variants[variant]);
    let mut stdout = sys::memory_file()?;
    let mut stderr = sys::memory_file()?;
    let copy = "sharing the program's output file";
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env("PLANISH_PADDING", "x".repeat(environment_bytes))
        .stdin(Stdio::null())
        .stdout(stdout.try_clone().map_err(system(copy))?)
        .stderr(stderr.try_clone().map_err(system(copy))?);
    let steal_before = steal_ticks();
    let start_unix_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64);
    let start = Instant::now();
    let child = command.spawn().map_err(|source| Error::Start { program: words[0].clone(), source })?;
    let ended = sys::wait(child.id(), || stop.load(Ordering::Relaxed))?;
    let wall_ns = start.elapsed().as_nanos() as u64;
    let steal_ticks = steal_ticks().saturating_sub(steal_before);
    drop(command);

    let read = system("reading the program's output");
    let (hash, output_bytes, kept, printed) = hash_output(&mut stdout, reader).map_err(read)?;
    let mut complaint = Vec::new();
    stderr
        .rewind()
        .and_then(|()| stderr.take(KEPT_BYTES as u64).read_to_end(&mut complaint))
        .map_err(read)?;
    let usage = ended.usage;
    let count = |n: libc::c_long| n.max(0) as u64;
    let run = Run {
        variant,
        start_unix_ns,
        wall_ns,
        user_ns: sys::nanoseconds(usage.ru_utime),
        system_ns: sys::nanoseconds(usage.ru_stime),
        max_rss_bytes: count(usage.ru_maxrss) * 1024,
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
        steal_ticks,
        environment_bytes,
        exit_code: ended.code,
        output_bytes,
        output_sha256: hash,
        printed,
        ..Run::default()
    };
    Ok(Outcome { run, stdout: kept, stderr: complaint })
}

type Hashed = (String, u64, Vec<u8>, Option<f64>);

/// Hashes the output; where the metric reads its number from the output, that number is cut out before.
fn hash_output(file: &mut std::fs::File, reader: Option<&Regex>) -> std::io::Result<Hashed> {
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
        if reader.is_some() || kept.len() < KEPT_BYTES {
            kept.extend_from_slice(&buffer[..got]);
        }
        if reader.is_none() {
            hash.update(&buffer[..got]);
        }
    }
    let mut printed = None;
    if let Some(reader) = reader {
        let number = reader.captures(&kept).and_then(|c| c.get(1));
        printed = number.and_then(|n| std::str::from_utf8(n.as_bytes()).ok()?.trim().parse().ok());
        let cut = number.map_or(0..0, |n| n.range());
        kept.drain(cut);
        hash.update(&kept);
    }
    Ok((hex(&hash.finalize()), bytes, kept, printed))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn check_end(design: &Design, run: &Run, expected: i32, stderr: &[u8]) -> Result<(), Error> {
    if run.exit_code == expected {
        return Ok(());
    }
    let words = |code: i32| {
        if code > 128 { format!("signal {}", code - 128) } else { format!("exit code {code}") }
    };
    let text = String::from_utf8_lossy(stderr);
    let last: Vec<&str> = text.lines().rev().take(5).collect();
    let stderr: String = last.iter().rev().map(|line| format!("\n  {line}")).collect();
    let variant = &design.variants[run.variant];
    let (found, expected) = (words(run.exit_code), words(expected));
    let command = bind(&design.command, variant).join(" ");
    let found = format!("{found} instead of {expected} ({command}{stderr})");
    Err(Error::Ended { variant: variant.name.clone(), round: run.round, found })
}

fn check_output(design: &Design, run: &Run, first: &Run, expected: &[u8], found: &[u8]) -> Result<(), Error> {
    if design.ignore_output || run.output_sha256 == first.output_sha256 {
        return Ok(());
    }
    let mut lines = 1usize;
    let mut left = expected.split(|&b| b == b'\n');
    let mut right = found.split(|&b| b == b'\n');
    let difference = loop {
        match (left.next(), right.next()) {
            (None, None) => break "the difference lies beyond the first MiB".to_owned(),
            (a, b) if a == b => lines += 1,
            (a, b) => break format!("line {lines} is {} instead of {}", shown(b), shown(a)),
        }
    };
    let name = |index: usize| design.variants[index].name.clone();
    Err(Error::Output { variant: name(run.variant), base: name(first.variant), round: run.round, difference })
}

fn shown(line: Option<&[u8]>) -> String {
    match line {
        None => "missing".to_owned(),
        Some(line) => format!("{:?}", String::from_utf8_lossy(line).chars().take(80).collect::<String>()),
    }
}

/// Time taken by the hypervisor, from the first line of /proc/stat; 0 where there is none.
fn steal_ticks() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    text.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse().ok()).unwrap_or(0)
}
