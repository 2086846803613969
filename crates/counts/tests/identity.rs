//! Which file is taken for the recorded one: kernels by the build ID listed under any name, files
//! without one with a note.

mod recordings;

use counts::aggregate::Aggregated;
use counts::resolve::Rules;
use counts::{Error, Reason};
use image::Image;
use perfdata::CpuMode;
use recordings::{Recording, elf, program};
use std::path::PathBuf;
use std::sync::Arc;

/// Where the made-up kernel was linked, and where it ran.
const LINKED: u64 = 0xffff_ffff_8100_0000;
const RAN: u64 = 0xffff_ffff_9e80_0000;

/// A kernel without sections or symbols: nothing but its build ID or file name says what it is.
fn kernel(name: &str, id: u8) -> Arc<Image> {
    let bytes = elf(&[(LINKED, 0x1000, true)], 0x1000, id);
    Arc::new(Image::from_bytes(name, bytes).expect("image"))
}

/// Two jumps in the kernel that ran at `base`.
fn jumps(base: u64) -> [(u64, u64, u64); 2] {
    [(base + 0x80, base + 0x10, 0), (base + 0x80, base + 0x10, 0)]
}

fn counted(r: &Recording, image: &Arc<Image>) -> Result<Aggregated, Error> {
    r.aggregated(std::slice::from_ref(image), Rules::Auto)
}

fn of_kernel(name: &str, mode: CpuMode) -> Recording {
    let mut r = Recording::new();
    r.map(-1, 0, (RAN, 0x1000, RAN), "[kernel.kallsyms]_text", None);
    r.list(name, 7, mode);
    r.sample(10, 5, &jumps(RAN));
    r
}

#[test]
fn the_kernel_is_bound_by_its_build_id_under_whatever_name_it_is_listed() {
    for (name, mode) in [
        ("[kernel.kallsyms]", CpuMode::Kernel),
        ("[kernel.kallsyms]_text", CpuMode::Kernel),
        ("[kernel.vmlinux]", CpuMode::Kernel),
        ("/tmp/vmlinux", CpuMode::Kernel),
        ("/tmp/vmlinux", CpuMode::Unknown),
        ("/tmp/some-build", CpuMode::Kernel),
    ] {
        let r = of_kernel(name, mode);
        // The right ID binds, though the file is called otherwise and has no sections to know a
        // kernel by.
        let found = counted(&r, &kernel("/tmp/renamed", 7)).expect(name);
        assert_eq!(
            found.counts.images[0].branches[0].from.map(|a| a.0),
            Some(LINKED + 0x80),
            "{name}"
        );
        assert!(found.notes.is_empty(), "{name}: {:?}", found.notes);
        // Another ID does not, though the file is called as the list says.
        let error = counted(&r, &kernel("/tmp/vmlinux", 8)).expect_err(name).to_string();
        assert!(error.contains("0707") && error.contains("0808"), "{name}: {error}");
    }
}

#[test]
fn a_guests_kernel_has_the_guests_build_id() {
    let mut r = Recording::new();
    r.map(-1, 0, (RAN, 0x1000, RAN), "[guest.kernel.kallsyms]_text", None);
    r.list("[kernel.kallsyms]", 6, CpuMode::Kernel);
    r.list("/guest/vmlinux", 7, CpuMode::GuestKernel);
    r.sample(10, 5, &jumps(RAN));
    assert!(counted(&r, &kernel("/tmp/renamed", 7)).is_ok());
    let error = counted(&r, &kernel("/tmp/vmlinux", 6)).expect_err("the host's").to_string();
    assert!(error.contains("0707") && error.contains("0606"), "{error}");
}

#[test]
fn a_build_id_in_the_kernels_mapping_decides() {
    let mut r = Recording::new();
    r.map(-1, 0, (RAN, 0x1000, RAN), "/tmp/vmlinux", Some(&[7; 20]));
    r.sample(10, 5, &jumps(RAN));
    assert!(counted(&r, &kernel("/tmp/renamed", 7)).is_ok());
    let error = counted(&r, &kernel("/tmp/vmlinux", 8)).expect_err("another").to_string();
    assert!(error.contains("0707") && error.contains("0808"), "{error}");
}

#[test]
fn a_program_listed_under_another_path_is_still_known_by_its_build_id() {
    let mut r = Recording::new();
    r.map(10, 1, (0x5000_1000, 0x1000, 0x1000), "/opt/app (deleted)", None);
    r.list("/mnt/image/opt/app", 7, CpuMode::User);
    r.sample(10, 5, &[(0x5000_1080, 0x5000_1010, 0)]);
    let found = counted(&r, &program(7)).expect("counts");
    assert!(found.notes.is_empty(), "{:?}", found.notes);
    let error = counted(&r, &program(8)).expect_err("another").to_string();
    assert!(error.contains("0707") && error.contains("0808"), "{error}");
}

#[test]
fn a_file_that_only_its_name_tells_is_noted_with_its_share() {
    let mut r = Recording::new();
    r.map(10, 1, (0x5000_1000, 0x1000, 0x1000), "/opt/app", None);
    r.map(10, 1, (0x6000_1000, 0x1000, 0x1000), "/opt/other", None);
    r.sample(10, 5, &[(0x5000_1080, 0x5000_1010, 0), (0x6000_1080, 0x6000_1010, 0)]);
    let found = counted(&r, &program(7)).expect("counts");
    let note = &found.notes[0];
    for part in
        ["/opt/app: matched by its name only", "1 of 1 samples and 1 of 2 branches", "no build ID"]
    {
        assert!(note.contains(part), "no `{part}` in {note}");
    }
    // With a build ID there is nothing to say.
    let mut r = Recording::new();
    r.map(10, 1, (0x5000_1000, 0x1000, 0x1000), "/opt/app", Some(&[7; 20]));
    r.sample(10, 5, &[(0x5000_1080, 0x5000_1010, 0)]);
    assert!(counted(&r, &program(7)).expect("counts").notes.is_empty());
}

/// `elsewhere` branches in another program, `here` in the one that is counted.
fn shared(elsewhere: u64, here: u64) -> Aggregated {
    let mut r = Recording::new();
    r.map(10, 1, (0x5000_1000, 0x1000, 0x1000), "/opt/app", None);
    r.map(10, 1, (0x6000_1000, 0x1000, 0x1000), "/opt/other", None);
    for _ in 0..elsewhere {
        r.sample(10, 5, &[(0x6000_1080, 0x6000_1010, 0)]);
    }
    for _ in 0..here {
        r.sample(10, 5, &[(0x5000_1080, 0x5000_1010, 0)]);
    }
    counted(&r, &program(7)).expect("counts")
}

#[test]
fn counts_that_rest_on_almost_nothing_are_an_error_with_cause_and_next_step() {
    let inputs = [PathBuf::from("run.data")];
    let error =
        counts::refuse_too_few(&shared(14_766, 2), &inputs).expect_err("too few").to_string();
    for part in [
        "run.data: only 2 of 14768 branches",
        "names only",
        "/opt/other (14766)",
        "--binary",
        "--allow-few",
    ] {
        assert!(error.contains(part), "no `{part}` in {error}");
    }
    // A hundredth is no longer too few, nor are a thousand of whatever many.
    counts::refuse_too_few(&shared(990, 10), &inputs).expect("1 %");
    counts::refuse_too_few(&shared(0, 1), &inputs).expect("all of a short recording");
    assert!(counts::is_too_few(999, 1_000_000) && !counts::is_too_few(1000, 1_000_000));
}

#[test]
fn a_kernels_map_that_begins_at_0_makes_no_ranges_of_programs_addresses() {
    for (len, pgoff) in
        [(u64::MAX, RAN), (0xffff_ffff_bfff_ffff, RAN), (0x10_0000, 0), (u64::MAX, 0)]
    {
        let mut r = Recording::new();
        r.map(-1, 0, (0, len, pgoff), "[kernel.kallsyms]_text", Some(&[7; 20]));
        r.map(10, 1, (0x5000_1000, 0x1000, 0x1000), "/opt/app", Some(&[9; 20]));
        r.sample(10, 5, &[(0x5000_1080, 0x5000_1010, 0)]);
        r.sample(10, 5, &jumps(RAN));
        // Of a program whose mapping the recording lacks.
        r.sample(10, 6, &jumps(0x1000));
        r.sample(10, 7, &jumps(0x7fff_1000));
        let images = [kernel("/tmp/vmlinux", 7), program(9)];
        let found = r.aggregated(&images, Rules::Auto).expect("counts");
        let ranges: u64 = found
            .counts
            .images
            .iter()
            .flat_map(|i| &i.fall_throughs)
            .map(|range| range.count)
            .sum();
        let unused = &found.counts.ledger.branches.unused;
        assert_eq!(unused.get(&Reason::Unmapped), Some(&4), "{unused:?}");
        assert_eq!(unused.get(&Reason::NotExecutable), None, "{unused:?}");
        if pgoff == RAN {
            assert_eq!((ranges, unused.len()), (1, 1), "{unused:?}");
            let branches =
                &found.counts.images.iter().find(|i| i.path.starts_with('[')).unwrap().branches;
            assert_eq!(branches[0].from.map(|a| a.0), Some(LINKED + 0x80));
        } else {
            // Nothing says where the kernel lay, so its branches have no place, and that is said.
            assert_eq!(
                (ranges, unused.get(&Reason::ImageUnavailable)),
                (0, Some(&2)),
                "{unused:?}"
            );
            assert!(found.notes.iter().any(|n| n.contains("kptr_restrict")), "{:?}", found.notes);
            let alone = counted(&r, &images[0]).expect_err("no place").to_string();
            assert!(alone.contains("kptr_restrict"), "{alone}");
        }
    }
}
