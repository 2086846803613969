//! Input that cannot be used: one clear error or warning each, with the cause in numbers and the
//! next step, exit code 2, and no file left behind.

use crate::bench::{Bench, fixture, has, has_emulation, refuses, succeeds, text};

/// A file that starts as `events.data` does and has `value` written at `at`.
fn changed(at: usize, value: &[u8]) -> Vec<u8> {
    let mut bytes = std::fs::read(fixture("perfdata/events.data")).unwrap();
    bytes[at..at + value.len()].copy_from_slice(value);
    bytes
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Offsets of the fields of perf.data's header.
mod header {
    pub const SIZE: usize = 8;
    pub const ATTR_SIZE: usize = 16;
    pub const ATTRS: usize = 24;
    pub const DATA: usize = 40;
}

/// A pipe-form recording whose compressed record holds `blocks` blocks of 128 KiB, each of 4 bytes:
/// valid records of an unknown kind and 16,448 bytes length, all of them `@`.
fn bomb(records: usize) -> Vec<u8> {
    const BLOCK: u32 = 128 << 10;
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
    while frame.len() < 65_000 {
        let run_length = 1 << 1;
        frame.extend_from_slice(&(run_length | BLOCK << 3).to_le_bytes()[..3]);
        frame.push(b'@');
    }
    // perf.data starts with header and attributes of a recording with -z; its data section is
    // replaced.
    let mut bytes = std::fs::read(fixture("perfdata/zstd.data")).unwrap();
    let data = word(&bytes, header::DATA) as usize;
    bytes.truncate(data);
    for _ in 0..records {
        bytes.extend_from_slice(&81u32.to_le_bytes());
        bytes.extend_from_slice(&0u16.to_le_bytes());
        bytes.extend_from_slice(&(frame.len() as u16 + 8).to_le_bytes());
        bytes.extend_from_slice(&frame);
    }
    let len = (bytes.len() - data) as u64;
    bytes[header::DATA + 8..header::DATA + 16].copy_from_slice(&len.to_le_bytes());
    bytes
}

/// Damaged recordings: name, bytes, what the error must say.
fn damaged_recordings() -> Vec<(&'static str, Vec<u8>, Vec<&'static str>)> {
    let whole = std::fs::read(fixture("perfdata/events.data")).unwrap();
    let data = word(&whole, header::DATA) as usize;
    let attrs = word(&whole, header::ATTRS) as usize;
    let mut zeroed = whole.clone();
    zeroed[..104].fill(0);
    let huge = (1u64 << 60).to_le_bytes();
    let damaged = "damaged";
    vec![
        ("empty", Vec::new(), vec!["empty input"]),
        ("header zeroed", zeroed, vec!["zero bytes", "perf record"]),
        (
            "another file",
            b"\x7fELF\x02\x01\x01\0not a recording\0".to_vec(),
            vec!["PERFILE2", "perf record"],
        ),
        ("header size", changed(header::SIZE, &huge), vec!["1152921504606846976", "104", damaged]),
        ("attr size 0", changed(header::ATTR_SIZE, &[0; 8]), vec!["found 0", damaged]),
        ("attr size 3", changed(header::ATTR_SIZE, &3u64.to_le_bytes()), vec!["found 3", damaged]),
        ("attr size huge", changed(header::ATTR_SIZE, &huge), vec!["1152921504606846976", damaged]),
        ("attrs past the end", changed(header::ATTRS, &huge), vec!["offset 0x18", damaged]),
        ("attrs too long", changed(header::ATTRS + 8, &huge), vec!["offset 0x18", damaged]),
        ("data past the end", changed(header::DATA, &huge), vec!["offset 0x28", damaged]),
        ("attr's own size huge", changed(attrs + 4, &[0xff; 4]), vec!["4294967295", damaged]),
        (
            "event size 0",
            changed(data + 6, &[0, 0]),
            vec!["at least 8 bytes", "size of 0", "record again"],
        ),
        (
            "event size 7",
            changed(data + 6, &[7, 0]),
            vec!["at least 8 bytes", "size of 7", "record again"],
        ),
        ("no data", whole[..data].to_vec(), vec!["the recording is cut", "record again"]),
        ("bomb", bomb(8), vec![]),
    ]
}

#[test]
fn damaged_recordings_end_in_one_error_and_leave_no_file() {
    let bench = Bench::new();
    for (name, bytes, parts) in damaged_recordings() {
        bench.write("perf.data", &bytes);
        let words = ["aggregate", "perf.data", "-o", "run.counts"];
        refuses(&bench.planish(&words), &[&parts[..], &["perf.data"]].concat());
        let binary = fixture("autofdo/test.binary");
        let words =
            ["profile", "perf.data", "--binary", binary.to_str().unwrap(), "-o", "out.afdo"];
        refuses(&bench.planish(&words), &parts);
        if !bytes.is_empty() {
            let read = bench
                .planish_reading(&["aggregate", "-", "-o", "run.counts"], &bench.at("perf.data"));
            let parts: Vec<_> =
                parts.iter().copied().filter(|part| !part.contains("offset")).collect();
            refuses(&read, &parts);
        }
        assert_eq!(bench.files(), ["perf.data"], "{name}");
    }
}

#[test]
fn a_compression_bomb_needs_no_memory() {
    if !has("sh") {
        return;
    }
    let bench = Bench::new();
    bench.write("perf.data", bomb(8));
    let limited = "ulimit -v 1000000; exec \"$0\" aggregate perf.data --threads 2 -o run.counts";
    let ended =
        bench.command("sh").args(["-c", limited, env!("CARGO_BIN_EXE_planish")]).output().unwrap();
    refuses(&ended, &["perf.data"]);
}

/// Changes one byte of an ELF header or section of the fixture.
fn elf(change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = std::fs::read(fixture("autofdo/test.binary")).unwrap();
    change(&mut bytes);
    bytes
}

/// Damaged or unfit images: name, bytes, what the error must say.
fn unfit_images() -> Vec<(&'static str, Vec<u8>, Vec<&'static str>)> {
    let put = |at: usize, value: u64| {
        elf(move |bytes| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes()))
    };
    vec![
        ("empty", Vec::new(), vec!["binary"]),
        ("text", b"int main() {}\n".to_vec(), vec!["ELF"]),
        ("cut in its header", elf(|bytes| bytes.truncate(40)), vec!["binary"]),
        ("cut in half", elf(|bytes| bytes.truncate(bytes.len() / 2)), vec!["binary"]),
        ("sections past the end", put(40, 1 << 50), vec!["binary"]),
        ("segments past the end", put(32, 1 << 50), vec!["binary"]),
        ("no segments", elf(|bytes| bytes[56..58].fill(0)), vec!["binary"]),
        (
            "another program",
            std::fs::read(fixture("autofdo/propeller_sample.bin")).unwrap(),
            vec!["9232 samples"],
        ),
    ]
}

#[test]
fn unfit_images_end_in_one_error_and_leave_no_file() {
    let bench = Bench::new();
    let lbr = fixture("autofdo/test.lbr");
    for (name, bytes, parts) in unfit_images() {
        bench.write("binary", &bytes);
        let words = ["profile", lbr.to_str().unwrap(), "--binary", "binary", "-o", "out.afdo"];
        let message = refuses(&bench.planish(&words), &parts);
        assert!(message.len() < 600, "{name}: one line, not a story: {message}");
        assert_eq!(bench.files(), ["binary"], "{name}");
    }
}

#[test]
fn doctor_looks_at_a_damaged_file_to_the_end() {
    let bench = Bench::new();
    // No section headers that are whole: segments decide what is code, and their sizes add up to
    // more than 64 bits.
    bench.write("binary", elf(|bytes| (bytes[14], bytes[48], bytes[60]) = (0xff, 0xff, 0x80)));
    let ended = bench.planish(&["doctor", "binary"]);
    assert!(
        matches!(ended.status.code(), Some(0 | 1)),
        "{}: {}",
        ended.status,
        text(&ended.stderr)
    );
    assert!(text(&ended.stdout).contains("segments"), "{}", text(&ended.stdout));
}

#[test]
fn an_image_that_is_no_file_is_refused_and_not_waited_for() {
    if !has("mkfifo") {
        return;
    }
    let bench = Bench::new();
    bench.tool("mkfifo", &["fifo"]);
    let lbr = fixture("autofdo/test.lbr");
    for binary in ["fifo", "/dev/zero", "/"] {
        let words = ["profile", lbr.to_str().unwrap(), "--binary", binary, "-o", "out.afdo"];
        refuses(&bench.planish(&words), &[binary, "not a regular file"]);
    }
}

#[test]
fn builds_that_do_not_fit_the_recording_are_told_apart() {
    if !(has("clang-22") && has("llvm-strip-22") && has_emulation()) {
        return;
    }
    let bench = Bench::new();
    bench.source("spin.c");
    bench.source("calls.c");
    let build = |source: &str, output: &str, more: &[&str]| {
        std::fs::create_dir_all(bench.at(output).parent().unwrap()).unwrap();
        bench.tool(
            "clang-22",
            &[&["-O2", "-Wl,--build-id", "-o", output, source][..], more].concat(),
        );
    };
    build("spin.c", "spin", &["-gmlt", "-fdebug-info-for-profiling"]);
    build("spin.c", "later/spin", &["-gmlt", "-O1"]);
    build("calls.c", "calls", &["-gmlt"]);
    bench.tool("llvm-strip-22", &["-o", "stripped", "spin"]);
    bench.tool("llvm-strip-22", &["-g", "-o", "bare", "spin"]);
    bench.emulate(&["./spin", "2000"]);
    let cases: &[(&str, &[&str])] = &[
        ("stripped", &["no debug information", "stripped", "--debug-file"]),
        ("bare", &["no debug information", "-g1"]),
        ("later/spin", &["none of them in later/spin", "build ID", "recorded build"]),
        ("calls", &["none of them in calls", "lie in", "spin", "--binary"]),
        ("absent", &["absent", "No such file"]),
    ];
    for (binary, parts) in cases {
        refuses(
            &bench.planish(&["profile", "perf.data", "--binary", binary, "-o", "out.afdo"]),
            parts,
        );
        assert!(!bench.at("out.afdo").exists(), "{binary}");
    }
    // A stripped binary with its debug file, and the counts of the wrong program.
    let words =
        ["profile", "perf.data", "--binary", "stripped", "--debug-file", "spin", "-o", "out.afdo"];
    succeeds(&bench.planish(&words));
    succeeds(&bench.planish(&[
        "aggregate",
        "-q",
        "perf.data",
        "--binary",
        "spin",
        "-o",
        "spin.counts",
    ]));
    let words = ["profile", "spin.counts", "--binary", "calls", "-o", "other.afdo"];
    refuses(&bench.planish(&words), &["no counts of calls", "spin"]);
}

#[test]
fn a_recording_that_hardly_saw_the_program_says_so_in_numbers() {
    let bench = Bench::new();
    // 5 samples at main of the fixture's binary, 995 elsewhere.
    let listing = "11 401136 0x401136/0x401136/P/-/-/0\n".repeat(1000);
    bench.write("script.txt", listing);
    let binary = fixture("autofdo/test.binary");
    let image = image::Image::open(&binary).unwrap();
    let main = image.functions().iter().find(|f| f.name.contains("main")).unwrap().address.0;
    let inside =
        format!("11 {main:x} {:#x}/{main:#x}/P/-/-/0 {main:#x}/{main:#x}/P/-/-/0\n", main + 4)
            .repeat(5);
    let outside = "11 7f0000001136 0x7f0000001136/0x7f0000001136/P/-/-/0\n".repeat(995);
    bench.write("script.txt", inside + &outside);
    let words = ["profile", "script.txt", "--binary", binary.to_str().unwrap(), "-o", "out.afdo"];
    refuses(&bench.planish(&words), &["only 10 of 1005 branches could be counted", "--allow-few"]);
    let said = succeeds(&bench.planish(&[&words[..], &["--allow-few"]].concat()));
    assert!(
        said.contains("warning: only 5 of 1000 samples (0.5 %)") && said.contains("record"),
        "{said}"
    );
}

#[test]
fn profiles_and_counts_that_are_no_such_thing_are_refused_by_name() {
    let bench = Bench::new();
    bench.write("empty", b"");
    bench.write("text", b"not a profile\n");
    bench.write("cut.counts", b"PAR1\0\0\0\0");
    bench.write("gcov", [0x61, 0x64, 0x63, 0x67, 9, 0, 0, 0]);
    bench.write("gzip", [0x1f, 0x8b, 8, 0, 0, 0]);
    for name in ["empty", "text", "gcov", "gzip", "absent"] {
        for words in [
            &["profile", "show", name][..],
            &["profile", "merge", name, "-o", "out"],
            &["profile", "diff", name, name],
            &["profile", "trim", name, "--cold", "-o", "out"],
        ] {
            refuses(&bench.planish(words), &[name]);
        }
    }
    for name in ["cut.counts", "empty", "text", "absent"] {
        refuses(&bench.planish(&["aggregate", name, name, "-o", "out"]), &[name]);
    }
    let golden = fixture("autofdo/llvm_autoprof.golden.binprof");
    bench.write("cut.afdo", &std::fs::read(golden).unwrap()[..200]);
    refuses(&bench.planish(&["profile", "show", "cut.afdo"]), &["cut.afdo", "offset"]);
    assert!(!bench.files().contains(&"out".to_owned()));
}

#[test]
fn an_output_that_cannot_be_written_is_an_error_before_anything_is_lost() {
    let bench = Bench::new();
    let golden = fixture("autofdo/llvm_autoprof.golden.binprof");
    let golden = golden.to_str().unwrap();
    refuses(&bench.planish(&["profile", "merge", golden, "-o", "absent/out"]), &["absent"]);
    bench.write("kept", "precious");
    bench.write("text", "not a profile\n");
    refuses(&bench.planish(&["profile", "merge", golden, "text", "-o", "kept"]), &["text"]);
    assert_eq!(text(&bench.read("kept")), "precious", "an error leaves the old file alone");
}
