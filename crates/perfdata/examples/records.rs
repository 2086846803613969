//! What a recording holds, by kind of record: `records PERF.DATA`, to hold against `perf report
//! --stats` of any perf.

use perfdata::{Input, OrderOptions, Record, raw_records};
use std::collections::BTreeMap;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: records PERF.DATA")?;
    let input = Input::open(Path::new(&path))?;
    let mut kinds: BTreeMap<u32, u64> = BTreeMap::new();
    let mut malformed = 0u64;
    let mut chunks = input.chunks()?;
    while let Some(chunk) = chunks.next() {
        let chunk = chunk?;
        for raw in raw_records(&chunk.bytes, chunk.offset, input.endian()) {
            *kinds.entry(raw.kind).or_insert(0) += 1;
            malformed += u64::from(Record::parse(&raw, input.layouts()).is_err());
        }
        chunks.recycle(chunk.bytes);
    }
    for (kind, count) in &kinds {
        println!("{kind:>6} {count}");
    }
    let stats = chunks.stats();
    println!(
        "compressed {} ({} bytes, {} with repaired sizes), truncated {}, unknown {:?}, malformed {malformed}",
        stats.compressed_records,
        stats.compressed_bytes,
        stats.repaired_sizes,
        stats.truncated_bytes,
        stats.unknown_kinds
    );
    let mut ordered = input.ordered(OrderOptions::default())?;
    let mut in_order = 0u64;
    while let Some(record) = ordered.next() {
        record?;
        in_order += 1;
    }
    let met = ordered.stats();
    println!(
        "in order {in_order}: {} late, {} overflows, {} bad",
        met.out_of_order, met.window_overflows, met.bad_records
    );
    Ok(())
}
