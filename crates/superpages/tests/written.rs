//! What becomes of a program that is rewritten only where that gains something.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use superpages::{SUPERPAGE, Writes, Written, align_or_copy, check};

#[test]
fn text_is_moved_once_and_what_may_not_be_rewritten_is_copied_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (made, kept, again) = (at("made"), at("kept"), at("again"));
    fs::write(
        at("a.c"),
        "int main(void) { __asm__ volatile(\".fill 0x600000, 1, 0x90\"); return 0; }\n",
    )
    .unwrap();
    let compiled =
        Command::new("gcc").args(["-fuse-ld=bfd", "-o"]).args([&made, &at("a.c")]).status();
    if !compiled.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: gcc or GNU ld is not installed");
    }
    let write = |from, to| align_or_copy(from, to, false, Writes::Large).unwrap();
    let Written::Aligned(done) = write(&made, &kept) else { panic!("it was not rewritten") };
    assert!(done.eligible_bytes >= SUPERPAGE && done.eligible_before == 0, "{done:?}");
    assert_eq!(check(&kept).unwrap().eligible_bytes, done.eligible_bytes);
    assert!(matches!(write(&kept, &again), Written::Copied));
    assert!(fs::read(&kept).unwrap() == fs::read(&again).unwrap());

    fs::set_permissions(&made, fs::Permissions::from_mode(0o4755)).unwrap();
    let Written::Refused(why) = write(&made, &again) else { panic!("it was rewritten") };
    assert!(why.to_string().contains("set-user-id"), "{why}");
    assert!(fs::read(&made).unwrap() == fs::read(&again).unwrap());
    assert_eq!(fs::metadata(&again).unwrap().permissions().mode() & 0o7777, 0o755);
    assert!(align_or_copy(&at("absent"), &again, false, Writes::Large).is_err());
}
