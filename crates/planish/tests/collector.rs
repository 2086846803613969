//! A collector: windows become shards, once each, whatever happens to it, its disk or its clock.
//!
//! `PLANISH_KILLS` says how often it is killed (10 without it).

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]

mod fleet_support;
#[path = "collector/setting.rs"]
mod setting;

use serde_json::Value;
use setting::{Collector, Spinner, done, possible, recordings, spinners, until};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Windows that are short, so that tests are.
const OFTEN: &str = "--window 150ms --every 200ms --cpu-budget 1000% -F 2000";

#[test]
fn windows_become_a_shard_for_each_program_that_merge_and_profile_take() {
    let Some(folder) = possible() else { return };
    let here = folder.path();
    let (one, two) = spinners(here);
    let pids = format!("{},{}", one.pid(), two.pid());
    let line = format!("{OFTEN} -p {pids} --host-class web --program 1.2.3 --host h1");
    let collector = Collector::start(here, &line);
    until("windows of both", || recordings(here).len() >= 4);
    let (code, said) = collector.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("collecting 150ms every 200ms") && said.contains("windows"), "{said}");
    let all = recordings(here);
    let last = all.iter().filter_map(|one| one["collected"]["window"].as_u64()).max();
    let mut windows: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for one in &all {
        let collected = &one["collected"];
        assert_eq!(
            (&one["host"], &one["host_class"], &one["program"]),
            (&"h1".into(), &"web".into(), &"1.2.3".into())
        );
        assert_eq!(one["source"], "clock");
        let slower = collected["slower"].as_u64().unwrap();
        assert_eq!(one["period"], 500_000 * slower);
        assert!(slower == 8 || collected["window"] != 1, "the first is to find out: {collected}");
        assert!(
            one["begin"].as_u64() <= one["end"].as_u64()
                && one["begin"].as_u64() > Some(1_700_000_000)
        );
        assert_eq!(collected["budget_ppm"], 10_000_000);
        assert!(
            collected["cost_us"].as_u64() > Some(0) && collected["since_ms"].as_u64() > Some(0)
        );
        // The last one is cut off by the signal.
        let least = if collected["window"].as_u64() == last { 1 } else { 100 };
        let length = collected["length_ms"].as_u64().unwrap();
        assert!((least..3000).contains(&length), "{collected}");
        let executable = collected["executable"].as_str().unwrap().to_owned();
        let fresh =
            windows.entry(collected["window"].as_u64().unwrap()).or_default().insert(executable);
        assert!(fresh, "a program has one shard in a window");
    }
    let both = |programs: &&BTreeSet<String>| {
        ["/one", "/two"].iter().all(|name| programs.iter().any(|path| path.ends_with(name)))
    };
    assert!(windows.values().filter(both).count() >= 1, "{windows:?}");
    let (out, told) = done(here, "fleet merge spool -o all.counts --format json", 0);
    let merged: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(merged["recordings"].as_u64(), Some(all.len() as u64), "{told}");
    assert_eq!((merged["duplicates"].as_array().unwrap().len(), &merged["hosts"]), (0, &1.into()));
    // The books of all programs balance, and each program has counts of itself alone.
    let samples = &merged["ledger"]["samples"];
    let unused: u64 =
        samples["unused"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(samples["entered"].as_u64().unwrap(), samples["used"].as_u64().unwrap() + unused);
    done(here, "fleet profile spool --for one -o one.afdo", 0);
    let (out, _) = done(here, "fleet show spool", 0);
    assert!(out.contains("executables: ") && out.contains("% of a CPU"), "{out}");
    // Nothing is left of the windows themselves.
    let own: Vec<_> = std::fs::read_dir(here.join("spool/.collector")).unwrap().collect();
    assert_eq!(own.len(), 2, "the lock and the state: {own:?}");
}

#[test]
fn a_command_is_recorded_with_what_it_starts_until_it_ends() {
    let Some(folder) = possible() else { return };
    let here = folder.path();
    let (one, _two) = spinners(here);
    drop(one);
    // The shell waits for what it started.
    std::fs::write(
        here.join("both.sh"),
        "./one & first=$!; ./two & sleep 2; kill $first $!; wait\nexit 0\n",
    )
    .unwrap();
    let collector = Collector::start(here, &format!("{OFTEN} --format json -- sh both.sh"));
    let (code, said) = collector.wait();
    assert_eq!(code, Some(0), "{said}");
    let json: Value =
        serde_json::from_str(&said[said.find('{').unwrap()..=said.rfind('}').unwrap()]).unwrap();
    assert_eq!(
        (json["schema"].as_str(), json["version"].as_u64()),
        (Some("planish-collector"), Some(1))
    );
    assert_eq!(json["left"], false);
    let all = recordings(here);
    for name in ["/one", "/two"] {
        let of = |one: &&Value| one["collected"]["executable"].as_str().unwrap().ends_with(name);
        assert!(all.iter().filter(of).count() >= 1, "{name}: {said}");
    }
}

#[test]
fn the_whole_machine_is_recorded_with_its_kernel_apart() {
    let Some(folder) = possible() else { return };
    let here = folder.path();
    let (_one, _two) = spinners(here);
    let collector = Collector::start(here, &format!("{OFTEN} -a -v"));
    let found = |all: &[Value], name: &str| {
        all.iter().any(|one| one["collected"]["executable"].as_str().unwrap().ends_with(name))
    };
    until("both programs", || {
        let all = recordings(here);
        collector.has_ended() || found(&all, "/one") && found(&all, "/two")
    });
    let (code, said) = collector.end();
    if said.contains("perf_event_paranoid") {
        return eprintln!("skipped: {said}");
    }
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("window 1: "), "{said}");
    done(here, "fleet merge spool -o all.counts", 0);
}

#[test]
fn a_window_that_nothing_runs_in_is_counted_and_a_second_collector_is_refused() {
    let Some(folder) = possible() else { return };
    let here = folder.path();
    let mut sleeper = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let collector = Collector::start(here, &format!("{OFTEN} -p {}", sleeper.id()));
    until("windows", || {
        setting::state(here).is_some_and(|state| state["missed"]["idle"].as_u64() > Some(1))
    });
    let (code, said) = Collector::start(here, &format!("{OFTEN} -p {}", sleeper.id())).wait();
    assert!(code == Some(2) && said.contains("another collector"), "{said}");
    // When the process ends, so does the collector.
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let (code, said) = collector.wait();
    assert_eq!(code, Some(0), "{said}");
    // The next shards tell of the windows without samples.
    let (one, _two) = spinners(here);
    let left = setting::state(here).unwrap()["missed"]["idle"].as_u64();
    assert!(left.is_some() || !recordings(here).is_empty(), "nobody has told of them");
    let collector = Collector::start(here, &format!("{OFTEN} -p {}", one.pid()));
    until("a shard", || !recordings(here).is_empty());
    collector.end();
    let all = recordings(here);
    let first = all.iter().min_by_key(|one| one["collected"]["window"].as_u64()).unwrap();
    let told = first["collected"]["missed"]["idle"].as_u64();
    // Where the end of the sleeper was sampled, its own shard has told of them.
    assert!(told > Some(1) && left.is_none_or(|left| told == Some(left)), "{told:?} {left:?}");
    setting::balances(here, 0);
}

#[test]
fn a_spool_at_its_limit_loses_no_shard_and_goes_on_when_there_is_room() {
    let Some(folder) = possible() else { return };
    let here = folder.path();
    let (one, _two) = spinners(here);
    std::fs::create_dir(here.join("spool")).unwrap();
    // Somebody has not taken his shards away.
    std::fs::write(here.join("spool/old.counts"), vec![0; 600 << 10]).unwrap();
    let collector = Collector::start(here, &format!("{OFTEN} --spool-limit 1M -p {}", one.pid()));
    until("a pause", || {
        setting::state(here).is_some_and(|state| state["missed"]["spool_full"].as_u64() > Some(0))
    });
    assert!(recordings_but(here, "old").is_empty());
    std::fs::remove_file(here.join("spool/old.counts")).unwrap();
    until("a shard", || !recordings(here).is_empty());
    let (code, said) = collector.end();
    assert!(
        code == Some(0)
            && said.contains("nothing is recorded until")
            && said.contains("recording goes on"),
        "{said}"
    );
    let all = recordings(here);
    let first = all.iter().min_by_key(|one| one["collected"]["window"].as_u64()).unwrap();
    assert!(first["collected"]["missed"]["spool_full"].as_u64() > Some(0), "{first}");
    setting::balances(here, 0);
}

fn recordings_but(here: &std::path::Path, name: &str) -> Vec<std::path::PathBuf> {
    setting::shards(here).into_iter().filter(|path| path.file_stem().unwrap() != name).collect()
}

#[test]
fn a_full_disk_gives_no_broken_shard_and_recording_goes_on_when_there_is_room() {
    let Some(folder) = possible() else { return };
    let here = folder.path();
    let spool = here.join("spool");
    std::fs::create_dir(&spool).unwrap();
    let Some(mounted) = setting::Mounted::at(&spool, "size=3m") else { return };
    let (one, _two) = spinners(here);
    let collector = Collector::start(here, &format!("{OFTEN} -p {}", one.pid()));
    until("a shard", || !recordings(here).is_empty());
    // Until nothing more fits, while windows are recorded and written.
    let filler = |number: u32| spool.join(format!("filler{number}"));
    let mut number = 0;
    while std::fs::write(filler(number), [7; 4 << 10]).is_ok() {
        number += 1;
    }
    until("a window without room", || collector.said().contains("gave nothing"));
    let before = recordings(here).len();
    for number in 0..=number {
        std::fs::remove_file(filler(number)).ok();
    }
    until("shards again", || recordings(here).len() > before);
    let (code, said) = collector.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("disk") || said.contains("No space"), "{said}");
    setting::balances(here, 0);
    let all = recordings(here);
    let told: u64 =
        all.iter().filter_map(|one| one["collected"]["missed"]["disk_full"].as_u64()).sum();
    assert!(told > 0, "{said}");
    drop(mounted);
}

#[test]
fn a_window_that_cannot_be_written_to_its_end_is_given_up_and_counted() {
    let Some(folder) = possible() else { return };
    let here = folder.path();
    let (one, _two) = spinners(here);
    // 2 KiB, less than any recording.
    let collector = Collector::limited(here, "ulimit -f 4", &format!("{OFTEN} -p {}", one.pid()));
    until("windows", || {
        setting::state(here).is_some_and(|state| state["missed"]["disk_full"].as_u64() > Some(1))
    });
    let (code, said) = collector.end();
    assert!(code == Some(0) && said.contains("gave nothing"), "{said}");
    assert!(setting::shards(here).is_empty());
    setting::balances(here, 0);
    let collector = Collector::start(here, &format!("{OFTEN} -p {}", one.pid()));
    until("a shard", || !recordings(here).is_empty());
    collector.end();
    setting::balances(here, 0);
}

#[test]
fn a_collector_that_costs_too_much_leaves_and_says_so_in_its_last_shards() {
    let Some(folder) = possible() else { return };
    let here = folder.path();
    let (one, _two) = spinners(here);
    // What a window costs at least takes seconds to earn at this share: the longest pause is 80 ms.
    let line = format!("--window 10ms --every 10ms --cpu-budget 1% -F 1000 -p {}", one.pid());
    let (code, said) = Collector::start(here, &line).wait();
    assert!(code == Some(1) && said.contains("leaves this host"), "{said}");
    let all = recordings(here);
    let last = all.iter().max_by_key(|one| one["collected"]["window"].as_u64()).unwrap();
    assert_eq!(last["collected"]["left"], true);
    assert_eq!(last["collected"]["slower"], 64);
    let (out, _) = done(here, "fleet show spool", 0);
    assert!(out.contains("left: 1"), "{out}");
    done(here, "fleet merge spool -o all.counts", 0);
}

#[test]
fn the_budget_holds_over_some_windows() {
    let Some(folder) = possible() else { return };
    let here = folder.path();
    let (one, _two) = spinners(here);
    let line = format!("--window 100ms --every 100ms --cpu-budget 10% -F 1000 -p {}", one.pid());
    let collector = Collector::start(here, &line);
    let began = Instant::now();
    until("some seconds", || began.elapsed() > Duration::from_secs(8));
    let used = setting::cpu_seconds(collector.pid());
    let share = used / began.elapsed().as_secs_f64();
    let (code, said) = collector.end();
    assert_eq!(code, Some(0), "{said}");
    let all = recordings(here);
    let dearest = all.iter().filter_map(|one| one["collected"]["cost_us"].as_u64()).max().unwrap()
        as f64
        / 1e6;
    // What was not yet earned of the last window.
    assert!(share <= 0.1 + dearest / 8.0, "{share} {dearest} {said}");
    assert!(all.len() >= 2, "{said}");
}

/// A fixed sequence that looks like chance.
fn chance(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

#[test]
fn killed_at_any_moment_it_loses_at_most_the_open_window_and_corrupts_nothing() {
    let Some(folder) = possible() else { return };
    let here = folder.path();
    let kills: u64 = std::env::var("PLANISH_KILLS").map_or(10, |text| text.parse().unwrap());
    let (one, two) = spinners(here);
    let line = format!(
        "--window 60ms --every 60ms --cpu-budget 1000% -F 2000 -p {},{}",
        one.pid(),
        two.pid()
    );
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    let mut known: BTreeMap<std::path::PathBuf, Vec<u8>> = BTreeMap::new();
    for kill in 0..kills {
        let begun = || setting::state(here).and_then(|state| state["next"].as_u64());
        let before = begun();
        let collector = Collector::start(here, &line);
        // While it begins or takes up what is left, or when it has begun windows of its own.
        if kill % 2 == 1 {
            until("a window", || begun() > before);
        }
        std::thread::sleep(Duration::from_millis(chance(&mut seed) % 800));
        collector.kill();
        for path in setting::shards(here) {
            let bytes = std::fs::read(&path).unwrap();
            let before = known.entry(path.clone()).or_insert_with(|| bytes.clone());
            assert!(*before == bytes, "{} appears with other contents", path.display());
        }
    }
    // One that ends as it should takes up what the last one left.
    let before = setting::shards(here).len();
    let collector = Collector::start(here, &line);
    until("another window", || setting::shards(here).len() > before + 2);
    let (code, said) = collector.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(known.keys().all(|path| path.exists()), "a shard went away");
    let lost = setting::balances(here, kills);
    let windows: BTreeSet<u64> =
        recordings(here).iter().filter_map(|one| one["collected"]["window"].as_u64()).collect();
    eprintln!("killed {kills} times: {} windows with shards, {lost} lost", windows.len());
    done(here, "fleet merge spool -o all.counts --strict", 0);
    let names =
        std::fs::read_dir(here.join("spool")).unwrap().map(|entry| entry.unwrap().file_name());
    let strange: Vec<_> = names
        .filter(|name| {
            let name = name.to_str().unwrap();
            !name.ends_with(".counts") && name != ".collector"
        })
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
    drop::<[Spinner; 2]>([one, two]);
}

#[test]
fn a_wall_clock_that_is_set_back_makes_no_windows_overlap() {
    let Some(folder) = possible() else { return };
    let here = folder.path();
    let Some(library) = setting::faketime() else {
        return eprintln!("skipped: libfaketime is not installed");
    };
    let (one, _two) = spinners(here);
    std::fs::write(here.join("clock"), "+0").unwrap();
    let line = format!("--window 500ms --every 1s --cpu-budget 1000% -F 2000 -p {}", one.pid());
    let clock = here.join("clock").display().to_string();
    let fake = [
        ("LD_PRELOAD", library.as_str()),
        ("FAKETIME_TIMESTAMP_FILE", clock.as_str()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("FAKETIME_NO_CACHE", "1"),
    ];
    let collector = Collector::start_with(here, &line, &fake);
    for (offset, more) in [("+0", 2), ("+3600s", 2), ("-1800s", 3), ("+60s", 2)] {
        std::fs::write(here.join("clock"), offset).unwrap();
        let before = recordings(here).len();
        until("windows", || recordings(here).len() >= before + more);
    }
    let (code, said) = collector.end();
    assert_eq!(code, Some(0), "{said}");
    let mut spans: Vec<(u64, u64, u64)> = recordings(here)
        .iter()
        .map(|one| {
            let number = |value: &Value| value.as_u64().unwrap();
            assert!(number(&one["collected"]["length_ms"]) < 5000, "{one}");
            (number(&one["collected"]["window"]), number(&one["begin"]), number(&one["end"]))
        })
        .collect();
    spans.sort_unstable();
    let jumped = spans.windows(2).filter(|pair| pair[1].1 - pair[0].1 > 3000).count();
    assert!(jumped >= 1, "the clock was set: {spans:?}");
    assert!(spans.iter().all(|(_, begin, end)| begin <= end && end - begin <= 5), "{spans:?}");
    assert!(spans.windows(2).all(|pair| pair[0].2 <= pair[1].1), "{spans:?}");
}

#[test]
fn options_that_make_no_sense_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for (line, expected) in [
        ("record --continuous -a", "--spool"),
        ("record --spool a -a", "--continuous"),
        ("record --continuous --spool a", "nothing to record"),
        ("record --continuous --spool a -p 1 -- true", "one of them"),
        ("record --continuous --spool a -p 1 --overwrite", "--overwrite is for one recording"),
        ("record --continuous --spool a --branches=emulated -- true", "--branches=emulated"),
        ("record --continuous --spool a -p 1 --window 1ms", "expected a time"),
        ("record --continuous --spool a -p 1 --spool-limit 1K", "1M"),
        ("record --continuous --spool a -p 1 --cpu-budget 0", "percentage"),
        ("record --continuous --spool a -p 1 -o b", "cannot be used with"),
        ("record --continuous --spool a -p 2147483647 --window 50ms", "2147483647"),
    ] {
        let output = setting::run(here, line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains(expected), "{line}: {said}");
    }
    std::fs::create_dir_all(here.join("b/.collector")).unwrap();
    std::fs::write(here.join("b/.collector/state.json"), "not a state").unwrap();
    let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let output = setting::run(here, &format!("record --continuous --spool b -p {}", sleeper.id()));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2)
            && said.contains("state.json")
            && said.contains("remove it"),
        "{said}"
    );
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}
