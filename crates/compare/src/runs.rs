//! The raw record of a measurement: one JSON object per line, the design first, then every run.

use crate::{Design, Error};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::path::Path;

/// One execution of one variant. All times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Position in the whole measurement, from 0.
    pub sequence: u64,
    /// Round; 0 is the warm-up.
    pub round: u32,
    /// Index into [`Design::variants`].
    pub variant: usize,
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
    /// Random bytes added to the environment.
    pub environment_bytes: usize,
    /// Exit code, or 128 + signal.
    pub exit_code: i32,
    /// Bytes on standard output.
    pub output_bytes: u64,
    /// SHA-256 of standard output (without the metric's number), hexadecimal.
    pub output_sha256: String,
    /// The number the metric's pattern found in the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<f64>,
}

/// The first line of a file of runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Head {
    format: String,
    version: u32,
    design: Design,
}

const FORMAT: &str = "planish-runs";

/// Writes the design, the first line of a file of runs.
pub fn write_head(out: &mut impl Write, design: &Design) -> std::io::Result<()> {
    write_line(out, &Head { format: FORMAT.into(), version: 1, design: design.clone() })
}

/// Appends one run and hands it to the system, so that an interrupted measurement keeps what it had.
pub fn write_run(out: &mut impl Write, run: &Run) -> std::io::Result<()> {
    write_line(out, run)
}

fn write_line(out: &mut impl Write, value: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// Reads a file of runs. A last line without an end (the writer was killed) is left out.
pub fn read(path: &Path, reader: impl BufRead) -> Result<(Design, Vec<Run>), Error> {
    let fail =
        |line: usize, problem: String| Error::File { path: path.to_owned(), line: Some(line), problem };
    let mut reader = reader;
    let mut text = String::new();
    let mut design = None;
    let mut runs = Vec::new();
    for number in 1.. {
        text.clear();
        reader.read_line(&mut text).map_err(|e| fail(number, e.to_string()))?;
        if !text.ends_with('\n') {
            break;
        }
        let Some(known) = &design else {
            let head: Head = serde_json::from_str(&text).map_err(|e| {
                fail(number, format!("this is not a file of runs made by planish compare ({e})"))
            })?;
            if head.format != FORMAT || head.version != 1 {
                let problem =
                    format!("expected {FORMAT} version 1, found {} version {}", head.format, head.version);
                return Err(fail(number, problem));
            }
            design = Some(head.design);
            continue;
        };
        let run: Run = serde_json::from_str(&text).map_err(|e| fail(number, e.to_string()))?;
        if run.variant >= known.variants.len() {
            return Err(fail(number, format!("variant {} is not in the design", run.variant)));
        }
        runs.push(run);
    }
    match design {
        Some(design) => Ok((design, runs)),
        None => Err(fail(1, "the file is empty".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::tests::design;

    #[test]
    fn written_runs_are_read_back_and_a_torn_last_line_is_left_out() {
        let mut bytes = Vec::new();
        write_head(&mut bytes, &design(3)).unwrap();
        let run = Run { round: 1, variant: 1, wall_ns: 5, ..Run::default() };
        write_run(&mut bytes, &run).unwrap();
        bytes.extend_from_slice(b"{\"sequence\":9,");
        let (back, runs) = read(Path::new("r"), &bytes[..]).unwrap();
        assert_eq!(back, design(3));
        assert_eq!(runs, [run]);
    }

    #[test]
    fn another_file_is_refused_with_its_line() {
        let message = read(Path::new("r.jsonl"), &b"{}\n"[..]).unwrap_err().to_string();
        assert!(message.starts_with("r.jsonl, line 1: this is not a file of runs"), "{message}");
        assert!(read(Path::new("r"), &b""[..]).unwrap_err().to_string().contains("empty"));
    }
}
