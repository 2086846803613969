//! Are kernels built as processes, run in orders and judged by their CPU time? The tree here has a Makefile of its own with the
//! kernel's targets and variables, and the parts of `arch/um` that are edited: clang and lld are real, and the kernel is a
//! program that says what the workload says. (Whole kernels: `make study NAME=native`.)

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]

mod um_tree;

use compare::{AnalysisOptions, Keep, Resume, Settings, Teller, Verdict, Work};
use kernel::experiment::{Experiment, Form, Images, KernelVariant, Timing, design, timed};
use kernel::make::Make;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

const MAKEFILE: &str = r#"
VERSION = 6
PATCHLEVEL = 12
SUBLEVEL = 1
CC := clang$(LLVM)
include arch/um/Makefile
allnoconfig:
	mkdir -p $(O) && cp $(KCONFIG_ALLCONFIG) $(O)/.config
FLAGS := $(CC) $(KCFLAGS)
.PHONY: force
$(O)/flags: force
	@echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' > $@
$(O)/%.o: %.c $(O)/flags
	@echo "  CC $@"
	$(CC) -O1 $(KCFLAGS) -c $< -o $@
vmlinux: $(O)/main.o $(O)/work.o
	test "$(ARCH)" = um && test -e arch/um/planish/runner.c && test -e arch/um/os-Linux/planish_host.c
	cd $(O) && $(CC) -static $(CFLAGS_vmlinux) -o vmlinux main.o work.o
"#;

const MAIN: &str = r#"
#include <stdio.h>
#include <string.h>
#include <time.h>
int work(int), rest(int), more(int);
static unsigned long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}
int main(int words, char **word)
{
    puts("planish: begin 1");
    for (int number = 1; number < 200; number += 100) {
        unsigned long long start = now();
        int done = number == 1 ? work(1) : rest(1);
        unsigned long long took = now() - start;
        printf("planish: section %d %s part%d\n", number, number == 1 ? "train" : "held", number);
#ifdef FAILS
        puts("planish: failed 1 main.c, line 1: not so");
#endif
        printf("planish: result %d 1000 %llu\n", number, took + (done == 12345));
    }
    puts(word[words - 1]);
    puts("planish: end");
}
"#;

const WORK: &str = r#"
#ifndef TURNS
#define TURNS 1000000
#endif
static int turn(int x, int turns) { for (int i = 0; i < turns; i++) __asm__ volatile("imul %0, %0" : "+r"(x)); return x; }
int work(int x) { return turn(x, TURNS); }
int rest(int x) { return turn(x, 1000000); }
int more(int x) { return x + 1; }
"#;

fn tree(root: &Path) {
    um_tree::write(root);
    for (name, text) in [("Makefile", MAKEFILE), ("main.c", MAIN), ("work.c", WORK)] {
        std::fs::write(root.join(name), text).unwrap();
    }
}

fn of(name: &str, words: &[&str]) -> KernelVariant {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    KernelVariant::of(name, &words).unwrap()
}

/// Hears nothing.
struct Deaf;

impl Teller for Deaf {
    fn begin(&mut self, _: Work, _: u64, _: u64) {}
    fn doing(&mut self, _: &str) {}
    fn at(&mut self, _: u64) {}
    fn note(&mut self, _: &str) {}
    fn warn(&mut self, _: &str) {}
    fn end(&mut self) {}
}

#[test]
fn kernels_that_are_processes_are_judged_by_their_cpu_time() {
    if Command::new("clang-22").arg("--version").output().is_err() {
        println!("skipped: clang-22 is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (root, out) = (folder.path().join("tree"), folder.path().join("out"));
    tree(&root);
    let make = Make { llvm: Some("-22".to_owned()), cc: None, jobs: None };
    let experiment = Experiment::open(&root, &out, None, make, 8, Form::Process).unwrap();
    let build = |variant: &KernelVariant| experiment.build(variant, &mut |_, _| ()).unwrap();
    let variants: Vec<(KernelVariant, Images)> = [
        of("base", &[]),
        of("same", &["KCFLAGS=-DOTHER"]),
        of("slow", &["KCFLAGS=-DTURNS=2000000"]),
    ]
    .map(|variant| (variant.clone(), build(&variant)))
    .into();
    let base = &variants[0].1;
    assert_eq!((base.images.len(), base.compiled), (9, 2));
    assert!(base.freedom.contains("order of functions"), "{}", base.freedom);
    let different: BTreeSet<Vec<u8>> =
        base.images.iter().map(|image| std::fs::read(image).unwrap()).collect();
    assert!(different.len() > 4, "orders differ");
    // Nothing is written in the user's tree, and a change in it counts.
    assert!(!root.join("arch/um/planish").exists());
    assert_eq!(build(&of("base", &[])).compiled, 0);

    let raw = folder.path().join("runs.jsonl");
    let options = AnalysisOptions { draws: 499, ..AnalysisOptions::default() };
    let settings = Settings { rounds: Some(3), ..Settings::default() };
    let measured = |variants: &[(KernelVariant, Images)], resume| {
        let directory = tempfile::tempdir().unwrap();
        let timing = Timing {
            sections: "all",
            percent: 100,
            keep: Keep { raw: Some(&raw), resume: Resume::from(resume) },
            directory: directory.path(),
        };
        let design = design(variants, &settings).unwrap();
        timed(variants, design, &timing, &options, &AtomicBool::new(false), &mut Deaf)
    };
    let (analysis, recorded) = measured(&variants, false).unwrap();
    let rows = &analysis.measurement.comparisons;
    let row = |variant: &str, benchmark: &str| {
        let found = rows.iter().find(|row| row.variant == variant && row.benchmark == benchmark);
        found.unwrap()
    };
    for name in ["part1", "training sections"] {
        assert_eq!(row("slow", name).verdict, Verdict::Slower, "{name}");
    }
    for (variant, name) in [("slow", "part101"), ("same", "part1"), ("same", "training sections")] {
        assert_ne!(row(variant, name).verdict, Verdict::Slower, "{variant} {name}");
    }
    // Each image ran once a round and before, those as built twice: two sections each.
    assert_eq!(recorded.runs.len(), 4 * 3 * 10 * 2);
    // Kernels run out of copies, which are gone.
    let left = std::fs::read_dir(out.join("native/base/planish")).unwrap();
    let names = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.into_iter().all(|name| !name.starts_with(".run-")));
    // All is there already.
    let (_, again) = measured(&variants, true).unwrap();
    assert_eq!(again.runs.len(), recorded.runs.len());

    let fails = of("fails", &["KCFLAGS=-DFAILS"]);
    let failing = [variants[0].clone(), (fails.clone(), build(&fails))];
    std::fs::remove_file(&raw).unwrap();
    let error = measured(&failing, false).unwrap_err();
    let said = format!("{error}: {:?}", std::error::Error::source(&error));
    assert!(said.contains("fails, round 0") && said.contains("not so"), "{said}");
}

#[test]
fn a_tree_without_the_lines_that_are_edited_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (root, out) = (folder.path().join("tree"), folder.path().join("out"));
    tree(&root);
    std::fs::write(
        root.join("arch/um/kernel/uml.lds.S"),
        um_tree::SCRIPT.replace("TEXT_TEXT", "TEXTS"),
    )
    .unwrap();
    let error = Experiment::open(&root, &out, None, Make::default(), 1, Form::Process);
    let said = error.unwrap_err().to_string();
    assert!(
        said.contains("uml.lds.S: the text of the linker script: expected `TEXT_TEXT`"),
        "{said}"
    );
}
