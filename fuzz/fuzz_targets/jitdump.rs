//! Whether any dump of code made at run time makes its reader panic, hang, or find what it does not
//! tell of.
#![no_main]

use calltrees::JitDump;
use libfuzzer_sys::fuzz_target;
use perfdata::RuntimeAddr;

fuzz_target!(|bytes: &[u8]| {
    let Ok(dump) = JitDump::read(bytes) else { return };
    let ledger = dump.ledger();
    // No record is smaller than its header of 16 bytes.
    assert!((ledger.damaged + ledger.unknown + ledger.unwinding) * 16 <= bytes.len() as u64);
    let words = bytes.windows(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
    let ends = (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1]);
    for address in ends.chain([u64::MAX]).chain(words.take(64)) {
        for time in [0, 10, 1 << 40, u64::MAX] {
            let function = dump.find(RuntimeAddr(address), time);
            let line = dump.line(RuntimeAddr(address), time);
            assert!(line.is_none() || function.is_some());
        }
    }
});
