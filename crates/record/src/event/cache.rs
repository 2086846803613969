//! Names of cache events: a cache, what is done to it, and how that turns out, as
//! `L1-icache-load-misses`.

/// Spellings of each cache, the first one the usual; the position is its number.
const CACHES: [&[&str]; 7] = [
    &["L1-dcache", "L1-data", "L1-d", "L1d"],
    &["L1-icache", "L1-instruction", "L1-i", "L1i"],
    &["LLC", "L2"],
    &["dTLB", "Data-TLB", "d-tlb"],
    &["iTLB", "Instruction-TLB", "i-tlb"],
    &["branch", "branches", "bpu", "btb", "bpc"],
    &["node"],
];
const OPERATIONS: [&[&str]; 3] = [
    &["load", "loads", "read"],
    &["store", "stores", "write"],
    &["prefetch", "prefetches", "speculative-read", "speculative-load"],
];
const RESULTS: [&[&str]; 2] = [&["access", "refs", "Reference", "ops"], &["misses", "miss"]];
/// Which operations exist of each cache, one bit each: an instruction cache is not written.
const POSSIBLE: [u8; 7] = [0b111, 0b101, 0b111, 0b111, 0b001, 0b001, 0b111];

/// The `config` of a cache event's name.
pub(crate) fn config(name: &str) -> Option<u64> {
    let (cache, mut rest) = take(&CACHES, name)?;
    let (mut operation, mut result) = (None, None);
    while !rest.is_empty() {
        let part = rest.strip_prefix('-')?;
        if let (None, Some((found, after))) = (operation, take(&OPERATIONS, part)) {
            (operation, rest) = (Some(found), after);
        } else if let (None, Some((found, after))) = (result, take(&RESULTS, part)) {
            (result, rest) = (Some(found), after);
        } else {
            return None;
        }
    }
    // A cache alone is no event's name.
    if operation.is_none() && result.is_none() {
        return None;
    }
    let (operation, result) = (operation.unwrap_or(0), result.unwrap_or(0));
    let possible = POSSIBLE.get(cache).is_some_and(|mask| mask & 1 << operation != 0);
    possible.then_some(cache as u64 | (operation as u64) << 8 | (result as u64) << 16)
}

/// The longest spelling at the start of `text` that ends at `-` or the end, its number, and what
/// follows.
fn take<'t>(table: &[&[&str]], text: &'t str) -> Option<(usize, &'t str)> {
    let mut best: Option<(usize, usize)> = None;
    for (number, spellings) in table.iter().enumerate() {
        for spelling in *spellings {
            let fits = text
                .get(..spelling.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(spelling));
            let ends = text
                .get(spelling.len()..)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
            if fits && ends && best.is_none_or(|(_, length)| spelling.len() > length) {
                best = Some((number, spelling.len()));
            }
        }
    }
    let (number, length) = best?;
    Some((number, text.get(length..)?))
}

/// The usual spelling of each event that can exist.
pub(crate) fn all() -> impl Iterator<Item = String> {
    CACHES.iter().zip(POSSIBLE).flat_map(|(cache, possible)| {
        let operations = ["load", "store", "prefetch"].into_iter().enumerate();
        operations.filter(move |(number, _)| possible & 1 << number != 0).flat_map(
            move |(_, operation)| {
                let plural = if operation == "prefetch" { "es" } else { "s" };
                let cache = cache.first().copied().unwrap_or_default();
                [format!("{cache}-{operation}{plural}"), format!("{cache}-{operation}-misses")]
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_finds_its_number() {
        assert_eq!(config("L1-dcache-loads"), Some(0));
        assert_eq!(config("L1d-store-miss"), Some(0x1_0100));
        assert_eq!(config("LLC-prefetch-misses"), Some(0x1_0202));
        assert_eq!(config("dTLB-misses"), Some(0x1_0003));
        assert_eq!(config("node-speculative-read-refs"), Some(0x206));
        assert_eq!(config("L1-icache-stores"), None, "an instruction cache is not written");
        for wrong in ["LLC", "LLC-", "LLC-loads-stores", "L1-dcache-loadsx", "", "-"] {
            assert_eq!(config(wrong), None, "{wrong}");
        }
        assert!(all().all(|name| config(&name).is_some()));
    }
}
