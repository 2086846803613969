//! `planish layout --clone` on a real program: recorded under emulation, cloned by clang, and fewer
//! branches taken.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// In `chooses` two branches decide alike, with a block between them to which both sides of the
/// first lead; in `runs` all cases of an interpreter jump back to one dispatch.
const SOURCE: &str = r#"
#include <stdio.h>
static volatile int sink;
__attribute__((noinline)) int chooses(volatile unsigned char *p, int n) {
  int s = 0;
  for (int i = 0; i < n; i++) {
    if (p[i] & 1) sink = 1; else sink = 2;
    sink = 3;
    if (p[i] & 2) sink = 4; else sink = 5;
    s += sink;
  }
  return s;
}
__attribute__((noinline)) int runs(volatile unsigned char *p, int s) {
  for (;;) switch (*p++) {
    case 0: sink = 10; break;
    case 1: sink = 11; s++; break;
    case 2: sink = 12; s *= 3; break;
    case 3: sink = 13; s ^= 9; break;
    case 4: sink = 14; s -= 4; break;
    case 5: return s;
    case 6: sink = 16; s *= 7; break;
  }
}
int main(void) {
  static unsigned char bits[1024], code[1024];
  unsigned x = 12345, s = 0;
  for (int i = 0; i < 1024; i++) {
    x = x * 1103515245 + 12345;
    bits[i] = (x >> 16 & 1) * 3;
    code[i] = (x >> 20 & 7) % 5;
  }
  code[1023] = 5;
  for (int i = 0; i < 300; i++) s += chooses(bits, 1024) + runs(code, i);
  printf("%u\n", s);
  return 0;
}
"#;

const FLAGS: &[&str] =
    &["-O1", "-fuse-ld=lld", "-ffunction-sections", "-mllvm", "-simplifycfg-sink-common=false"];

struct Program {
    dir: tempfile::TempDir,
}

impl Program {
    /// Compiled and recorded; `None` where a tool is missing.
    fn recorded() -> Option<Program> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        for tool in ["clang-22", "ld.lld-22", "qemu-x86_64"] {
            if !std::env::split_paths(&path).any(|dir| dir.join(tool).is_file()) {
                eprintln!("skipped: {tool} is not installed");
                return None;
            }
        }
        if !cfg!(target_arch = "x86_64") {
            eprintln!("skipped: the recording is of an x86-64 program");
            return None;
        }
        let program = Program { dir: tempfile::tempdir().unwrap() };
        std::fs::write(program.path("app.c"), SOURCE).unwrap();
        program.compile("app", &["-fbasic-block-address-map"]);
        program.taken("app", "perf.data")?;
        Some(program)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, program: &str, words: &[&str]) -> Output {
        Command::new(program)
            .current_dir(self.dir.path())
            .args(words)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// What clang said; it must not have failed.
    fn compile(&self, output: &str, more: &[&str]) -> String {
        let done = self.run("clang-22", &[FLAGS, more, &["-o", output, "app.c"]].concat());
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{said}");
        said
    }

    /// Standard error of planish, which must not have failed.
    fn planish(&self, words: &[&str]) -> String {
        let done = self.run(env!("CARGO_BIN_EXE_planish"), words);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{words:?}: {said}");
        said
    }

    /// Branches that a program took, recorded under emulation; `None` where that cannot be.
    fn taken(&self, program: &str, recording: &str) -> Option<u64> {
        let program = format!("./{program}");
        let words = ["record", "--branches=emulated", "-c", "100", "-o", recording, "--", &program];
        let done = self.run(env!("CARGO_BIN_EXE_planish"), &words);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        if !done.status.success() {
            eprintln!("skipped: no emulated recording: {said}");
            return None;
        }
        let (_, after) = said.split_once("the program took ").unwrap();
        Some(after.split(' ').next().unwrap().parse().unwrap())
    }

    /// Lays the program out, and compiles it with the layout. Gives what planish said and what
    /// clang said.
    fn laid_out(&self, name: &str, more: &[&str]) -> (String, String) {
        let words = [&["layout", "--binary", "app", "--prefix", name], more].concat();
        let said = self.planish(&words);
        let list = format!("-fbasic-block-sections=list={name}_cc_profile.txt");
        let order =
            format!("-Wl,--symbol-ordering-file={name}_ld_profile.txt,--no-warn-symbol-ordering");
        (said, self.compile(&format!("app.{name}"), &["-fbasic-block-address-map", &list, &order]))
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn prints(&self, program: &str) -> String {
        let done = self.run(&self.path(program).display().to_string(), &[]);
        assert!(done.status.success());
        String::from_utf8_lossy(&done.stdout).into_owned()
    }
}

#[test]
fn clones_take_branches_away_and_change_no_result() {
    let Some(program) = Program::recorded() else { return };
    let roomy = ["--clone", "--clone-budget", "50"];
    program.laid_out("plain", &["perf.data"]);
    let (said, warnings) = program.laid_out("cloned", &[&["perf.data"][..], &roomy].concat());
    assert_eq!(warnings, "", "clang refused something");
    assert!(said.contains("clones"), "{said}");
    let list = program.read("cloned_cc_profile.txt");
    assert!(list.lines().filter(|line| line.starts_with('p')).count() >= 2, "{list}");
    assert!(program.read("plain_cc_profile.txt").lines().all(|line| !line.starts_with('p')));
    assert_eq!(program.prints("app.plain"), program.prints("app"));
    assert_eq!(program.prints("app.cloned"), program.prints("app"));
    let plain = program.taken("app.plain", "plain.data").unwrap();
    let cloned = program.taken("app.cloned", "cloned.data").unwrap();
    // 307,200 rounds of `chooses` take half a branch less each, those of `runs` most of one.
    assert!(cloned + 300_000 < plain, "{plain} taken branches without clones, {cloned} with");
    let verify = ["layout", "verify", "perf.data", "--binary", "app", "--new", "app.cloned"];
    program.planish(&[&verify[..], &roomy].concat());

    // The same from counts with paths, and a word where they have none.
    program.planish(&["aggregate", "perf.data", "--binary", "app", "--paths", "-o", "with.counts"]);
    program.laid_out("counts", &[&["with.counts"][..], &roomy].concat());
    assert_eq!(program.read("counts_cc_profile.txt"), list);
    program.planish(&["aggregate", "perf.data", "--binary", "app", "-o", "without.counts"]);
    let (said, _) = program.laid_out("without", &[&["without.counts"][..], &roomy].concat());
    assert!(said.contains("nothing was cloned"), "{said}");
    assert_eq!(program.read("without_cc_profile.txt"), program.read("plain_cc_profile.txt"));
}
