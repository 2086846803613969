//! Small files that would become large ones, and devices that never end: does every command refuse them at once, within
//! bounded memory?

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");

/// Runs planish with so many KiB of address space.
fn run(directory: &Path, kib: u64, line: &str) -> Output {
    let line = line.replace('@', &format!("{FIXTURES}/"));
    let script = format!("ulimit -v {kib} && exec \"$0\" {line}");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_planish")]).current_dir(directory);
    command.stdin(Stdio::null()).output().expect("sh runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn uleb(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// An extended binary profile with one compressed section: a number, then zeros.
fn section(kind: u64, first: &[u8], zeros: u64) -> Vec<u8> {
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(first).expect("memory takes it");
    std::io::copy(&mut std::io::repeat(0).take(zeros), &mut packed).expect("memory takes it");
    let packed = packed.finish().expect("memory takes it");
    let mut content = Vec::new();
    uleb(&mut content, first.len() as u64 + zeros);
    uleb(&mut content, packed.len() as u64);
    content.extend(packed);
    let mut file = Vec::new();
    uleb(&mut file, 0x5350_524f_4634_3204);
    uleb(&mut file, 103);
    let start = file.len() as u64 + 8 + 32;
    for number in [1, kind, 1, start, content.len() as u64] {
        file.extend(u64::to_le_bytes(number));
    }
    file.extend(content);
    file
}

#[test]
fn compressed_profiles_cannot_fill_the_memory() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let mut count = Vec::new();
    uleb(&mut count, 1 << 30);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::copy(&mut std::io::repeat(0).take(1 << 30), &mut packed).expect("memory takes it");
    let bombs = [
        ("names", section(2, &count, 1 << 30)),
        ("fewer-names", section(2, &count, 1 << 24)),
        ("symbols", section(3, &[], 1 << 30)),
        ("fewer-symbols", section(3, &[], 1 << 24)),
        ("functions", section(32, &[], 1 << 30)),
        ("pprof", packed.finish().expect("memory takes it")),
    ];
    for (name, bytes) in bombs {
        assert!(bytes.len() < 8 << 20, "{name} is small");
        std::fs::write(directory.path().join(name), bytes).expect("written");
        for line in [format!("profile show {name}"), format!("profile merge {name} {name} -o out")] {
            let found = run(directory.path(), 1 << 20, &line);
            assert_eq!(found.status.code(), Some(2), "{line}: {}", said(&found));
            assert!(
                said(&found).contains("decompression bomb") || name == "functions",
                "{line}: {}",
                said(&found)
            );
        }
    }
}

#[test]
fn devices_are_refused_at_once() {
    let directory = tempfile::tempdir().expect("temporary directory");
    std::fs::write(directory.path().join("planish.toml"), "").expect("written");
    for device in ["/dev/zero", "/dev/urandom"] {
        for line in [
            "profile show DEVICE",
            "profile diff DEVICE DEVICE",
            "profile trim DEVICE --keep-top 1 -o out",
            "profile match DEVICE --binary @autofdo/test.binary",
            "profile DEVICE --binary @autofdo/test.binary -o out",
            "profile @autofdo/test.lbr --binary DEVICE -o out",
            "aggregate DEVICE -o out",
            "merge DEVICE DEVICE -o out",
            "switches DEVICE",
            "layout DEVICE --binary @autofdo/test.binary -o out",
            "layout check DEVICE",
            "compare --from DEVICE",
            "compare --config DEVICE",
            "optimize DEVICE",
            "build DEVICE",
            "report DEVICE",
            "pages check DEVICE",
            "clones DEVICE",
        ] {
            let line = line.replace("DEVICE", device);
            // Two gigabytes, and a time that a read without end would not keep.
            let found = run(directory.path(), 2 << 20, &line);
            let told = said(&found);
            assert!(matches!(found.status.code(), Some(1 | 2)), "{line}: {:?} {told}", found.status);
            let told = told + &String::from_utf8_lossy(&found.stdout);
            assert!(told.contains("regular file") || told.contains("directory"), "{line}: {told}");
        }
    }
}

#[test]
fn pipes_are_read() {
    let directory = tempfile::tempdir().expect("temporary directory");
    for (file, words) in [
        ("@peers/test.profgen.textprof", "profile show /dev/stdin --top 1"),
        ("@autofdo/test.lbr", "aggregate /dev/stdin --binary @autofdo/test.binary -o out.counts"),
    ] {
        let script = format!("cat {file} | \"$0\" {words}").replace('@', &format!("{FIXTURES}/"));
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_planish")]).current_dir(directory.path());
        let found = command.output().expect("sh runs");
        assert!(found.status.success(), "{words}: {}", said(&found));
    }
}
