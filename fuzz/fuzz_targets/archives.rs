//! Whether any bytes make the reader of archives panic, hang, take memory without bound, or name a
//! file outside.
#![no_main]

use archives::{MOST_MEMBERS, Packing, read};
use libfuzzer_sys::fuzz_target;
use std::io::Read;
use std::path::Component;

fuzz_target!(|bytes: &[u8]| {
    let Some(packing) = Packing::of(bytes) else { return };
    let mut members = 0;
    let mut unpacked = 0;
    let done = read(bytes, packing, bytes.len() as u64, &mut |member, stream| {
        members += 1;
        assert!(
            member.path.components().all(|part| matches!(part, Component::Normal(_))),
            "{:?}",
            member.path
        );
        let mut head = Vec::new();
        stream.take(300).read_to_end(&mut head)?;
        unpacked += head.len() as u64;
        Ok(())
    });
    assert!(members <= MOST_MEMBERS);
    assert!(unpacked <= (bytes.len() as u64) * 256 + (64 << 20));
    let _ = done.map_err(|error| error.to_string());
});
