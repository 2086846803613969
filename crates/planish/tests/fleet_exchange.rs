//! Profiles of other tools on the command line: taken in, written, and read by the tools themselves.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]

mod fleet_support;

use counts::Counts;
use fleet_support::{done, fixture, read, run};
use image::Image;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// What another program prints; none where it is not there.
fn other(folder: &Path, program: &str, words: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    let output = match command.current_dir(folder).args(words).stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: {program}: {error}");
            return None;
        }
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{program} {words:?}: {err}{out}");
    Some(out + &err)
}

/// Counts of the fixture.
fn counted() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("aggregate {} --binary @binary -o run.counts", fixture("test.lbr"));
    done(folder.path(), &line, 0);
    folder
}

#[test]
fn what_is_exported_is_imported_again() {
    let folder = counted();
    let here = folder.path();
    let own = &read(&here.join("run.counts")).images[0];
    for (format, file) in [("pprof", "out.pb.gz"), ("otlp", "out.otlp")] {
        let (_, told) = done(here, &format!("fleet export run.counts --to {format} -o {file}"), 0);
        assert!(told.contains("no place for 144360 branches and 134677 ranges"), "{told}");
        let line = format!(
            "fleet import {file} -o {format}.counts --format json --host h7 --host-class web --begin 1700000000 --end 1700000005"
        );
        let (out, told) = done(here, &line, 0);
        assert!(told.contains("8989 in, 8989 used"), "{told}");
        let json: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(json["schema"], "planish-fleet-import");
        let shard = &json["shards"][0];
        assert_eq!(
            (&shard["recording"]["host"], &shard["recording"]["end"]),
            (&"h7".into(), &1_700_000_005u64.into())
        );
        assert_eq!(shard["read"]["files"][0]["addresses"], "image");
        let back = &read(&here.join(format!("{format}.counts"))).images[0];
        assert_eq!((&back.samples, &back.path), (&own.samples, &own.path));
        // A profile that is delivered twice counts once.
        done(here, &format!("fleet import {file} --into spool"), 0);
        let (_, told) =
            done(here, &format!("fleet merge spool {format}.counts -o twice.counts"), 0);
        assert!(told.contains("duplicate"), "{told}");
        std::fs::remove_dir_all(here.join("spool")).unwrap();
        done(here, &format!("fleet export run.counts --to {format} -o named --binary @binary"), 0);
        done(here, "fleet import named -o named.counts --binary @binary", 0);
        assert_eq!(read(&here.join("named.counts")).images[0].samples, own.samples);
    }
    let (_, told) = done(here, "fleet export run.counts --to bolt -o out.pa", 0);
    assert!(
        told.contains("144360 branches") && told.contains("no place for 8989 samples"),
        "{told}"
    );
    let (_, told) = done(here, "fleet import out.pa -o bolt.counts", 2);
    assert!(told.contains("--binary"), "{told}");
    done(here, "fleet import out.pa -o bolt.counts --binary @binary", 0);
    let back = &read(&here.join("bolt.counts")).images[0];
    assert_eq!((&back.branches, &back.fall_throughs), (&own.branches, &own.fall_throughs));
    let stream = run(here, "fleet export run.counts --to bolt -o - -q");
    assert_eq!(stream.stdout, std::fs::read(here.join("out.pa")).unwrap());
}

#[test]
fn perf2bolt_takes_what_is_exported() {
    let folder = counted();
    let here = folder.path();
    let binary = fixture("test.binary");
    done(here, "fleet export run.counts --to bolt -o out.pa", 0);
    let words = ["-pa", "-p", "out.pa", "-o", "out.fdata", &binary];
    let Some(told) = other(here, "perf2bolt-22", &words) else { return };
    assert!(told.contains("traces mismatching disassembled function contents: 0 "), "{told}");
    assert!(told.contains("unknown regions: 0 "), "{told}");
    let fdata = std::fs::read_to_string(here.join("out.fdata")).unwrap();
    // Type, function and offset of both ends, mispredictions, count.
    let lines: Vec<Vec<&str>> = fdata.lines().map(|line| line.split(' ').collect()).collect();
    assert!(lines.len() > 300, "{} lines", lines.len());
    let image = Image::open(Path::new(&binary)).unwrap();
    let own = read(&here.join("run.counts"));
    let functions = image.functions();
    let start = functions.iter().find(|one| one.name == "bi_reverse").unwrap();
    for branch in own.images[0].branches.iter().filter(|one| {
        one.from.is_some_and(|from| (start.address..start.end()).contains(&from))
            && one.to.is_some_and(|to| (start.address..start.end()).contains(&to))
    }) {
        let offset = |at: image::ImageAddr| format!("{:x}", at.0 - start.address.0);
        let (from, to) = (offset(branch.from.unwrap()), offset(branch.to.unwrap()));
        let count = branch.count.to_string();
        let is_it = |line: &&Vec<&str>| {
            line[1..3] == ["bi_reverse", from.as_str()] && line[5] == to && line[7] == count
        };
        assert!(lines.iter().any(|line| is_it(&line)), "{branch:?} in {fdata}");
    }
    // Samples without branches, in BOLT's mode for these.
    let (_, told) = {
        done(here, "fleet export run.counts --to pprof -o out.pb.gz", 0);
        done(here, "fleet import out.pb.gz -o samples.counts --binary @binary", 0);
        done(here, "fleet export samples.counts --to bolt -o samples.pa", 0)
    };
    assert!(told.contains("8989 samples"), "{told}");
    let words = ["-pa", "-ba", "-p", "samples.pa", "-o", "samples.fdata", &binary];
    other(here, "perf2bolt-22", &words).unwrap();
    let fdata = std::fs::read_to_string(here.join("samples.fdata")).unwrap();
    assert!(fdata.lines().any(|line| line.contains("longest_match")), "{fdata}");
}

/// The flat values of each function, as `go tool pprof -top` prints them.
fn top(folder: &Path, words: &[&str]) -> Option<BTreeMap<String, u64>> {
    let all = ["tool", "pprof", "-top", "-nodecount=100000", "-nodefraction=0", "-symbolize=none"];
    let told = other(folder, "go", &[&all, words].concat())?;
    let rows = told.lines().skip_while(|line| !line.contains("flat%")).skip(1);
    let rows = rows.filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some(((*words.get(5)?).to_owned(), words.first()?.parse().ok()?))
    });
    Some(rows.filter(|(_, flat)| *flat > 0).collect())
}

/// The samples of each function, and those of none under the name of the file.
fn by_function(counts: &Counts, binary: &Path) -> BTreeMap<String, u64> {
    let image = Image::open(binary).unwrap();
    let mut all = BTreeMap::new();
    for sample in counts.images.iter().flat_map(|image| &image.samples) {
        let function = image.functions().find(sample.address);
        // As pprof calls what is in no function.
        let other = || format!("[{}]", binary.file_name().unwrap().display());
        let name = function.map_or_else(other, |function| function.name.to_owned());
        *all.entry(name).or_default() += sample.count;
    }
    all
}

#[test]
fn pprof_shows_the_functions_that_we_count() {
    let folder = counted();
    let here = folder.path();
    done(here, "fleet export run.counts --to pprof -o out.pb.gz --binary @binary", 0);
    let Some(top) = top(here, &["out.pb.gz"]) else { return };
    let own = by_function(&read(&here.join("run.counts")), Path::new(&fixture("test.binary")));
    assert!(own.len() > 10 && own["longest_match"] > 1000, "{own:?}");
    assert_eq!(top, own);
    let raw =
        other(here, "go", &["tool", "pprof", "-raw", "-symbolize=none", "out.pb.gz"]).unwrap();
    let addresses = raw.lines().filter(|line| line.contains(" M=1 ")).count();
    assert_eq!(addresses, read(&here.join("run.counts")).images[0].samples.len());
    assert!(raw.contains("1: 0x0/0xffffffffffffffff/0x0 "), "{raw}");
}

const BUSY: &str = r#"package main

import (
	"os"
	"runtime"
	"runtime/pprof"
	"time"
)

var kept [][]byte

//go:noinline
func hot(n int) int {
	sum := 0
	for i := 0; i < n; i++ {
		sum += i * i ^ sum>>3
	}
	return sum
}

func main() {
	cpu, _ := os.Create("cpu.pb.gz")
	pprof.StartCPUProfile(cpu)
	end := time.Now().Add(600 * time.Millisecond)
	sum := 0
	for time.Now().Before(end) {
		sum += hot(1 << 18)
	}
	pprof.StopCPUProfile()
	for i := 0; i < 64; i++ {
		kept = append(kept, make([]byte, 1<<20))
	}
	runtime.GC()
	heap, _ := os.Create("heap.pb.gz")
	pprof.WriteHeapProfile(heap)
	os.Exit(sum & 0)
}
"#;

#[test]
fn the_profile_of_a_go_program_is_counted_in_its_functions() {
    for mode in ["-buildmode=exe", "-buildmode=pie"] {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        std::fs::write(here.join("main.go"), BUSY).unwrap();
        std::fs::write(here.join("go.mod"), "module busy\n\ngo 1.21\n").unwrap();
        let words = ["build", mode, "-ldflags=-B=gobuildid", "-o", "busy", "."];
        let Some(_) = other(here, "go", &words) else { return };
        let busy = here.join("busy");
        other(here, &busy.display().to_string(), &[]).unwrap();
        let (out, told) = done(here, "fleet import cpu.pb.gz -o cpu.counts --format json", 0);
        let json: Value = serde_json::from_str(&out).unwrap();
        let recording = &json["shards"][0]["recording"];
        assert_eq!(
            (&recording["source"], &recording["period"]),
            (&"clock".into(), &10_000_000.into())
        );
        let samples = json["shards"][0]["read"]["samples"].as_u64().unwrap();
        assert_eq!(recording["law"]["events"].as_u64(), Some(samples * 10_000_000));
        assert_eq!(recording["law"]["unit"], "ns");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let age = now.as_secs() - recording["end"].as_u64().unwrap();
        assert!(age < 600 && told.contains("samples/count (not cpu/nanoseconds)"), "{told}");
        let counts = read(&here.join("cpu.counts"));
        let own = by_function(&counts, &busy);
        let top = top(here, &["-sample_index=samples", "cpu.pb.gz"]).unwrap();
        assert!(own["main.hot"] > 10, "{own:?} {told}");
        assert_eq!(own["main.hot"], top["main.hot"]);
        // Time by its period is the same.
        done(here, "fleet import cpu.pb.gz -o time.counts --value cpu", 0);
        assert_eq!(read(&here.join("time.counts")).images, counts.images);
        // Memory is not what ran.
        let (_, told) = done(here, "fleet import heap.pb.gz -o heap.counts", 2);
        assert!(told.contains("alloc_space/bytes") && told.contains("--value"), "{told}");
        // Without the program nothing says where in the file the addresses lie, but for a store.
        done(here, "fleet binaries add busy --store store", 0);
        let id = json["shards"][0]["read"]["files"][0]["build_id"].as_str().unwrap().to_owned();
        assert_eq!(id, counts.images[0].build_id.unwrap().to_string());
        std::fs::rename(&busy, here.join("gone")).unwrap();
        let (_, told) = done(here, "fleet import cpu.pb.gz -o none.counts", 2);
        assert!(told.contains("not at hand (--binary, --binaries)"), "{told}");
        assert!(!here.join("none.counts").exists());
        done(here, "fleet import cpu.pb.gz -o store.counts --binaries store", 0);
        assert_eq!(read(&here.join("store.counts")).images, counts.images);
        std::fs::copy("/proc/self/exe", &busy).unwrap();
        let (_, told) = done(here, "fleet import cpu.pb.gz -o none.counts --binary busy", 2);
        assert!(told.contains("another build"), "{told}");
    }
}

#[test]
fn a_profile_of_an_older_build_is_added_to_that_of_shards() {
    let folder = counted();
    let here = folder.path();
    done(here, "profile run.counts --binary @binary -o one.afdo", 0);
    done(here, "profile merge one.afdo one.afdo -o two.afdo", 0);
    let line =
        "fleet profile run.counts --for @binary --profile one.afdo -o fleet.afdo --format json";
    let (out, told) = done(here, line, 0);
    assert!(
        told.contains("profile one.afdo: carried over by source, 100.0 % of its samples; 50.0 %"),
        "{told}"
    );
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["profiles"][0]["matched_percent"], 100.0);
    let shown = |file: &str| {
        let shown = done(here, &format!("profile show {file} --format json"), 0).0;
        let mut shown: Value = serde_json::from_str(&shown).unwrap();
        shown.as_object_mut().unwrap().retain(|key, _| key != "file");
        shown
    };
    assert_eq!(shown("fleet.afdo"), shown("two.afdo"));
    std::fs::write(here.join("bad.afdo"), "no profile").unwrap();
    let line = "fleet profile run.counts --for @binary --profile bad.afdo -o bad.out";
    assert!(done(here, line, 2).1.contains("bad.afdo"));
    let line = "fleet profile run.counts --for @binary --profile one.afdo -o one.afdo";
    assert!(done(here, line, 2).1.contains("is the input"));
}

#[test]
fn what_cannot_be_taken_in_or_written_is_told() {
    let folder = counted();
    let here = folder.path();
    let refused = |line: &str, part: &str| {
        let (_, told) = done(here, line, 2);
        assert!(told.contains(part), "{line}: no `{part}` in {told}");
        assert!(!here.join("out").exists(), "{line}");
    };
    std::fs::write(here.join("text"), "hello\n").unwrap();
    std::fs::write(here.join("perf"), "PERFILE2\0\0\0").unwrap();
    refused("fleet import text -o out", "whole protocol buffer");
    refused("fleet import perf -o out", "fleet shard");
    refused("fleet import run.counts -o out", "fleet merge");
    refused("fleet import missing -o out", "missing");
    refused("fleet import text perf -o out", "--into");
    refused("fleet import text --from bolt -o out --binary @binary", "line 1");
    done(here, "fleet export run.counts --to pprof -o p", 0);
    refused("fleet import p -o out --value wall", "samples/count");
    refused("fleet import p -o out --binary /bin/true", "not asked for");
    refused("fleet import p -o p", "is the input");
    refused("fleet export run.counts --to pprof -o out --binary /bin/true", "/bin/true");
    refused("fleet export run.counts --to pprof -o run.counts", "is the input");
    done(here, "fleet export run.counts --to bolt -o pa", 0);
    done(here, "fleet import pa -o branches.counts --binary @binary", 0);
    refused("fleet export branches.counts --to otlp -o out", "--to bolt");
    let whole = std::fs::read(here.join("p")).unwrap();
    std::fs::write(here.join("cut"), &whole[..whole.len() / 2]).unwrap();
    refused("fleet import cut -o out", "does not unpack");
    // The others are taken in.
    let (out, told) = done(here, "fleet import cut p text --into some --format json", 1);
    let json: Value = serde_json::from_str(&out).unwrap();
    let list = json["rejected"].as_array().unwrap();
    let rejected: Vec<_> = list.iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!((rejected, json["shards"].as_array().unwrap().len()), (vec!["cut", "text"], 1));
    assert!(told.contains("rejected: cut: ") && told.contains("rejected: text: "), "{told}");
    assert_eq!(std::fs::read_dir(here.join("some")).unwrap().count(), 1);
    let (_, told) = done(here, "fleet import cut text --into none", 2);
    assert!(told.contains("none of 2 files"), "{told}");
}
