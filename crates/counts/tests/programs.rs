//! Programs of one recording counted apart: each with its libraries, and together what they are
//! counted as one.

mod recordings;

use address_spaces::MappedFile;
use counts::aggregate::{CountOptions, aggregate};
use counts::programs::{Programs, by_program};
use counts::resolve::Rules;
use counts::{Reason, merge};
use image::Image;
use recordings::{Recording, elf};
use std::path::Path;

const OPTIONS: CountOptions =
    CountOptions { rules: Rules::Auto, threads: 2, pid: None, paths: false };

fn looping(base: u64) -> [(u64, u64, u64); 2] {
    [(base + 0x1080, base + 0x1010, 0), (base + 0x1080, base + 0x1010, 0)]
}

fn nowhere(_: &MappedFile) -> Option<Image> {
    None
}

/// Two programs with a library of both, a child that begins the other program, and a process of
/// which nothing is known.
fn recording(dir: &Path) -> Recording {
    let path = |name: &str| dir.join(name).display().to_string();
    for (name, id) in [("a", 1), ("b", 2), ("lib", 3)] {
        std::fs::write(dir.join(name), elf(&[(0x1000, 0x1000, true)], 0x1000, id))
            .expect("written");
    }
    let mut r = Recording::new();
    let piece = |base: u64| (base + 0x1000, 0x1000, 0x1000);
    // The executable is what is mapped first, though it lies higher.
    r.map(10, 1, piece(0x5600_0000_0000), &path("a"), Some(&[1; 20]));
    r.map(10, 1, piece(0x5500_0000_0000), &path("lib"), Some(&[3; 20]));
    r.map(11, 1, piece(0x5500_0000_0000), &path("b"), Some(&[2; 20]));
    r.map(11, 1, piece(0x7f00_0000_0000), &path("lib"), Some(&[3; 20]));
    r.sample(10, 5, &looping(0x5600_0000_0000));
    r.sample(10, 6, &looping(0x5500_0000_0000));
    r.sample(11, 5, &looping(0x5500_0000_0000));
    r.sample(11, 6, &looping(0x7f00_0000_0000));
    r.sample(11, 7, &looping(0x7f00_0000_0000));
    // What began as a, and becomes b.
    r.fork(12, 10, 8);
    r.sample(12, 9, &looping(0x5600_0000_0000));
    r.exec(12, 10);
    r.map(12, 10, piece(0x4000_0000), &path("b"), Some(&[2; 20]));
    r.sample(12, 11, &looping(0x4000_0000));
    r.sample(99, 12, &looping(0x4000_0000));
    r
}

fn counted(
    r: &Recording,
    elsewhere: &(dyn Fn(&MappedFile) -> Option<Image> + Sync),
) -> (Programs, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    std::fs::write(file.path(), r.file()).expect("written");
    let input = perfdata::Input::open(file.path()).expect("opened");
    (by_program(file.path(), &input, OPTIONS, elsewhere).expect("counts"), file)
}

#[test]
fn each_program_has_its_samples_and_together_they_are_all() {
    let dir = tempfile::tempdir().expect("directory");
    let (found, file) = counted(&recording(dir.path()), &nowhere);
    let told: Vec<(String, u64, Vec<String>)> = found
        .programs
        .iter()
        .map(|program| {
            let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
            let images = program.counts.images.iter().map(|image| name(&image.path)).collect();
            (name(&program.path), program.samples(), images)
        })
        .collect();
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        told,
        [
            (String::new(), 1, names(&[])),
            ("a".to_owned(), 3, names(&["a", "lib"])),
            ("b".to_owned(), 4, names(&["b", "lib"])),
        ]
    );
    assert_eq!(found.samples, 8);
    assert_eq!(found.programs[1].build_id, "01".repeat(20));
    assert_eq!(found.programs[0].counts.ledger.samples.unused[&Reason::Unmapped], 1);
    assert!(found.programs.iter().all(|program| program.counts.ledger.balances()));
    let input = perfdata::Input::open(file.path()).expect("opened");
    let whole = aggregate(file.path(), &input, &[], OPTIONS, &|_| {}).expect("counts");
    let all = merge(found.programs.into_iter().map(|program| program.counts)).expect("sums");
    assert_eq!(all, whole.counts);
}

#[test]
fn a_file_that_is_not_at_its_path_is_found_elsewhere_by_its_build_id() {
    let dir = tempfile::tempdir().expect("directory");
    let r = recording(dir.path());
    std::fs::remove_file(dir.path().join("a")).expect("removed");
    let of = |programs: &Programs| {
        let program = programs.programs.iter().find(|program| program.path.ends_with("/a"));
        program.expect("a").counts.images.len()
    };
    assert_eq!(of(&counted(&r, &nowhere).0), 1);
    let image = |id: u8| Image::from_bytes("/a", elf(&[(0x1000, 0x1000, true)], 0x1000, id)).ok();
    let of_a = |file: &MappedFile, id| if file.path.ends_with("/a") { image(id) } else { None };
    assert_eq!(of(&counted(&r, &|file| of_a(file, 1)).0), 2);
    assert_eq!(of(&counted(&r, &|file| of_a(file, 9)).0), 1, "another build is none");
}
