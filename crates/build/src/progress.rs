//! How much of a build is done, told from what it prints?
//!
//! ninja counts (`[12/340] …`), CMake's makefiles give per cent (`[ 12%] …`). Other tools print one
//! line for what they compile: theirs are set against the lines of the last build of the same
//! command.

use std::time::Duration;

/// How far a step is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Lines it has printed.
    pub lines: u64,
    /// Objects done, of all; where the build counts them.
    pub objects: Option<(u64, u64)>,
    /// What is done of all, 0 to 1, where something tells it.
    pub share: Option<f64>,
}

/// Below that share the time left is not told: the beginning is no measure of the rest.
const LEAST_SHARE: f64 = 0.05;

impl Progress {
    /// Hears a line; `usual` is the number of lines of the last build.
    pub(crate) fn hear(&mut self, line: &str, usual: Option<u64>) {
        self.lines += 1;
        match counted(line) {
            // Per cent is not a number of objects.
            Some((done, total, objects)) => {
                self.objects = objects.then_some((done, total));
                self.share = Some(done as f64 / total as f64);
            }
            None if self.share.is_none() || self.objects.is_none() => {
                let usual = usual.filter(|&usual| usual > 0);
                let by_lines = usual.map(|usual| (self.lines as f64 / usual as f64).min(1.0));
                self.share = by_lines.or(self.share);
            }
            None => {}
        }
    }

    /// The time left, after `passed`, if the rest goes like what is done.
    pub fn left(&self, passed: Duration) -> Option<Duration> {
        let share = self.share.filter(|share| (LEAST_SHARE..=1.0).contains(share))?;
        Some(passed.mul_f64((1.0 - share) / share))
    }
}

/// What a line counts: done, total, and whether these are objects.
fn counted(line: &str) -> Option<(u64, u64, bool)> {
    let inside = line.trim_start().strip_prefix('[')?.split_once(']')?.0.trim();
    if let Some(percent) = inside.strip_suffix('%') {
        return percent.trim().parse().ok().filter(|&n| n <= 100).map(|done| (done, 100, false));
    }
    let (done, total) = inside.split_once('/')?;
    let (done, total) = (done.trim().parse().ok()?, total.trim().parse().ok()?);
    (total > 0 && done <= total).then_some((done, total, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(lines: &[&str], usual: Option<u64>) -> Progress {
        let mut progress = Progress::default();
        lines.iter().for_each(|line| progress.hear(line, usual));
        progress
    }

    #[test]
    fn ninja_counts_objects_and_cmake_gives_per_cent() {
        let ninja = heard(&["[1/4] CC a.o", "warning: b", "[2/4] CC b.o"], None);
        assert_eq!((ninja.objects, ninja.share, ninja.lines), (Some((2, 4)), Some(0.5), 3));
        assert_eq!(ninja.left(Duration::from_secs(10)), Some(Duration::from_secs(10)));
        let cmake = heard(&["[ 25%] Building C object", "note"], None);
        assert_eq!((cmake.objects, cmake.share), (None, Some(0.25)));
        assert_eq!(cmake.left(Duration::from_secs(10)), Some(Duration::from_secs(30)));
    }

    #[test]
    fn lines_are_set_against_those_of_the_last_build() {
        let other = heard(&["cc a.c", "cc b.c"], Some(8));
        assert_eq!(other.share, Some(0.25));
        assert_eq!(heard(&["a"; 20], Some(8)).share, Some(1.0));
        assert_eq!(heard(&["cc a.c"], None).share, None);
        assert_eq!(heard(&["cc a.c"], Some(1000)).left(Duration::from_secs(1)), None);
    }

    #[test]
    fn what_only_looks_like_a_count_is_none() {
        for line in ["[7/3] x", "[a/b]", "[1/0] x", "[200%] x", "12/340", "[", "[-1/4]", ""] {
            assert_eq!(counted(line), None, "{line}");
        }
    }
}
