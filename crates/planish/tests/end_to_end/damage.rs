//! Every truncation and single-byte change of small inputs, sampled, through all that the commands do with them: a result
//! or an error, within seconds and bounded memory, and the ledger balances.

use crate::bench::{Bench, fixture, has, text};
use counts::aggregate::{Options, aggregate};
use counts::resolve::Rules;
use counts::{Counts, artefact};
use image::Image;
use image::debug::DebugInfo;
use image::debug_files::DebugSearch;
use profile::attribute::{AttributeOptions, attribute};
use profile::format::{Format, WriteOptions, write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// No input of a few kilobytes may keep planish busy for longer, even on a busy machine and unoptimised.
const LONGEST: Duration = Duration::from_secs(8);

/// `PLANISH_DAMAGE=20` tries twenty times as many inputs.
fn effort() -> usize {
    std::env::var("PLANISH_DAMAGE").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// The same positions in every run.
struct Positions(u64);

impl Positions {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// Runs `check` on damaged copies of `bytes`: `cuts` truncations and `changes` bytes, named in a failure.
fn damaged(name: &str, bytes: &[u8], cuts: usize, changes: usize, check: &dyn Fn(&[u8])) {
    let mut at = Positions(bytes.len() as u64);
    let (cuts, changes) = (cuts * effort(), changes * effort());
    let try_one = |what: String, bytes: &[u8]| {
        let start = Instant::now();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(bytes)));
        assert!(ended.is_ok(), "{name}: panic with {what}");
        assert!(start.elapsed() < LONGEST, "{name}: {:?} with {what}", start.elapsed());
    };
    for cut in (0..bytes.len()).step_by((bytes.len() / cuts.max(1)).max(1)) {
        try_one(format!("{cut} bytes left"), &bytes[..cut]);
    }
    for _ in 0..changes {
        // Headers decide most, so half of the changes fall there.
        let position = if at.below(2) == 0 { at.below(bytes.len().min(600)) } else { at.below(bytes.len()) };
        let value = [0, 0xff, 0x80, 1, bytes[position] ^ 0x10, bytes[position].wrapping_add(1)][at.below(6)];
        let mut changed = bytes.to_vec();
        changed[position] = value;
        try_one(format!("byte {position:#x} set to {value:#x}"), &changed);
    }
}

fn options() -> Options {
    Options { rules: Rules::Auto, threads: 1, pid: None }
}

fn binary() -> Vec<u8> {
    std::fs::read(fixture("autofdo/test.binary")).unwrap()
}

fn counted(bytes: &[u8], images: &[Arc<Image>]) -> Option<Counts> {
    let input = perfdata::Input::from_pipe(bytes).ok()?;
    let found = aggregate(Path::new("damaged"), &input, images, options(), &|_| ()).ok()?;
    let ledger = &found.counts.ledger;
    assert!(ledger.samples.balances() && ledger.branches.balances() && ledger.fall_throughs.balances());
    Some(found.counts)
}

#[test]
fn damaged_recordings_are_counted_or_refused() {
    let image = Arc::new(Image::from_bytes("test.binary", binary()).unwrap());
    for name in ["events.data", "zstd.data", "rich.data", "pipe.data"] {
        let bytes = std::fs::read(fixture("perfdata").join(name)).unwrap();
        damaged(name, &bytes, 300, 1500, &|bytes| {
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
    let profiled = std::cell::Cell::new(0u32);
    damaged("test.binary", &whole, 100, 1000, &|bytes| {
        let Ok(image) = Image::from_bytes("damaged", bytes.to_vec()) else { return };
        let Ok(debug) = DebugInfo::load(&image, &search) else { return };
        if let Ok((profile, _)) = attribute(&image, &debug, counts, &AttributeOptions::default()) {
            // What damaged debug information names may be unwritable; that is an error, too.
            for format in [Format::Text, Format::ExtBinary, Format::Gcov, Format::Pprof] {
                let _ = write(&profile, format, &WriteOptions::default());
            }
            profiled.set(profiled.get() + 1);
        }
    });
    assert!(profiled.get() > 100, "most single bytes matter little: {}", profiled.get());
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
    artefact::read(&bench.at("whole")).unwrap();
    damaged("counts", &whole, 200, 2500, &|bytes| {
        bench.write("damaged", bytes);
        let _ = artefact::read(&bench.at("damaged"));
    });
}

/// Damage that once took memory or time is most likely found in the headers, so those go through the command itself,
/// with little memory to take.
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
        let ended =
            bench.command("sh").args(["-c", &limited, env!("CARGO_BIN_EXE_planish")]).output().unwrap();
        let said = text(&ended.stderr);
        assert!(matches!(ended.status.code(), Some(0..=2)), "{words}: {}: {said}", ended.status);
        assert!(!said.contains("panicked"), "{words}: {said}");
    };
    damaged("events.data", &events, 10, 60, &|bytes| {
        bench.write("damaged", bytes);
        run("aggregate damaged --format text -o out.txt");
    });
    damaged("test.binary", &whole, 10, 60, &|bytes| {
        bench.write("damaged", bytes);
        run("profile test.lbr --binary damaged -o out.afdo");
    });
    assert!(bench.files().iter().all(|name| !name.starts_with(".planish")), "{:?}", bench.files());
}
