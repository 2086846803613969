//! The two halves of the samples: the same whatever the number of threads, kept in files, added up
//! by merging, and what they say about samples that are few.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]

use counts::aggregate::{CountOptions, aggregate};
use counts::evidence::Evidence;
use counts::resolve::Rules;
use counts::{Counts, FirstHalf, artefact, merge};
use image::Image;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

fn program() -> Arc<Image> {
    Arc::new(Image::open(&fixture("autofdo/test.binary")).unwrap())
}

fn counted(threads: usize) -> Counts {
    let path = fixture("autofdo/test.lbr");
    let input = perfdata::Input::open(&path).unwrap();
    let options = CountOptions { rules: Rules::Auto, threads, pid: None, paths: false };
    aggregate(&path, &input, &[program()], options, &|_| {}).unwrap().counts
}

#[test]
fn halves_are_parts_of_the_whole_and_the_same_whatever_the_number_of_threads() {
    let counts = counted(1);
    assert_eq!(counts, counted(7));
    let image = &counts.images[0];
    let (mut half, mut whole) = (0u128, 0u128);
    for part in &image.first_half.branches {
        let all = image.branches.iter().find(|b| (b.from, b.to) == (part.from, part.to)).unwrap();
        assert!(part.count > 0 && part.count <= all.count, "{part:?} of {all:?}");
        half += u128::from(part.count);
    }
    image.branches.iter().for_each(|b| whole += u128::from(b.count));
    assert!(half * 10 > whole * 4 && half * 10 < whole * 6, "{half} of {whole}");
}

#[test]
fn halves_survive_the_artefact_and_add_up_unless_a_part_has_none() {
    let counts = counted(2);
    let file = tempfile::NamedTempFile::new().unwrap();
    artefact::write(file.path(), &counts, file.as_file()).unwrap();
    assert_eq!(
        artefact::read(file.path(), std::fs::File::open(file.path()).unwrap()).unwrap(),
        counts
    );
    let twice = merge([counts.clone(), counts.clone()]).unwrap();
    let of =
        |counts: &Counts| counts.images[0].first_half.branches.iter().map(|b| b.count).sum::<u64>();
    assert_eq!(of(&twice), 2 * of(&counts));
    let overlap =
        |counts: &Counts| Evidence::of(&counts.images[0], &program()).split_half_overlap.unwrap();
    assert!((overlap(&twice) - overlap(&counts)).abs() < 1e-9);
    // Of counts that are of no samples nothing is known, and so nothing of their sum.
    let mut undivided = counts.clone();
    undivided.images[0].first_half = FirstHalf::default();
    for parts in [[undivided.clone(), counts.clone()], [counts, undivided]] {
        let sum = merge(parts).unwrap();
        assert!(sum.images[0].first_half.is_empty());
        assert_eq!(Evidence::of(&sum.images[0], &program()).split_half_overlap, None);
    }
}

#[test]
fn executions_that_were_counted_one_by_one_are_not_judged_as_samples() {
    let mut counts = counted(1);
    counts.images[0].samples.clear();
    counts.images[0].first_half = FirstHalf::default();
    let evidence = Evidence::of(&counts.images[0], &program());
    assert_eq!((evidence.enough, evidence.warning(), evidence.samples), (None, None, 0));
    assert!(
        evidence.line().starts_with(&format!("{} executions", evidence.executions)),
        "{}",
        evidence.line()
    );
}
