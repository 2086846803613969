//! Small files that would become large ones, and devices that never end: does every command refuse
//! them at once, within bounded memory?

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

#[path = "../../kernel/tests/trees/mod.rs"]
mod trees;

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
        for line in [format!("profile show {name}"), format!("profile merge {name} {name} -o out")]
        {
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
            "aggregate DEVICE DEVICE -o out",
            "report waits DEVICE",
            "layout DEVICE --binary @autofdo/test.binary --prefix out",
            "layout check DEVICE",
            "compare show DEVICE",
            "compare --config DEVICE",
            "optimize DEVICE",
            "build DEVICE",
            "report DEVICE",
            "pages check DEVICE",
            "livepatch closure DEVICE",
        ] {
            let line = line.replace("DEVICE", device);
            // Two gigabytes, and a time that a read without end would not keep.
            let found = run(directory.path(), 2 << 20, &line);
            let told = said(&found);
            assert!(
                matches!(found.status.code(), Some(1 | 2)),
                "{line}: {:?} {told}",
                found.status
            );
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

/// What stands in the place of BAD; the files lie in a directory of their own, so that no build has
/// them as its sources.
const KINDS: [&str; 7] = [
    "/dev/zero",
    "../bad/folder",
    "../bad/pipe",
    "../bad/holes",
    "../bad/json",
    "../bad/toml",
    "../bad/line",
];

/// Seconds within which a command ends, whatever it is given; it takes a hundredth of this mostly.
const MOST: Duration = Duration::from_secs(25);

/// A project, a kernel's tree and build, counts and objects, and beside them the bad files.
fn workshop() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("temporary directory");
    let (bad, work) = (folder.path().join("bad"), folder.path().join("work"));
    let write = |path: &Path, bytes: &[u8]| {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        std::fs::write(path, bytes).expect("written");
    };
    std::fs::create_dir_all(bad.join("folder")).expect("made");
    let holes = std::fs::File::create(bad.join("holes")).expect("made");
    holes.set_len(256 << 20).expect("holes take no room");
    write(&bad.join("json"), "[".repeat(100_000).as_bytes());
    write(&bad.join("toml"), format!("a = {}", "[".repeat(100_000)).as_bytes());
    write(&bad.join("line"), &vec![b'x'; 64 << 20]);
    write(
        &work.join("planish.toml"),
        b"[build]\ncommand = 'true'\nbinary = 'app'\n[workload]\ntrain = '{bin} a'\n[evaluate]\ncommand = '{bin} b'\n",
    );
    write(&work.join("a.diff"), b"--- a/a.c\n+++ b/a.c\n@@ -1,1 +1,1 @@\n-int f;\n+int g;\n");
    let mut image = vec![0; 0x1000];
    image.splice(0x202..0x206, *b"HdrS");
    write(&work.join("image"), &image);
    let source = work.join("f.c");
    write(&source, b"int main(int n) { return n + 1; }\n");
    for object in ["objs/f.o", "kernel-build/kernel/fork.o"] {
        let object = work.join(object);
        std::fs::create_dir_all(object.parent().expect("a directory")).expect("made");
        let cc = Command::new("cc").args(["-g", "-c", "-o"]).arg(&object).arg(&source).status();
        assert!(cc.expect("cc runs").success());
    }
    write(
        &work.join("kernel-build/kernel/.fork.o.cmd"),
        b"savedcmd_kernel/fork.o := clang-22 -D__KERNEL__ -c -o kernel/fork.o kernel/fork.c\n",
    );
    write(&work.join("placed_cc_profile.txt"), b"v1\n");
    write(&work.join("placed_ld_profile.txt"), b"main\n");
    let kernel = std::fs::read(Path::new(FIXTURES).join("autofdo/test.binary")).expect("read");
    write(&work.join("kernel-build/vmlinux"), &kernel);
    trees::make(&work.join("linux"), 12);
    for line in [
        "kernel prepare linux",
        "aggregate @autofdo/test.lbr --binary @autofdo/test.binary -o good.counts",
        "kernel config linux",
    ] {
        let found = run(&work, 4 << 20, line);
        assert!(found.status.success(), "{line}: {}", said(&found));
        let tools =
            b"CONFIG_X86_64=y\nCONFIG_CC_IS_CLANG=y\nCONFIG_CLANG_VERSION=220108\nCONFIG_LD_IS_LLD=y\n";
        write(&work.join("kernel-build/.config"), &[&tools[..], &found.stdout].concat());
    }
    folder
}

/// Tries all commands of the list with one kind of file.
fn sweep(bad: &str) {
    let folder = workshop();
    let work = folder.path().join("work");
    let pipe = folder.path().join("bad/pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let is_file = work.join(bad).is_file();
    let (mut tried, mut wrong) = (0, Vec::new());
    for line in include_str!("bombs/arguments.txt").lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = line.splitn(4, '|').map(str::trim).collect();
        let [class, _, _, words] = cells[..] else { panic!("{line}: four cells") };
        if words.is_empty() || class == "opens" && is_file {
            assert!(matches!(class, "writes" | "other" | "opens"), "{line}: words to try");
            continue;
        }
        let (link, words) = match words.strip_prefix("LINK ").and_then(|rest| rest.split_once(' '))
        {
            Some((name, words)) => (Some(work.join(name)), words),
            None => (None, words),
        };
        let kept = link.as_ref().and_then(|link| std::fs::read(link).ok());
        if let Some(link) = &link {
            std::fs::create_dir_all(link.parent().expect("a directory")).expect("made");
            let _ = std::fs::remove_file(link);
            std::os::unix::fs::symlink(work.join(bad), link).expect("linked");
        }
        let mut feeder = Command::new("sh");
        feeder.args(["-c", "exec yes > \"$0\""]).arg(&pipe).stderr(Stdio::null());
        let mut feeder = bad.ends_with("pipe").then(|| feeder.spawn().expect("sh runs"));
        let words = words.replace("BAD", bad);
        let begun = Instant::now();
        let found = ended(&work, &words);
        let took = begun.elapsed();
        if let Some(feeder) = &mut feeder {
            feeder.kill().and_then(|()| feeder.wait()).expect("yes ends");
        }
        if let Some(link) = &link {
            std::fs::remove_file(link).expect("it is a link");
            if let Some(bytes) = kept {
                std::fs::write(link, bytes).expect("written");
            }
        }
        tried += 1;
        let told = [&found.stderr[..], &found.stdout].concat();
        let told = String::from_utf8_lossy(&told);
        let start: String = told.chars().take(2000).collect();
        let code = found.status.code();
        let fine = matches!(code, Some(1 | 2)) || class == "ends" && code == Some(0);
        // Some tell the whole name, some the name as it was given.
        let named = class == "ends" || told.contains(bad.trim_start_matches("../"));
        let short = !told.contains("panicked") && told.len() < 8000;
        if !(fine && named && short && took < MOST) {
            wrong.push(format!(
                "{words}: {:?}, {} bytes, {took:?}: {start}",
                found.status,
                told.len()
            ));
        }
    }
    assert!(wrong.is_empty(), "{bad}: {}", wrong.join("\n\n"));
    assert!(tried > 60, "{tried} lines tried");
}

/// Runs a command with four gigabytes, and ends it when it takes too long.
fn ended(work: &Path, words: &str) -> Output {
    let words = words.replace('@', &format!("{FIXTURES}/"));
    let seconds = MOST.as_secs();
    let script = format!("ulimit -v 4194304 && exec timeout -k 2 {seconds} \"$0\" {words}");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_planish")]).current_dir(work);
    command.stdin(Stdio::null()).output().expect("sh runs")
}

#[test]
fn every_argument_refuses_a_device() {
    sweep(KINDS[0]);
}

#[test]
fn every_argument_refuses_a_directory_or_looks_into_it() {
    sweep(KINDS[1]);
}

#[test]
fn every_argument_ends_with_a_pipe_that_does_not() {
    sweep(KINDS[2]);
}

#[test]
fn every_argument_refuses_a_file_of_holes() {
    sweep(KINDS[3]);
}

#[test]
fn every_argument_refuses_what_is_nested_too_deep() {
    sweep(KINDS[4]);
    sweep(KINDS[5]);
}

#[test]
fn every_argument_refuses_a_line_of_many_megabytes() {
    sweep(KINDS[6]);
}

#[test]
fn counts_artefacts_cannot_fill_the_memory() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let here = directory.path();
    let made = run(
        here,
        4 << 20,
        "aggregate @autofdo/test.lbr --binary @autofdo/test.binary -o good.counts",
    );
    assert!(made.status.success(), "{}", said(&made));
    let good = std::fs::read(here.join("good.counts")).expect("counts");
    // In the place of the first page's header, that of a dictionary: fields 1 to 3 (type, bytes
    // unpacked, bytes packed) and 7 (values, encoding), of which one states 2^31 - 1.
    let page: &[u8] =
        &[0x15, 4, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x15, 2, 0x4c, 0x15, 2, 0x15, 0, 0, 0];
    let values: &[u8] =
        &[0x15, 4, 0x15, 4, 0x15, 2, 0x4c, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x15, 0, 0, 0];
    for (name, header, why) in
        [("page", page, "a decompression bomb"), ("values", values, "2147483647 values")]
    {
        let mut lies = good.clone();
        lies.splice(4..4 + header.len(), header.iter().copied());
        std::fs::write(here.join(name), lies).expect("written");
        for line in [
            format!("aggregate {name} -o out"),
            format!("aggregate {name} --emit text"),
            format!("profile {name} --binary @autofdo/test.binary -o out"),
        ] {
            let found = run(here, 1 << 20, &line);
            let told = said(&found);
            assert_eq!(found.status.code(), Some(2), "{line}: {told}");
            let place = format!("{name}: row group 1, column build_id, offset 4: ");
            assert!(told.contains(&place) && told.contains(why), "{line}: {told}");
        }
    }
}

#[test]
fn numbers_in_files_ask_for_no_endless_work() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let here = directory.path();
    let write = |name: &str, text: &str| std::fs::write(here.join(name), text).expect("written");
    let refused = |line: &str, part: &str| {
        let found = ended(here, line);
        let told = said(&found);
        assert_eq!(found.status.code(), Some(2), "{line}: {told}");
        assert!(told.contains(part) && told.len() < 2000, "{line}: no {part:?} in: {told}");
    };
    let project = "[build]\ncommand = 'true'\nbinary = 'app'\n[workload]\ntrain = '{bin} a'\n[evaluate]\ncommand = '{bin} b'\n";
    write("rounds.toml", &format!("{project}rounds = 4294967295\n"));
    for line in ["build rounds.toml --dry-run", "optimize rounds.toml --dry-run"] {
        refused(line, "rounds = 4294967295");
    }
    let pair = "[[variant]]\nname = 'a'\nbinary = '/bin/true'\n[[variant]]\nname = 'b'\nbinary = '/bin/true'\n\
                [[benchmark]]\nname = 'x'\ncommand = '{bin}'\n";
    write("layouts.toml", &format!("{pair}[compare]\nlayouts = 1000000000\n"));
    refused("compare --config layouts.toml", "layouts = 1000000000");
    write("compared.toml", &format!("{pair}[compare]\nrounds = 4000000000\n"));
    refused("compare --config compared.toml", "rounds = 4000000000");
    refused("compare /bin/true /bin/true --rounds 4000000000 -- {bin}", "4000000000");
    refused("compare /bin/true /bin/true --layouts 4000000000 -- {bin}", "4000000000");
    let measured = ended(here, "compare /bin/true /bin/true --rounds 6 --raw runs.jsonl -- {bin}");
    assert!(matches!(measured.status.code(), Some(0 | 1 | 4)), "{}", said(&measured));
    let runs = std::fs::read_to_string(here.join("runs.jsonl")).expect("runs");
    let changed = |from: &str, to: &str| {
        assert!(runs.contains(from), "{runs}");
        write("changed.jsonl", &runs.replacen(from, to, 1));
    };
    changed("\"rounds\":6", "\"rounds\":4294967295");
    refused("compare show changed.jsonl", "changed.jsonl, line 1");
    changed("\"rounds\":6", "\"rounds\":6,\"looked\":[3,2,3,2]");
    refused("compare show changed.jsonl", "`looked`");
    changed("\"round\":6", "\"round\":4294967295");
    let found = ended(here, "compare show changed.jsonl");
    assert!(matches!(found.status.code(), Some(0..=2 | 4)), "{:?}: {}", found.status, said(&found));
}

#[test]
fn a_text_without_line_ends_is_read_to_a_limit() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let script = format!(
        "ulimit -v 1048576; (echo 'S 401000 1'; tr '\\0' x < /dev/zero) | timeout 25 \"$0\" aggregate - --binary {FIXTURES}/autofdo/test.binary -o out"
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_planish")]).current_dir(directory.path());
    let found = command.output().expect("sh runs");
    assert_eq!(found.status.code(), Some(2), "{}", said(&found));
    assert!(
        said(&found).contains("line 2: expected a line of less than 16 MiB"),
        "{}",
        said(&found)
    );
}
