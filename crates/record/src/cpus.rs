//! Which CPUs there are, and how lists of them are read.

use crate::Error;
use crate::settings::Wrong;

/// The list of the CPUs that are online, as `0-3,8`.
pub(crate) const ONLINE: &str = "/sys/devices/system/cpu/online";

fn online_list() -> String {
    std::fs::read_to_string(ONLINE).unwrap_or_else(|_| "0".into())
}

/// CPUs that can run something; the first one where the list cannot be read.
pub(crate) fn online() -> Vec<i32> {
    parse(online_list().trim())
}

/// Reads `0-3,8` as a user writes it: sorted, each once.
pub fn cpu_list(text: &str) -> Result<Vec<i32>, Wrong> {
    let mut cpus = parse(text);
    cpus.sort_unstable();
    cpus.dedup();
    let numbers = text.split([',', '-']).all(|part| part.parse::<u16>().is_ok());
    if numbers && !cpus.is_empty() {
        return Ok(cpus);
    }
    Err(Wrong { found: text.to_owned(), expected: "a list of CPUs, as 0-3,8".to_owned() })
}

/// Reads `0-3,8`; what is no number is left out.
pub(crate) fn parse(text: &str) -> Vec<i32> {
    /// More CPUs than any kernel is built for.
    const MOST: i32 = 1 << 16;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<i32>().ok()?, last.parse::<i32>().ok()?);
        Some(first.max(0)..=last.min(MOST))
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// Refuses CPUs that are not there.
pub(crate) fn check(chosen: &[i32]) -> Result<(), Error> {
    let online = online();
    let Some(absent) = chosen.iter().find(|cpu| !online.contains(cpu)) else { return Ok(()) };
    Err(Error::Unfit {
        event: format!("CPU {absent}"),
        reason: format!("it is not online here; the CPUs are {}", online_list().trim()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(parse("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(parse("0"), [0]);
        assert_eq!(parse(""), [0i32; 0]);
        assert_eq!(parse("3-1,-7"), [0i32; 0]);
    }
}
