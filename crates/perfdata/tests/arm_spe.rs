//! The decoder of Arm SPE data takes any bytes, ends, and gives the same records however the bytes
//! are cut into blocks.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use perfdata::spe::{Decoded, Decoder, SpeAddress, SpeRecord};
use proptest::prelude::*;

/// Decodes `bytes` in blocks of these sizes, over and over; what is left of a block stands before
/// the next one.
fn decode(bytes: &[u8], blocks: &[usize]) -> (Vec<SpeRecord>, Decoded) {
    let mut decoder = Decoder::new(0);
    let (mut records, mut held) = (Vec::new(), Vec::new());
    let (mut rest, mut sizes) = (bytes, blocks.iter().cycle());
    while !rest.is_empty() {
        let (block, after) = rest.split_at((*sizes.next().unwrap()).clamp(1, rest.len()));
        held.extend(block);
        rest = after;
        let used = decoder.decode(&held, rest.is_empty(), |record| records.push(record));
        held.drain(..used);
        assert!(held.len() < 10, "the decoder holds back {} bytes", held.len());
    }
    assert!(held.is_empty());
    (records, decoder.decoded())
}

/// A record of a taken branch.
fn branch(address: u64) -> Vec<u8> {
    let mut out = vec![0xb0];
    out.extend((address | 1 << 63).to_le_bytes());
    out.extend([0x4a, 0, 0x42, 2, 0xb1]);
    out.extend(((address + 0x40) | 1 << 63).to_le_bytes());
    out.push(1);
    out
}

/// Headers that mean something, more often than chance would give them.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let header = prop::sample::select(vec![
        0, 1, 0x71, 0x42, 0x52, 0x62, 0x72, 0x43, 0x64, 0x65, 0x48, 0x49, 0x4a, 0xb0, 0xb1, 0xb4,
        0x98, 0x20, 0x23,
    ]);
    let piece = prop_oneof![
        3 => prop::collection::vec(header, 1..3),
        2 => prop::collection::vec(any::<u8>(), 0..9),
        1 => any::<u32>().prop_map(|address| branch(u64::from(address))),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_decoded_alike_however_they_are_cut(
        bytes in bytes(), blocks in prop::collection::vec(1usize..40, 1..5),
    ) {
        let whole = decode(&bytes, &[bytes.len().max(1)]);
        prop_assert_eq!(&decode(&bytes, &blocks), &whole);
        prop_assert_eq!(whole.0.len() as u64, whole.1.records);
        prop_assert!(whole.0.iter().all(|record| record.address.is_some()));
    }

    #[test]
    fn damage_in_one_record_leaves_the_others_whole(
        damaged in 0usize..8, at in 0usize..23, value in prop::sample::select(vec![0xffu8, 0x80, 2, 0x3f]),
    ) {
        let mut bytes: Vec<u8> = (0..8).flat_map(|nth| branch(0x1000 + nth * 0x100)).collect();
        let len = bytes.len() / 8;
        bytes[damaged * len + at.min(len - 1)] = value;
        let (records, decoded) = decode(&bytes, &[1 << 20]);
        // A damaged end packet takes the next record along.
        prop_assert!(records.len() >= 6, "{records:?} {decoded:?}");
        for nth in (0..8).filter(|&nth| nth != damaged && nth != damaged + 1) {
            let address = SpeAddress((0x1000 + nth as u64 * 0x100) | 1 << 63);
            let found = records.iter().filter(|record| record.branch().is_some_and(|b| b.from == address));
            prop_assert_eq!(found.count(), 1, "record {} of {:?}", nth, records);
        }
    }
}

#[test]
fn a_record_that_is_broken_off_does_not_lend_its_packets_to_the_next() {
    let whole = branch(0x5000);
    // Address and operation of a record, then padding, then a whole one.
    let mut bytes = branch(0x4000)[..11].to_vec();
    bytes.extend([0; 53]);
    bytes.extend(&whole);
    let (records, decoded) = decode(&bytes, &[7]);
    assert_eq!((records.len(), decoded.records, decoded.incomplete), (1, 1, 1));
    assert_eq!(records[0].branch().unwrap().from.runtime().0, 0x5000);
    assert_eq!(records[0].aux_offset, 64);
    // The buffer ends within a record, and within a packet.
    for cut in 1..whole.len() {
        let (records, decoded) = decode(&whole[..cut], &[4]);
        assert_eq!((records.len(), decoded.incomplete, decoded.damaged), (0, 1, 0), "cut at {cut}");
    }
}

#[test]
fn alignment_counts_from_the_begin_of_the_stream() {
    // At offset 3 of the stream, alignment to 16: 13 bytes with its header, whatever stands in
    // them.
    let mut bytes = vec![0x23, 0];
    bytes.extend([0xff; 11]);
    bytes.extend(branch(0x4000));
    for size in [1, 5, 100] {
        let mut decoder = Decoder::new(3);
        let (mut count, mut held) = (0, Vec::new());
        for (nth, block) in bytes.chunks(size).enumerate() {
            held.extend(block);
            let last = (nth + 1) * size >= bytes.len();
            let used = decoder.decode(&held, last, |_| count += 1);
            held.drain(..used);
        }
        assert_eq!((count, decoder.decoded().damaged), (1, 0));
    }
}
