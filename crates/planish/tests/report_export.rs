//! `planish report export`: other programs read what it writes, and find in it what `hot`, `waits`
//! and perf find in the recording; hostile names stay inside their field.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const SOURCE: &str = r#"
#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>
__attribute__((noinline)) long leaf(long n)
	{ volatile long s = 0; for (long i = 0; i < n; i++) s += i; return s; }
__attribute__((noinline)) long middle(long n) { return leaf(n) + 1; }
void *run(void *name)
{
	prctl(PR_SET_NAME, name);
	for (int i = 0; i < 150; i++) {
		middle(300000);
		struct timespec t = { 0, 300000 };
		nanosleep(&t, 0);
	}
	return 0;
}
int main(void)
{
	pthread_t t;
	pthread_create(&t, 0, run, "evil;\n\x1b[31m 1");
	run("main");
	return pthread_join(t, 0);
}
"#;

const HOSTILE: &str = "mid;</script>\"\n\u{202e}\u{1b}[31mdle";

fn planish(dir: &Path, words: &[&str]) -> Output {
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(dir).args(words).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn done(dir: &Path, words: &[&str]) -> Vec<u8> {
    let done = planish(dir, words);
    assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
    done.stdout
}

fn json(dir: &Path, words: &[&str]) -> Value {
    serde_json::from_slice(&done(dir, words)).unwrap()
}

/// A program whose function `middle` and one of its threads have hostile names, if `hostile`.
fn built(dir: &Path, hostile: bool) {
    let plain = SOURCE.replace("evil;\\n\\x1b[31m 1", "other");
    std::fs::write(dir.join("app.c"), if hostile { SOURCE } else { &plain }).unwrap();
    let flags = ["-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-o", "app", "app.c"];
    let cc = Command::new("cc").current_dir(dir).args(flags).status().unwrap();
    assert!(cc.success());
    if hostile {
        let rename = format!("middle={HOSTILE}");
        let args = ["--redefine-sym", &rename, "app"];
        let renamed = Command::new("objcopy").current_dir(dir).args(args).status().unwrap();
        assert!(renamed.success());
    }
}

/// With waits where the machine allows it, else without.
fn recorded(dir: &Path) {
    let app = ["-g", "-e", "cpu-clock", "-F", "1999", "--", "./app"];
    let waits = [&["record", "--switch-events"], &app[..]].concat();
    if !planish(dir, &waits).status.success() {
        done(dir, &[&["record"], &app[..]].concat());
    }
}

/// Self weight of each function, by name, from `hot`.
fn by_hot(dir: &Path, event: &str, key: &str) -> BTreeMap<String, u64> {
    let words = ["report", "hot", "--event", event, "--limit", "0", "--percent", "0"];
    let hot = json(dir, &[&words[..], &["--format", "json"]].concat());
    let mut sums = BTreeMap::new();
    for row in hot["rows"].as_array().unwrap() {
        let name = row["function"].as_str().unwrap().to_owned();
        *sums.entry(name).or_insert(0) += row[key].as_u64().unwrap();
    }
    sums.retain(|_, weight| *weight > 0);
    sums
}

/// Flat and cumulative values of each function, as `go tool pprof` adds them up.
fn by_pprof(dir: &Path, index: &str) -> Option<(BTreeMap<String, u64>, BTreeMap<String, u64>)> {
    let sample = format!("-sample_index={index}");
    let unit =
        if index.ends_with("_count") || index == "samples" { "-unit=count" } else { "-unit=ns" };
    let words =
        ["tool", "pprof", "-top", "-nodecount=100000", "-nodefraction=0", "-symbolize=none"];
    let mut go = Command::new("go");
    go.current_dir(dir).args(words).args([unit, &sample, "out.pb.gz"]);
    let Ok(found) = go.stdin(Stdio::null()).output() else {
        eprintln!("skipped: go is not installed, whose pprof reads the profile");
        return None;
    };
    assert!(found.status.success(), "{}", text(&found.stderr));
    let (mut flat, mut cumulative) = (BTreeMap::new(), BTreeMap::new());
    let listing = text(&found.stdout);
    let rows = listing.lines().skip_while(|line| !line.contains("flat%")).skip(1);
    for row in rows {
        let mut rest = row;
        let mut column = || {
            let (word, after) = rest.trim_start().split_once(' ').unwrap();
            rest = after;
            word.trim_end_matches("ns").parse::<f64>().ok()
        };
        let columns: Vec<Option<f64>> = (0..5).map(|_| column()).collect();
        let name = rest.trim_start().trim_end_matches(" (inline)").to_owned();
        flat.insert(name.clone(), columns[0].unwrap() as u64);
        cumulative.insert(name, columns[3].unwrap() as u64);
    }
    flat.retain(|_, weight| *weight > 0);
    Some((flat, cumulative))
}

#[test]
fn pprof_adds_up_what_hot_does() {
    let dir = tempfile::tempdir().unwrap();
    built(dir.path(), false);
    recorded(dir.path());
    done(dir.path(), &["report", "export", "--to", "pprof", "-o", "out.pb.gz"]);
    let Some((flat, cumulative)) = by_pprof(dir.path(), "cpu") else { return };
    let near = |ours: &BTreeMap<String, u64>, theirs: &BTreeMap<String, u64>| {
        let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        for name in names {
            let of = |sums: &BTreeMap<String, u64>| sums.get(name).copied().unwrap_or(0);
            assert_eq!(of(ours), of(theirs), "{name}: {ours:?} {theirs:?}");
        }
    };
    near(&by_hot(dir.path(), "cpu-clock", "self_weight"), &flat);
    near(&by_hot(dir.path(), "cpu-clock", "total_weight"), &cumulative);
    assert!(flat.contains_key("leaf"), "{flat:?}");
    let waits = planish(dir.path(), &["report", "hot", "--event", "wait"]);
    if waits.status.success() {
        let (flat, cumulative) = by_pprof(dir.path(), "wait").unwrap();
        near(&by_hot(dir.path(), "wait", "self_weight"), &flat);
        near(&by_hot(dir.path(), "wait", "total_weight"), &cumulative);
        let (counts, _) = by_pprof(dir.path(), "wait_count").unwrap();
        near(&by_hot(dir.path(), "wait", "self_samples"), &counts);
    } else {
        eprintln!("skipped: {}", text(&waits.stderr));
    }
    // With addresses that lie in the mappings of their files, and build IDs.
    let mut go = Command::new("go");
    let raw = go.current_dir(dir.path()).args(["tool", "pprof", "-raw", "out.pb.gz"]).output();
    let raw = text(&raw.unwrap().stdout);
    let mappings = raw.split("Mappings").nth(1).unwrap();
    let app = mappings.lines().find(|line| line.contains("/app ")).unwrap();
    assert!(app.split_whitespace().any(|word| word.len() == 40), "{mappings}");
}

/// Self weight of each function of the samples, and how many markers there are of each name.
fn by_firefox(profile: &Value) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
    let (mut weights, mut markers) = (BTreeMap::new(), BTreeMap::new());
    for thread in profile["threads"].as_array().unwrap() {
        let list = |table: &str, key: &str| thread[table][key].as_array().unwrap().clone();
        let strings = thread["stringArray"].as_array().unwrap();
        let (frames, functions) = (list("stackTable", "frame"), list("frameTable", "func"));
        let names = list("funcTable", "name");
        let at = |list: &[Value], index: &Value| list[index.as_u64().unwrap() as usize].clone();
        let (stacks, counts) = (list("samples", "stack"), list("samples", "weight"));
        for (stack, count) in stacks.iter().zip(&counts) {
            let name = at(strings, &at(&names, &at(&functions, &at(&frames, stack))));
            let sum = weights.entry(name.as_str().unwrap().to_owned()).or_insert(0);
            *sum += count.as_u64().unwrap();
        }
        for name in list("markers", "name") {
            *markers.entry(at(strings, &name).as_str().unwrap().to_owned()).or_insert(0) += 1;
        }
    }
    (weights, markers)
}

#[test]
fn a_firefox_profile_has_the_samples_of_hot_and_the_waits_as_markers() {
    let dir = tempfile::tempdir().unwrap();
    built(dir.path(), false);
    recorded(dir.path());
    let words = ["report", "export", "--to", "firefox"];
    let profile = json(dir.path(), &words);
    let (weights, markers) = by_firefox(&profile);
    let hot = by_hot(dir.path(), "cpu-clock", "self_samples");
    // What has no name is told with its library.
    let named = |sums: BTreeMap<String, u64>| -> BTreeMap<String, u64> {
        sums.into_iter().filter(|(name, _)| !name.starts_with("0x")).collect()
    };
    assert_eq!(named(weights), named(hot));
    for (event, count) in &markers {
        let hot = ["report", "hot", "--event", event, "--format", "json"];
        assert_eq!(json(dir.path(), &hot)["samples"].as_u64(), Some(*count), "{event}");
    }
    if markers.is_empty() {
        eprintln!("skipped: this machine records no waits");
    }
    let app = profile["libs"].as_array().unwrap().iter().find(|lib| lib["name"] == "app").unwrap();
    assert_eq!(app["codeId"].as_str().unwrap().len(), 40, "{app}");
    assert_eq!(profile["meta"]["categories"][1]["name"], "Not recorded");
    let one = done(dir.path(), &[&words[..], &["--threads", "1"]].concat());
    assert_eq!(one, done(dir.path(), &[&words[..], &["--threads", "3"]].concat()));
    // Compressed by the name of the file.
    done(dir.path(), &[&words[..], &["-o", "out.json.gz"]].concat());
    let file = std::fs::File::open(dir.path().join("out.json.gz")).unwrap();
    let unzipped: Value = serde_json::from_reader(flate2::read::GzDecoder::new(file)).unwrap();
    assert_eq!(unzipped, profile);
}

/// How many lines there are, and in how many of them functions have the names that perf gives; all
/// else is the same.
fn compare_scripts(ours: &str, perfs: &str) -> (usize, usize) {
    assert_eq!(ours.lines().count(), perfs.lines().count(), "{ours}\n\n{perfs}");
    let without_name = |line: &str| {
        let (head, file) = line.rsplit_once(" (").unwrap_or((line, ""));
        let (head, _) = head.rsplit_once(' ').unwrap_or((head, ""));
        format!("{head} ({file}")
    };
    let mut named = 0;
    for (one, two) in ours.lines().zip(perfs.lines()) {
        named += usize::from(one == two);
        assert!(one == two || without_name(one) == without_name(two), "{one}\n{two}");
    }
    (ours.lines().count(), named)
}

#[test]
fn a_script_is_the_one_that_perf_prints() {
    let dir = tempfile::tempdir().unwrap();
    built(dir.path(), false);
    let perf = |words: &[&str]| {
        let mut perf = Command::new("perf");
        perf.current_dir(dir.path()).args(words).stdin(Stdio::null()).output()
    };
    let app = ["-q", "-e", "cpu-clock", "-F", "1999", "-o"];
    let Ok(made) = perf(&[&["record", "-g"], &app[..], &["chains.data", "./app"]].concat()) else {
        return eprintln!("skipped: perf is not installed");
    };
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert!(perf(&[&["record", "-d"], &app[..], &["plain.data", "./app"]].concat()).is_ok());
    let events = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/perfdata/events.data");
    let (mut lines, mut named) = (0, 0);
    for recording in ["chains.data", "plain.data", events] {
        let fields = "comm,pid,tid,time,period,event,ip,sym,dso";
        let expected = perf(&["script", "-i", recording, "-F", fields]).unwrap();
        let ours = done(dir.path(), &["report", "export", "--to", "script", recording]);
        let (all, same) = compare_scripts(&text(&ours), &text(&expected.stdout));
        (lines, named) = (lines + all, named + same);
    }
    // Of several names of a function, perf may take another; and it looks a caller up where the
    // call returns to, which may be the next function.
    assert!(lines > 200 && named * 100 >= lines * 95, "{named} of {lines}");
}

#[test]
fn hostile_names_stay_inside_their_field() {
    let dir = tempfile::tempdir().unwrap();
    built(dir.path(), true);
    recorded(dir.path());
    let export = |to: &str| done(dir.path(), &["report", "export", "--to", to]);
    let folded = text(&export("folded"));
    let script = text(&export("script"));
    assert!(folded.contains("mid:</script>") && folded.contains("evil: "), "{folded}");
    assert!(script.contains("mid;</script>"), "{script}");
    for line in folded.lines() {
        let (stack, weight) = line.rsplit_once(' ').unwrap();
        assert!(weight.parse::<u64>().is_ok(), "{line}");
        let depth = stack.split(';').count();
        // Chains along frame pointers that are none may go round to the kernel's limit.
        assert!(depth < 200, "{line}");
    }
    for line in script.lines().filter(|line| !line.is_empty()) {
        let is_frame = line.starts_with('\t') && line.ends_with(')');
        let events = ["cpu-clock: ", "cs: ", "sched:sched_waking: "];
        let is_head = events.iter().any(|event| line.ends_with(event));
        assert!(is_frame || is_head, "{line:?}");
    }
    for listing in [&folded, &script] {
        assert!(!listing.contains(['\u{1b}', '\u{202e}', '\r']), "{listing}");
    }
    let profile: Value = serde_json::from_slice(&export("firefox")).unwrap();
    let (weights, _) = by_firefox(&profile);
    assert!(weights.keys().all(|name| !name.contains(['\u{1b}', '\n', '\u{202e}'])));
    // The old way to the same text.
    assert_eq!(folded.as_bytes(), done(dir.path(), &["report", "tree", "--emit", "folded"]));
}

#[test]
fn what_a_format_cannot_hold_is_refused_with_a_way_on() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |words: &[&str], expected: &str| {
        let done = planish(dir.path(), &[&["report", "export"], words].concat());
        assert_eq!(done.status.code(), Some(2), "{words:?}");
        assert!(text(&done.stderr).contains(expected), "{words:?}: {}", text(&done.stderr));
    };
    let events = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/perfdata/events.data");
    refused(&["--to", "firefox", events, "--event", "wait"], "markers");
    refused(&["--to", "pprof", events, "--event", "gone"], "no sampled event is called gone");
    refused(&["--to", "script", events, "--tid", "1"], "no sample is left");
    refused(&["--to", "script", events, "--comm", "gone"], "no sampled thread is called gone");
    let words = ["record", "-q", "--no-timestamp", "-e", "cpu-clock:u", "-o", "timeless.data"];
    let spins = ["sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"];
    let made = Command::new("perf").current_dir(dir.path()).args(words).args(spins).output();
    if made.is_ok_and(|made| made.status.success()) {
        refused(&["--to", "firefox", "timeless.data"], "no times");
        done(dir.path(), &["report", "export", "--to", "script", "timeless.data"]);
    } else {
        eprintln!("skipped: perf is not installed");
    }
    refused(&["--to", "firefox", events, "-o", "/dev/full"], "/dev/full");
}
