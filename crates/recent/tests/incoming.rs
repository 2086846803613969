//! What comes in piece by piece comes out as whole recordings: of the samples since the last one,
//! named by all that is mapped, also by parents that have ended.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use calltrees::{Options, Recorded, read};
use perfdata::write::{Encoder, PipeWriter, SampleValues};
use perfdata::{
    EventAttr, Features, Input, MmapEvent, RuntimeAddr, SampleId, TaskEvent, attr_flag, sample_type,
};
use recent::{Incoming, Unreadable, Window};
use std::path::Path;

fn attr() -> EventAttr {
    EventAttr {
        kind: 1,
        period_or_freq: 1_000_000,
        name: Some("cpu-clock".to_owned()),
        sample_type: sample_type::IP | sample_type::TID | sample_type::TIME | sample_type::PERIOD,
        flags: attr_flag::SAMPLE_ID_ALL | attr_flag::MMAP | attr_flag::COMM | attr_flag::TASK,
        ..EventAttr::default()
    }
}

fn at(pid: i32, time: u64) -> SampleId {
    SampleId { pid: Some(pid), tid: Some(pid), time: Some(time), ..SampleId::default() }
}

fn begin() -> Vec<u8> {
    PipeWriter::new(Vec::new(), &[attr()], &Features::default()).unwrap().finish().unwrap()
}

fn map(out: &mut Vec<u8>, pid: i32, path: &str, time: u64) {
    let event = MmapEvent {
        pid,
        tid: pid,
        start: RuntimeAddr(0x1000),
        executable: true,
        len: 0x1000,
        path: path.as_bytes(),
        ..MmapEvent::default()
    };
    Encoder::new(&attr()).mmap(out, &event, &at(pid, time)).unwrap();
}

fn sample(out: &mut Vec<u8>, pid: i32, ip: u64, time: u64) {
    let values = SampleValues { id: at(pid, time), ip, period: 5, ..SampleValues::default() };
    Encoder::new(&attr()).sample(out, &values).unwrap();
}

fn named(recording: &[u8]) -> Recorded {
    let input = Input::from_bytes(recording).unwrap();
    read(Path::new("test"), &input, &Options::new(&|_| Err("not here".to_owned()))).unwrap()
}

/// Library and weight of what was sampled.
fn libraries(recorded: &Recorded) -> Vec<(String, u64)> {
    let of = |stack: &calltrees::Stack| {
        let library = recorded.names.library(stack.functions[0]).unwrap();
        (library.path.clone(), stack.weight.period)
    };
    let mut all: Vec<(String, u64)> = recorded.stacks.iter().map(of).collect();
    all.sort();
    all
}

#[test]
fn each_part_has_its_own_samples_and_all_that_is_mapped() {
    let mut bytes = begin();
    let encoder = Encoder::new(&attr());
    map(&mut bytes, 7, "/bin/first", 1);
    encoder.comm(&mut bytes, 7, 7, b"parent", false, &at(7, 1)).unwrap();
    sample(&mut bytes, 7, 0x1100, 2);
    sample(&mut bytes, 7, 0x1100, 3);
    encoder.lost_samples(&mut bytes, 4, &at(7, 3)).unwrap();
    let mut incoming = Incoming::default();
    assert!(!incoming.has_begun());
    // Piece by piece, cut anywhere.
    bytes.chunks(5).for_each(|piece| incoming.add(piece).unwrap());
    let taken = incoming.take();
    assert_eq!((taken.samples, taken.lost, taken.dropped), (2, 4, 0));
    assert_eq!(libraries(&named(&taken.recording)), [("/bin/first".to_owned(), 10)]);
    // The parent forks and ends; the child is known by what the parent had, in this part and the
    // next.
    let mut bytes = Vec::new();
    let task = |pid, from| TaskEvent { pid, parent_pid: from, tid: pid, parent_tid: from, time: 5 };
    encoder.fork(&mut bytes, &task(8, 7), &at(7, 5)).unwrap();
    encoder.exit(&mut bytes, &task(7, 1), &at(7, 6)).unwrap();
    sample(&mut bytes, 8, 0x1100, 7);
    incoming.add(&bytes).unwrap();
    let taken = incoming.take();
    assert_eq!((taken.samples, taken.lost), (1, 0));
    let found = named(&taken.recording);
    assert_eq!(libraries(&found), [("/bin/first".to_owned(), 5)]);
    assert_eq!(found.threads[0].name, "parent");
    assert_eq!(incoming.processes().collect::<Vec<_>>(), [8]);
    // It becomes another program.
    let mut bytes = Vec::new();
    encoder.comm(&mut bytes, 8, 8, b"other", true, &at(8, 8)).unwrap();
    map(&mut bytes, 8, "/bin/second", 9);
    sample(&mut bytes, 8, 0x1100, 10);
    incoming.add(&bytes).unwrap();
    let size = incoming.take().recording.len();
    let mut bytes = Vec::new();
    sample(&mut bytes, 8, 0x1100, 11);
    incoming.add(&bytes).unwrap();
    let taken = incoming.take();
    assert_eq!(libraries(&named(&taken.recording)), [("/bin/second".to_owned(), 5)]);
    assert!(taken.recording.len() < size, "what the first program had is forgotten");
}

#[test]
fn what_is_no_recording_is_refused() {
    assert_eq!(Incoming::default().add(b"ELF"), Err(Unreadable::NoRecording));
    let mut incoming = Incoming::default();
    let head = begin();
    incoming.add(&head).unwrap();
    let damaged = [9u8, 0, 0, 0, 0, 0, 3, 0];
    assert!(matches!(incoming.add(&damaged), Err(Unreadable::Damaged { .. })));
}

#[test]
fn a_window_adds_up_the_last_parts_under_steady_numbers() {
    let part = |samples: &[(i32, u64)]| {
        let mut bytes = begin();
        map(&mut bytes, 7, "/bin/first", 1);
        map(&mut bytes, 9, "/bin/third", 1);
        samples.iter().zip(2..).for_each(|((pid, ip), time)| sample(&mut bytes, *pid, *ip, time));
        named(&bytes)
    };
    let mut window = Window::new(2);
    assert!(window.is_empty() && window.recorded().stacks.is_empty());
    window.add(Some(&part(&[(7, 0x1100), (9, 0x1100)])));
    let first = window.recorded();
    window.add(Some(&part(&[(9, 0x1100), (9, 0x1200)])));
    let both = window.recorded();
    // Functions keep their numbers, whatever a part calls them.
    assert!(both.names.functions().starts_with(first.names.functions()));
    let third = || "/bin/third".to_owned();
    let sums = [("/bin/first".to_owned(), 5), (third(), 5), (third(), 10)];
    assert_eq!(libraries(&both), sums);
    assert_eq!((both.ledger.samples, both.ledger.used), (4, 4));
    window.add(None);
    assert_eq!(libraries(&window.recorded()), [(third(), 5), (third(), 5)]);
    window.add(None);
    assert!(window.is_empty());
}
