//! Is what a layout is expected to lose what it does lose? Held against recordings whose truth is
//! known: parts of one recording against the whole, and drawn executions against what they were
//! drawn from.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]

use counts::aggregate::CountOptions;
use counts::loss::{expected_loss, loss_against};
use counts::resolve::Rules;
use counts::{Branch, FallThrough, ImageCounts, script};
use image::code::{InstructionKind, instructions};
use image::{Image, ImageAddr};
use perfdata::raw_records;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

fn program() -> Arc<Image> {
    Arc::new(Image::open(&fixture("autofdo/test.binary")).unwrap())
}

/// The stacks of the fixture, one line each, as `perf script -F ip,brstack` shows them.
fn stacks() -> Vec<String> {
    let input = perfdata::Input::open(&fixture("autofdo/test.lbr")).unwrap();
    let mut lines = Vec::new();
    for chunk in input.chunks().unwrap() {
        let chunk = chunk.unwrap();
        for raw in raw_records(&chunk.bytes, chunk.offset, input.endian()) {
            if raw.kind != perfdata::kind::SAMPLE {
                continue;
            }
            let sample = input.layouts().for_sample(raw.body).unwrap().parse(&raw).unwrap();
            let mut line = format!(" {:x}", sample.ip.unwrap().0);
            for entry in sample.branches.unwrap().iter() {
                write!(line, " {:#x}/{:#x}/P/-/-/0", entry.from.0, entry.to.0).unwrap();
            }
            lines.push(line);
        }
    }
    lines
}

fn counted(lines: &[String], every: usize, from: usize) -> ImageCounts {
    let text =
        lines.iter().skip(from).step_by(every).fold(String::new(), |text, line| text + line + "\n");
    let options = CountOptions { rules: Rules::Auto, threads: 1, pid: None, paths: false };
    let found = script::aggregate(Path::new("-"), text.as_bytes(), &[program()], options).unwrap();
    found.counts.images.into_iter().next().unwrap()
}

#[test]
fn parts_of_a_recording_lose_against_the_whole_what_they_say_or_less() {
    let (lines, image) = (stacks(), program());
    assert!(lines.len() > 9000, "{}", lines.len());
    let whole = counted(&lines, 1, 0);
    let mut before = f64::INFINITY;
    for every in [400, 100, 25] {
        let (mut expected, mut found) = (0.0, 0.0);
        for from in 0..25 {
            let part = counted(&lines, every, from * every / 25);
            expected += expected_loss(&part, &image).unwrap() / 25.0;
            found += loss_against(&part, &whole, &image).unwrap() / 25.0;
        }
        assert!(found <= expected, "every {every}: found {found}, expected {expected}");
        // A number that is always large would say nothing.
        assert!(expected < before / 1.5, "every {every}: {expected} after {before}");
        before = expected;
    }
    assert!(before < 0.02, "{before}");
}

/// Drawn executions of conditional branches of the program.
struct Simulated {
    /// Each branch with the instruction after it, how likely it is taken, and its weight.
    sites: Vec<(ImageAddr, ImageAddr, f64, f64)>,
    state: u64,
}

impl Simulated {
    /// As `splitmix64`.
    fn random(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn new(image: &Image, seed: u64) -> Simulated {
        let mut found = Simulated { sites: Vec::new(), state: seed };
        let text = image.section_by_name(".text").unwrap();
        let all: Vec<_> = instructions(image, text.address).take(4000).collect();
        for pair in all.windows(2) {
            if pair[0].kind == InstructionKind::ConditionalBranch {
                let (likely, weight) = (found.random(), found.random().powi(4));
                found.sites.push((pair[0].address, pair[1].address, likely, weight));
            }
        }
        assert!(found.sites.len() > 100, "{}", found.sites.len());
        found
    }

    /// The counts of so many executions, half of them of the first half; those of the truth where
    /// `draws` is absent.
    fn counts(&mut self, draws: Option<u32>) -> ImageCounts {
        let mut counts = ImageCounts::default();
        let weights: f64 = self.sites.iter().map(|site| site.3).sum();
        for (at, next, likely, weight) in self.sites.clone() {
            let share = weight / weights;
            let mut add = |half: bool, taken: u64, passed: u64| {
                let branch = Branch { from: Some(at), to: Some(at), count: taken, mispredicted: 0 };
                let range = FallThrough { first: at, last: next, count: passed };
                counts.branches.push(branch);
                counts.fall_throughs.push(range);
                if half {
                    counts.first_half.branches.push(branch);
                    counts.first_half.fall_throughs.push(range);
                }
            };
            let Some(draws) = draws else {
                let exact = |part: f64| (part * share * 1e9) as u64;
                add(false, exact(likely), exact(1.0 - likely));
                continue;
            };
            for half in [true, false] {
                let executed = (0..draws / 2).filter(|_| self.random() < share).count();
                let taken = (0..executed).filter(|_| self.random() < likely).count();
                add(half, taken as u64, (executed - taken) as u64);
            }
        }
        counts
    }
}

#[test]
fn what_is_drawn_loses_against_what_it_was_drawn_from_less_than_expected_but_not_far_less() {
    let image = program();
    for draws in [300, 3000] {
        let (mut expected, mut found) = (0.0, 0.0);
        for seed in 0..8 {
            let mut simulated = Simulated::new(&image, seed);
            let truth = simulated.counts(None);
            let drawn = simulated.counts(Some(draws));
            expected += expected_loss(&drawn, &image).unwrap() / 8.0;
            found += loss_against(&drawn, &truth, &image).unwrap() / 8.0;
        }
        assert!(found > 0.0 && found < expected, "{draws}: found {found}, expected {expected}");
        assert!(expected < 8.0 * found, "{draws}: found {found}, expected {expected}");
    }
}

#[test]
fn halves_that_are_not_told_apart_say_nothing() {
    let image = program();
    let mut counts = counted(&stacks(), 50, 0);
    assert!(expected_loss(&counts, &image).is_some());
    counts.first_half.fall_throughs.clear();
    assert_eq!(expected_loss(&counts, &image), None);
}
