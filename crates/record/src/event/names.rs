//! The events that the kernel itself names: hardware, software, cache and raw ones
//! (`include/uapi/linux/perf_event.h`).

use super::cache;
use std::cmp::Reverse;

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const CACHE: u32 = 3;
const RAW: u32 = 4;

/// Name, number and other name of the events; perf's spelling.
const HARDWARE_NAMES: [(&str, u64); 14] = [
    ("cpu-cycles", 0),
    ("cycles", 0),
    ("instructions", 1),
    ("cache-references", 2),
    ("cache-misses", 3),
    ("branch-instructions", 4),
    ("branches", 4),
    ("branch-misses", 5),
    ("bus-cycles", 6),
    ("stalled-cycles-frontend", 7),
    ("idle-cycles-frontend", 7),
    ("stalled-cycles-backend", 8),
    ("idle-cycles-backend", 8),
    ("ref-cycles", 9),
];

const SOFTWARE_NAMES: [(&str, u64); 15] = [
    ("cpu-clock", 0),
    ("task-clock", 1),
    ("page-faults", 2),
    ("faults", 2),
    ("context-switches", 3),
    ("cs", 3),
    ("cpu-migrations", 4),
    ("migrations", 4),
    ("minor-faults", 5),
    ("major-faults", 6),
    ("alignment-faults", 7),
    ("emulation-faults", 8),
    ("dummy", 9),
    ("bpf-output", 10),
    ("cgroup-switches", 11),
];

/// `type` and `config` of a name that every machine knows, whether it has such a counter or not.
pub(crate) fn generic(name: &str) -> Option<(u32, u64)> {
    let of = |table: &[(&str, u64)], kind| {
        table.iter().find(|(known, _)| *known == name).map(|(_, config)| (kind, *config))
    };
    of(&HARDWARE_NAMES, HARDWARE)
        .or_else(|| of(&SOFTWARE_NAMES, SOFTWARE))
        .or_else(|| raw(name).map(|config| (RAW, config)))
        .or_else(|| cache::config(name).map(|config| (CACHE, config)))
}

/// Whether [`generic`] knows the name.
pub(crate) fn is_generic(name: &str) -> bool {
    generic(name).is_some()
}

/// `r` and up to 16 hexadecimal digits.
pub(crate) fn raw(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('r')?;
    let all_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if all_hex { u64::from_str_radix(digits, 16).ok() } else { None }
}

/// All fixed names, for suggestions and completion.
pub fn all() -> impl Iterator<Item = String> {
    let fixed = HARDWARE_NAMES.iter().chain(&SOFTWARE_NAMES).map(|(name, _)| (*name).to_owned());
    fixed.chain(cache::all())
}

/// Up to three of the known names that look like `name`, the nearest first.
pub(crate) fn nearest(name: &str, known: impl Iterator<Item = String>) -> Vec<String> {
    /// Longer words are no misspelt names, and comparing them takes time.
    const LONGEST: usize = 80;
    if name.len() > LONGEST {
        return Vec::new();
    }
    let allowed = (name.chars().count() / 3).max(1);
    let lower = name.to_ascii_lowercase();
    let mut found: Vec<(usize, Reverse<usize>, String)> = known
        .filter_map(|candidate| {
            let other = candidate.to_ascii_lowercase();
            let part = lower.len() >= 4 && other.contains(&lower);
            let distance = if part { 1 } else { strsim::levenshtein(&lower, &other) };
            (distance <= allowed).then_some((
                distance,
                Reverse(shared_start(&lower, &other)),
                candidate,
            ))
        })
        .collect();
    found.sort();
    found.dedup();
    found.into_iter().take(3).map(|(_, _, name)| name).collect()
}

fn shared_start(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_kernels_numbers() {
        assert_eq!(generic("cycles"), Some((0, 0)));
        assert_eq!(generic("cs"), Some((1, 3)));
        assert_eq!(generic("L1-icache-load-misses"), Some((3, 0x1_0001)));
        assert_eq!(generic("r1a8"), Some((4, 0x1a8)));
        assert_eq!(generic("r"), None);
        assert_eq!(generic("rcycles"), None);
    }

    #[test]
    fn a_misspelt_name_brings_the_one_that_was_meant_first() {
        let first = |name: &str| nearest(name, all()).into_iter().next();
        assert_eq!(first("cylces").as_deref(), Some("cycles"));
        assert_eq!(first("cpu_clock").as_deref(), Some("cpu-clock"));
        assert_eq!(first("page-fault").as_deref(), Some("page-faults"));
        assert_eq!(first("l1-icache-load-missses").as_deref(), Some("L1-icache-load-misses"));
        assert_eq!(first("entirely-different"), None);
    }
}
