//! The options of `planish record --continuous`.

use record::streaming::bytes;
use std::path::PathBuf;
use std::time::Duration;

/// Recording again and again.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Continuous recording")]
pub struct ContinuousArgs {
    /// Record windows of time again and again until SIGTERM or Ctrl-C, each counted at once into a
    /// shard per program for `planish fleet`; needs --spool
    #[arg(long, requires = "spool", conflicts_with_all = ["output", "report", "whole", "program_output", "exit_code",
          "accept_losses", "force"])]
    pub continuous: bool,
    /// With --continuous: the directory that the shards go to, as ID.counts; a collector that was killed
    /// is taken up from there
    #[arg(long, value_name = "DIR", requires = "continuous")]
    pub spool: Option<PathBuf>,
    /// With --continuous: how long each window is: 5s, 500ms, 1m
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration, requires = "continuous")]
    pub window: Duration,
    /// With --continuous: from the beginning of one window to the next, at least
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration, requires = "continuous")]
    pub every: Duration,
    /// With --continuous: what recording and counting may cost, in percent of one CPU; where it is more,
    /// pauses get longer and samples fewer, and in the end the collector stops with exit code 1
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = share, requires = "continuous")]
    pub cpu_budget: f64,
    /// With --continuous: how large the spool may get; then nothing is recorded until shards are taken
    /// out of it
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size, requires = "continuous")]
    pub spool_limit: u64,
    /// With --continuous: name of the machine in the shards [default: its host name]
    #[arg(long, value_name = "NAME", requires = "continuous")]
    pub host: Option<String>,
    /// With --continuous: what kind of machine it is, for `fleet merge --host-class`
    #[arg(long, value_name = "NAME", requires = "continuous")]
    pub host_class: Option<String>,
    /// With --continuous: where the machine stands, as you call it
    #[arg(long, value_name = "NAME", requires = "continuous")]
    pub region: Option<String>,
    /// With --continuous: the build of the programs, as you call it
    #[arg(long, value_name = "TEXT", requires = "continuous")]
    pub program: Option<String>,
}

/// A time, as `5s`, `500ms`, `2m` or `1h`.
fn duration(text: &str) -> Result<Duration, String> {
    /// Shorter windows hold nothing, and longer ones are days.
    const LEAST_MS: u64 = 10;
    const MOST_MS: u64 = 7 * 86_400_000;
    let (digits, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = match unit {
        "ms" => Some(1),
        "" | "s" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let number = digits.parse::<u64>().ok();
    let ms = unit.zip(number).and_then(|(unit, number)| number.checked_mul(unit));
    let ms = ms.filter(|ms| (LEAST_MS..=MOST_MS).contains(ms)).map(Duration::from_millis);
    ms.ok_or_else(|| "expected a time from 10ms to 168h: a number with ms, s, m or h".to_owned())
}

/// A share of a CPU, as `1%` or `1`.
fn share(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.strip_suffix('%').unwrap_or(text).trim().parse().ok();
    let share = number.filter(|number| (0.001..=10_000.0).contains(number));
    share
        .map(|number| number / 100.0)
        .ok_or_else(|| "it is no percentage from 0.001% to 10000%".to_owned())
}

/// The size of a spool.
fn size(text: &str) -> Result<u64, String> {
    /// Two windows of the least size, and some shards.
    const LEAST: u64 = 1 << 20;
    let size = bytes(text).map_err(|wrong| wrong.to_string())?;
    if size < LEAST { Err("a spool needs 1M at least".to_owned()) } else { Ok(size) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_shares_and_sizes_are_read() {
        let read = ["500ms", "5", "5s", "2m", "1h"].map(duration);
        let ms = [500, 5000, 5000, 120_000, 3_600_000].map(|ms| Ok(Duration::from_millis(ms)));
        assert_eq!(read, ms);
        for bad in ["", "ms", "1ms", "5x", "-1s", "1.5s", "99999999999999999999s", "9999h", "ü"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert_eq!(["1%", "0.5", " 2 %"].map(share), [Ok(0.01), Ok(0.005), Ok(0.02)]);
        for bad in ["", "%", "0", "-1", "nan", "inf", "10001"] {
            assert!(share(bad).is_err(), "{bad}");
        }
        assert_eq!((size("64M"), size("1K").is_err()), (Ok(64 << 20), true));
    }
}
