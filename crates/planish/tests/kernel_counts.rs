//! `planish kernel record --counts`: the counts of an emulated kernel are those of a recording of
//! it, and what measuring it counts. The kernel of a few instructions that the recorder is tested
//! with boots in place of Linux.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use counts::aggregate::CountOptions as Aggregation;
use counts::kernel::KernelText;
use counts::resolve::Rules;
use counts::traces::{Trace, TraceCount};
use counts::{Counts, ImageCounts, artefact};
use image::{Image, ImageAddr};
use record::kernel::{KernelOptions, count, record};
use record::machine::{Board, Execution, Guest};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Where its system calls begin and work() lies, as its file has it.
const ENTRY: u64 = 0x20_2000;
const WORK: u64 = ENTRY + 0x1000;

/// Links the kernel: for the boot loader's format, or as the image that addresses are counted in.
fn link(dir: &Path, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../record/tests/programs/machine.S");
    let output = dir.join(name);
    let all = ["-nostdlib", "-static", "-fuse-ld=lld", "-Wl,--image-base=0x200000,-Ttext=0x201000"];
    let done =
        Command::new("clang-22").args(all).args(flags).arg("-o").arg(&output).arg(source).output();
    match done {
        Ok(done) if done.status.success() => Some(output),
        Ok(done) => panic!("{}", String::from_utf8_lossy(&done.stderr)),
        Err(error) => {
            eprintln!("skipped: clang-22: {error}");
            None
        }
    }
}

/// A machine that boots the kernel, and the kernel's image.
fn machine(dir: &Path) -> Option<(Guest, Arc<Image>)> {
    if Command::new("qemu-system-x86_64").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: qemu-system-x86_64 is not installed");
        return None;
    }
    let kernel = link(dir, "kernel", &["-m32", "-Wl,--build-id=none"])?;
    // The machine prints this build ID.
    let image = link(dir, "vmlinux", &["-m64", "-DIMAGE", "-Wl,--build-id=0x01020304"])?;
    let guest = Guest {
        board: Board::Pc,
        kernel,
        initrd: None,
        memory_mib: 64,
        cpus: 1,
        append: String::new(),
        execution: Execution::Deterministic,
    };
    Some((guest, Arc::new(Image::open(&image).unwrap())))
}

fn options() -> KernelOptions {
    let timeout = Some(Duration::from_secs(300));
    KernelOptions {
        sections: Some(1..=99),
        timeout,
        to_the_end: true,
        period: 1,
        ..KernelOptions::default()
    }
}

/// Counts the machine as the command does.
fn exact(guest: &Guest, dir: &Path, image: &Arc<Image>) -> Result<Counts, counts::Error> {
    let counted =
        count(&guest.argv(), &dir.join("kernel.counts"), &options(), &mut |_, _| {}).unwrap();
    let (start, end) = counted.text;
    let text =
        KernelText { start, end, name: counted.map_name.to_owned(), build_id: counted.build_id };
    let traces = counted.traces.iter().map(|found| TraceCount {
        trace: Trace {
            from: found.from,
            to: found.to,
            next_from: found.next_from.unwrap_or(Trace::NONE),
        },
        count: found.count,
        mispredicted: 0,
    });
    Ok(counts::kernel::aggregate(
        &dir.join("kernel.counts"),
        &[text],
        traces,
        std::slice::from_ref(image),
    )?
    .counts)
}

/// Records each single branch of the machine with the 31 before it, and counts that as `planish
/// aggregate` does.
fn sampled(guest: &Guest, dir: &Path, image: &Arc<Image>) -> Counts {
    let path = dir.join("perf.data");
    record(&guest.argv(), &path, &options(), &mut |_, _| {}).unwrap();
    let input = perfdata::Input::open(&path).unwrap();
    let how = Aggregation { rules: Rules::Auto, threads: 1, pid: None, paths: false };
    let images = std::slice::from_ref(image);
    counts::aggregate::aggregate(&path, &input, images, how, &|_| {}).unwrap().counts
}

fn branches(counts: &ImageCounts) -> Vec<(Option<u64>, Option<u64>, u64)> {
    let numbers = |address: Option<ImageAddr>| address.map(|address| address.0);
    counts
        .branches
        .iter()
        .map(|branch| (numbers(branch.from), numbers(branch.to), branch.count))
        .collect()
}

fn ranges(counts: &ImageCounts) -> Vec<(u64, u64, u64)> {
    counts.fall_throughs.iter().map(|range| (range.first.0, range.last.0, range.count)).collect()
}

#[test]
fn exact_counts_lie_at_the_addresses_of_the_image_and_agree_with_samples() {
    let dir = tempfile::tempdir().unwrap();
    let Some((guest, image)) = machine(dir.path()) else { return };
    let found = exact(&guest, dir.path(), &image).unwrap();
    let [own] = found.images.as_slice() else { panic!("{found:?}") };
    assert_eq!(own.build_id.as_ref(), image.build_id());
    let expected = [
        (Some(ENTRY + 2), Some(WORK), 2),
        (Some(WORK), Some(WORK + 13), 200),
        (Some(WORK + 8), Some(WORK), 198),
        (Some(WORK + 13), Some(WORK + 5), 200),
    ];
    assert_eq!(branches(own), expected);
    assert_eq!(
        ranges(own),
        [(WORK, WORK, 200), (WORK + 5, WORK + 8, 198), (WORK + 13, WORK + 13, 200)]
    );
    assert!(own.samples.is_empty() && found.ledger.samples.is_empty(), "nothing was sampled");
    let (branch_book, range_book) = (&found.ledger.branches, &found.ledger.fall_throughs);
    assert_eq!((branch_book.used, branch_book.entered), (600, 600));
    // Nothing follows the last branch of either call.
    assert_eq!((range_book.used, range_book.entered), (598, 598));

    let sampled = sampled(&guest, dir.path(), &image);
    let [of_samples] = sampled.images.as_slice() else { panic!("{sampled:?}") };
    assert_eq!((&of_samples.build_id, &of_samples.path), (&own.build_id, &own.path));
    let (exact_branches, sampled_branches) = (branches(own), branches(of_samples));
    assert_eq!(exact_branches.len(), sampled_branches.len());
    for (exact, sampled) in exact_branches.iter().zip(&sampled_branches) {
        assert_eq!((exact.0, exact.1), (sampled.0, sampled.1));
        // Every branch is in its own stack and in the next 31, if so many come before the call's
        // end.
        let most = 32 * exact.2;
        assert!(sampled.2 <= most && sampled.2 * 10 >= most * 9, "{exact:x?} {sampled:x?}");
    }
    let (exact_ranges, sampled_ranges) = (ranges(own), ranges(of_samples));
    assert_eq!(exact_ranges.len(), sampled_ranges.len());
    for (exact, sampled) in exact_ranges.iter().zip(&sampled_ranges) {
        assert_eq!((exact.0, exact.1), (sampled.0, sampled.1));
        let most = 31 * exact.2;
        assert!(sampled.2 <= most && sampled.2 * 10 >= most * 9, "{exact:x?} {sampled:x?}");
    }

    // Both kinds add up, and the file keeps them.
    let sum = counts::merge([found.clone(), sampled.clone()]).unwrap();
    assert_eq!(sum.images.len(), 1);
    assert_eq!(sum.images[0].branch_total(), own.branch_total() + of_samples.branch_total());
    let path = dir.path().join("all.counts");
    artefact::write(&path, &found, std::fs::File::create(&path).unwrap()).unwrap();
    assert_eq!(artefact::read(&path, std::fs::File::open(&path).unwrap()).unwrap(), found);
}

#[test]
fn counts_of_another_build_are_refused_by_both_build_ids() {
    let dir = tempfile::tempdir().unwrap();
    let Some((guest, _)) = machine(dir.path()) else { return };
    let other =
        link(dir.path(), "other", &["-m64", "-DIMAGE", "-Wl,--build-id=0x05060708"]).unwrap();
    let error =
        exact(&guest, dir.path(), &Arc::new(Image::open(&other).unwrap())).unwrap_err().to_string();
    for part in
        ["600 branches were counted, none of them in", "01020304, the file 05060708", "--binary"]
    {
        assert!(error.contains(part), "no `{part}` in: {error}");
    }
}

/// The file of the module that the machine says it has loaded.
fn module(dir: &Path) -> PathBuf {
    let path = dir.join("loops.ko");
    let words =
        ["-m64", "-DONLY_MODULE", "-r", "-nostdlib", "-fuse-ld=lld", "-Wl,--build-id=0x05060708"];
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../record/tests/programs/machine.S");
    let done =
        Command::new("clang-22").args(words).arg("-o").arg(&path).arg(source).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    path
}

#[test]
fn branches_in_a_module_lie_in_its_file_whether_counted_or_sampled() {
    let dir = tempfile::tempdir().unwrap();
    let Some((guest, image)) = machine(dir.path()) else { return };
    let kernel = link(dir.path(), "kernel", &["-m32", "-DMODULE", "-Wl,--build-id=none"]).unwrap();
    let guest = Guest { kernel, ..guest };
    let loops = module(dir.path());
    let options = KernelOptions {
        modules: [("loops".to_owned(), loops.clone())].into_iter().collect(),
        ..options()
    };
    let output = dir.path().join("kernel.counts");
    let counted = kernel::recording::count(&guest, &options, &image, &output, &mut |_, _| {});
    let (_, found) = counted.unwrap().unwrap();
    let opened = Arc::new(Image::open(&loops).unwrap());
    let code = opened.sections().iter().find(|section| section.is_executable()).unwrap();
    let work = code.address.0;
    let own = found.of(&opened, &output).unwrap();
    let expected = [
        (None, Some(work), 2),
        (Some(work), Some(work + 13), 200),
        (Some(work + 8), Some(work), 198),
        (Some(work + 13), Some(work + 5), 200),
    ];
    assert_eq!(branches(own), expected);
    let of_kernel = found.of(&image, &output).unwrap();
    assert_eq!(branches(of_kernel), [(Some(ENTRY + 2), None, 2)]);
    let book = &found.counts.ledger.branches;
    assert_eq!((book.used, book.entered), (600, 600));

    let path = dir.path().join("perf.data");
    kernel::recording::sample(&guest, &options, &path, &mut |_, _| {}).unwrap();
    let input = perfdata::Input::open(&path).unwrap();
    let how = Aggregation { rules: Rules::Auto, threads: 1, pid: None, paths: false };
    let images = [image, Arc::clone(&opened)];
    let sampled = counts::aggregate::aggregate(&path, &input, &images, how, &|_| {}).unwrap();
    let places = |counts: &ImageCounts| -> Vec<_> {
        branches(counts).into_iter().map(|(from, to, _)| (from, to)).collect()
    };
    assert_eq!(places(sampled.of(&opened, &path).unwrap()), places(own));
}

/// A kernel of the developer's own, with its vmlinux: `planish kernel measure` counts the same
/// branches in the same run.
#[test]
fn a_real_kernels_counts_add_up_to_what_measuring_it_counts() {
    let [Some(kernel), Some(vmlinux)] =
        ["PLANISH_KERNEL_IMAGE", "PLANISH_KERNEL_VMLINUX"].map(std::env::var_os)
    else {
        return eprintln!(
            "skipped: PLANISH_KERNEL_IMAGE and PLANISH_KERNEL_VMLINUX name no kernel to boot"
        );
    };
    let dir = tempfile::tempdir().unwrap();
    let json = |words: &[&str]| -> Value {
        let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
        planish
            .current_dir(dir.path())
            .arg("kernel")
            .args(words)
            .arg(&kernel)
            .args(["--format", "json"]);
        planish.args([
            "--append",
            "PLANISH_SECTIONS=pipe_latency,exec,tcp_rr,shell_pipeline PLANISH_ROUNDS=2",
        ]);
        if words.first() == Some(&"record") {
            planish.arg("--binary").arg(&vmlinux);
        }
        let output = planish.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // The same words for the kernel, lest the machines differ.
    let recorded = json(&[
        "record",
        "--counts",
        "--deterministic",
        "--sections",
        "all",
        "-o",
        "kernel.counts",
    ]);
    assert_eq!(recorded["schema"], "planish-kernel-record");
    let measured = json(&["measure"]);
    assert_eq!(measured["schema"], "planish-kernel-measure");
    let sections = measured["kernels"][0]["sections"].as_array().unwrap();
    let taken = |section: &Value| section["taken_branches"].as_u64().unwrap();
    let inside = sections.iter().filter(|section| section["section"] != 0);
    let sum: u64 = inside.map(taken).sum();
    assert!(sum > 10_000, "{measured}");
    assert_eq!(recorded["taken_branches"], sum);
    let found = artefact::read(
        &dir.path().join("kernel.counts"),
        std::fs::File::open(dir.path().join("kernel.counts")).unwrap(),
    )
    .unwrap();
    assert_eq!((found.ledger.branches.entered, found.images.len()), (sum, 1));
    assert!(found.ledger.branches.used_pct() > 99.9, "{:?}", found.ledger);
}
