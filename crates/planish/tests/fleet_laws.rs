//! Counts of different sources: weighed by what their samples stand for, and never added as they are
//! without a word.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]

mod fleet_support;

use counts::Counts;
use fleet_support::{done, fixture, read};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The share of each branch of the program in all of its branches.
fn shares(counts: &Counts) -> BTreeMap<(u64, u64), f64> {
    let own = counts.images.iter().find(|image| image.path.ends_with("/phases")).unwrap();
    let total = own.branch_total() as f64;
    let inner = own.branches.iter().filter_map(|row| Some(((row.from?.0, row.to?.0), row.count)));
    inner.map(|(key, count)| (key, count as f64 / total)).collect()
}

/// How much of two distributions is the same, from 0 to 1.
fn overlap(one: &Counts, other: &Counts) -> f64 {
    let (one, other) = (shares(one), shares(other));
    one.iter().map(|(key, share)| share.min(other.get(key).copied().unwrap_or(0.0))).sum()
}

/// A program with two loops of its own for two kinds of work.
const PHASES: &str = r"
#include <stdlib.h>
__attribute__((noinline)) unsigned one(unsigned n) {
    unsigned x = n;
    for (unsigned i = 0; i < n; i++) { if (x & 1) x = x * 3 + 1; else x >>= 1; if (x < 9) x += n; }
    return x;
}
__attribute__((noinline)) unsigned two(unsigned n) {
    unsigned x = 1;
    for (unsigned i = 0; i < n; i++) { x = x * 1103515245u + 12345u; if (x >> 31) x ^= i; if ((x & 7) == 3) x += 5; }
    return x;
}
int main(int count, char **args) {
    unsigned n = (unsigned)atoi(args[2]);
    return (count > 2 && args[1][0] == '1' ? one(n) : two(n)) == 42;
}
";

/// An emulator that takes a stack of 32 branches every 10,007 branches, as hardware does, sees one kind
/// of work, and software stacks the other; together they give what one sees who follows every
/// branch of both.
#[test]
fn stacks_of_hardware_and_of_software_add_up_to_the_trace_of_both() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("phases.c"), PHASES).unwrap();
    let built = Command::new("cc")
        .current_dir(here)
        .args(["-O1", "-g", "-Wl,--build-id=sha1", "-o", "phases", "phases.c"])
        .status();
    assert!(built.unwrap().success());
    let record = |options: &str, work: u8, length: u64, name: &str| {
        let line = format!("record {options} -o {name}.data -- ./phases {work} {length}");
        let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
        let output = planish.current_dir(here).args(line.split_whitespace()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() == Some(3) {
            println!("skipped: {told}");
            return None;
        }
        assert!(output.status.success(), "{told}");
        Some(())
    };
    // Both kinds of work have as many branches to within a few percent.
    let length = 60_000_000;
    let mut all = record("--branches=emulated -c 10007", 1, length, "hardware");
    all = all.and(record("--branches=software -c 1000000", 2, length, "software"));
    all = all.and(record("--branches=emulated -c 31", 1, length / 100, "full1"));
    all = all.and(record("--branches=emulated -c 31", 2, length / 100, "full2"));
    if all.is_none() {
        return;
    }
    // The emulator's samples are called as those of hardware would be; a second's branches were counted.
    done(here, "fleet shard hardware.data -o hardware.counts --host h1", 0);
    done(here, "aggregate full1.data full2.data -o full.counts", 0);
    let whole = read(&here.join("full.counts"));
    let (told, _) =
        done(here, "fleet shard software.data -o software.counts --host h2 --format json", 0);
    let told: Value = serde_json::from_str(&told).unwrap();
    let law = &told["shards"][0]["recording"]["law"];
    assert_eq!(law["unit"], "ns", "{told}");
    let seconds = law["events"].as_u64().unwrap() as f64 / 1e9;
    let branches = |image: &counts::ImageCounts| image.branch_total();
    let per_run = whole.images.iter().map(branches).sum::<u128>() as f64 / 2.0 * 100.0;
    let rate = (per_run / seconds) as u64;
    let line =
        format!("fleet shard software.data -o software.counts --host h2 --branch-rate {rate}");
    done(here, &line, 0);
    // Not as they are.
    let (_, said) = done(here, "fleet merge hardware.counts software.counts -o mix.counts", 2);
    assert!(
        said.contains("emulated (1), software-branches (1)") && said.contains("--executions"),
        "{said}"
    );
    let (out, said) = done(
        here,
        "fleet merge hardware.counts software.counts --executions -o mix.counts --format json",
        0,
    );
    let out: Value = serde_json::from_str(&out).unwrap();
    assert!(out["executions"] == true && said.contains("executions, estimated"), "{out} {said}");
    done(here, "fleet merge hardware.counts software.counts --raw -o raw.counts", 0);
    let alike = |name: &str| overlap(&read(&here.join(name)), &whole);
    // Samples of a clock stand for many more executions than entries of stacks, and take part.
    let line = "record --branches=none -o clock.data -- ./phases 1 60000000";
    done(here, line, 0);
    done(here, "fleet shard clock.data -o clock.counts --host h3", 0);
    done(here, "fleet merge clock.counts hardware.counts --executions -o three.counts", 0);
    let (_, said) = done(
        here,
        "fleet profile clock.counts hardware.counts software.counts --for phases -o q.afdo",
        0,
    );
    let stacks = |said: &str| {
        let line = said.lines().find(|line| line.contains("branch stacks")).unwrap().to_owned();
        line.split("branch stacks").next().unwrap().split_whitespace().last().unwrap().to_owned()
    };
    let (_, without) =
        done(here, "fleet profile hardware.counts software.counts --for phases -o q.afdo", 0);
    assert_eq!(stacks(&said), stacks(&without), "{said}");
    let (mixed, raw) = (alike("mix.counts"), alike("raw.counts"));
    let alone = alike("hardware.counts").max(alike("software.counts"));
    println!(
        "overlap with the full trace: mixed {mixed:.3}, as they are {raw:.3}, better one alone {alone:.3}"
    );
    assert!(mixed >= alone && mixed > 0.95 && mixed > raw, "{mixed} {raw} {alone}");
    // A result counts executions, and adds up with others that are weighed.
    done(here, "fleet merge mix.counts -o again.counts", 0);
    assert_eq!(read(&here.join("mix.counts")).images, read(&here.join("again.counts")).images);
    let (_, said) =
        done(here, "fleet profile hardware.counts software.counts --for phases -o p.afdo", 0);
    assert!(said.contains("executions, estimated"), "{said}");
}

#[test]
fn a_simulated_fleet_of_two_sources_adds_up_to_the_counts_it_was_drawn_from() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let line = format!("aggregate {} --binary @binary -o run.counts", fixture("test.lbr"));
    done(here, &line, 0);
    let line = "fleet simulate run.counts --hosts 40 --recordings 2 --share 20 --skew 0 --sources 2 --into spool";
    done(here, line, 0);
    done(here, "fleet merge spool -o x.counts", 2);
    done(here, "fleet merge spool --executions -o all.counts", 0);
    let total = |name: &str| -> u128 {
        read(&here.join(name)).images.iter().map(counts::ImageCounts::branch_total).sum()
    };
    // 80 recordings with a fifth each, of which half have a quarter of the samples with four times the weight.
    let (sum, real) = (total("all.counts") as f64, total("run.counts") as f64);
    assert!((sum / (16.0 * real) - 1.0).abs() < 0.02, "{sum} {real}");
    // Halves of a source weigh half, in parts and at once.
    for part in 1..=2 {
        let line = format!(
            "fleet merge spool --executions --source-weight simulated-4=0.5 --partition {part}/2 -o part{part}.counts"
        );
        done(here, &line, 0);
    }
    done(here, "fleet merge part1.counts part2.counts -o joined.counts", 0);
    done(here, "fleet merge spool --executions --source-weight simulated-4=0.5 -o half.counts", 0);
    let bytes = |name: &str| std::fs::read(here.join(name)).unwrap();
    assert_eq!(bytes("half.counts"), bytes("joined.counts"));
    let share = total("half.counts") as f64 / sum;
    assert!((share - 0.75).abs() < 0.02, "{share}");
    // What does not say what it stands for cannot be weighed, and raw counts do not become executions.
    let (_, said) = done(here, "fleet merge run.counts spool --executions -o x.counts", 1);
    assert!(said.contains("rejected: run.counts") && said.contains("fleet shard"), "{said}");
    let (_, said) = done(here, "fleet merge spool --source-weight tape=1 -o x.counts", 2);
    assert!(said.contains("hardware-branches"), "{said}");
}

/// Writes a shard of the fixture's counts, with what its recording says of itself.
fn deliver(place: &Path, counts: &Counts, id: &str, say: impl FnOnce(&mut fleet::Recording)) {
    let mut recording = fleet::Recording { id: id.to_owned(), ..fleet::Recording::default() };
    say(&mut recording);
    fleet::write(place, counts, recording, std::fs::File::create(place).unwrap()).unwrap();
}

#[test]
fn hosts_that_say_more_than_can_be_are_capped_or_rejected_and_named() {
    use fleet::law::{Law, Unit};
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let line = format!("aggregate {} --binary @binary -o run.counts", fixture("test.lbr"));
    done(here, &line, 0);
    let counts = read(&here.join("run.counts"));
    let total = |counts: &Counts| -> u128 {
        counts.images.iter().map(counts::ImageCounts::branch_total).sum()
    };
    let entries = u64::try_from(total(&counts)).unwrap();
    std::fs::create_dir(here.join("spool")).unwrap();
    let honest = |recording: &mut fleet::Recording| {
        recording.source = "software-branches".to_owned();
        (recording.begin, recording.end, recording.cpus) = (Some(1000), Some(1004), Some(2));
        recording.region = "north".to_owned();
        recording.law = Some(Law { unit: Unit::Ns, events: 9_000_000_000, counts: entries });
    };
    deliver(&here.join("spool/a.counts"), &counts, "a", honest);
    // Twenty seconds of CPU time in ten.
    deliver(&here.join("spool/b.counts"), &counts, "b", |recording| {
        honest(recording);
        recording.law = Some(Law { unit: Unit::Ns, events: 20_000_000_000, counts: entries });
    });
    // More rows than its recording had entries.
    deliver(&here.join("spool/c.counts"), &counts, "c", |recording| {
        honest(recording);
        recording.law = Some(Law { unit: Unit::Ns, events: 9_000_000_000, counts: entries / 2 });
    });
    // Ranges that nobody took, and a first half of more than all.
    let mut ranges = counts.clone();
    ranges.images[0].fall_throughs[0].count *= 1_000_000;
    deliver(&here.join("spool/d.counts"), &ranges, "d", honest);
    let mut halves = counts.clone();
    halves.images[0].first_half.branches[0].count *= 1_000_000;
    deliver(&here.join("spool/e.counts"), &halves, "e", honest);
    // More CPUs than there are; planish writes no such shard.
    let text = r#"{"version":1,"halves":true,"recordings":[{"id":"f","host":"","host_class":"",
        "cpu_model":"","architecture":"","cpus":4000000}]}"#;
    let (path, more) = (here.join("spool/f.counts"), ("planish.fleet".to_owned(), text.to_owned()));
    let file = std::fs::File::create(&path).unwrap();
    counts::artefact::write_with(&path, &counts, vec![more], file).unwrap();
    let (told, said) = done(here, "fleet merge spool -o all.counts --format json", 1);
    for (file, why) in [
        ("c", "counts more branches, samples or ranges than the"),
        ("d", "counts more branches, samples or ranges than the"),
        ("e", "counts more of the first half of its samples than of all"),
        ("f", "expected at most 8192 CPUs"),
    ] {
        let mut lines = said.lines().filter(|line| line.contains(&format!("spool/{file}.counts")));
        assert!(lines.any(|line| line.contains("rejected") && line.contains(why)), "{said}");
    }
    assert!(
        said.contains("capped: spool/b.counts") && said.contains("regions: north (2)"),
        "{said}"
    );
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["capped"][0], &told["merged"]), (&"spool/b.counts".into(), &2.into()));
    let sum = total(&read(&here.join("all.counts"))) as f64;
    assert!((sum / entries as f64 - 1.5).abs() < 0.01, "{sum} of {entries}");
    // A host may say that it has many CPUs; one that outweighs all others is named.
    std::fs::create_dir(here.join("many")).unwrap();
    for host in 0..5 {
        deliver(
            &here.join(format!("many/{host}.counts")),
            &counts,
            &host.to_string(),
            |recording| {
                honest(recording);
                if host == 3 {
                    recording.cpus = Some(4000);
                    let events = 10_000_000_000_000;
                    recording.law = Some(Law { unit: Unit::Ns, events, counts: entries });
                }
            },
        );
    }
    let (_, said) = done(here, "fleet merge many --executions -o x.counts", 0);
    assert!(
        said.contains("note: many/3.counts gives 100 % of the executions of 5 files"),
        "{said}"
    );
}
