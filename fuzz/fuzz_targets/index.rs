//! Whether any index of a recording makes its reader panic, hang, or come back as another one.
#![no_main]

use calltrees::Index;
use libfuzzer_sys::fuzz_target;
use perfdata::Endian;

fuzz_target!(|bytes: &[u8]| {
    let _ = Index::parse(bytes);
    // The checksum is no obstacle to whoever means harm.
    let Some((head, rest)) = bytes.split_at_checked(16) else { return };
    let sum = crc32fast::hash(rest).to_le_bytes();
    let whole = [head.get(..12).unwrap_or_default(), &sum, rest].concat();
    let Ok((index, binding)) = Index::parse(&whole) else { return };
    let again = index.to_bytes(&binding);
    assert_eq!(Index::parse(&again), Ok((index.clone(), binding)));
    let _ = index.record_count(Endian::Little);
    let times = index.times().unwrap_or(0..u64::MAX);
    let middle = times.start / 2 + times.end / 2;
    for part in [times.clone(), times.start..middle, middle..times.end, 0..1] {
        let _ = index.bytes_within(&part);
    }
});
