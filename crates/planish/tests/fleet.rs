//! Counts of a fleet on the command line: merged once each, read by the other commands, and told of.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]

use counts::{Counts, artefact};
use fleet::Recording;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/autofdo").join(name);
    path.display().to_string()
}

fn run(folder: &Path, line: &str) -> Output {
    let line = line.replace("@binary", &fixture("test.binary"));
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(folder).args(line.split_whitespace()).stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn done(folder: &Path, line: &str, code: i32) -> (String, String) {
    let output = run(folder, line);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{line}: {told}");
    (String::from_utf8_lossy(&output.stdout).into_owned(), told)
}

fn read(path: &Path) -> Counts {
    artefact::read(path, std::fs::File::open(path).unwrap()).unwrap()
}

/// Counts of the fixture, and shards of ten hosts with them; the folder.
fn fleet_of_ten() -> (tempfile::TempDir, Counts) {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let line = format!("aggregate {} --binary @binary -o run.counts", fixture("test.lbr"));
    done(here, &line, 0);
    let counts = read(&here.join("run.counts"));
    std::fs::create_dir(here.join("spool")).unwrap();
    for host in 0..10u64 {
        let path = here.join(format!("spool/{host}.counts"));
        let recording = Recording {
            id: format!("r{host}"),
            host: format!("h{host}"),
            host_class: if host < 4 { "web" } else { "batch" }.to_owned(),
            architecture: "x86_64".to_owned(),
            begin: Some(1_700_000_000 + host * 3600),
            end: Some(1_700_000_005 + host * 3600),
            source: "hardware-branches".to_owned(),
            depth: Some(16),
            ..Recording::default()
        };
        fleet::write(&path, &counts, recording, std::fs::File::create(&path).unwrap()).unwrap();
    }
    (folder, counts)
}

#[test]
fn shards_of_hosts_give_the_profile_of_one_recording_with_all_their_samples() {
    let (folder, counts) = fleet_of_ten();
    let here = folder.path();
    let (out, told) = done(here, "fleet merge spool -o all.counts", 0);
    assert!(
        out.is_empty() && told.contains("merged 10 of 10 files: 10 recordings of 10"),
        "{told}"
    );
    let one = counts::merge(vec![counts; 10]).unwrap();
    let path = here.join("one.counts");
    artefact::write(&path, &one, std::fs::File::create(&path).unwrap()).unwrap();
    let mut all = read(&here.join("all.counts"));
    assert_eq!(all.images[0].architecture, "x86_64");
    all.images.iter_mut().for_each(|image| image.architecture.clear());
    assert!(all == one);
    for name in ["one", "all"] {
        done(here, &format!("profile {name}.counts --binary @binary -o {name}.afdo"), 0);
        done(
            here,
            &format!("layout {name}.counts --binary @binary --emit symbol-order --prefix {name}"),
            0,
        );
    }
    let bytes = |name: &str| std::fs::read(here.join(name)).unwrap();
    assert_eq!(bytes("one.afdo"), bytes("all.afdo"));
    // As aggregate adds them up.
    let files = (0..10).map(|host| format!("spool/{host}.counts")).collect::<Vec<_>>().join(" ");
    done(here, &format!("aggregate {files} -o sum.counts"), 0);
    assert!(read(&here.join("sum.counts")) == one);
    // In parts, by a pattern, with the result itself among the inputs.
    for part in 1..=8 {
        let line =
            format!("fleet merge spool/*.counts all.counts --partition {part}/8 -o part{part}");
        done(here, &line, 0);
    }
    let (_, told) = done(here, "fleet merge part? -o again.counts --memory 256", 0);
    assert!(told.contains("merged 8 of 8 files: 10 recordings"), "{told}");
    assert_eq!(bytes("all.counts"), bytes("again.counts"));
    let before = bytes("all.counts");
    let output = run(here, "fleet merge spool -o - -q");
    assert!(output.status.success() && output.stdout == before);
}

#[test]
fn bad_files_are_named_and_the_rest_is_merged() {
    let (folder, _) = fleet_of_ten();
    let here = folder.path();
    let whole = std::fs::read(here.join("spool/0.counts")).unwrap();
    std::fs::write(here.join("spool/cut.counts"), &whole[..whole.len() - 100]).unwrap();
    std::fs::write(here.join("spool/notes.counts"), "not counts\n").unwrap();
    // A page is damaged, which only reading it tells.
    let mut damaged = std::fs::read(here.join("spool/9.counts")).unwrap();
    damaged[30..200].fill(0x55);
    std::fs::write(here.join("spool/9.counts"), damaged).unwrap();
    std::fs::copy(here.join("spool/1.counts"), here.join("spool/copy.counts")).unwrap();
    let (out, told) = done(here, "fleet merge spool -o all.counts --format json", 1);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (json["schema"].as_str(), json["version"].as_u64()),
        (Some("planish-fleet-merge"), Some(1))
    );
    assert_eq!((json["files"].as_u64(), json["merged"].as_u64()), (Some(13), Some(9)), "{told}");
    assert_eq!(json["host_classes"]["web"], 4);
    let list = |key: &str| json[key].as_array().unwrap().clone();
    assert_eq!((list("duplicates").len(), list("rejected").len()), (1, 3), "{out}");
    for part in
        ["rejected: spool/cut.counts", "rejected: spool/notes.counts", "rejected: spool/9.counts"]
    {
        assert!(told.contains(part), "no `{part}` in {told}");
    }
    let (_, told) = done(here, "fleet merge spool -o strict.counts --strict", 2);
    assert!(told.contains("spool/") && !here.join("strict.counts").exists(), "{told}");
    let (_, told) = done(here, "fleet merge spool/notes.counts -o none.counts", 2);
    assert!(told.contains("notes.counts") && !here.join("none.counts").exists(), "{told}");
    let (_, told) = done(here, "fleet merge all.counts -o all.counts", 2);
    assert!(told.contains("is the input"), "{told}");
    done(here, "fleet show spool/notes.counts", 2);
    let (out, told) = done(here, "fleet show spool", 1);
    assert!(out.contains("spool/0.counts: counts of version "), "{out}");
    assert!(told.contains("rejected: spool/cut.counts"), "{told}");
}

#[test]
fn options_choose_and_weigh_and_shards_tell_of_themselves() {
    let (folder, counts) = fleet_of_ten();
    let here = folder.path();
    let first = |path: &str| read(&here.join(path)).images[0].branches[0].count;
    let own = counts.images[0].branches[0].count;
    done(here, "fleet merge spool --host-class web -o web.counts", 0);
    assert_eq!(first("web.counts"), 4 * own);
    done(here, "fleet merge spool --since 1h --now 1700032405 -o late.counts", 0);
    assert_eq!(first("late.counts"), 2 * own);
    let line = "fleet merge spool/8.counts spool/9.counts --decay 1h --now 1700032405 --weight 2 --weight 0.5 -o w.counts";
    done(here, line, 0);
    assert_eq!(first("w.counts"), own + ((own * 32768 + 32768) >> 16));
    let (out, _) = done(here, "fleet show w.counts --format json", 0);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (json["schema"].as_str(), json["version"].as_u64()),
        (Some("planish-fleet-show"), Some(1))
    );
    let recordings = json["shards"][0]["recordings"].as_array().unwrap();
    assert_eq!(recordings[1]["weights"][0], 32768);
    assert_eq!(recordings[0]["host"], "h8");
    let (out, _) = done(here, "fleet show web.counts run.counts", 0);
    for part in ["host classes: web (4)", "2023-11-14 22:13:20 to ", "known by its bytes"] {
        assert!(out.contains(part), "no `{part}` in {out}");
    }
    for (line, part) in [
        ("fleet merge spool --weight 1 --weight 2 -o x", "one weight for each"),
        ("fleet merge spool --partition 9/8 -o x", "expected I/N"),
        ("fleet merge spool --since soon -o x", "an age like 7d"),
        ("fleet merge spool --since 2030-01-01 -o x", "nothing to merge"),
        ("fleet merge none/*.counts -o x", "no file fits"),
        ("fleet merge spool -o - --format json", "both want standard output"),
    ] {
        let (_, told) = done(here, line, 2);
        assert!(told.contains(part) && !here.join("x").exists(), "{line}: {told}");
    }
    let absent: PathBuf = here.join("x");
    assert!(!absent.exists());
}
