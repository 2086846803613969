//! Does what somebody else put in the place of a file stay as it is, and does nothing wait for it?
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// A folder with a file that nobody may change, and a link, a fifo and a file of any mode that lead
/// others there.
struct Planted {
    folder: tempfile::TempDir,
}

const KINDS: [&str; 3] = ["link", "fifo", "file"];

impl Planted {
    fn new() -> Planted {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("victim"), "as it was").unwrap();
        symlink("victim", folder.path().join("link")).unwrap();
        assert!(
            std::process::Command::new("mkfifo")
                .arg(folder.path().join("fifo"))
                .status()
                .unwrap()
                .success()
        );
        let file = folder.path().join("file");
        fs::write(&file, "planted").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        Planted { folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn unharmed(&self) {
        assert_eq!(fs::read(self.at("victim")).unwrap(), b"as it was");
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_file_is_private_until_it_is_whole_and_then_as_any_other() {
    let planted = Planted::new();
    fs::write(planted.at("plain"), "").unwrap();
    for kind in KINDS {
        let mut file = beside::Unfinished::at(&planted.at(kind)).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(mode(file.name()), 0o600);
        assert!(beside::unfinished().iter().any(|name| name == file.name()));
        let name = file.name().to_owned();
        file.finish().unwrap();
        assert!(!name.exists() && !beside::unfinished().contains(&name));
        let found = fs::symlink_metadata(planted.at(kind)).unwrap();
        assert!(found.is_file());
        assert_eq!(fs::read(planted.at(kind)).unwrap(), b"new");
        assert_eq!(mode(&planted.at(kind)), mode(&planted.at("plain")));
    }
    planted.unharmed();
}

/// A file in the place of `/dev/null` would take what every program of the system writes.
#[test]
fn devices_and_links_to_them_are_not_replaced() {
    let planted = Planted::new();
    symlink("/dev/null", planted.at("null")).unwrap();
    symlink("fifo", planted.at("joined")).unwrap();
    let mut refused = vec![
        planted.at("null"),
        planted.at("joined"),
        "/dev/stdout".into(),
        "/proc/self/exe".into(),
    ];
    // Only root makes devices, and only there does the name itself stand for one that could be
    // replaced.
    let node = planted.at("node");
    let made = std::process::Command::new("mknod").arg(&node).args(["c", "1", "3"]).output();
    if made.is_ok_and(|made| made.status.success()) {
        refused.push(node);
    } else {
        eprintln!("skipped: a device of our own cannot be made here");
    }
    for place in refused {
        let before = fs::symlink_metadata(&place).unwrap().file_type();
        let errors = [
            beside::write(&place, "new").unwrap_err(),
            beside::Unfinished::at(&place).unwrap_err(),
            beside::fresh(&place).unwrap_err(),
            beside::copy(&planted.at("victim"), &place).unwrap_err(),
        ];
        assert!(errors.iter().all(|error| error.to_string().contains("device")), "{errors:?}");
        assert_eq!(fs::symlink_metadata(&place).unwrap().file_type(), before);
    }
    planted.unharmed();
}

#[test]
fn one_that_is_given_up_leaves_nothing() {
    let planted = Planted::new();
    let before = fs::read_dir(planted.folder.path()).unwrap().count();
    let file = beside::Unfinished::at(&planted.at("new")).unwrap();
    let name = file.name().to_owned();
    drop(file);
    assert!(!name.exists() && !beside::unfinished().contains(&name));
    assert_eq!(fs::read_dir(planted.folder.path()).unwrap().count(), before);
}

#[test]
fn logs_take_the_place_of_what_was_planted() {
    for kind in KINDS {
        let planted = Planted::new();
        let mut log = beside::fresh(&planted.at(kind)).unwrap();
        log.write_all(b"line\n").unwrap();
        assert_eq!(fs::read(planted.at(kind)).unwrap(), b"line\n");
        planted.unharmed();
    }
    let planted = Planted::new();
    fs::create_dir(planted.at("folder")).unwrap();
    assert!(beside::fresh(&planted.at("folder")).is_err());
}

#[test]
fn only_own_files_are_added_to_and_no_fifo_is_waited_for() {
    let planted = Planted::new();
    for kind in ["link", "fifo"] {
        assert!(beside::append(&planted.at(kind)).is_err(), "{kind}");
        assert!(beside::read_write(&planted.at(kind)).is_err(), "{kind}");
        assert!(beside::read_own(&planted.at(kind)).is_err(), "{kind}");
    }
    beside::append(&planted.at("victim")).unwrap().write_all(b"!").unwrap();
    assert_eq!(fs::read(planted.at("victim")).unwrap(), b"as it was!");
    beside::read_write(&planted.at("lock")).unwrap();
    beside::read_own(&planted.at("lock")).unwrap();
}

#[test]
fn names_are_never_taken_twice() {
    let planted = Planted::new();
    for kind in KINDS {
        let refused = beside::exclusive(&planted.at(kind), beside::PRIVATE).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists, "{kind}");
    }
    let dir = planted.folder.path();
    let names: std::collections::BTreeSet<PathBuf> =
        (0..100).map(|_| beside::file_named(dir, "a.", ".part").unwrap().0).collect();
    assert_eq!(names.len(), 100);
    let made = beside::directory_named(dir, "b.", ".part").unwrap();
    assert_eq!((mode(&made), made.is_dir()), (0o700, true));
    planted.unharmed();
}

#[test]
fn a_copy_has_the_mode_of_its_original() {
    let planted = Planted::new();
    fs::set_permissions(planted.at("victim"), fs::Permissions::from_mode(0o755)).unwrap();
    beside::copy(&planted.at("victim"), &planted.at("file")).unwrap();
    assert_eq!(
        (mode(&planted.at("file")), fs::read(planted.at("file")).unwrap()),
        (0o755, b"as it was".to_vec())
    );
}

/// Files of another user can be made by root alone.
#[test]
fn files_and_pipes_of_somebody_else_are_refused_where_all_may_write() {
    let planted = Planted::new();
    fs::set_permissions(planted.folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    for kind in ["fifo", "file"] {
        if std::os::unix::fs::chown(planted.at(kind), Some(65534), None).is_err() {
            eprintln!("skipped: files of another user need root");
            return;
        }
    }
    // Without the kernel's own answer (fs.protected_regular) it is ours.
    let refused = beside::append(&planted.at("file")).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied, "{refused}");
    let refused = beside::sink(&planted.at("fifo")).unwrap_err().to_string();
    assert!(refused.contains("belongs to user 65534"), "{refused}");
    assert!(beside::sink(Path::new("/dev/null")).is_ok());
    // A new file takes the place of another user's, and is the caller's.
    beside::write(&planted.at("file"), "new").unwrap();
    let own = fs::metadata(planted.at("victim")).unwrap().uid();
    assert_eq!(fs::metadata(planted.at("file")).unwrap().uid(), own);
}
