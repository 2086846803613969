//! Whether any stream of bytes makes the reader of a recording that still comes in panic, hang, or
//! give out what did not come in.
#![no_main]

use libfuzzer_sys::fuzz_target;
use recent::Incoming;

fuzz_target!(|bytes: &[u8]| {
    let mut incoming = Incoming::default();
    let Some((size, bytes)) = bytes.split_first() else { return };
    let mut came = 0;
    for (number, piece) in bytes.chunks(usize::from(*size) + 1).enumerate() {
        came += piece.len();
        if incoming.add(piece).is_err() {
            return;
        }
        if number % 8 == 7 {
            let taken = incoming.take();
            // Forked processes have copies of what their parents had.
            assert!(taken.samples <= came as u64 / 8);
        }
    }
    incoming.take();
    assert_eq!(incoming.take().samples, 0);
});
