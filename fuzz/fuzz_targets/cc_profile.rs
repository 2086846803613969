//! Whether any text makes the reader of cc profiles panic, or is written otherwise than it was read.
#![no_main]

use layout::write::{check, order, read_cc};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = order::read(text);
    let findings = check::text(text);
    let Ok(profile) = read_cc::read(text) else { return };
    if findings.is_empty() {
        // A name may be read from one version that the writer refuses, since another version could not hold it.
        let Ok(again) = profile.render() else { return };
        assert_eq!(read_cc::read(&again).expect("what was written is read"), profile);
    }
});
