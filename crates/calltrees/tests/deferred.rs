//! Call chains whose user part the kernel delivers later are put together, for several samples of
//! one cookie.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use calltrees::switching::stack_rows;
use calltrees::{Options, read};
use perfdata::write::{Encoder, FileWriter, SampleValues, StackValues};
use perfdata::{EventAttr, Features, SampleId, attr_flag, kind, misc, sample_type};
use std::io::Cursor;

const CONTEXT_KERNEL: u64 = -128i64 as u64;
const CONTEXT_USER: u64 = -512i64 as u64;
const CONTEXT_USER_DEFERRED: u64 = -640i64 as u64;

fn at(tid: i32, time: u64) -> SampleId {
    SampleId { pid: Some(7), tid: Some(tid), time: Some(time), ..SampleId::default() }
}

/// A record of the kernel's that the encoder has no word for: header, body, and the trailer of TID
/// and TIME.
fn record(out: &mut Vec<u8>, kind: u32, misc: u16, body: &[u64], (tid, time): (i32, u64)) {
    out.extend(kind.to_le_bytes());
    out.extend(misc.to_le_bytes());
    out.extend((8 + 8 * body.len() as u16 + 16).to_le_bytes());
    body.iter().for_each(|word| out.extend(word.to_le_bytes()));
    out.extend(7i32.to_le_bytes());
    out.extend(tid.to_le_bytes());
    out.extend(time.to_le_bytes());
}

#[test]
fn a_chain_gets_the_user_part_of_its_thread_and_cookie() {
    let attr = EventAttr {
        kind: 1,
        config: 3,
        period_or_freq: 1,
        sample_type: sample_type::TID | sample_type::TIME | sample_type::CALLCHAIN,
        flags: attr_flag::SAMPLE_ID_ALL
            | attr_flag::CONTEXT_SWITCH
            | attr_flag::DEFER_CALLCHAIN
            | attr_flag::DEFER_OUTPUT,
        ..EventAttr::default()
    };
    let encoder = Encoder::new(&attr);
    let mut bytes = Vec::new();
    let wait = |bytes: &mut Vec<u8>, tid: i32, time: u64, cookie: u64| {
        let chain = [CONTEXT_KERNEL, 0x8000_0000_0000_1000, CONTEXT_USER_DEFERRED, cookie];
        let stacks = StackValues { callchain: &chain, ..StackValues::default() };
        let values = SampleValues { id: at(tid, time), ip: 0, stacks, ..SampleValues::default() };
        encoder.sample(bytes, &values).unwrap();
        record(bytes, kind::SWITCH, misc::SWITCH_OUT, &[], (tid, time + 1));
        record(bytes, kind::SWITCH, 0, &[], (tid, time + 5));
    };
    // Twice off the CPU before the program runs on: one record for both. The other thread's cookie
    // is of the same number.
    wait(&mut bytes, 8, 10, 77);
    wait(&mut bytes, 8, 20, 77);
    wait(&mut bytes, 9, 30, 77);
    wait(&mut bytes, 9, 40, 78);
    record(
        &mut bytes,
        kind::CALLCHAIN_DEFERRED,
        0,
        &[77, 3, CONTEXT_USER, 0x1111, 0x2223],
        (8, 50),
    );
    record(&mut bytes, kind::CALLCHAIN_DEFERRED, 0, &[77, 1, 0x3333], (9, 51));
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), std::slice::from_ref(&attr)).unwrap();
    writer.append(&bytes).unwrap();
    let whole = writer.finish(&Features::default()).unwrap().into_inner();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), whole).unwrap();
    let input = perfdata::Input::open(file.path()).unwrap();
    let open = |wanted: calltrees::Wanted<'_>| Err(wanted.file.path.clone());
    let options = Options { threads: 2, ..Options::new(&open) };
    let found = read(file.path(), &input, &options).unwrap();
    assert!(found.switching.as_ref().unwrap().ledger.balances());
    let name = |id| found.names.function(id).unwrap().name.clone();
    let mut rows: Vec<(Vec<String>, u64, u64)> = stack_rows(&found)
        .iter()
        .map(|row| {
            let frames = row.functions.unwrap().iter().map(|id| name(*id)).collect();
            let waits = row.times.synchronization;
            (frames, waits.count, waits.total_ns)
        })
        .collect();
    rows.sort();
    let frames = |user: &[&str]| -> Vec<String> {
        let kernel = "0x8000000000001000";
        std::iter::once(&kernel).chain(user).map(|name| (*name).to_owned()).collect()
    };
    // Callers are named by the call, one byte before where they go on.
    let expected =
        [(frames(&[]), 1, 4), (frames(&["0x1111", "0x2222"]), 2, 8), (frames(&["0x3333"]), 1, 4)];
    assert_eq!(rows, expected);
    assert_eq!((found.ledger.deferred, found.ledger.deferred_missing), (4, 1));
    // Waits are no samples: the books hold those of the recording.
    assert_eq!((found.ledger.samples, found.ledger.used), (4, 4));
}
