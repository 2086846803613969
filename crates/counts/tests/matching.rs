//! Samples find their image and address whatever processes, mappings and files do.

mod recordings;

use counts::aggregate::CountOptions;
use counts::resolve::Rules;
use counts::{Counts, Error, Reason};
use image::{Image, ImageAddr};
use recordings::{Recording, elf, program};
use std::path::Path;
use std::sync::Arc;

/// A loop in the program at `base`: two jumps from +0x1080 back to +0x1010.
fn looping(base: u64) -> [(u64, u64, u64); 2] {
    [(base + 0x1080, base + 0x1010, 0), (base + 0x1080, base + 0x1010, 0)]
}

#[track_caller]
fn assert_loop_counted(counts: &Counts, times: u64) {
    let image = &counts.images[0];
    assert_eq!(image.branches.len(), 1, "{counts:?}");
    assert_eq!(
        (image.branches[0].from, image.branches[0].to),
        (Some(ImageAddr(0x1080)), Some(ImageAddr(0x1010)))
    );
    assert_eq!(image.branches[0].count, 2 * times);
    assert_eq!(
        (image.fall_throughs[0].first, image.fall_throughs[0].last),
        (ImageAddr(0x1010), ImageAddr(0x1080))
    );
    assert_eq!(image.fall_throughs[0].count, times);
}

#[test]
fn two_processes_of_one_program_at_two_bases_keep_all_samples() {
    let mut r = Recording::new();
    for (pid, base) in [(10, 0x5500_0000_0000), (11, 0x5600_0000_0000)] {
        r.map(pid, 1, (base + 0x1000, 0x1000, 0x1000), "/opt/app", None);
        r.sample(pid, 5, &looping(base));
    }
    assert_loop_counted(&r.count(&[program(1)]).expect("counts"), 2);
}

#[test]
fn a_renamed_binary_is_found_by_its_build_id() {
    let mut r = Recording::new();
    r.map(10, 1, (0x5000_1000, 0x1000, 0x1000), "/usr/bin/another-name", Some(&[7; 20]));
    r.sample(10, 5, &looping(0x5000_0000));
    assert_loop_counted(&r.count(&[program(7)]).expect("counts"), 1);
}

#[test]
fn another_build_of_the_same_name_is_refused_with_both_ids() {
    let mut r = Recording::new();
    r.map(10, 1, (0x5000_1000, 0x1000, 0x1000), "/opt/app", Some(&[7; 20]));
    r.sample(10, 5, &looping(0x5000_0000));
    let error = r.count(&[program(8)]).expect_err("another build").to_string();
    assert!(error.contains("0707") && error.contains("0808"), "{error}");
}

#[test]
fn a_mapping_rounded_to_64_kib_pages_still_gives_image_addresses() {
    let image = Image::from_bytes("/opt/app", elf(&[(0x1_1000, 0x1000, true)], 0x1_0000, 1))
        .expect("image");
    let mut r = Recording::new();
    // The page that holds file offset 0x1000 starts at offset 0 and is mapped at 0x10000 above the
    // base.
    r.map(10, 1, (0x5001_0000, 0x1_0000, 0), "/opt/app", None);
    r.sample(10, 5, &[(0x5001_1080, 0x5001_1010, 0)]);
    let counts = r.count(&[Arc::new(image)]).expect("counts");
    assert_eq!(counts.images[0].branches[0].from, Some(ImageAddr(0x1_1080)));
}

#[test]
fn several_executable_segments_in_any_order_are_told_apart() {
    let pieces = [(0x9000, 0x1000, true), (0x3000, 0x2000, false), (0x5000, 0x3000, true)];
    let image = Arc::new(Image::from_bytes("/opt/app", elf(&pieces, 0x1000, 1)).expect("image"));
    let mut r = Recording::new();
    r.map(10, 1, (0x5000_9000, 0x1000, 0x1000), "/opt/app", None);
    r.map(10, 1, (0x5000_5000, 0x1000, 0x3000), "/opt/app", None);
    r.sample(10, 5, &[(0x5000_5080, 0x5000_9010, 0)]);
    let counts = r.count(&[image]).expect("counts");
    let branch = counts.images[0].branches[0];
    assert_eq!((branch.from, branch.to), (Some(ImageAddr(0x5080)), Some(ImageAddr(0x9010))));
}

#[test]
fn a_reused_pid_and_a_remapped_range_use_the_mapping_of_their_time() {
    let mut r = Recording::new();
    r.map(10, 1, (0x5000_1000, 0x1000, 0x1000), "/opt/app", None);
    r.sample(10, 5, &looping(0x5000_0000));
    r.exec(10, 10);
    r.map(10, 11, (0x6000_1000, 0x1000, 0x1000), "/opt/app", None);
    r.sample(10, 15, &looping(0x6000_0000));
    r.sample(10, 16, &looping(0x5000_0000));
    r.fork(20, 10, 17);
    r.sample(20, 18, &looping(0x6000_0000));
    let counts = r.count(&[program(1)]).expect("counts");
    assert_loop_counted(&counts, 3);
    assert_eq!(counts.ledger.samples.unused[&Reason::Unmapped], 1);
    assert_eq!(counts.ledger.branches.unused[&Reason::Unmapped], 2);
}

#[test]
fn records_out_of_order_in_the_file_are_placed_by_their_time() {
    let mut r = Recording::new();
    r.sample(10, 50, &looping(0x5000_0000));
    r.map(10, 1, (0x5000_1000, 0x1000, 0x1000), "/opt/app", None);
    assert_loop_counted(&r.count(&[program(1)]).expect("counts"), 1);
}

#[test]
fn wrong_path_entries_are_dropped_and_their_neighbours_joined() {
    const WRONG_PATH: u64 = 1 << 24;
    let mut r = Recording::new();
    r.map(10, 1, (0x1000, 0x1000, 0x1000), "/opt/app", None);
    r.sample(10, 5, &[(0x1080, 0x1010, 0), (0x1040, 0x1060, WRONG_PATH), (0x1080, 0x1010, 0)]);
    let counts = r.count(&[program(1)]).expect("counts");
    assert_loop_counted(&counts, 1);
    assert_eq!(counts.ledger.branches.unused[&Reason::WrongPath], 1);
}

#[test]
fn a_doubled_newest_entry_is_dropped_with_its_branch() {
    // The jump leads backwards to +0x10, so a second jump from the same place is a loop; forwards
    // it is a doubling.
    let mut r = Recording::new();
    r.map(10, 1, (0x1000, 0x1000, 0x1000), "/opt/app", None);
    r.sample(10, 5, &[(0x1080, 0x1090, 0), (0x1080, 0x1090, 0), (0x1080, 0x1010, 0)]);
    let counts = r.count(&[program(1)]).expect("counts");
    let image = &counts.images[0];
    let forward =
        image.branches.iter().find(|b| b.to == Some(ImageAddr(0x1090))).expect("kept once");
    assert_eq!(forward.count, 1);
    assert_eq!(counts.ledger.branches.unused[&Reason::DuplicateEntry], 1);
    let all = r.count_by(&[program(1)], Rules::Profgen).expect("counts");
    assert_eq!(all.images[0].branches.iter().map(|b| b.count).sum::<u64>(), 3);
}

#[test]
fn a_recording_of_something_else_says_where_the_samples_lie() {
    let mut r = Recording::new();
    r.map(10, 1, (0x5000_1000, 0x1000, 0x1000), "/usr/bin/other", None);
    r.sample(10, 5, &looping(0x5000_0000));
    let error = r.count(&[program(1)]).expect_err("nothing matches").to_string();
    assert!(error.contains("/usr/bin/other"), "{error}");
}

#[test]
fn a_recording_without_samples_is_an_error() {
    let mut r = Recording::new();
    r.map(10, 1, (0x5000_1000, 0x1000, 0x1000), "/opt/app", None);
    let error = r.count(&[program(1)]).expect_err("no samples");
    assert!(matches!(error, Error::NoSamples { .. }), "{error}");
}

#[test]
fn a_sequence_of_execs_and_mappings_without_end_stays_small() {
    let mut r = Recording::new();
    for i in 0..50_000u64 {
        r.map(10, i, (0x10_0000 + i * 0x1000, 0x1000, 0x1000), "/opt/app", None);
    }
    r.sample(10, 60_000, &looping(0x10_0000 - 0x1000));
    assert_loop_counted(&r.count(&[program(1)]).expect("counts"), 1);
}

#[test]
fn perf_script_text_gives_the_same_counts() {
    let text = "app 10/10 PERF_RECORD_MMAP2 10/10: [0x50001000(0x1000) @ 0x1000 08:01 7 0]: r-xp /opt/app\n\
                10 50001010 0x50001080/0x50001010/P/-/-/0 0x50001080/0x50001010/P/-/-/0\n";
    let options = CountOptions { rules: Rules::Auto, threads: 1, pid: None, paths: false };
    let found =
        counts::script::aggregate(Path::new("script"), text.as_bytes(), &[program(1)], options)
            .expect("counts");
    assert_loop_counted(&found.counts, 1);
}
