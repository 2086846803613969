//! Samples find their image and address whatever processes, mappings and files do.

use counts::aggregate::{Options, aggregate};
use counts::resolve::Rules;
use counts::{Counts, Error, Reason};
use image::{Image, ImageAddr};
use perfdata::write::{Encoder, FileWriter, SampleValues, StackValues};
use perfdata::{
    BranchEntry, BranchFlags, CpuMode, EventAttr, Features, MmapEvent, RuntimeAddr, SampleId, TaskEvent,
    attr_flag, branch_sample, sample_type,
};
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

/// One loadable segment of a made-up program: address, file offset, executable.
type Piece = (u64, u64, bool);

const CODE_BYTES: usize = 0x100;

/// A program of position-independent code: each executable piece is one-byte instructions, then a jump at +0x80.
fn elf(pieces: &[Piece], align: u64, build_id: u8) -> Vec<u8> {
    let note_at = 0x40 + 56 * (pieces.len() + 1);
    let mut out = vec![0u8; 0x40];
    out[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    out[16..20].copy_from_slice(&[3, 0, 62, 0]);
    out[20] = 1;
    out[32] = 0x40;
    out[52..58].copy_from_slice(&[64, 0, 56, 0, pieces.len() as u8 + 1, 0]);
    let mut header = |kind: u32, flags: u32, offset: u64, address: u64, size: u64, align: u64| {
        out.extend(kind.to_le_bytes());
        out.extend(flags.to_le_bytes());
        for word in [offset, address, address, size, size, align] {
            out.extend(word.to_le_bytes());
        }
    };
    header(4, 4, note_at as u64, note_at as u64, 36, 4);
    for &(address, offset, executable) in pieces {
        header(1, if executable { 5 } else { 4 }, offset, address, CODE_BYTES as u64, align);
    }
    out.extend([4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0]);
    out.extend(b"GNU\0");
    out.extend([build_id; 20]);
    for &(_, offset, _) in pieces {
        out.resize(out.len().max(offset as usize + CODE_BYTES), 0);
        out[offset as usize..][..CODE_BYTES].fill(0x90);
        out[offset as usize + 0x80..][..2].copy_from_slice(&[0xeb, 0xfe]);
    }
    out
}

fn program(build_id: u8) -> Arc<Image> {
    let bytes = elf(&[(0x1000, 0x1000, true)], 0x1000, build_id);
    Arc::new(Image::from_bytes("/opt/app", bytes).expect("image"))
}

/// A recording in the making.
struct Recording {
    encoder: Encoder,
    attr: EventAttr,
    bytes: Vec<u8>,
}

impl Recording {
    fn new() -> Recording {
        use sample_type::{BRANCH_STACK, IP, TID, TIME};
        let attr = EventAttr {
            sample_type: IP | TID | TIME | BRANCH_STACK,
            flags: attr_flag::SAMPLE_ID_ALL,
            branch_sample_type: branch_sample::ANY | branch_sample::USER,
            ..EventAttr::default()
        };
        Recording { encoder: Encoder::new(&attr), attr, bytes: Vec::new() }
    }

    /// `piece`: first address, length, file offset.
    fn map(&mut self, pid: i32, time: u64, piece: (u64, u64, u64), path: &str, id: Option<&[u8]>) {
        let (start, len, pgoff) = piece;
        let event = MmapEvent {
            pid,
            tid: pid,
            start: RuntimeAddr(start),
            len,
            pgoff,
            executable: true,
            build_id: id,
            prot: 5,
            path: path.as_bytes(),
            cpumode: if pid < 0 { CpuMode::Kernel } else { CpuMode::User },
            ..MmapEvent::default()
        };
        self.encoder.mmap2(&mut self.bytes, &event, &at(pid, time)).expect("encoded");
    }

    fn fork(&mut self, pid: i32, parent: i32, time: u64) {
        let task = TaskEvent { pid, parent_pid: parent, tid: pid, parent_tid: parent, time };
        self.encoder.fork(&mut self.bytes, &task, &at(pid, time)).expect("encoded");
    }

    fn exec(&mut self, pid: i32, time: u64) {
        self.encoder.comm(&mut self.bytes, pid, pid, b"app", true, &at(pid, time)).expect("encoded");
    }

    /// A sample whose stack (newest first) holds `branches`.
    fn sample(&mut self, pid: i32, time: u64, branches: &[(u64, u64, u64)]) {
        let branches: Vec<BranchEntry> = branches
            .iter()
            .map(|&(f, t, flags)| BranchEntry {
                from: RuntimeAddr(f),
                to: RuntimeAddr(t),
                flags: BranchFlags(flags),
            })
            .collect();
        let ip = branches[0].to.0;
        let stacks = StackValues { branches: &branches, ..StackValues::default() };
        let values =
            SampleValues { cpumode: CpuMode::User, id: at(pid, time), ip, stacks, ..SampleValues::default() };
        self.encoder.sample(&mut self.bytes, &values).expect("encoded");
    }

    fn file(&self) -> Vec<u8> {
        let mut writer =
            FileWriter::new(Cursor::new(Vec::new()), std::slice::from_ref(&self.attr)).expect("begun");
        writer.append(&self.bytes).expect("appended");
        writer.finish(&Features::default()).expect("finished").into_inner()
    }

    fn count(&self, images: &[Arc<Image>]) -> Result<Counts, Error> {
        self.count_by(images, Rules::Auto)
    }

    fn count_by(&self, images: &[Arc<Image>], rules: Rules) -> Result<Counts, Error> {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        std::fs::write(file.path(), self.file()).expect("written");
        let input = perfdata::Input::open(file.path()).expect("opened");
        let found = aggregate(
            file.path(),
            &input,
            images,
            Options { rules, threads: 2, pid: None, paths: false },
            &|_| {},
        )?;
        assert!(found.counts.ledger.balances());
        Ok(found.counts)
    }
}

fn at(pid: i32, time: u64) -> SampleId {
    SampleId { pid: Some(pid), tid: Some(pid), time: Some(time), ..SampleId::default() }
}

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
    let image = Image::from_bytes("/opt/app", elf(&[(0x1_1000, 0x1000, true)], 0x1_0000, 1)).expect("image");
    let mut r = Recording::new();
    // The page that holds file offset 0x1000 starts at offset 0 and is mapped at 0x10000 above the base.
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
    // The jump leads backwards to +0x10, so a second jump from the same place is a loop; forwards it is a doubling.
    let mut r = Recording::new();
    r.map(10, 1, (0x1000, 0x1000, 0x1000), "/opt/app", None);
    r.sample(10, 5, &[(0x1080, 0x1090, 0), (0x1080, 0x1090, 0), (0x1080, 0x1010, 0)]);
    let counts = r.count(&[program(1)]).expect("counts");
    let image = &counts.images[0];
    let forward = image.branches.iter().find(|b| b.to == Some(ImageAddr(0x1090))).expect("kept once");
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
    let options = Options { rules: Rules::Auto, threads: 1, pid: None, paths: false };
    let found = counts::script::aggregate(Path::new("script"), text.as_bytes(), &[program(1)], options)
        .expect("counts");
    assert_loop_counted(&found.counts, 1);
}
