//! Whether any bytes make the decoder of Arm SPE data panic or hang, and whether how they are cut
//! into blocks matters.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfdata::spe::{Decoded, Decoder, SpeRecord};

fn decode(bytes: &[u8], block: usize) -> (Vec<SpeRecord>, Decoded) {
    let mut decoder = Decoder::new(0);
    let (mut records, mut held, mut rest) = (Vec::new(), Vec::new(), bytes);
    while !rest.is_empty() {
        let (now, after) = rest.split_at(block.min(rest.len()));
        held.extend_from_slice(now);
        rest = after;
        let used = decoder.decode(&held, rest.is_empty(), |record| records.push(record));
        held.drain(..used);
        assert!(held.len() < 10);
    }
    (records, decoder.decoded())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&block, bytes)) = bytes.split_first() else { return };
    let whole = decode(bytes, bytes.len().max(1));
    assert_eq!(decode(bytes, usize::from(block).max(1)), whole);
    assert_eq!(whole.0.len() as u64, whole.1.records);
});
