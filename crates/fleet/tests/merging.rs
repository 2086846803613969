//! Is a merge the sum that it should be: commutative, associative, the same in parts, each recording
//! once, weighted as a naive model in 128 bits?

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]

use counts::{
    Branch, Counts, FallThrough, FirstHalf, ImageCounts, Path as CountedPath, SampleCount,
};
use fleet::plan::Options;
use fleet::{LEAST_MEMORY, Merged, Partition, Plan, Recording, Shard, Weight};
use image::ImageAddr;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn options() -> Options {
    Options { memory: LEAST_MEMORY, ..Options::default() }
}

/// Merges files with weights into `to`; what it did.
fn merged(files: &[(PathBuf, Weight)], options: &Options, to: &Path) -> Merged {
    let shards: Vec<(Shard, Weight)> =
        files.iter().map(|(path, weight)| (Shard::open(path).unwrap(), *weight)).collect();
    let plan = Plan::of(&shards, options).unwrap();
    assert!(plan.rejected.is_empty(), "{:?}", plan.rejected);
    fleet::merge(&plan, options, to, std::fs::File::create(to).unwrap(), &|_| {}).unwrap()
}

fn plain(files: &[PathBuf]) -> Vec<(PathBuf, Weight)> {
    files.iter().map(|path| (path.clone(), Weight::ONE)).collect()
}

fn read(path: &Path) -> Counts {
    counts::artefact::read(path, std::fs::File::open(path).unwrap()).unwrap()
}

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// Counts of some images, so few addresses that they meet.
fn counted() -> impl Strategy<Value = Counts> {
    let number = || 1u64..1000;
    let address = || (0u64..6).prop_map(ImageAddr);
    let end = || proptest::option::of(address());
    let branch = (end(), end(), number(), 0u64..1000).prop_map(|(from, to, count, missed)| {
        Branch { from, to, count, mispredicted: missed.min(count) }
    });
    let range = (address(), address(), number()).prop_map(|(first, last, count)| FallThrough {
        first,
        last,
        count,
    });
    let sample = (address(), number()).prop_map(|(address, count)| SampleCount { address, count });
    let path = (end(), address(), address(), end(), number())
        .prop_map(|(from, first, last, to, count)| CountedPath { from, first, last, to, count });
    let half = (
        proptest::collection::vec(sample.clone(), 1..3),
        proptest::collection::vec(branch.clone(), 0..3),
        proptest::collection::vec(range.clone(), 0..3),
    )
        .prop_map(|(samples, branches, fall_throughs)| FirstHalf {
            samples,
            branches,
            fall_throughs,
        });
    let named = (0usize..3, 0usize..3);
    let lists = (
        proptest::collection::vec(sample, 1..6),
        proptest::collection::vec(branch, 0..6),
        proptest::collection::vec(range, 0..6),
        proptest::collection::vec(path, 0..4),
        half,
    );
    let image = (named, lists).prop_map(
        |((id, architecture), (samples, branches, fall_throughs, paths, first_half))| ImageCounts {
            build_id: [None, Some("ab12"), Some("ab1234")][id].map(|id| id.parse().unwrap()),
            path: ["/bin/a", "/bin/b", "/bin/c"][id].to_owned(),
            architecture: ["", "aarch64", "x86_64"][architecture].to_owned(),
            // The first half is part of the whole.
            samples: [samples, first_half.samples.clone()].concat(),
            branches: [branches, first_half.branches.clone()].concat(),
            fall_throughs: [fall_throughs, first_half.fall_throughs.clone()].concat(),
            paths,
            first_half,
        },
    );
    let images = proptest::collection::vec(image, 1..4);
    images.prop_map(|images| counts::merge([Counts { images, ..Counts::default() }]).unwrap())
}

/// Writes each as the shard of a recording of its own.
fn shards(folder: &Path, all: &[Counts]) -> Vec<PathBuf> {
    let write = |(number, counts): (usize, &Counts)| {
        let path = folder.join(format!("{number}.counts"));
        let recording = Recording { id: format!("r{number}"), ..Recording::default() };
        let file = std::fs::File::create(&path).unwrap();
        fleet::write(&path, counts, recording, file).unwrap();
        path
    };
    all.iter().enumerate().map(write).collect()
}

/// Everything that is counted, as a model has it: key to count and mispredicted.
fn model(counts: &Counts) -> BTreeMap<String, (i128, i128)> {
    let mut sums = BTreeMap::new();
    for image in &counts.images {
        let mut add = |key: String, count: u64, missed: u64| {
            let key = format!("{:?} {} {} {key}", image.build_id, image.path, image.architecture);
            let sum: &mut (i128, i128) = sums.entry(key).or_default();
            *sum = (sum.0 + i128::from(count), sum.1 + i128::from(missed));
        };
        image.samples.iter().for_each(|s| add(format!("s {:?}", s.address), s.count, 0));
        for (name, list) in [("b", &image.branches), ("hb", &image.first_half.branches)] {
            let key = |b: &Branch| format!("{name} {:?} {:?}", b.from, b.to);
            list.iter().for_each(|b| add(key(b), b.count, b.mispredicted));
        }
        for (name, list) in [("r", &image.fall_throughs), ("hr", &image.first_half.fall_throughs)] {
            list.iter().for_each(|r| add(format!("{name} {:?} {:?}", r.first, r.last), r.count, 0));
        }
        let halves = &image.first_half.samples;
        halves.iter().for_each(|s| add(format!("hs {:?}", s.address), s.count, 0));
        let key = |p: &CountedPath| format!("p {:?} {:?} {:?} {:?}", p.from, p.first, p.last, p.to);
        image.paths.iter().for_each(|p| add(key(p), p.count, 0));
    }
    sums
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn merging_is_adding_whatever_the_order_and_the_brackets(all in proptest::collection::vec(counted(), 3..6)) {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mut files = shards(folder.path(), &all);
        merged(&plain(&files), &options(), &at("all"));
        prop_assert_eq!(read(&at("all")), counts::merge(all.clone()).unwrap());
        files.reverse();
        merged(&plain(&files), &options(), &at("reversed"));
        prop_assert_eq!(bytes(&at("all")), bytes(&at("reversed")));
        // ((a b) c) and (a (b c)), with a recording that comes twice, too.
        merged(&plain(&files[..2]), &options(), &at("left"));
        merged(&plain(&files[1..]), &options(), &at("right"));
        let left: Vec<PathBuf> = [at("left")].into_iter().chain(files[2..].to_vec()).collect();
        merged(&plain(&left), &options(), &at("left-first"));
        prop_assert_eq!(bytes(&at("all")), bytes(&at("left-first")));
        merged(&plain(&[files[0].clone(), at("right")]), &options(), &at("right-first"));
        prop_assert_eq!(bytes(&at("all")), bytes(&at("right-first")));
        let twice: Vec<PathBuf> = left.iter().cloned().chain(files.clone()).collect();
        merged(&plain(&twice), &options(), &at("twice"));
        prop_assert_eq!(bytes(&at("all")), bytes(&at("twice")));
    }

    #[test]
    fn parts_make_the_whole(
        all in proptest::collection::vec(counted(), 2..5),
        weights in proptest::collection::vec(1u32..200_000, 5),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: String| folder.path().join(name);
        let files = shards(folder.path(), &all);
        let weighed: Vec<(PathBuf, Weight)> =
            files.into_iter().zip(weights.iter().map(|bits| Weight::from_bits(u64::from(*bits)).unwrap())).collect();
        let whole = at("whole".to_owned());
        let rows = merged(&weighed, &options(), &whole).rows_written;
        for of in [1, 2, 8] {
            let mut parts = Vec::new();
            let mut sum = 0;
            for part in (0..of).rev() {
                let path = at(format!("{part}-{of}"));
                let asked = (of > 1).then_some(Partition { part, of });
                sum += merged(&weighed, &Options { partition: asked, ..options() }, &path).rows_written;
                parts.push(path);
            }
            prop_assert_eq!(rows, sum);
            let again = at(format!("again-{of}"));
            merged(&plain(&parts), &options(), &again);
            prop_assert_eq!(bytes(&whole), bytes(&again));
            // Some parts first, and the others with these.
            let some = at(format!("some-{of}"));
            let (few, rest) = parts.split_at(parts.len() / 2 + 1);
            merged(&plain(few), &options(), &some);
            let rest: Vec<PathBuf> = rest.iter().cloned().chain([some]).collect();
            merged(&plain(&rest), &options(), &again);
            prop_assert_eq!(bytes(&whole), bytes(&again));
        }
    }

    #[test]
    fn weights_are_those_of_a_model(
        all in proptest::collection::vec(counted(), 1..4),
        weights in proptest::collection::vec(any::<u32>(), 4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let files = shards(folder.path(), &all);
        let to = folder.path().join("sum");
        let weighed: Vec<(PathBuf, Weight)> =
            files.into_iter().zip(weights.iter().map(|bits| Weight::from_bits(u64::from(*bits)).unwrap())).collect();
        merged(&weighed, &options(), &to);
        let mut expected: BTreeMap<String, (i128, i128)> = BTreeMap::new();
        for (counts, weight) in all.iter().zip(&weights) {
            for (key, (count, missed)) in model(counts) {
                let weigh = |count: i128| (count * i128::from(*weight) + 32768) >> 16;
                let sum = expected.entry(key).or_default();
                *sum = (sum.0 + weigh(count), sum.1 + weigh(missed));
            }
        }
        expected.retain(|_, (count, _)| *count > 0);
        // Images of one build ID are one where they are read: of one path and architecture here.
        let same = |counts: &Counts| {
            counts.images.iter().all(|image| image.build_id.is_none() || image.architecture.is_empty())
        };
        if all.iter().all(same) {
            prop_assert_eq!(model(&read(&to)), expected);
        } else {
            let sum = |sums: &BTreeMap<String, (i128, i128)>| {
                sums.values().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
            };
            prop_assert_eq!(sum(&model(&read(&to))), sum(&expected));
        }
    }
}

#[test]
fn a_merge_in_levels_gives_the_same_bytes_within_its_memory() {
    let folder = tempfile::tempdir().unwrap();
    let image = |first: u64| ImageCounts {
        path: "/bin/a".to_owned(),
        samples: (first..first + 50)
            .map(|at| SampleCount { address: ImageAddr(at), count: 1 })
            .collect(),
        ..ImageCounts::default()
    };
    let all: Vec<Counts> = (0..300)
        .map(|number| Counts { images: vec![image(number)], ..Counts::default() })
        .collect();
    let files = shards(folder.path(), &all);
    let to = folder.path().join("sum");
    let few = merged(&plain(&files), &options(), &to);
    assert!(few.intermediate > 1, "{few:?}");
    assert_eq!((few.rows_read, few.rows_written), (300 * 50, 349));
    assert_eq!(read(&to), counts::merge(all).unwrap());
    let other = folder.path().join("other");
    let more = Options { memory: 8 << 30, ..options() };
    // More files than may be open take levels, whatever the memory.
    assert_eq!(merged(&plain(&files), &more, &other).intermediate, 2);
    assert_eq!(bytes(&to), bytes(&other));
    // What a merge that was broken off has left is used again, and goes once all is merged.
    let keep = folder.path().join("keep");
    let kept = Options { keep: Some(keep.clone()), ..options() };
    let shards = plain(&files);
    let open = |(path, weight): &(std::path::PathBuf, Weight)| {
        (fleet::Shard::open(path).unwrap(), *weight)
    };
    let opened: Vec<_> = shards.iter().map(open).collect();
    let plan = Plan::of(&opened, &kept).unwrap();
    let broken = fleet::merge(&plan, &kept, &other, Full(64), &|_| {});
    assert!(broken.is_err());
    let left = std::fs::read_dir(&keep).unwrap().count() as u64;
    assert_eq!(left, few.intermediate);
    let again = merged(&shards, &kept, &other);
    assert_eq!((again.reused, again.rows_read), (few.intermediate, few.rows_read));
    assert_eq!(bytes(&to), bytes(&other));
    assert_eq!(std::fs::read_dir(&keep).unwrap().count(), 0);
    // Another choice of shards makes files of its own.
    assert!(fleet::merge(&plan, &kept, &other, Full(64), &|_| {}).is_err());
    assert_eq!(merged(&shards[1..], &kept, &other).reused, 0);
}

/// A disk with room for so many bytes.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
