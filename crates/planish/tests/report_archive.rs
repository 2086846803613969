//! Does a recording in one file say on another machine what it says here, to planish and to perf,
//! and are archives that lie refused?

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

const PLANISH: &str = env!("CARGO_BIN_EXE_planish");

fn run(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(words[0]);
    // Neither perf's cache nor servers of this machine's user have a say.
    command.env("HOME", dir.join("home")).env_remove("DEBUGINFOD_URLS");
    command.env("TMPDIR", dir.join("temporary"));
    command.current_dir(dir).args(&words[1..]).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn done(dir: &Path, words: &[&str]) -> String {
    let done = run(dir, words);
    assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
    text(&done.stdout)
}

fn shell(dir: &Path, script: &str) -> String {
    done(dir, &["sh", "-c", script])
}

/// A program with a stripped library, a debug file and one library without a build ID, recorded.
fn recorded(dir: &Path) {
    std::fs::create_dir(dir.join("home")).unwrap();
    std::fs::create_dir(dir.join("temporary")).unwrap();
    let function = |name: &str| {
        format!(
            "static __attribute__((noinline)) long inner_{name}(long n) {{ long s = 0; \
             for (long i = 0; i < n; i++) s += i ^ s; return s; }}\n\
             long {name}(long n) {{ return inner_{name}(n) + 1; }}\n"
        )
    };
    std::fs::write(dir.join("one.c"), function("one")).unwrap();
    std::fs::write(dir.join("two.c"), function("two")).unwrap();
    let main = "long one(long), two(long);\nint main(void) { long s = 0; \
                for (int i = 0; i < 1000; i++) { s += one(100000) + two(100000); \
                for (volatile int k = 0; k < 20000; k++); } return s == 1; }\n";
    std::fs::write(dir.join("main.c"), main).unwrap();
    shell(
        dir,
        "flags='-O1 -g -fno-omit-frame-pointer -Wl,--build-id' \
         && gcc $flags -shared -fPIC -o libone.so one.c \
         && gcc -O1 -shared -fPIC -Wl,--build-id=none -o libtwo.so two.c \
         && gcc $flags -o main main.c -L. -lone -ltwo -Wl,-rpath,$PWD \
         && id=$(readelf -n libone.so | sed -n 's/.*Build ID: //p') \
         && mkdir -p debug/.build-id/$(echo $id | cut -c1-2) \
         && objcopy --only-keep-debug libone.so debug/.build-id/$(echo $id | cut -c1-2)/$(echo $id | cut -c3-).debug \
         && strip libone.so",
    );
    done(dir, &[PLANISH, "record", "-g", "-e", "cpu-clock", "-o", "perf.data", "--", "./main"]);
}

const VIEWS: [&[&str]; 3] = [
    &["report", "hot", "--limit", "0", "--percent", "0"],
    &["report", "tree", "--inlined", "--format", "json"],
    &["report", "hot", "--by", "library", "--format", "json"],
];

fn views(dir: &Path, input: &str, more: &[&str]) -> Vec<(String, String)> {
    let view = |words: &&[&str]| {
        let all = [&[PLANISH], *words, &[input], more].concat();
        let done = run(dir, &all);
        assert!(done.status.success(), "{all:?}: {}", text(&done.stderr));
        (text(&done.stdout), text(&done.stderr))
    };
    VIEWS.iter().map(view).collect()
}

#[test]
fn a_recording_in_one_file_says_the_same_where_its_files_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    recorded(dir);
    let here = views(dir, "perf.data", &["--symbols", "debug"]);
    for name in ["inner_one", "inner_two", "main"] {
        assert!(here[0].0.contains(name), "{name}: {}", here[0].0);
    }
    done(dir, &[PLANISH, "report", "archive", "--symbols", "debug"]);
    let packed = std::fs::read(dir.join("perf.data.tar.zst")).unwrap();
    done(dir, &[PLANISH, "report", "archive", "--symbols", "debug", "-o", "again.tar.zst"]);
    assert!(packed == std::fs::read(dir.join("again.tar.zst")).unwrap(), "the same bytes again");
    // Everything goes away; of two libraries others of the same name come.
    shell(
        dir,
        "mv perf.data kept && rm -r debug main libone.so libtwo.so && cp /bin/true libtwo.so",
    );
    assert_eq!(views(dir, "perf.data.tar.zst", &[]), here);
    assert_eq!(std::fs::read_dir(dir.join("temporary")).unwrap().count(), 0, "nothing stays");
    // Its symbols alone serve the recording, too.
    let with = views(dir, "kept", &["--symbols", "perf.data.tar.zst"]);
    // The library without a build ID is another one now.
    let others = |shown: &str| shown.lines().filter(|line| !line.contains("[libtwo.so]")).count();
    assert_eq!(others(&with[0].0), others(&here[0].0));
    assert!(with[0].0.contains("inner_one"), "{}", with[0].0);
    // As the directory form, and packed once more.
    done(dir, &[PLANISH, "report", "archive", "perf.data.tar.zst", "-o", "third.tar.zst"]);
    assert_eq!(views(dir, "third.tar.zst", &[]), here);
    if run(dir, &["perf", "--version"]).status.success() {
        shell(dir, "mkdir -p home/.debug && tar xf perf.data.tar.zst -C home/.debug");
        let shown = shell(dir, "perf report --stdio --no-children -g none -i kept 2>&1");
        assert!(shown.contains("inner_one"), "{shown}");
    }
}

/// perf has no build ID of what called but was never sampled itself.
#[test]
fn a_program_that_only_calls_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    recorded(dir);
    if !run(dir, &["perf", "--version"]).status.success() {
        println!("skipped: perf is not installed");
        return;
    }
    let main = "long one(long);\nint main(void) { return one(1000000000) == 1; }\n";
    std::fs::write(dir.join("caller.c"), main).unwrap();
    shell(
        dir,
        "gcc -O1 -fno-omit-frame-pointer -o caller caller.c -L. -lone -Wl,-rpath,$PWD \
         && perf record -q -g -e cpu-clock -o called.data ./caller",
    );
    let here = views(dir, "called.data", &["--symbols", "debug"]);
    done(dir, &[PLANISH, "report", "archive", "--symbols", "debug", "called.data"]);
    shell(dir, "rm -r debug caller libone.so");
    assert_eq!(views(dir, "called.data.tar.zst", &[]), here);
    assert!(here[1].0.contains("\"main\""), "{}", here[1].0);
}

#[test]
fn archives_of_perf_archive_give_symbols() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    recorded(dir);
    if !run(dir, &["perf", "--version"]).status.success() {
        println!("skipped: perf is not here");
        return;
    }
    shell(dir, "perf record -q -o by-perf -g ./main 2>/dev/null");
    let made = run(dir, &["perf", "archive", "by-perf"]);
    if !dir.join("by-perf.tar.bz2").exists() {
        println!("skipped: perf archive makes none here: {}", text(&made.stderr));
        return;
    }
    shell(dir, "rm -rf home/.debug main");
    let hot = [PLANISH, "report", "hot", "by-perf", "--limit", "0", "--percent", "0"];
    assert!(!done(dir, &hot).contains("  main  [main]"));
    let with = [&hot[..], &["--symbols", "by-perf.tar.bz2"]].concat();
    assert!(done(dir, &with).contains("  main  [main]"));
    shell(dir, "bunzip2 -k by-perf.tar.bz2 && gzip -k by-perf.tar && xz -k by-perf.tar");
    for packing in ["by-perf.tar", "by-perf.tar.gz", "by-perf.tar.xz"] {
        let with = [&hot[..], &["--symbols", packing]].concat();
        assert!(done(dir, &with).contains("  main  [main]"), "{packing}");
    }
}

#[test]
fn archives_that_lie_are_refused_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    recorded(dir);
    shell(
        dir,
        "mkdir -p in/.build-id/ab && cp perf.data in/ && ln -s /etc in/.build-id/ab/cd \
         && tar cf links.tar -C in . \
         && tar cf outside.tar --transform 's,^perf,../perf,' -P perf.data \
         && echo text > t && tar czf none.tar.gz t \
         && head -c 300000000 /dev/zero > z && tar c z | zstd -q > bomb.tar.zst && rm z \
         && tar cz in | head -c 2000 > cut.tar.gz",
    );
    // Links are of no account, so that the recording is read.
    done(dir, &[PLANISH, "report", "hot", "links.tar"]);
    for (archive, why) in [
        ("outside.tar", "leads out of the archive"),
        ("none.tar.gz", "it holds symbols but no recording"),
        ("cut.tar.gz", "cut.tar.gz"),
    ] {
        let refused = run(dir, &[PLANISH, "report", "hot", archive]);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(why) && said.contains(archive), "{archive}: {said}");
    }
    // What reports do not need is not even unpacked, so that a bomb is just passed by or refused.
    let bomb = run(dir, &[PLANISH, "report", "hot", "--symbols", "bomb.tar.zst"]);
    assert!(text(&bomb.stderr).contains("it unpacks from"), "{}", text(&bomb.stderr));
    assert_eq!(std::fs::read_dir(dir.join("temporary")).unwrap().count(), 0, "nothing stays");
}
