//! Do functions have the names that perf shows, in libraries and in kernels of other machines?

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const PLANISH: &str = env!("CARGO_BIN_EXE_planish");

fn run(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(words[0]);
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

/// The functions of a library by name, those without one left out.
fn names(printed: &str, library: &str) -> BTreeSet<String> {
    let found: Value = serde_json::from_str(printed).unwrap();
    let rows = found["rows"].as_array().unwrap().iter();
    let own = rows.filter(|row| row["library"].as_str().unwrap().ends_with(library));
    let name =
        |row: &Value| row["linkage_name"].as_str().or(row["function"].as_str()).unwrap().to_owned();
    own.map(name).filter(|name| !name.starts_with("0x")).collect()
}

const PROGRAM: &str = "
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    static int order(const void *a, const void *b) { return *(char *)a - *(char *)b; }
    int main(void) {
        pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        char from[4096] = {0}, to[4096], line[64];
        volatile size_t sum = 0;
        for (long i = 0; i < 3000000; i++) {
            pthread_mutex_lock(&lock);
            pthread_mutex_unlock(&lock);
            void *piece = malloc(i % 5000);
            free(piece);
            memcpy(to, from, i % 4000);
            sum += strtol(\"123\", 0, 10) + rand() + (getenv(\"NONE\") != 0);
            if (i % 1000 == 0) qsort(from, 100, 1, order);
            if (i % 10 == 0) sum += snprintf(line, 60, \"%ld %f\", i, 1.0 * i);
        }
        return sum == 1;
    }
";

#[test]
fn of_the_names_that_libc_gives_a_function_the_one_is_shown_that_perf_shows() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("a.c"), PROGRAM).unwrap();
    done(dir, &["gcc", "-O1", "-o", "a", "a.c"]);
    done(dir, &[PLANISH, "record", "-F", "4000", "-o", "perf.data", "--", "./a"]);
    if !run(dir, &["perf", "--version"]).status.success() {
        println!("skipped: perf is not here");
        return;
    }
    let hot = [PLANISH, "report", "hot", "--format", "json", "--limit", "0", "--percent", "0"];
    let ours = names(&done(dir, &hot), "/libc.so.6");
    let asked = ["perf", "report", "--stdio", "--no-inline", "--sort", "dso,symbol", "-t", ","];
    let printed = done(dir, &[&asked[..], &["-i", "perf.data"]].concat());
    let theirs = printed.lines().filter(|line| line.contains("libc.so.6"));
    let theirs: BTreeSet<String> = theirs
        .filter_map(|line| Some(line.split("] ").nth(1)?.split(',').next()?.trim().to_owned()))
        .filter(|name| !name.starts_with("0x") && !name.ends_with("@plt"))
        .collect();
    assert!(theirs.len() > 5, "{printed}");
    // libc's own stubs lead to functions that it chooses as it starts, which have no name.
    assert_eq!(ours, theirs);
    let stubs = names(&done(dir, &hot), "/a");
    let stubs: BTreeSet<&String> = stubs.iter().filter(|name| name.ends_with("@plt")).collect();
    // Perf gives the first bytes of some to their neighbours.
    let shown = stubs.iter().filter(|stub| printed.contains(stub.as_str())).count();
    assert!(2 * shown >= stubs.len(), "{stubs:?} {printed}");
    let called = ["pthread_mutex_lock@plt", "malloc@plt", "getenv@plt", "rand@plt", "free@plt"];
    assert!(stubs.iter().any(|stub| called.contains(&stub.as_str())), "{stubs:?}");
}

/// A vmlinux of the functions of the kernel that runs, with its build ID but at other addresses.
fn vmlinux(dir: &Path, moved: u64) -> Option<()> {
    let listed = std::fs::read_to_string("/proc/kallsyms").ok()?;
    let symbol = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [address, kind @ ("t" | "T" | "W"), name] = words[..] else { return None };
        let address = u64::from_str_radix(address, 16).ok().filter(|&address| address > 0)?;
        Some((address, kind.to_owned(), name.to_owned()))
    };
    let mut all: Vec<(u64, String, String)> = listed.lines().filter_map(symbol).collect();
    let of = |wanted: &str| Some(all.iter().find(|(_, _, name)| name == wanted)?.0);
    let (begin, end) = (of("_text")?, of("_etext")?);
    all.retain(|(address, ..)| (begin..=end).contains(address));
    all.sort_by_key(|(address, ..)| *address);
    // One of each name: the assembler takes no second.
    let mut seen = BTreeSet::new();
    let mut source = ".text\n".to_owned();
    for (address, kind, name) in &all {
        let name = match seen.insert(name.clone()) {
            true => name.clone(),
            false => continue,
        };
        let binding = match kind.as_str() {
            "T" => ".globl",
            "W" => ".weak",
            _ => ".local",
        };
        let at = address - begin;
        writeln!(
            source,
            ".org {at}\n{binding} \"{name}\"\n.type \"{name}\", @function\n\"{name}\":"
        )
        .unwrap();
    }
    std::fs::write(dir.join("vmlinux.s"), source + "nop\n").unwrap();
    let notes = std::fs::read("/sys/kernel/notes").ok()?;
    let at = notes.windows(4).position(|bytes| bytes == b"GNU\0")? + 4;
    let id: String = notes.get(at..at + 20)?.iter().map(|byte| format!("{byte:02x}")).collect();
    done(dir, &["as", "-o", "vmlinux.o", "vmlinux.s"]);
    let (id, text) = (format!("--build-id=0x{id}"), format!("-Ttext={:#x}", begin - moved));
    done(
        dir,
        &["ld", "-e", "0", &id, &text, "-z", "max-page-size=4096", "-o", "vmlinux", "vmlinux.o"],
    );
    Some(())
}

#[test]
fn kernel_functions_have_names_from_the_vmlinux_of_another_machine() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let record = [PLANISH, "record", "-F", "4000", "-o", "perf.data", "--"];
    let work = ["dd", "if=/dev/zero", "of=/dev/null", "bs=64k", "count=20000"];
    done(dir, &[&record[..], &work].concat());
    let hot = [PLANISH, "report", "hot", "--format", "json", "--limit", "0", "--percent", "0"];
    let here = names(&done(dir, &hot), "[kernel]");
    std::fs::create_dir(dir.join("symbols")).unwrap();
    if here.is_empty() || vmlinux(&dir.join("symbols"), 0x20_0000).is_none() {
        println!("skipped: this user may not record the kernel, or see its symbols");
        return;
    }
    // Elsewhere neither the running kernel's symbols nor perf's cache are there.
    let hide = "mount --bind /dev/null /proc/kallsyms && HOME=/nonexistent exec \"$@\"";
    let elsewhere = ["unshare", "-m", "sh", "-c", hide, "sh"];
    if !run(dir, &[&elsewhere[..], &["true"]].concat()).status.success() {
        println!("skipped: /proc/kallsyms cannot be hidden here");
        return;
    }
    let bare = run(dir, &[&elsewhere[..], &hot].concat());
    assert!(names(&text(&bare.stdout), "[kernel]").is_empty());
    let notes = text(&bare.stderr);
    assert!(
        notes.contains("[kernel]: ") && notes.contains("no vmlinux of it is at hand"),
        "{notes}"
    );
    let with = [&elsewhere[..], &hot, &["--symbols", "symbols"]].concat();
    let there = names(&done(dir, &with), "[kernel]");
    // Some names are there twice, of which the assembler took one.
    let missing: Vec<&String> = here.difference(&there).collect();
    assert!(there.len() >= here.len() && missing.len() * 20 <= here.len(), "{missing:?}");
    let function = here.intersection(&there).next().unwrap();
    let lines = [PLANISH, "report", "lines", function, "--all", "--symbols", "symbols"];
    let shown = done(dir, &[&elsewhere[..], &lines].concat());
    assert!(shown.contains(function) && shown.contains("nop"), "{shown}");
    // Another kernel's file is not taken, whatever its name.
    let own = dir.join("symbols/vmlinux");
    let strip = ["objcopy", "--remove-section", ".note.gnu.build-id", own.to_str().unwrap()];
    done(dir, &strip);
    let refused = run(dir, &with);
    assert!(names(&text(&refused.stdout), "[kernel]").is_empty());
    let notes = text(&refused.stderr);
    assert!(notes.contains("has no build ID, so it is another build"), "{notes}");
}
