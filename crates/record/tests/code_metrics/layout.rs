//! Do the metrics tell a good layout from a bad one, and do they agree with another simulator?

use super::support::{compile_file, has, metrics, skipped};
use record::code_metrics::MetricsOptions;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const HOT: usize = 200;
const ROUNDS: usize = 300;

/// A program of 200 hot functions, each followed by a page of code that never runs, linked in an
/// order that keeps that (`scattered`) or puts the hot ones together (`packed`).
fn linked(dir: &Path, scattered: bool) -> Option<PathBuf> {
    let name = if scattered { "scattered" } else { "packed" };
    let (source, order) = (dir.join(format!("{name}.c")), dir.join(format!("{name}.order")));
    let mut text = String::from(
        "static volatile unsigned long sink;\n#define KEEP __attribute__((noinline, used))\n",
    );
    for at in 0..HOT {
        writeln!(text, "KEEP void cold{at}(void) {{ __asm__ volatile(\".fill 4080, 1, 0x90\"); }}")
            .unwrap();
        writeln!(text, "KEEP void hot{at}(void) {{ if (sink % {} != 1) sink += {at}; }}", at + 2)
            .unwrap();
    }
    writeln!(text, "void _start(void) {{ for (int round = 0; round < {ROUNDS}; round++) {{")
        .unwrap();
    (0..HOT).for_each(|at| writeln!(text, "hot{at}();").unwrap());
    text.push_str(
        "} __asm__ volatile(\"syscall\" :: \"a\"(60), \"D\"(0)); __builtin_unreachable(); }\n",
    );
    let hot = (0..HOT).map(|at| format!("hot{at}\n"));
    let listed: String = if scattered {
        hot.enumerate().map(|(at, hot)| format!("{hot}cold{at}\n")).collect()
    } else {
        hot.collect()
    };
    std::fs::write(&source, text).unwrap();
    std::fs::write(&order, listed).unwrap();
    let ordering = format!("-Wl,--symbol-ordering-file={}", order.display());
    let flags = [
        "-ffreestanding",
        "-nostdlib",
        "-static",
        "-ffunction-sections",
        "-fuse-ld=lld",
        &ordering,
    ];
    compile_file(dir, &source, &flags)
}

#[test]
fn hot_functions_scattered_over_pages_miss_more_than_packed_ones() {
    let dir = tempfile::tempdir().unwrap();
    let (Some(scattered), Some(packed)) = (linked(dir.path(), true), linked(dir.path(), false))
    else {
        return;
    };
    let Some(scattered) = metrics(&scattered, &MetricsOptions::default()) else { return };
    let packed = metrics(&packed, &MetricsOptions::default()).unwrap();
    assert_eq!(
        (scattered.instructions, scattered.taken_branches),
        (packed.instructions, packed.taken_branches),
        "only the layout differs"
    );
    // 200 pages in a cycle never fit in 64 entries, a handful always does.
    assert!(scattered.itlb_4k_misses >= (HOT * ROUNDS) as u64, "{scattered:?}");
    assert!(packed.itlb_4k_misses < 10, "{packed:?}");
    assert!(scattered.code_lines > packed.code_lines, "{scattered:?} {packed:?}");
    assert!(scattered.code_pages_4k > 20 * packed.code_pages_4k, "{scattered:?} {packed:?}");
    assert_eq!(
        (scattered.itlb_2m_misses, packed.itlb_2m_misses),
        (1, 1),
        "on one large page both lie alike"
    );
}

/// Instruction references and misses that cachegrind counts with the same first level.
fn cachegrind(dir: &Path, program: &Path) -> Option<(u64, u64)> {
    let output = dir.join("cachegrind.out");
    let done = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes", "--I1=4096,2,64", "--LL=1048576,16,64"])
        .arg(format!("--cachegrind-out-file={}", output.display()))
        .arg(program)
        .output()
        .ok()?;
    if !done.status.success() {
        return skipped(&String::from_utf8_lossy(&done.stderr));
    }
    let text = std::fs::read_to_string(output).unwrap();
    let summary = text.lines().find_map(|line| line.strip_prefix("summary:")).unwrap();
    let numbers: Vec<u64> = summary.split_whitespace().map(|word| word.parse().unwrap()).collect();
    Some((numbers[0], numbers[1]))
}

#[test]
fn cachegrind_counts_the_same_instructions_and_misses() {
    if !has("valgrind") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // Small, so that the program's lines compete for places.
    let mut options = MetricsOptions::default();
    options.geometry.set("l1i", "4K:2:64").unwrap();
    for scattered in [true, false] {
        let Some(program) = linked(dir.path(), scattered) else { return };
        let Some(found) = metrics(&program, &options) else { return };
        let Some((instructions, misses)) = cachegrind(dir.path(), &program) else { return };
        assert_eq!(found.instructions, instructions);
        assert_eq!(found.l1i_misses, misses, "{found:?}");
        assert!(misses > (HOT * ROUNDS / 2) as u64, "{found:?}");
    }
}
