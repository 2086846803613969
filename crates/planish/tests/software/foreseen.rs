//! Held against single steps of the real thread: do programs go the way that was foreseen, whatever
//! they are made of?

use super::{compile, has, kinds, record, text, works};
use std::path::Path;

/// Every stop is checked.
const CHECKED: [&str; 4] = ["--check-stacks", "1", "--depth", "32"];
/// CPU time between two stops: a step of a thread takes thousands of times as long as an
/// instruction.
const OFTEN: &str = "1000000";
const SELDOM: &str = "4000000";

/// Records, and counts checked stops; none may differ.
fn same(dir: &Path, period: &str, command: &[&str]) -> u64 {
    let recorded = record(dir, &[&CHECKED[..], &["-c", period]].concat(), command);
    assert_eq!(recorded.number("mismatches"), 0, "{command:?}: {}", recorded.notes());
    assert_eq!(recorded.number("checked"), recorded.number("stops"), "{command:?}");
    assert!(recorded.number("checked_instructions") > 0, "{command:?}: {}", recorded.notes());
    eprintln!("{}: {} stops", command[0], recorded.number("checked"));
    recorded.number("checked")
}

/// A count that keeps an interpreter busy.
const PYTHON: &str = "\
import re, json
words = {}
for i in range(30000):
    word = 'w%d' % (i * 7919 % 997)
    words[word] = words.get(word, 0) + len(word)
text = json.dumps(words)
print(len(re.findall(r'w[0-9]*7\"', text)), sum(sorted(words.values())[:100]))
";

const SQL: &str = "\
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i+1 from n where i<30000) \
insert into t select i, 'name' || (i*7919%1000), i*0.37 from n;
create index x on t(b);
select b, count(*), sum(c) from t group by b order by 3 desc limit 3;
select count(*) from t a join t b on a.b=b.b where a.a<2000;
";

/// Programs of the machine, in several languages, statically and dynamically linked, with vector
/// code of their libraries.
#[test]
fn programs_of_every_kind_go_the_way_that_was_foreseen() {
    if !works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("text"), text(4 << 20)).unwrap();
    std::fs::write(at("count.py"), PYTHON).unwrap();
    let mut checked = 0;
    for (program, arguments) in [("gzip", &["-kf", "text"][..]), ("xz", &["-1", "-kf", "text"])] {
        if has(program) {
            let command = [&[program][..], arguments].concat();
            checked += same(dir.path(), if program == "xz" { SELDOM } else { OFTEN }, &command);
        }
    }
    let python =
        if Path::new("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" };
    if has(python) {
        checked += same(dir.path(), OFTEN, &[python, "-S", "count.py"]);
    }
    if has("sqlite3") {
        checked += same(dir.path(), OFTEN, &["sqlite3", ":memory:", SQL]);
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/software/programs/exceptions.cc");
    if has("clang-22") {
        checked +=
            same(dir.path(), "8000000", &["clang-22", "-O1", "-c", source, "-o", "exceptions.o"]);
    }
    // A Rust program; help is printed before planish starts the thread that waits for signals, so
    // nothing races.
    let help = format!(
        "i=0; while [ $i -lt 160 ]; do {} record --help; i=$((i + 1)); done >shown",
        env!("CARGO_BIN_EXE_planish")
    );
    checked += same(dir.path(), OFTEN, &["sh", "-c", &help]);
    assert!(checked >= 300, "only {checked} stops were checked");
}

#[test]
fn every_kind_of_instruction_and_jump_goes_the_way_that_was_foreseen() {
    if !works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut checked = 0;
    if kinds(dir.path()).is_some() {
        let work = [
            ("floats", "3000000", OFTEN),
            ("strings", "160000", OFTEN),
            ("bits", "3000000", OFTEN),
            ("jumps", "300000", OFTEN),
            ("signals", "400000", OFTEN),
            ("children", "4", OFTEN),
            ("jit", "800000", OFTEN),
        ];
        for (kind, rounds, period) in work {
            checked += same(dir.path(), period, &["./kinds", kind, rounds]);
        }
        let libraries =
            compile(dir.path(), "cc", "library.c", "first.so", &["-O1", "-shared", "-fPIC"]).and(
                compile(
                    dir.path(),
                    "cc",
                    "library.c",
                    "second.so",
                    &["-O1", "-shared", "-fPIC", "-DSECOND"],
                ),
            );
        if libraries.is_some() {
            checked += same(dir.path(), OFTEN, &["./kinds", "libraries", "3000"]);
        }
    }
    if compile(dir.path(), "c++", "exceptions.cc", "exceptions", &["-O2"]).is_some() {
        checked += same(dir.path(), OFTEN, &["./exceptions", "60000"]);
    }
    if !std::is_x86_feature_detected!("avx2") || !std::is_x86_feature_detected!("fma") {
        eprintln!("skipped: this processor has no AVX2");
    } else if compile(dir.path(), "cc", "vectors.c", "vectors", &["-O2", "-mavx2", "-mfma"])
        .is_some()
    {
        checked += same(dir.path(), OFTEN, &["./vectors", "60000"]);
    }
    assert!(checked >= 400, "only {checked} stops were checked");
}

#[test]
fn threads_that_share_memory_mostly_go_the_way_that_was_foreseen() {
    if !works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    if kinds(dir.path()).is_none() {
        return;
    }
    let recorded = record(
        dir.path(),
        &[&CHECKED[..], &["-c", OFTEN]].concat(),
        &["./kinds", "threads", "12000"],
    );
    let (checked, different) = (recorded.number("checked"), recorded.number("mismatches"));
    assert!(checked >= 30, "{}", recorded.notes());
    assert!(different * 10 <= checked, "{}", recorded.notes());
    assert_eq!(recorded.number("threads"), 5);
    assert!(super::said(&recorded.done).contains("48000\n"), "{}", recorded.notes());
}
