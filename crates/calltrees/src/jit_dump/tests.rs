//! Known answers on dumps that are written here.

use super::reading::{
    CODE_CLOSE, CODE_DEBUG_INFO, CODE_LOAD, CODE_MOVE, CODE_UNWINDING_INFO, MAGIC,
};
use super::*;

struct Written(Vec<u8>);

impl Written {
    fn new() -> Written {
        let mut bytes = Vec::new();
        for word in [MAGIC, 1, 40, 62, 0, 77] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend([0; 16]);
        Written(bytes)
    }

    fn record(&mut self, kind: u32, time: u64, words: &[u64], text: &[u8]) {
        self.0.extend(kind.to_ne_bytes());
        let size = 16 + 8 * words.len() + text.len();
        self.0.extend((size as u32).to_ne_bytes());
        self.0.extend(time.to_ne_bytes());
        words.iter().for_each(|word| self.0.extend(word.to_ne_bytes()));
        self.0.extend(text);
    }

    fn load(&mut self, time: u64, start: u64, size: u64, index: u64, name: &[u8]) {
        let text = [name, &[0], &vec![0x90; size as usize]].concat();
        self.record(CODE_LOAD, time, &[7, start, start, size, index], &text);
    }

    fn read(&self) -> JitDump {
        JitDump::read(self.0.as_slice()).unwrap()
    }
}

fn name(dump: &JitDump, address: u64, time: u64) -> Option<String> {
    dump.find(RuntimeAddr(address), time).map(Cow::into_owned)
}

#[test]
fn code_has_the_name_that_its_address_had_at_the_time() {
    let mut written = Written::new();
    written.load(10, 0x1000, 0x100, 1, b"first");
    written.load(20, 0x1080, 0x100, 2, b"second \xff");
    written.record(CODE_MOVE, 30, &[7, 0x1080, 0x1080, 0x3000, 0x100, 2], &[]);
    written.record(CODE_UNWINDING_INFO, 31, &[8, 8, 8, 0], &[]);
    written.record(CODE_CLOSE, 40, &[], &[]);
    written.record(99, 40, &[], b"later kinds");
    let dump = written.read();
    assert_eq!((dump.pid(), dump.has_arch_times()), (77, false));
    assert_eq!([name(&dump, 0x1000, 9), name(&dump, 0x1100, 15)], [None, None]);
    assert_eq!(name(&dump, 0x10ff, 15).as_deref(), Some("first"));
    assert_eq!(name(&dump, 0x10ff, 25).as_deref(), Some("second \u{fffd}"));
    assert_eq!(name(&dump, 0x107f, 25).as_deref(), Some("first"));
    // Where it lay before it was moved, nothing is known to lie.
    let found = [name(&dump, 0x10ff, 30), name(&dump, 0x1000, 30)];
    assert_eq!(found, [None, Some("first".to_owned())]);
    assert_eq!(name(&dump, 0x30ff, 30).as_deref(), Some("second \u{fffd}"));
    let wanted = DumpLedger { unknown: 1, unwinding: 1, ..DumpLedger::default() };
    assert_eq!(dump.ledger(), wanted);
}

#[test]
fn lines_belong_to_the_code_that_is_loaded_next() {
    let mut written = Written::new();
    let entry = |address: u64, line: u32, name: &[u8]| {
        let numbers = [line.to_ne_bytes(), 0u32.to_ne_bytes()].concat();
        [&address.to_ne_bytes(), &numbers[..], name, &[0]].concat()
    };
    let lines = [
        entry(0x1000, 3, b"a.js"),
        entry(0x1010, 5, &[0xff]),
        entry(0x1020, 1, b"b.js"),
        entry(0xfff, 9, b"before"),
    ];
    written.record(CODE_DEBUG_INFO, 5, &[0x1000, 4], &lines.concat());
    written.load(10, 0x1000, 0x100, 1, b"f");
    written.load(20, 0x1000, 0x100, 2, b"g");
    // A count that is not there.
    written.record(CODE_DEBUG_INFO, 21, &[0x2000, u64::MAX], &entry(0x2000, 4, b"c.js"));
    written.load(22, 0x2000, 0x10, 3, b"h");
    let dump = written.read();
    let line = |address: u64, time: u64| {
        dump.line(RuntimeAddr(address), time).map(|(file, line)| (file.into_owned(), line))
    };
    assert_eq!(line(0x100f, 10), Some(("a.js".to_owned(), 3)));
    assert_eq!(line(0x1010, 10), Some(("a.js".to_owned(), 5)));
    assert_eq!(line(0x10ff, 10), Some(("b.js".to_owned(), 1)));
    assert_eq!([line(0x1010, 20), line(0x1010, 0)], [None, None]);
    assert_eq!(line(0x2001, 22), Some(("c.js".to_owned(), 4)));
    assert_eq!(dump.ledger().damaged, 1);
}

#[test]
fn damaged_dumps_give_what_stands_before_the_damage() {
    let mut written = Written::new();
    written.load(10, 0x1000, 0x100, 1, b"good");
    let whole = written.0.clone();
    // No zero behind the name; no room for the address; an end that is none; unknown code.
    written.record(CODE_LOAD, 11, &[7, 0, 0x1000, 0x10, 2], b"endless");
    written.record(CODE_LOAD, 11, &[7, 0], &[]);
    written.record(CODE_LOAD, 11, &[7, 0, u64::MAX, 2, 3], b"f\0");
    written.record(CODE_MOVE, 11, &[7, 0, 0x1000, 0x2000, 0x10, 99], &[]);
    let dump = written.read();
    assert_eq!((dump.ledger().damaged, dump.ledger().is_cut), (4, false));
    assert_eq!(name(&dump, 0x1001, 12).as_deref(), Some("good"));
    for end in 40..whole.len() {
        let cut = JitDump::read(whole.get(..end).unwrap()).unwrap();
        assert_eq!(cut.ledger().is_cut, end > 40, "{end}");
    }
    // A record that is smaller than its header.
    written.0.extend([0; 16]);
    assert_eq!(written.read().ledger().damaged, 5);
    for wrong in [&b""[..], b"JiTD", &[0; 40]] {
        assert!(JitDump::read(wrong).is_err());
    }
}

#[test]
fn dumps_of_the_other_byte_order_are_read() {
    let mut bytes = Vec::new();
    let word = |bytes: &mut Vec<u8>, word: u32| bytes.extend(word.swap_bytes().to_ne_bytes());
    let long = |bytes: &mut Vec<u8>, word: u64| bytes.extend(word.swap_bytes().to_ne_bytes());
    [MAGIC, 1, 40, 62, 0, 77].iter().for_each(|one| word(&mut bytes, *one));
    [0, 1].iter().for_each(|one| long(&mut bytes, *one));
    word(&mut bytes, CODE_LOAD);
    word(&mut bytes, 16 + 40 + 2);
    [5, 7, 0x1000, 0x1000, 0x10, 1].iter().for_each(|one| long(&mut bytes, *one));
    bytes.extend(b"f\0");
    let dump = JitDump::read(bytes.as_slice()).unwrap();
    assert!(dump.has_arch_times() && dump.pid() == 77);
    assert_eq!(name(&dump, 0x100f, 5).as_deref(), Some("f"));
}
