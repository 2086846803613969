//! Whether any map of code made at run time makes its reader panic, hang, or find what it does not
//! name.
#![no_main]

use calltrees::PerfMap;
use libfuzzer_sys::fuzz_target;
use perfdata::RuntimeAddr;

fuzz_target!(|bytes: &[u8]| {
    let lines = bytes.split(|&byte| byte == b'\n').count() as u64;
    let map = PerfMap::parse(bytes.to_vec());
    assert!(map.damaged_lines() + map.lines_left_out() <= lines);
    let ends = (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1]);
    for address in ends.chain([u64::MAX]) {
        if let Some(name) = map.find(RuntimeAddr(address)) {
            assert!(!name.is_empty());
        }
    }
});
