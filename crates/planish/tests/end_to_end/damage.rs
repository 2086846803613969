//! Every truncation and single-byte change of small inputs, through all that the commands do with
//! them: a result or an error, within seconds and bounded memory, and the ledger balances.
//!
//! The ordinary run tries a sample. All values of every byte of the small inputs, and twenty times
//! the sample of the others, take the better part of an hour on two cores:
//! `PLANISH_DAMAGE=all cargo test --release -p planish --test end_to_end damage -- --nocapture`

use crate::bench::{Bench, fixture, has, text};
use counts::aggregate::{CountOptions, aggregate};
use counts::resolve::Rules;
use counts::{Branch, Counts, FallThrough, ImageCounts, artefact};
use image::debug::DebugInfo;
use image::debug_files::DebugSearch;
use image::{Image, ImageAddr, blocks, code};
use layout::verify::Applied;
use layout::write::cc::{CcVersion, Comments, cc_profile};
use profile::attribute::{AttributeOptions, attribute};
use profile::format::{Format, WriteOptions, read, write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// No input of a few kilobytes may keep planish busy for longer, even on a busy machine and
/// unoptimised.
const LONGEST: Duration = Duration::from_secs(8);

/// `PLANISH_DAMAGE=20` tries twenty times as many inputs, `PLANISH_DAMAGE=all` besides everything
/// of small inputs.
fn effort() -> usize {
    std::env::var("PLANISH_DAMAGE").ok().and_then(|times| times.parse().ok()).unwrap_or(if all() {
        20
    } else {
        1
    })
}

fn all() -> bool {
    std::env::var("PLANISH_DAMAGE").is_ok_and(|effort| effort == "all")
}

/// Inputs of which `PLANISH_DAMAGE=all` tries everything, in bytes.
const SMALL: usize = 14_000;

/// The same positions in every run.
struct Positions(u64);

impl Positions {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// Runs `check` on one input, named in a failure.
fn try_one(name: &str, what: &dyn Fn() -> String, bytes: &[u8], check: &(dyn Fn(&[u8]) + Sync)) {
    let start = Instant::now();
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(bytes)));
    assert!(ended.is_ok(), "{name}: panic with {}", what());
    assert!(start.elapsed() < LONGEST, "{name}: {:?} with {}", start.elapsed(), what());
}

/// Runs `check` on damaged copies of `bytes`: `cuts` truncations and `changes` bytes.
fn damaged(name: &str, bytes: &[u8], cuts: usize, changes: usize, check: &(dyn Fn(&[u8]) + Sync)) {
    let mut at = Positions(bytes.len() as u64);
    let (cuts, changes) = (cuts * effort(), changes * effort());
    for cut in (0..bytes.len()).step_by((bytes.len() / cuts.max(1)).max(1)) {
        try_one(name, &|| format!("{cut} bytes left"), &bytes[..cut], check);
    }
    for _ in 0..changes {
        // Headers decide most, so half of the changes fall there.
        let position =
            if at.below(2) == 0 { at.below(bytes.len().min(600)) } else { at.below(bytes.len()) };
        let value = [0, 0xff, 0x80, 1, bytes[position] ^ 0x10, bytes[position].wrapping_add(1)]
            [at.below(6)];
        let mut changed = bytes.to_vec();
        changed[position] = value;
        try_one(name, &|| format!("byte {position:#x} set to {value:#x}"), &changed, check);
    }
}

/// As [`damaged`]; of small inputs, where that is asked for, every truncation and all values of
/// every byte.
fn damaged_small(
    name: &str,
    bytes: &[u8],
    cuts: usize,
    changes: usize,
    check: &(dyn Fn(&[u8]) + Sync),
) {
    if !all() || bytes.len() > SMALL {
        return damaged(name, bytes, cuts, changes, check);
    }
    let (began, next) = (Instant::now(), AtomicUsize::new(0));
    let work = || {
        let mut changed = bytes.to_vec();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(&old) = bytes.get(at) else { return };
            try_one(name, &|| format!("{at} bytes left"), &bytes[..at], check);
            for difference in 1..=255 {
                changed[at] = old ^ difference;
                try_one(
                    name,
                    &|| format!("byte {at:#x} set to {:#x}", old ^ difference),
                    &changed,
                    check,
                );
            }
            changed[at] = old;
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let peak = peak_memory_kib();
    println!("{name}: {} inputs, {:?}, {peak} KiB", bytes.len() * 256, began.elapsed());
    assert!(peak < MOST_MEMORY_KIB, "{name}: {peak} KiB");
}

/// More memory than all of these tests at once may take.
const MOST_MEMORY_KIB: u64 = 256 << 10;

/// The most memory that this process has had, where the system tells.
fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.map_or(0, |peak| peak.trim().trim_end_matches(" kB").parse().unwrap())
}

fn options() -> CountOptions {
    CountOptions { rules: Rules::Auto, threads: 1, pid: None, paths: false }
}

fn binary() -> Vec<u8> {
    std::fs::read(fixture("autofdo/test.binary")).unwrap()
}

fn counted(bytes: &[u8], images: &[Arc<Image>]) -> Option<Counts> {
    let input = perfdata::Input::from_pipe(bytes).ok()?;
    let found = aggregate(Path::new("damaged"), &input, images, options(), &|_| ()).ok()?;
    let ledger = &found.counts.ledger;
    assert!(
        ledger.samples.balances() && ledger.branches.balances() && ledger.fall_throughs.balances()
    );
    Some(found.counts)
}

#[test]
fn damaged_recordings_are_counted_or_refused() {
    let image = Arc::new(Image::from_bytes("test.binary", binary()).unwrap());
    for name in ["events.data", "zstd.data", "zstd2.data", "rich.data", "pipe.data"] {
        let bytes = std::fs::read(fixture("perfdata").join(name)).unwrap();
        damaged_small(name, &bytes, 300, 1200, &|bytes| {
            counted(bytes, &[]);
        });
    }
    // Branch stacks: the first samples of a recording with them.
    let lbr = std::fs::read(fixture("autofdo/test.lbr")).unwrap();
    let head = &lbr[..24_000];
    assert!(counted(head, &[Arc::clone(&image)]).is_some(), "the undamaged part counts");
    damaged("test.lbr", head, 300, 2000, &|bytes| {
        counted(bytes, &[Arc::clone(&image)]);
    });
}

#[test]
fn damaged_images_and_debug_information_give_a_profile_or_an_error() {
    let whole = binary();
    let lbr = std::fs::read(fixture("autofdo/test.lbr")).unwrap();
    let image = Arc::new(Image::from_bytes("test.binary", whole.clone()).unwrap());
    let counts = counted(&lbr[..400_000], &[image]).unwrap();
    let counts = &counts.images[0];
    let search = DebugSearch { roots: Vec::new(), ..DebugSearch::default() };
    let profiled = AtomicUsize::new(0);
    damaged("test.binary", &whole, 100, 1000, &|bytes| {
        let Ok(image) = Image::from_bytes("damaged", bytes.to_vec()) else { return };
        let Ok(debug) = DebugInfo::load(&image, &search) else { return };
        if let Ok((profile, _)) = attribute(&image, &debug, counts, &AttributeOptions::default()) {
            // What damaged debug information names may be unwritable; that is an error, too.
            for format in [Format::Text, Format::ExtBinary, Format::Gcov, Format::Pprof] {
                let _ = write(&profile, format, &WriteOptions::default());
            }
            profiled.fetch_add(1, Ordering::Relaxed);
        }
    });
    let profiled = profiled.into_inner();
    assert!(profiled > 100, "most single bytes matter little: {profiled}");
}

/// Small files of the fuzz corpus and of the fixtures, by their paths from the root.
fn small_files(folders: &[&str]) -> Vec<(String, Vec<u8>)> {
    let root = fixture("..");
    let mut files: Vec<_> = folders
        .iter()
        .flat_map(|folder| {
            let path = root.join(folder);
            if path.is_file() {
                return vec![path];
            }
            let entries =
                std::fs::read_dir(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            entries.map(|entry| entry.unwrap().path()).collect()
        })
        // What the fuzz targets found is damaged already, and there is much of it.
        .filter(|path| {
            !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("found-"))
        })
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|file| (file.display().to_string(), std::fs::read(&file).unwrap()))
        .collect()
}

/// All that is asked of an image and its debug information.
fn look_at_image(bytes: &[u8]) {
    let Ok(image) = Image::from_bytes("damaged", bytes.to_vec()) else { return };
    let starts: Vec<_> = image.code_ranges().map(|range| range.start).take(32).collect();
    for start in starts {
        let walked: usize = code::instructions(&image, start).map(|one| usize::from(one.len)).sum();
        assert!(walked <= bytes.len());
    }
    assert!(image.functions().iter().map(|function| function.address).is_sorted());
    if let Ok(maps) = blocks::read(&image) {
        assert!(maps.iter().all(|function| !function.ranges.is_empty()));
    }
    let search = DebugSearch { roots: Vec::new(), ..DebugSearch::default() };
    let Ok(debug) = DebugInfo::load(&image, &search) else { return };
    let mut addresses: Vec<ImageAddr> = image
        .code_ranges()
        .flat_map(|range| (range.start.0..range.end.0).step_by(13).take(64))
        .map(ImageAddr)
        .take(1024)
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    if let Ok(resolved) = debug.resolve(&addresses, 1) {
        assert_eq!(resolved.stacks.len(), addresses.len());
    }
    debug.all_function_names(1);
}

#[test]
fn damaged_small_images_are_described_or_refused() {
    for (name, bytes) in small_files(&[
        "fuzz/corpus/image",
        "fuzz/corpus/dwarf",
        "fixtures/autofdo/propeller_sample.bin",
    ]) {
        damaged_small(&name, &bytes, 100, 400, &look_at_image);
    }
}

/// A branch into every block and a range through every two of an image with an address map.
fn counts_everywhere(image: &Image) -> ImageCounts {
    let blocks: Vec<_> =
        blocks::read(image).unwrap().iter().flat_map(|f| f.blocks().cloned()).collect();
    let mut counts = ImageCounts { path: "sample".into(), ..ImageCounts::default() };
    for (at, pair) in (1u64..).zip(blocks.windows(2)) {
        let (from, to) = (Some(pair[0].address), Some(pair[1].address));
        counts.branches.push(Branch { from, to, count: at, mispredicted: 0 });
        counts.branches.push(Branch { from: to, to: from, count: at, mispredicted: 1 });
        let (first, last) = (pair[0].address, pair[1].address);
        counts.fall_throughs.push(FallThrough { first, last, count: at });
        counts.fall_throughs.push(FallThrough { first, last: first, count: at });
    }
    counts
}

/// Everything that is made of a graph.
fn lay_out_and_write(image: &Image, cfg: &layout::Cfg) {
    let params = layout::Params { search_steps: 1, ..layout::Params::default() };
    let (laid_out, _) = layout::lay_out(cfg, &params);
    let fatal = layout::write::check::layout(cfg, &laid_out);
    let text = cc_profile(cfg, &laid_out, CcVersion::V1, Comments::PerBlock).unwrap().render();
    if let (Ok(text), true) = (&text, fatal.is_empty()) {
        assert!(layout::write::read_cc::read(text).is_ok(), "{text}");
    }
    let _ = layout::write::order::ld_profile(cfg, &laid_out);
    let _ = layout::verify::verify(cfg, &laid_out, image, &[], Applied::Sections, 3).unwrap();
    let begin = layout::heat::text_of(image).start;
    let end = ImageAddr(begin.0.saturating_add(1 << 16));
    let map = layout::heat::after(cfg, &laid_out, &[], &params, begin..end, 4096);
    assert!(map.pages.is_sorted_by_key(|page| page.address));
}

#[test]
fn damaged_images_are_laid_out_or_refused() {
    let whole = std::fs::read(fixture("autofdo/propeller_sample.bin")).unwrap();
    let counts = counts_everywhere(&Image::from_bytes("sample", whole.clone()).unwrap());
    let options =
        layout::BuildOptions { largest_dubious_pct: 100.0, ..layout::BuildOptions::default() };
    let laid_out = AtomicUsize::new(0);
    damaged_small("propeller_sample.bin", &whole, 100, 400, &|bytes| {
        let Ok(image) = Image::from_bytes("damaged", bytes.to_vec()) else { return };
        let _ = layout::write::bolt::fdata(&image, &counts);
        let _ = layout::write::bolt::rest(&image, &counts, &std::collections::BTreeSet::new());
        if let Ok((cfg, _)) = layout::function_graph(&image, &counts) {
            lay_out_and_write(&image, &cfg);
        }
        let Ok(map) = blocks::read(&image) else { return };
        if let Ok((cfg, _)) = layout::build(&image, map, &counts, &options) {
            lay_out_and_write(&image, &cfg);
            laid_out.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert!(laid_out.into_inner() > 50, "most single bytes matter little");
}

#[test]
fn damaged_profiles_are_read_or_refused() {
    let golden = [
        "fixtures/autofdo/llvm_autoprof.golden.binprof",
        "fixtures/autofdo/llvm_autoprof.golden.textprof",
    ];
    let files =
        [&golden[..], &["fixtures/peers/test.profgen.textprof", "fuzz/corpus/profile"]].concat();
    for (name, bytes) in small_files(&files) {
        damaged_small(&name, &bytes, 200, 1000, &|bytes| {
            let Ok(first) = read(bytes) else { return };
            for format in [Format::Text, Format::Binary, Format::ExtBinary] {
                let Ok(written) = write(&first, format, &WriteOptions::default()) else { continue };
                // The text of no function is an empty file, which is no profile.
                let again = read(&written).map_or(0, |again| again.functions.len());
                assert_eq!(first.functions.len(), again, "what we write is readable");
            }
        });
    }
}

#[test]
fn damaged_counts_are_read_or_refused() {
    let image = Arc::new(Image::from_bytes("test.binary", binary()).unwrap());
    let lbr = std::fs::read(fixture("autofdo/test.lbr")).unwrap();
    let counts = counted(&lbr[..40_000], &[image]).unwrap();
    let mut whole = Vec::new();
    artefact::write(Path::new("whole"), &counts, &mut whole).unwrap();
    let bench = Bench::new();
    bench.write("whole", &whole);
    artefact::read(&bench.at("whole"), std::fs::File::open(bench.at("whole")).unwrap()).unwrap();
    damaged("counts", &whole, 200, 2500, &|bytes| {
        bench.write("damaged", bytes);
        let _ =
            artefact::read(&bench.at("damaged"), std::fs::File::open(bench.at("damaged")).unwrap());
    });
}

/// Damage that once took memory or time is most likely found in the headers, so those go through
/// the command itself, with little memory to take.
#[test]
fn the_command_needs_little_memory_whatever_its_input_says() {
    if !has("sh") {
        return;
    }
    let bench = Bench::new();
    let events = std::fs::read(fixture("perfdata/events.data")).unwrap();
    let whole = binary();
    let lbr = std::fs::read(fixture("autofdo/test.lbr")).unwrap();
    bench.write("test.lbr", &lbr[..100_000]);
    bench.write("test.binary", &whole);
    let run = |words: &str| {
        let limited = format!("ulimit -v 1000000; exec \"$0\" {words} --threads 2");
        let ended = bench
            .command("sh")
            .args(["-c", &limited, env!("CARGO_BIN_EXE_planish")])
            .output()
            .unwrap();
        let said = text(&ended.stderr);
        assert!(matches!(ended.status.code(), Some(0..=2)), "{words}: {}: {said}", ended.status);
        assert!(!said.contains("panicked"), "{words}: {said}");
    };
    damaged("events.data", &events, 10, 60, &|bytes| {
        bench.write("damaged", bytes);
        run("aggregate damaged --emit text -o out.txt");
    });
    // The reader of Parquet panics over some damage; that is an error like any other and no message
    // of a panic.
    let image = Arc::new(Image::from_bytes("test.binary", whole.clone()).unwrap());
    let mut kept = Vec::new();
    artefact::write(Path::new("kept"), &counted(&lbr[..40_000], &[image]).unwrap(), &mut kept)
        .unwrap();
    damaged("counts", &kept, 20, 200, &|bytes| {
        bench.write("damaged", bytes);
        run("merge damaged damaged -o out.counts");
    });
    damaged("test.binary", &whole, 10, 60, &|bytes| {
        bench.write("damaged", bytes);
        run("profile test.lbr --binary damaged -o out.afdo");
    });
    assert!(bench.files().iter().all(|name| !name.starts_with(".planish")), "{:?}", bench.files());
}
