//! What happens by mistake on the way to a fleet's profile: parts without the others, IDs that are no file names, files
//! of a merge that were damaged meanwhile, counts of nobody's or of another program.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

mod fleet_support;

use fleet_support::{done, fixture, shard};
use std::process::{Command, Stdio};

#[test]
fn a_part_of_a_result_is_no_program() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    shard(here);
    for part in 1..=2 {
        done(here, &format!("fleet merge run.counts --partition {part}/2 -o {part}.counts"), 0);
    }
    for line in [
        "profile 1.counts --binary @binary -o x.afdo",
        "layout 2.counts --binary @binary --emit symbol-order --prefix x",
        "aggregate 1.counts 1.counts -o x.counts",
    ] {
        let (_, said) = done(here, line, 2);
        assert!(said.contains("of 2 of a result; give all parts"), "{line}: {said}");
    }
    done(here, "profile 1.counts 2.counts --binary @binary -o parts.afdo", 0);
    done(here, "profile run.counts --binary @binary -o run.afdo", 0);
    let read = |name: &str| std::fs::read(here.join(name)).unwrap();
    assert_eq!(read("parts.afdo"), read("run.afdo"));
}

#[test]
fn ids_lead_nowhere_else_and_hide_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::create_dir(here.join("spool")).unwrap();
    let recording = fixture("test.lbr");
    for id in ["../../away", ".hidden", "a/b"] {
        done(here, &format!("fleet shard {recording} --binary @binary --id {id} --into spool"), 0);
    }
    let (_, said) = done(here, "fleet merge spool -o all.counts", 0);
    assert!(said.contains("merged 3 of 3 files"), "{said}");
}

#[test]
fn a_damaged_file_of_an_earlier_merge_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    done(here, &format!("aggregate {} --binary @binary -o run.counts", fixture("test.lbr")), 0);
    // More than are open at once.
    done(here, "fleet simulate run.counts --hosts 600 --recordings 1 --share 1 --into spool", 0);
    done(here, "fleet merge spool -o all.counts", 0);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(here).args(["fleet", "merge", "spool", "--keep", "kept", "-o", "-"]);
    let failed = planish.stdin(Stdio::null()).stdout(full).stderr(Stdio::null()).status().unwrap();
    assert!(!failed.success());
    let kept = std::fs::read_dir(here.join("kept")).unwrap();
    let kept: Vec<_> = kept.map(|entry| entry.unwrap().path()).collect();
    assert!(kept.len() > 1, "{kept:?}");
    for (path, cut) in kept.iter().zip([true, false]) {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        match cut {
            true => bytes.truncate(middle),
            false => bytes[middle] ^= 1,
        }
        std::fs::write(path, bytes).unwrap();
    }
    done(here, "fleet merge spool --keep kept -o again.counts", 0);
    let read = |name: &str| std::fs::read(here.join(name)).unwrap();
    assert_eq!(read("all.counts"), read("again.counts"));
}

#[test]
fn what_nobody_counted_has_no_status() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    shard(here);
    let (_, said) = done(here, "fleet status run.counts --for @binary --name tset.binary", 2);
    assert!(said.contains("no shard counts a program called tset.binary; there are"), "{said}");
    let (told, _) = done(here, "fleet status run.counts --for @binary --name test.binary", 4);
    assert!(told.contains("test.binary: 1 recording"), "{told}");
}
