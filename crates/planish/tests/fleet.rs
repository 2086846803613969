//! Counts of a fleet on the command line: merged once each, read by the other commands, and told of.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]

mod fleet_support;

use counts::{Counts, artefact};
use fleet::Recording;
use fleet_support::{dealt_out, done, fixture, read, run, shard};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Counts of the fixture, and shards of ten hosts with them; the folder.
fn fleet_of_ten() -> (tempfile::TempDir, Counts) {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let line = format!("aggregate {} --binary @binary -o run.counts", fixture("test.lbr"));
    done(here, &line, 0);
    let counts = read(&here.join("run.counts"));
    std::fs::create_dir(here.join("spool")).unwrap();
    for host in 0..10u64 {
        let path = here.join(format!("spool/{host}.counts"));
        let recording = Recording {
            id: format!("r{host}"),
            host: format!("h{host}"),
            host_class: if host < 4 { "web" } else { "batch" }.to_owned(),
            architecture: "x86_64".to_owned(),
            begin: Some(1_700_000_000 + host * 3600),
            end: Some(1_700_000_005 + host * 3600),
            source: "hardware-branches".to_owned(),
            depth: Some(16),
            ..Recording::default()
        };
        fleet::write(&path, &counts, recording, std::fs::File::create(&path).unwrap()).unwrap();
    }
    (folder, counts)
}

#[test]
fn shards_of_hosts_give_the_profile_of_one_recording_with_all_their_samples() {
    let (folder, counts) = fleet_of_ten();
    let here = folder.path();
    let (out, told) = done(here, "fleet merge spool -o all.counts", 0);
    assert!(
        out.is_empty() && told.contains("merged 10 of 10 files: 10 recordings of 10"),
        "{told}"
    );
    let one = counts::merge(vec![counts; 10]).unwrap();
    let path = here.join("one.counts");
    artefact::write(&path, &one, std::fs::File::create(&path).unwrap()).unwrap();
    let mut all = read(&here.join("all.counts"));
    assert_eq!(all.images[0].architecture, "x86_64");
    all.images.iter_mut().for_each(|image| image.architecture.clear());
    assert!(all == one);
    for name in ["one", "all"] {
        done(here, &format!("profile {name}.counts --binary @binary -o {name}.afdo"), 0);
        done(
            here,
            &format!("layout {name}.counts --binary @binary --emit symbol-order --prefix {name}"),
            0,
        );
    }
    let bytes = |name: &str| std::fs::read(here.join(name)).unwrap();
    assert_eq!(bytes("one.afdo"), bytes("all.afdo"));
    // As aggregate adds them up.
    let files = (0..10).map(|host| format!("spool/{host}.counts")).collect::<Vec<_>>().join(" ");
    done(here, &format!("aggregate {files} -o sum.counts"), 0);
    assert!(read(&here.join("sum.counts")) == one);
    // In parts, by a pattern, with the result itself among the inputs.
    for part in 1..=8 {
        let line =
            format!("fleet merge spool/*.counts all.counts --partition {part}/8 -o part{part}");
        done(here, &line, 0);
    }
    let (_, told) = done(here, "fleet merge part? -o again.counts --memory 256", 0);
    assert!(told.contains("merged 8 of 8 files: 10 recordings"), "{told}");
    assert_eq!(bytes("all.counts"), bytes("again.counts"));
    let before = bytes("all.counts");
    let output = run(here, "fleet merge spool -o - -q");
    assert!(output.status.success() && output.stdout == before);
}

#[test]
fn bad_files_are_named_and_the_rest_is_merged() {
    let (folder, _) = fleet_of_ten();
    let here = folder.path();
    let whole = std::fs::read(here.join("spool/0.counts")).unwrap();
    std::fs::write(here.join("spool/cut.counts"), &whole[..whole.len() - 100]).unwrap();
    std::fs::write(here.join("spool/notes.counts"), "not counts\n").unwrap();
    // A page is damaged, which only reading it tells.
    let mut damaged = std::fs::read(here.join("spool/9.counts")).unwrap();
    damaged[30..200].fill(0x55);
    std::fs::write(here.join("spool/9.counts"), damaged).unwrap();
    std::fs::copy(here.join("spool/1.counts"), here.join("spool/copy.counts")).unwrap();
    let (out, told) = done(here, "fleet merge spool -o all.counts --format json", 1);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (json["schema"].as_str(), json["version"].as_u64()),
        (Some("planish-fleet-merge"), Some(1))
    );
    assert_eq!((json["files"].as_u64(), json["merged"].as_u64()), (Some(13), Some(9)), "{told}");
    assert_eq!(json["host_classes"]["web"], 4);
    let list = |key: &str| json[key].as_array().unwrap().clone();
    assert_eq!((list("duplicates").len(), list("rejected").len()), (1, 3), "{out}");
    for part in
        ["rejected: spool/cut.counts", "rejected: spool/notes.counts", "rejected: spool/9.counts"]
    {
        assert!(told.contains(part), "no `{part}` in {told}");
    }
    let (_, told) = done(here, "fleet merge spool -o strict.counts --strict", 2);
    assert!(told.contains("spool/") && !here.join("strict.counts").exists(), "{told}");
    let (_, told) = done(here, "fleet merge spool/notes.counts -o none.counts", 2);
    assert!(told.contains("notes.counts") && !here.join("none.counts").exists(), "{told}");
    let (_, told) = done(here, "fleet merge all.counts -o all.counts", 2);
    assert!(told.contains("is one of the inputs"), "{told}");
    done(here, "fleet show spool/notes.counts", 2);
    let (out, told) = done(here, "fleet show spool", 1);
    assert!(out.contains("spool/0.counts: counts of version "), "{out}");
    assert!(told.contains("rejected: spool/cut.counts"), "{told}");
}

#[test]
fn options_choose_and_weigh_and_shards_tell_of_themselves() {
    let (folder, counts) = fleet_of_ten();
    let here = folder.path();
    let first = |path: &str| read(&here.join(path)).images[0].branches[0].count;
    let own = counts.images[0].branches[0].count;
    done(here, "fleet merge spool --host-class web -o web.counts", 0);
    assert_eq!(first("web.counts"), 4 * own);
    done(here, "fleet merge spool --since 1h --now 1700032405 -o late.counts", 0);
    assert_eq!(first("late.counts"), 2 * own);
    let line = "fleet merge spool/8.counts spool/9.counts --decay 1h --now 1700032405 --weight 2 --weight 0.5 -o w.counts";
    done(here, line, 0);
    assert_eq!(first("w.counts"), own + ((own * 32768 + 32768) >> 16));
    let (out, _) = done(here, "fleet show w.counts --format json", 0);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (json["schema"].as_str(), json["version"].as_u64()),
        (Some("planish-fleet-show"), Some(1))
    );
    let recordings = json["shards"][0]["recordings"].as_array().unwrap();
    assert_eq!(recordings[1]["weights"][0], 32768);
    assert_eq!(recordings[0]["host"], "h8");
    let (out, _) = done(here, "fleet show web.counts run.counts", 0);
    for part in ["host classes: web (4)", "2023-11-14 22:13:20 to ", "known by its bytes"] {
        assert!(out.contains(part), "no `{part}` in {out}");
    }
    for (line, part) in [
        ("fleet merge spool --weight 1 --weight 2 -o x", "one weight for each"),
        ("fleet merge spool --partition 9/8 -o x", "expected I/N"),
        ("fleet merge spool --since soon -o x", "an age like 7d"),
        ("fleet merge spool --since 2030-01-01 -o x", "nothing to merge"),
        ("fleet merge none/*.counts -o x", "no file fits"),
        ("fleet merge spool -o - --format json", "both want standard output"),
    ] {
        let (_, told) = done(here, line, 2);
        assert!(told.contains(part) && !here.join("x").exists(), "{line}: {told}");
    }
    let absent: PathBuf = here.join("x");
    assert!(!absent.exists());
}

#[test]
fn a_simulated_fleet_is_the_same_each_time_and_adds_up_in_parts() {
    let (folder, counts) = fleet_of_ten();
    let here = folder.path();
    let line = "fleet simulate run.counts run.counts --hosts 6 --recordings 5 --share 20 --seed 7";
    let faults = "--duplicates 30 --truncated 10";
    let made = done(here, &format!("{line} {faults} --into one --format json"), 0).0;
    let made: Value = serde_json::from_str(&made).unwrap();
    let number = |key: &str| made[key].as_u64().unwrap();
    assert!(
        number("duplicates") > 0 && number("truncated") > 0 && number("shards") == 30,
        "{made}"
    );
    done(here, &format!("{line} {faults} --into two"), 0);
    let names = |folder: &str| {
        let list = std::fs::read_dir(here.join(folder)).unwrap();
        let mut names: Vec<PathBuf> = list.map(|entry| entry.unwrap().path()).collect();
        names.sort();
        names
    };
    let (one, two) = (names("one"), names("two"));
    assert_eq!(one.len(), 30 + number("duplicates") as usize);
    assert!(one.iter().zip(&two).all(|(a, b)| {
        a.file_name() == b.file_name() && std::fs::read(a).unwrap() == std::fs::read(b).unwrap()
    }));
    let (_, told) = done(here, "fleet merge one -o all.counts", 1);
    assert!(told.contains("duplicate") && told.contains("rejected"), "{told}");
    for part in 1..=3 {
        done(here, &format!("fleet merge one --partition {part}/3 -o part{part}.counts"), 1);
    }
    done(here, "fleet merge part1.counts part2.counts part3.counts -o joined.counts", 0);
    let bytes = |name: &str| std::fs::read(here.join(name)).unwrap();
    assert_eq!(bytes("all.counts"), bytes("joined.counts"));
    // A recording has 20 % of the counts where the load is that of the middle.
    done(here, &format!("{line} --skew 0 --into even"), 0);
    done(here, "fleet merge even -o even.counts", 0);
    let total = |counts: &Counts| -> u128 {
        counts.images.iter().map(counts::ImageCounts::branch_total).sum()
    };
    let (sum, real) = (total(&read(&here.join("even.counts"))), total(&counts));
    let share = sum as f64 / (30.0 * real as f64);
    assert!((share - 0.2).abs() < 0.01, "{share}");
    let (_, said) = done(here, &format!("{line} --into even"), 2);
    assert!(said.contains("there is something in it"), "{said}");
}

#[test]
fn a_shard_says_of_its_recording_what_the_recording_says() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let begin = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    std::fs::write(
        here.join("a.c"),
        "int main(void) { for (volatile long i = 0; i < 300000000; i++); }",
    )
    .unwrap();
    let built = Command::new("cc").current_dir(here).args(["-o", "a", "a.c"]).status();
    assert!(built.unwrap().success());
    done(here, "record -c 2000000 -o perf.data -- ./a", 0);
    let shard = "fleet shard perf.data -o one.counts --host-class web --program 1.2 --format json";
    let told: Value = serde_json::from_str(&done(here, shard, 0).0).unwrap();
    let recording = &told["shards"][0]["recording"];
    let id = recording["id"].as_str().unwrap();
    assert!(id.starts_with("sha256-") && id.len() == 71, "{id}");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(recording["host"], host.trim());
    let word = |key: &str| recording[key].as_str().unwrap().to_owned();
    assert_eq!((word("host_class"), word("program")), ("web".to_owned(), "1.2".to_owned()));
    assert_eq!(recording["period"], 2_000_000);
    assert_eq!(recording["source"], "clock");
    let (from, to) = (recording["begin"].as_u64().unwrap(), recording["end"].as_u64().unwrap());
    assert!(begin.as_secs() <= from && from <= to && to <= begin.as_secs() + 120, "{recording}");
    // The same recording under another name is the same one; a shard of it counts once.
    std::fs::rename(here.join("perf.data"), here.join("again.data")).unwrap();
    done(here, "fleet shard again.data --into spool --host-class web --program 1.2", 0);
    let again = here.join(format!("spool/{id}.counts"));
    assert_eq!(std::fs::read(here.join("one.counts")).unwrap(), std::fs::read(again).unwrap());
    let (_, merged) = done(here, "fleet merge one.counts spool -o all.counts", 0);
    assert!(merged.contains("duplicate"), "{merged}");
    let samples = |name: &str| read(&here.join(name)).images[0].samples.clone();
    assert_eq!(samples("all.counts"), samples("one.counts"));
    for (line, why) in [
        ("fleet shard again.data again.data -o x.counts", "--into DIR for several"),
        ("fleet shard one.counts -o x.counts", "expected the magic PERFILE2"),
        ("fleet shard - -o x.counts", "a file or a directory"),
    ] {
        let (_, said) = done(here, line, 2);
        assert!(said.contains(why), "{line}: {said}");
    }
}

#[test]
fn the_profile_of_many_hosts_is_that_of_one_recording_with_all_their_samples() {
    let (folder, _) = fleet_of_ten();
    let here = folder.path();
    done(here, &format!("profile {} --binary @binary -o one.afdo", "run.counts ".repeat(10)), 0);
    let (told, said) =
        done(here, "fleet profile spool --for @binary -o fleet.afdo --format json", 0);
    let read = |name: &str| std::fs::read(here.join(name)).unwrap();
    assert_eq!(read("fleet.afdo"), read("one.afdo"));
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["schema"], "planish-fleet-profile");
    assert_eq!(
        (&told["builds"][0]["fate"], &told["merged"]["recordings"]),
        (&"newest".into(), &10.into())
    );
    assert!(said.contains("100.0 %") && told["evidence"]["samples"].as_u64() > Some(0), "{said}");
    let (_, said) = done(here, "fleet profile spool --for @binary --name other -o x.afdo", 2);
    assert!(said.contains("no shard counts a program called other; there are"), "{said}");
    std::fs::write(here.join("spool/cut.counts"), "PAR1").unwrap();
    let (_, said) = done(here, "fleet profile spool --for @binary -o again.afdo", 1);
    assert!(said.contains("rejected") && read("again.afdo") == read("one.afdo"), "{said}");
}

#[test]
fn a_hundred_hosts_with_a_sample_in_a_hundred_each_give_the_profile_of_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let recording = fixture("test.lbr");
    let mut files = String::new();
    for (host, part) in dealt_out(&std::fs::read(&recording).unwrap(), 100).iter().enumerate() {
        std::fs::write(here.join(format!("{host}.data")), part).unwrap();
        files += &format!(" {host}.data");
    }
    done(here, &format!("fleet shard{files} --binary @binary --into spool"), 0);
    done(here, "fleet merge spool -o all.counts", 0);
    done(here, &format!("aggregate {recording} --binary @binary -o one.counts"), 0);
    let (one, all) = (read(&here.join("one.counts")), read(&here.join("all.counts")));
    assert!(one.images.len() == 1 && all.images.len() == 1);
    assert_eq!(all.images[0].branches, one.images[0].branches);
    assert_eq!(all.images[0].fall_throughs, one.images[0].fall_throughs);
    assert_eq!(all.images[0].samples, one.images[0].samples);
    done(here, &format!("profile {recording} --binary @binary -o one.afdo"), 0);
    let (told, _) = done(here, "fleet profile spool --for @binary -o fleet.afdo --format json", 0);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["merged"]["recordings"], 100);
    let bytes = |name: &str| std::fs::read(here.join(name)).unwrap();
    assert_eq!(bytes("fleet.afdo"), bytes("one.afdo"));
}

#[test]
fn counts_of_an_older_build_are_carried_over_by_source_or_named() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let source = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/calls.c"),
    )
    .unwrap();
    let flags = ["-O2", "-gmlt", "-fdebug-info-for-profiling", "-Wl,--build-id=sha1", "-o"];
    for (build, text) in [("old", source.clone()), ("new", format!("\n\n\n{source}"))] {
        std::fs::create_dir(here.join(build)).unwrap();
        std::fs::write(here.join(build).join("calls.c"), text).unwrap();
        let built = Command::new("clang-22")
            .current_dir(here.join(build))
            .args(flags)
            .args(["calls", "calls.c"])
            .status();
        match built {
            Ok(status) => assert!(status.success()),
            Err(error) => {
                println!("skipped: clang-22: {error}");
                return;
            }
        }
        let line = format!("record -c 1000000 -o {build}/perf.data -- {build}/calls");
        done(here, &line, 0);
        done(here, &format!("fleet shard {build}/perf.data --into spool --host {build}"), 0);
    }
    let line = "fleet profile spool --for new/calls -o app.afdo --format json";
    let (told, said) = done(here, line, 1);
    assert!(said.contains("its program is not at hand (--binaries, --debuginfod)"), "{said}");
    let fates = |told: &str| {
        let told: Value = serde_json::from_str(told).unwrap();
        let builds = told["builds"].as_array().unwrap().clone();
        let mut fates: Vec<String> =
            builds.iter().map(|build| build["fate"].as_str().unwrap().to_owned()).collect();
        fates.sort();
        fates
    };
    assert_eq!(fates(&told), ["left-out", "newest"]);
    let samples = |file: &str| {
        let shown = done(here, &format!("profile show {file} --format json"), 0).0;
        let shown: Value = serde_json::from_str(&shown).unwrap();
        shown["total_count"].as_u64().or(shown["summary"]["total_count"].as_u64())
    };
    let alone = samples("app.afdo");
    // A store of all builds has it by build ID.
    let (told, _) =
        done(here, "fleet binaries add old/calls new/calls --store all --format json", 0);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["schema"], "planish-fleet-binaries");
    let id = told["binaries"][0]["build_id"].as_str().unwrap().to_owned();
    let found = done(here, &format!("fleet binaries find {id} --store all"), 0).0;
    let stored = std::fs::read(here.join(found.trim())).unwrap();
    assert_eq!(stored, std::fs::read(here.join("old/calls")).unwrap());
    let (_, said) = done(here, "fleet binaries find 0123456789 --store all", 1);
    assert!(said.contains("0123456789: not in all"), "{said}");
    let line = format!("{line} --binaries all");
    let (told, _) = done(here, &line, 0);
    assert_eq!(fates(&told), ["matched", "newest"]);
    let both = samples("app.afdo");
    assert!(alone > Some(0) && both > alone.map(|alone| alone * 3 / 2), "{alone:?} {both:?}");
}

#[test]
fn the_density_of_the_profile_is_the_one_of_llvm_profgen() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let recording = fixture("test.lbr");
    shard(here);
    let (told, _) = done(here, "fleet status run.counts --for @binary --format json", 4);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["least_profile_density"], 50.0);
    let own = told["profile_density"].as_f64().unwrap();
    // All that `aggregate` counts, over what `size` calls code.
    let branches = read(&here.join("run.counts")).images[0].branch_total() as f64;
    let size = Command::new("size").args(["-A", &fixture("test.binary")]).output().unwrap();
    let size = String::from_utf8(size.stdout).unwrap();
    let code = size.lines().filter(|line| {
        [".init ", ".plt ", ".text ", ".fini "].iter().any(|name| line.starts_with(name))
    });
    let bytes = code.filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    let expected = branches / bytes.sum::<f64>();
    let found = told["branches_per_byte"].as_f64().unwrap();
    assert!((found - expected).abs() < 1e-9 && found > 1.0, "{found} {expected}\n{size}");
    let script = ["script", "-i", &recording, "--show-mmap-events", "-F", "ip,brstack"];
    let printed = Command::new("perf").args(script).output();
    let Some(printed) = printed.ok().filter(|printed| printed.status.success()) else {
        println!("skipped: perf, which prints branch stacks, is not installed");
        return;
    };
    std::fs::write(here.join("run.script"), printed.stdout).unwrap();
    let mut profgen = Command::new("llvm-profgen-22");
    profgen.current_dir(here).args(["--perfscript=run.script", "--output=x", "--show-density"]);
    let Ok(said) = profgen.arg(format!("--binary={}", fixture("test.binary"))).output() else {
        println!("skipped: llvm-profgen-22 is not installed");
        return;
    };
    let said = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
    let (_, behind) = said.split_once("density >= ").unwrap_or_else(|| panic!("{said}"));
    let theirs: f64 = behind.split_whitespace().next().unwrap().parse().unwrap();
    // It prints one digit.
    assert!((own - theirs).abs() <= 0.051, "{own} {said}");
}

#[test]
fn status_says_whether_there_are_enough_recordings_and_of_what() {
    let (folder, _) = fleet_of_ten();
    let here = folder.path();
    done(
        here,
        "fleet simulate run.counts --hosts 30 --recordings 4 --share 100 --skew 0.2 --into many",
        0,
    );
    done(here, "fleet simulate run.counts --hosts 3 --recordings 1 --share 1 --into few", 0);
    let (told, _) = done(here, "fleet status few --for @binary --format json", 1);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["schema"], &told["enough"]), (&"planish-fleet-status".into(), &false.into()));
    assert!(told["verdict"].as_str().unwrap().contains("times as many samples"), "{told}");
    let (told, _) = done(here, "fleet status many --for @binary --format json --page page.html", 0);
    let told: Value = serde_json::from_str(&told).unwrap();
    let number = |value: &Value| value.as_f64().unwrap();
    assert_eq!(told["enough"], true, "{told}");
    let stable = &told["stability"];
    let (low, high) =
        (number(&stable["interval_percent"][0]), number(&stable["interval_percent"][1]));
    let overlap = number(&stable["overlap_percent"]);
    assert!(90.0 < low && low <= overlap && overlap <= high && high <= 100.0, "{stable}");
    assert!(number(&told["density"]) > 60.0, "{}", told["density"]);
    let classes = told["host_classes"].as_array().unwrap();
    let names: Vec<&str> = classes.iter().map(|class| class["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["batch", "cache", "web"]);
    let shares: f64 = classes.iter().map(|class| number(&class["percent"])).sum();
    assert!((shares - 100.0).abs() < 0.1, "{classes:?}");
    assert!(classes.iter().all(|class| number(&class["overlap_percent"]) > 95.0), "{classes:?}");
    assert_eq!(told["builds"][0]["note"], "the newest build");
    let page = std::fs::read_to_string(here.join("page.html")).unwrap();
    for part in ["enough", "Classes of hosts", "Stability", "batch"] {
        assert!(page.contains(part), "no `{part}` in {page}");
    }
    assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
    // A recording of another program is none of this one; and who waits does not wait for ever.
    let (_, said) = done(here, "fleet status many --for planish-none", 2);
    assert!(said.contains("planish-none"), "{said}");
    let line = "fleet status few --for @binary --until-enough --every 1s --timeout 2s";
    let (told, _) = done(here, line, 1);
    assert!(told.contains("not enough"), "{told}");
    // Shards that come meanwhile end the waiting.
    let line = "fleet status late --for @binary --until-enough --every 1s --timeout 60s"
        .replace("@binary", &fixture("test.binary"));
    std::fs::create_dir(here.join("late")).unwrap();
    let mut waiting = Command::new(env!("CARGO_BIN_EXE_planish"));
    let waiting = waiting.current_dir(here).args(line.split_whitespace()).stdin(Stdio::null());
    let mut waiting = waiting.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(waiting.try_wait().unwrap().is_none());
    for entry in std::fs::read_dir(here.join("many")).unwrap() {
        let entry = entry.unwrap();
        std::fs::rename(entry.path(), here.join("late").join(entry.file_name())).unwrap();
    }
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
}
