//! Whether any bytes make a profile reader panic, hang or take memory without bound, and whether
//! what was read survives being written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use profile::WriteOptions;
use profile::format::{Format, read, write};

fuzz_target!(|bytes: &[u8]| {
    let Ok(first) = read(bytes) else { return };
    if first.functions.is_empty() {
        // The text of no function is an empty file, which is no profile; the command refuses both.
        return;
    }
    for format in [Format::Text, Format::Binary, Format::ExtBinary] {
        let Ok(written) = write(&first, format, &WriteOptions::default()) else { continue };
        let again = read(&written).expect("what we wrote is readable");
        assert_eq!(first.functions.len(), again.functions.len());
        if format != Format::Binary {
            assert_eq!(first.provenance, again.provenance);
        }
    }
});
