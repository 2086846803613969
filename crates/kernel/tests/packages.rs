//! Programs of Debian's packages as a guest's workload: fetched by the real apt, unpacked, with the libraries that they load.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use kernel::Architecture;
use kernel::packages::files;
use kernel::workload::{Commands, GuestCommand, build_with, over};

fn command(name: &str, words: &[&str]) -> GuestCommand {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    GuestCommand { name: name.to_owned(), words }
}

/// The files of a small package; none, with a sentence, where apt has no lists or no network.
fn hello() -> Option<Vec<kernel::packages::GuestFile>> {
    match files(&["hello".to_owned()], Architecture::X86_64) {
        Ok(files) => Some(files),
        Err(error) => {
            println!("skipped: packages cannot be fetched here: {error}");
            None
        }
    }
}

#[test]
fn a_package_comes_with_what_its_programs_load_and_little_else() {
    let Some(found) = hello() else { return };
    let paths: Vec<&str> = found.iter().map(|file| file.path.as_str()).collect();
    for path in ["usr/bin/hello", "lib/x86_64-linux-gnu/libc.so.6", "lib64/ld-linux-x86-64.so.2"] {
        assert!(paths.contains(&path), "{paths:?}");
    }
    assert!(found.len() < 10 && paths.iter().all(|path| !path.contains("/doc/")), "{paths:?}");
    // The copies run with each other.
    let guest = tempfile::tempdir().unwrap();
    for file in &found {
        let to = guest.path().join(&file.path);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(&to, &file.contents).unwrap();
        std::fs::set_permissions(&to, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut loader = std::process::Command::new(guest.path().join("lib64/ld-linux-x86-64.so.2"));
    loader.arg("--library-path").arg(guest.path().join("lib/x86_64-linux-gnu"));
    let said = loader.arg(guest.path().join("usr/bin/hello")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout), "Hello, world!\n");

    let commands = Commands {
        packages: vec!["hello".to_owned()],
        train: vec![command("greet", &["hello", "-g", "a word"])],
        held: vec![command("other", &["hello"])],
    };
    let archive =
        std::fs::read(build_with(Architecture::X86_64, None, guest.path(), &commands).unwrap())
            .unwrap();
    let list = b"1\tgreet\thello\t-g\ta word\n101\tother\thello\n";
    assert!(archive.windows(list.len()).any(|part| part == list));
    let absent = Commands { train: vec![command("x", &["goodbye"])], ..commands };
    let error =
        build_with(Architecture::X86_64, None, guest.path(), &absent).unwrap_err().to_string();
    assert!(
        error.contains("goodbye is in none of the packages; their programs are: hello"),
        "{error}"
    );
}

#[test]
fn what_is_no_package_or_no_command_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |packages: &[&str], train: Vec<GuestCommand>| {
        let packages = packages.iter().map(|name| (*name).to_owned()).collect();
        let commands = Commands { packages, train, held: Vec::new() };
        build_with(Architecture::X86_64, None, folder.path(), &commands).unwrap_err().to_string()
    };
    let fine = || command("a", &["hello"]);
    let has_lists = std::process::Command::new("apt-cache").args(["show", "hello"]).output();
    let has_lists = has_lists.is_ok_and(|done| done.status.success());
    for (packages, train, why) in [
        (&["no-such-package-here"][..], vec![fine()], "no-such-package-here"),
        (
            &["hello", "no-such-package-here"],
            vec![fine()],
            "--package no-such-package-here: apt knows",
        ),
        (&["--option"], vec![fine()], "expected the name of a Debian package"),
        (&["hello"], vec![], "belong together"),
        (&[], vec![fine()], "belong together"),
        (&["hello"], vec![fine(), fine()], "two commands are called a"),
        (&["hello"], vec![command("a:b", &["hello"])], "letters, digits"),
        (&["hello"], vec![command("a", &[])], "no words"),
        (&["hello"], vec![command("a", &["hello", "a\tb"])], "a tab"),
        (
            &["hello"],
            (0..21).map(|n| command(&format!("c{n}"), &["hello"])).collect(),
            "20 of a kind",
        ),
    ] {
        if packages.contains(&"no-such-package-here") && !has_lists {
            println!("skipped: apt has no lists of packages here");
            continue;
        }
        let error = refused(packages, train);
        assert!(error.contains(why), "{packages:?}: {error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is written");
}

#[test]
fn every_combination_of_parameters_is_a_command_of_its_own() {
    let grid = |name: &str, values: &[&str]| {
        (name.to_owned(), values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>())
    };
    let train =
        vec![command("groups", &["hackbench", "-g", "{g}", "-l{l}"]), command("plain", &["true"])];
    let held = vec![command("threads", &["hackbench", "-T", "-g", "{g}"])];
    let parameters = [grid("l", &["5", "10"]), grid("g", &["1", "2"])];
    let [train, held] = over([train, held], &parameters).unwrap();
    let told = |all: &[GuestCommand]| -> Vec<String> {
        all.iter().map(|one| format!("{}: {}", one.name, one.words.join(" "))).collect()
    };
    assert_eq!(
        told(&train),
        [
            "groups g=1 l=5: hackbench -g 1 -l5",
            "groups g=1 l=10: hackbench -g 1 -l10",
            "groups g=2 l=5: hackbench -g 2 -l5",
            "groups g=2 l=10: hackbench -g 2 -l10",
            "plain: true",
        ]
    );
    assert_eq!(told(&held), ["threads g=1: hackbench -T -g 1", "threads g=2: hackbench -T -g 2"]);
    let nobody = over([vec![command("a", &["b"])], Vec::new()], &[grid("x", &["1"])]).unwrap_err();
    assert!(nobody.to_string().contains("{x}"), "{nobody}");
    let unknown = over([vec![command("a", &["b", "-g{g}"])], Vec::new()], &[]).unwrap_err();
    assert!(unknown.to_string().contains("--parameter g=A,B"), "{unknown}");
    assert!(over([vec![command("a", &["sh", "-c", "{ b; } {}"])], Vec::new()], &[]).is_ok());
    // A grid that is too large is refused, and not made first.
    let wide = grid("x", &["1"; 100]);
    let [many, _] = over([vec![command("a", &["{x}{x}"])], Vec::new()], &[wide]).unwrap();
    assert!(many.len() < 100);
}
