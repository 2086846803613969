//! Which shards count: each recording once, those that the options take, and none that is damaged.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]

use counts::artefact::row::{ImageKey, Kind, Row, RowKey};
use counts::artefact::writer::Writer;
use counts::artefact::{self, Form};
use counts::{Counts, ImageCounts, Ledger, SampleCount};
use fleet::plan::{Options, Why};
use fleet::recording::KEY;
use fleet::{LEAST_MEMORY, Plan, Recording, Shard, Weight};
use image::ImageAddr;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DAY: u64 = 86_400;

fn options() -> Options {
    Options { memory: LEAST_MEMORY, now: 100 * DAY, ..Options::default() }
}

fn sampled(count: u64) -> Counts {
    let samples = vec![SampleCount { address: ImageAddr(16), count }];
    let image = ImageCounts { path: "/bin/a".to_owned(), samples, ..ImageCounts::default() };
    let mut ledger = Ledger::default();
    ledger.samples.use_up(count);
    Counts { images: vec![image], ledger }
}

fn recording(id: &str) -> Recording {
    Recording { id: id.to_owned(), ..Recording::default() }
}

fn shard(folder: &Path, count: u64, recording: Recording) -> PathBuf {
    let path = folder.join(format!("{}-{count}.counts", recording.id));
    let file = std::fs::File::create(&path).unwrap();
    fleet::write(&path, &sampled(count), recording, file).unwrap();
    path
}

fn opened(files: &[&PathBuf]) -> Vec<(Shard, Weight)> {
    files.iter().map(|path| (Shard::open(path).unwrap(), Weight::ONE)).collect()
}

fn merged(files: &[&PathBuf], to: &Path) -> Counts {
    let shards = opened(files);
    let plan = Plan::of(&shards, &options()).unwrap();
    fleet::merge(&plan, &options(), to, std::fs::File::create(to).unwrap(), &|_| {}).unwrap();
    artefact::read(to, std::fs::File::open(to).unwrap()).unwrap()
}

fn names(plan: &Plan<'_>) -> Vec<String> {
    let of = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    plan.chosen.iter().map(|chosen| of(&chosen.shard.path)).collect()
}

#[test]
fn a_recording_counts_once_and_partial_overlaps_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let [a, b, c] = ["a", "b", "c"].map(|id| shard(folder.path(), 5, recording(id)));
    let (ab, bc) = (at("ab.counts"), at("bc.counts"));
    let both = merged(&[&a, &b], &ab);
    assert_eq!((both.images[0].samples[0].count, both.ledger.samples.used), (10, 10));
    merged(&[&b, &c], &bc);
    let copy = at("copy.counts");
    std::fs::copy(&a, &copy).unwrap();
    let shards = opened(&[&a, &copy, &ab, &b]);
    let plan = Plan::of(&shards, &options()).unwrap();
    assert_eq!(names(&plan), ["ab.counts"]);
    assert!(plan.left_out.iter().all(|(_, why)| *why == Why::Duplicate(ab.clone())));
    assert_eq!((plan.left_out.len(), plan.ledger.samples.used), (3, 10));
    let shards = opened(&[&bc, &ab]);
    let plan = Plan::of(&shards, &options()).unwrap();
    let (refused, why) = &plan.rejected[0];
    assert_eq!((names(&plan), &refused.path), (vec!["ab.counts".to_owned()], &bc));
    assert!(why.contains("the recording b") && why.contains("ab.counts"), "{why}");
    // All of it counts already, in two.
    let ac = at("ac.counts");
    merged(&[&a, &c], &ac);
    let shards = opened(&[&ab, &c, &ac]);
    let plan = Plan::of(&shards, &options()).unwrap();
    assert_eq!((names(&plan).len(), plan.rejected.len() + plan.left_out.len()), (2, 1));
    // The same recording with other counts: one of them, the same whatever the order.
    let other = shard(folder.path(), 6, recording("a"));
    let chosen = [[&a, &other], [&other, &a]].map(|files| {
        let shards = opened(&files);
        let plan = Plan::of(&shards, &options()).unwrap();
        assert!(plan.rejected[0].1.contains("with other counts"), "{:?}", plan.rejected);
        names(&plan)
    });
    assert_eq!(chosen[0], chosen[1]);
}

#[test]
fn files_that_name_no_recording_are_known_by_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, count: u64| {
        let path = folder.path().join(name);
        artefact::write(&path, &sampled(count), std::fs::File::create(&path).unwrap()).unwrap();
        path
    };
    let (one, same, other) = (write("one", 7), write("same", 7), write("other", 8));
    let shards = opened(&[&one, &same, &other]);
    let plan = Plan::of(&shards, &options()).unwrap();
    assert_eq!((plan.chosen.len(), plan.left_out.len()), (2, 1));
    let sum = merged(&[&one, &same, &other], &folder.path().join("sum"));
    assert_eq!(sum.images[0].samples[0].count, 15);
}

#[test]
fn options_take_and_weigh_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let made = |id: &str, host: &str, class: &str, day: u64| {
        let (host, host_class) = (host.to_owned(), class.to_owned());
        let recording = Recording { host, host_class, end: Some(day * DAY), ..recording(id) };
        shard(folder.path(), 100, recording)
    };
    let (a, b) = (made("a", "h1", "web", 100), made("b", "h1", "web", 99));
    let (c, d) = (made("c", "h1", "batch", 98), made("d", "h2", "batch", 90));
    let files = [&a, &b, &c, &d];
    let shards = opened(&files);
    let taken = |options: Options| names(&Plan::of(&shards, &options).unwrap());
    let since = Options { since: Some(98 * DAY), ..options() };
    assert_eq!(taken(since), ["a-100.counts", "b-100.counts", "c-100.counts"]);
    let class = Options { host_class: Some("batch".to_owned()), ..options() };
    assert_eq!(taken(class), ["c-100.counts", "d-100.counts"]);
    let most = Options { max_per_host: Some(2), ..options() };
    assert_eq!(taken(most), ["a-100.counts", "b-100.counts", "d-100.counts"]);
    let decay = Options { decay: NonZeroU64::new(DAY), now: 99 * DAY, ..options() };
    let plan = Plan::of(&shards, &decay).unwrap();
    let weights: Vec<u64> = plan.chosen.iter().map(|chosen| chosen.weight.bits()).collect();
    assert_eq!((weights, plan.future), (vec![65536, 65536, 32768, 128], 1));
    assert_eq!(plan.description.recordings[2].weights, [32768]);
    // What is added up already cannot be told apart any more.
    let all = folder.path().join("all.counts");
    merged(&files, &all);
    let shards = opened(&[&all]);
    for (options, why) in [
        (Options { since: Some(98 * DAY), ..options() }, "--since takes 3 of its 4 recordings"),
        (decay, "recordings of different ages"),
    ] {
        let told = Plan::of(&shards, &options).unwrap_err().to_string();
        assert!(told.contains(why) && told.contains("all.counts"), "{told}");
    }
}

#[test]
fn parts_of_several_results_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let a = shard(folder.path(), 100, recording("a"));
    let b = shard(folder.path(), 100, recording("b"));
    let part = folder.path().join("part.counts");
    let shards = opened(&[&a]);
    let asked = Options { partition: Some(fleet::Partition { part: 1, of: 4 }), ..options() };
    let plan = Plan::of(&shards, &asked).unwrap();
    fleet::merge(&plan, &asked, &part, std::fs::File::create(&part).unwrap(), &|_| {}).unwrap();
    let shards = opened(&[&part, &b]);
    let told = Plan::of(&shards, &options()).unwrap_err().to_string();
    assert!(told.contains("part.counts: is part 2 of 4"), "{told}");
}

/// Writes rows as they are, in order or not.
fn rows(path: &Path, rows: &[(u64, u128)], version: &str) {
    let form = Form { version: 1, paths: false, architectures: false };
    let description = fleet::Description::of(vec![recording(&path.display().to_string())], true);
    let text = description.text().replace("\"version\":1", &format!("\"version\":{version}"));
    let file = std::fs::File::create(path).unwrap();
    let more = vec![(KEY.to_owned(), text)];
    let mut writer = Writer::new(path, file, form, &Ledger::default(), more).unwrap();
    let image = Arc::new(ImageKey { path: "/bin/a".to_owned(), ..ImageKey::default() });
    for &(address, count) in rows {
        let first = Some(ImageAddr(address));
        let key = RowKey { kind: Kind::Sample, before: None, first, second: None, after: None };
        writer.push(&image, Row { key, count, mispredicted: 0 }).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn bad_shards_are_refused_with_their_name_and_place() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let good = shard(folder.path(), 9, recording("good"));
    let whole = std::fs::read(&good).unwrap();
    std::fs::write(at("cut"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(at("foreign"), "text").unwrap();
    rows(&at("newer"), &[(1, 1)], "2");
    rows(&at("nameless"), &[(1, 1)], "1,\"x\":[1");
    for (name, why) in [
        ("cut", "cut off"),
        ("foreign", "another kind of file"),
        ("newer", "in version 2, this planish reads version 1"),
        ("nameless", "expected a description of recordings in JSON"),
        ("absent", "No such file"),
    ] {
        let error = Shard::open(&at(name)).unwrap_err();
        let told = error.to_string();
        assert_eq!(error.shard(), Some(at(name).as_path()), "{told}");
        assert!(told.contains(why) && told.contains(name), "{told}");
    }
    rows(&at("unsorted"), &[(1, 1), (5, 1), (4, 1)], "1");
    rows(&at("large"), &[(1, 10u128.pow(38))], "1");
    let to = at("out");
    for (name, why) in [
        ("unsorted", "row group 1, row 2: expected rows in order"),
        ("large", "row group 1, row 0: expected a count below 10^38"),
    ] {
        let shards = opened(&[&at(name), &good]);
        let error = fleet::check(&shards[0].0).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        let plan = Plan::of(&shards, &options()).unwrap();
        let file = std::fs::File::create(&to).unwrap();
        let error = fleet::merge(&plan, &options(), &to, file, &|_| {}).unwrap_err();
        assert_eq!(error.shard(), Some(at(name).as_path()), "{error}");
    }
    // Two halves of what the format holds, and a weight of two.
    rows(&at("half"), &[(1, 5 * 10u128.pow(37))], "1");
    rows(&at("other-half"), &[(1, 5 * 10u128.pow(37))], "1");
    let sum = |files: &[(&str, u32)]| {
        let open = |(name, bits): &(&str, u32)| {
            (Shard::open(&at(name)).unwrap(), Weight::from_bits(u64::from(*bits)).unwrap())
        };
        let shards: Vec<(Shard, Weight)> = files.iter().map(open).collect();
        let plan = Plan::of(&shards, &options()).unwrap();
        let file = std::fs::File::create(&to).unwrap();
        fleet::merge(&plan, &options(), &to, file, &|_| {}).map_err(|error| error.to_string())
    };
    assert!(sum(&[("half", 65536)]).is_ok());
    for files in [&[("half", 65536), ("other-half", 65536)][..], &[("half", 131_072)]] {
        let told = sum(files).unwrap_err();
        assert!(told.contains("/bin/a 0x1 (sample)") && told.contains("10^38"), "{told}");
    }
}

#[test]
fn a_shard_that_changes_meanwhile_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let a = shard(folder.path(), 1, recording("a"));
    let shards = opened(&[&a]);
    std::fs::copy(shard(folder.path(), 200, recording("b")), &a).unwrap();
    let plan = Plan::of(&shards, &options()).unwrap();
    let error = fleet::merge(&plan, &options(), &a, Vec::new(), &|_| {}).unwrap_err();
    assert!(
        error.to_string().contains("has changed") && error.shard() == Some(a.as_path()),
        "{error}"
    );
}
