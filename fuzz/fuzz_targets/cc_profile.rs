//! Whether any text makes the reader of cc profiles panic, or is written otherwise than it was
//! read.
#![no_main]

use layout::write::{check, order, read_cc};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = order::read(text);
    let findings = check::text(text);
    let Ok(profile) = read_cc::read(text) else { return };
    if findings.is_empty() {
        let again = profile.render().expect("what clang takes can be written");
        assert_eq!(read_cc::read(&again).expect("what was written is read"), profile);
    }
});
