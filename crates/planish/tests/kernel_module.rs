//! Samples of a kernel module: a recording with branches where the kernel put its code gives the
//! functions and blocks that ran, in the profile and in the layout, under both names that recorders
//! give a module's mapping.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use image::code::{InstructionKind, instructions};
use image::{Image, ImageAddr, ImageKind};
use perfdata::write::{Encoder, FileWriter, SampleValues, StackValues};
use perfdata::{
    BranchEntry, BranchFlags, CpuMode, EventAttr, Features, MmapEvent, RuntimeAddr, SampleId,
    attr_flag, branch_sample, sample_type,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// `__attribute__((cold))` keeps `never` out of what runs; `late` lies in a section of its own.
const FIRST: &str = r#"
int counter;
static const char info[] __attribute__((section(".modinfo"), used)) = "license=GPL";
__attribute__((noinline)) static int step(int x) {
  if (x & 4) { counter += x; x ^= counter; } else counter ^= x * 3;
  return x + counter;
}
int work(int n) {
  int sum = 0;
  for (int i = 0; i < n; i++) {
    if (step(i) & 1) sum += i; else sum ^= n;
  }
  return sum;
}
int never(int n) { while (n > counter) n = n * 3 - counter; return n; }
__attribute__((section(".text.late"))) int late(int n) {
  int r = 7;
  do { if (n & 2) r += counter; else r ^= n; } while (n-- > 0);
  return r;
}
"#;
const SECOND: &str = "extern int counter;\nint other(int n) {\n  int r = 0;\n  for (int i = 0; i < n; i++)\n    if (counter & i)\n      \
                      r += i;\n    else\n      counter++;\n  return r;\n}\n";

/// Where the kernel loads the module.
const BASE: u64 = 0xffff_ffff_c012_3000;
/// Where the kernel lies.
const KERNEL: u64 = 0xffff_ffff_8100_0000;
/// Branches of a stack.
const ENTRIES: usize = 16;

fn run(here: &Path, program: &str, words: &[&str]) -> Option<Output> {
    Command::new(program).current_dir(here).args(words).stdin(Stdio::null()).output().ok()
}

/// Builds `x-mod.ko` as kbuild does: two objects, linked into one that can be relocated.
fn build(here: &Path) -> bool {
    std::fs::write(here.join("first.c"), FIRST).unwrap();
    std::fs::write(here.join("second.c"), SECOND).unwrap();
    let flags = [
        "-O2",
        "-g1",
        "-fdebug-info-for-profiling",
        "-fbasic-block-address-map",
        "-mcmodel=kernel",
        "-ffreestanding",
        "-fno-pic",
        "-mno-red-zone",
        // The kernel makes returns of the jumps to its thunk when it loads the module.
        "-mfunction-return=thunk-extern",
        "--target=x86_64-linux-gnu",
        "-c",
        "first.c",
        "second.c",
    ];
    for (program, words) in [
        ("clang-22", &flags[..]),
        ("ld.lld-22", &["-r", "--build-id", "-o", "x-mod.ko", "first.o", "second.o"]),
    ] {
        let Some(done) = run(here, program, words) else {
            eprintln!("skipped: {program} is not installed");
            return false;
        };
        assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
    }
    true
}

/// The executable sections one after the other, each at its alignment: what the loader does, worked
/// out from the headers.
fn loaded_at(image: &Image, address: ImageAddr) -> u64 {
    let mut end = BASE;
    for section in image.sections().iter().filter(|section| section.is_executable()) {
        let start = end.next_multiple_of(section.align.max(1));
        if (section.address.0..section.address.0 + section.size).contains(&address.0) {
            return start + (address.0 - section.address.0);
        }
        end = start + section.size;
    }
    panic!("{address:?} is in no code")
}

/// A walk through the module's code.
struct Walk {
    /// Taken branches, oldest first.
    taken: Vec<(ImageAddr, ImageAddr)>,
    /// Every instruction that ran.
    ran: BTreeSet<ImageAddr>,
}

/// Walks from function to function; conditional branches go one way or the other by a fixed
/// sequence.
fn walk(image: &Image, starts: &[ImageAddr], branches: usize) -> Walk {
    let mut walk = Walk { taken: Vec::new(), ran: BTreeSet::new() };
    let mut random = 0x1234_5678_9abc_def1_u64;
    let mut starts = starts.iter().cycle();
    let mut at = *starts.next().unwrap();
    let mut callers: Vec<ImageAddr> = Vec::new();
    while walk.taken.len() < branches {
        let instruction = instructions(image, at).next().unwrap();
        walk.ran.insert(at);
        let next = ImageAddr(at.0 + u64::from(instruction.len));
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        // The caller of the outermost function calls the next one at once, as far as the module can
        // tell.
        let mut back = || callers.pop().unwrap_or_else(|| *starts.next().unwrap());
        let to = match instruction.kind {
            InstructionKind::ConditionalBranch if random >> 62 == 0 => None,
            InstructionKind::Call => {
                callers.push(next);
                instruction.target
            }
            InstructionKind::Return => Some(back()),
            InstructionKind::UnconditionalBranch if instruction.target.is_none() => Some(back()),
            InstructionKind::ConditionalBranch | InstructionKind::UnconditionalBranch => {
                instruction.target
            }
            _ => None,
        };
        if let Some(to) = to {
            walk.taken.push((at, to));
        }
        at = to.unwrap_or(next);
    }
    walk
}

/// A perf.data with the branches of walks through the module, mapped under `name`, and through the
/// kernel, which lies where it was linked.
fn record(image: &Image, walk: &Walk, of_kernel: Option<&Walk>, name: &str, path: &Path) {
    use sample_type::{BRANCH_STACK, IP, TID, TIME};
    let attr = EventAttr {
        sample_type: IP | TID | TIME | BRANCH_STACK,
        flags: attr_flag::SAMPLE_ID_ALL,
        branch_sample_type: branch_sample::ANY | branch_sample::KERNEL,
        ..EventAttr::default()
    };
    let encoder = Encoder::new(&attr);
    let id = |pid: i32, time: u64| SampleId {
        pid: Some(pid),
        tid: Some(pid),
        time: Some(time),
        ..SampleId::default()
    };
    let mut bytes = Vec::new();
    let code: u64 = image.sections().iter().filter(|s| s.is_executable()).map(|s| s.size).sum();
    for (start, len, name) in [
        (KERNEL, 0x100_0000, "[kernel.kallsyms]_text"),
        (BASE, code.next_multiple_of(0x1000) + 0x1000, name),
        (BASE + 0x10_0000, 0x1000, "[another]"),
    ] {
        let event = MmapEvent {
            pid: -1,
            tid: 0,
            start: RuntimeAddr(start),
            len,
            executable: true,
            prot: 5,
            // perf takes the kernel's offset as the address of the symbol in its name.
            pgoff: if start == KERNEL { KERNEL } else { 0 },
            path: name.as_bytes(),
            cpumode: CpuMode::Kernel,
            ..MmapEvent::default()
        };
        encoder.mmap2(&mut bytes, &event, &id(-1, 1)).unwrap();
    }
    let in_module = |at: ImageAddr| RuntimeAddr(loaded_at(image, at));
    let in_kernel = |at: ImageAddr| RuntimeAddr(at.0);
    type Place<'p> = &'p dyn Fn(ImageAddr) -> RuntimeAddr;
    let of_module = walk.taken.chunks(ENTRIES).map(|stack| (stack, &in_module as Place<'_>));
    let of_kernel = of_kernel.map_or(&[][..], |walk| &walk.taken).chunks(ENTRIES);
    let of_kernel = of_kernel.map(|stack| (stack, &in_kernel as Place<'_>));
    for (number, (stack, place)) in of_module.chain(of_kernel).enumerate() {
        let branches: Vec<BranchEntry> = stack
            .iter()
            .rev()
            .map(|(from, to)| BranchEntry {
                from: place(*from),
                to: place(*to),
                flags: BranchFlags(0),
            })
            .collect();
        let values = SampleValues {
            cpumode: CpuMode::Kernel,
            id: id(42, 10 + number as u64),
            ip: branches[0].to.0,
            stacks: StackValues { branches: &branches, ..StackValues::default() },
            ..SampleValues::default()
        };
        encoder.sample(&mut bytes, &values).unwrap();
    }
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), std::slice::from_ref(&attr)).unwrap();
    writer.append(&bytes).unwrap();
    std::fs::write(path, writer.finish(&Features::default()).unwrap().into_inner()).unwrap();
}

/// Blocks by function in the first column of a cc profile.
fn clusters(cc: &str) -> BTreeMap<String, BTreeSet<u32>> {
    let mut found: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    let mut last = String::new();
    for line in cc.lines() {
        if let Some(name) = line.strip_prefix("f ") {
            last = name.to_owned();
            found.insert(last.clone(), BTreeSet::new());
        } else if let Some(ids) = line.strip_prefix('c') {
            let ids = ids.split(' ').map(|id| id.parse::<u32>().unwrap());
            found.get_mut(&last).unwrap().extend(ids);
        }
    }
    found
}

#[test]
fn a_modules_samples_give_the_functions_and_blocks_that_ran() {
    let scratch = tempfile::tempdir().unwrap();
    let here = scratch.path();
    if !build(here) {
        return;
    }
    let image = Image::open(&here.join("x-mod.ko")).unwrap();
    assert_eq!(image.kind(), ImageKind::KernelModule);
    let entry = |name: &str| image.functions().iter().find(|f| f.name == name).unwrap().address;
    let starts = [entry("work"), entry("late"), entry("other")];
    let walk = walk(&image, &starts, ENTRIES * 400);
    // What the map says that ran: blocks with an instruction of the walk.
    let mut ran: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for function in image::blocks::read(&image).unwrap() {
        let name = image.functions().at(function.address()).next().unwrap().name.to_owned();
        for block in function.blocks() {
            if walk.ran.range(block.address..block.end()).next().is_some() {
                ran.entry(name.clone()).or_default().insert(block.id.0);
            }
        }
    }
    assert_eq!(
        ran.keys().map(String::as_str).collect::<Vec<_>>(),
        ["late", "other", "step", "work"]
    );
    let calls = walk.taken.iter().filter(|(_, to)| *to == entry("step")).count();

    for name in ["[x_mod]", "/lib/modules/6.12.9/kernel/drivers/misc/x-mod.ko"] {
        record(&image, &walk, None, name, &here.join("perf.data"));
        let planish = |words: &[&str]| {
            let done = run(here, env!("CARGO_BIN_EXE_planish"), words).unwrap();
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(done.status.success(), "{name}: {words:?}: {said}");
            said
        };
        let said = planish(&["aggregate", "perf.data", "--binary", "x-mod.ko", "-o", "run.counts"]);
        let used = format!("{0} in, {0} used (100.0 %)", walk.taken.len());
        assert!(said.contains(&used), "{name}: every branch lies in the module: {said}");

        let said = planish(&["layout", "perf.data", "--binary", "x-mod.ko", "--prefix", "out"]);
        assert!(!said.contains("middle of a block"), "{said}");
        let cc = std::fs::read_to_string(here.join("out_cc_profile.txt")).unwrap();
        assert_eq!(clusters(&cc), ran, "{name}: {cc}");
        let ld = std::fs::read_to_string(here.join("out_ld_profile.txt")).unwrap();
        assert!(ran.keys().all(|function| ld.lines().any(|line| line == function)), "{ld}");

        planish(&[
            "profile",
            "perf.data",
            "--binary",
            "x-mod.ko",
            "--emit",
            "text",
            "-o",
            "p.text",
        ]);
        let profile = std::fs::read_to_string(here.join("p.text")).unwrap();
        let heads: BTreeMap<&str, u64> = profile
            .lines()
            .filter(|line| !line.starts_with([' ', '#']))
            .map(|line| {
                let mut parts = line.rsplitn(3, ':');
                let head = parts.next().unwrap().parse().unwrap();
                (parts.nth(1).unwrap(), head)
            })
            .collect();
        assert_eq!(
            heads.keys().copied().collect::<Vec<_>>(),
            ["late", "other", "step", "work"],
            "{profile}"
        );
        assert_eq!(heads["step"], calls as u64, "{name}: {profile}");
        // `work` calls `step` from the line of the condition, two lines below the function's first
        // one.
        assert!(profile.contains(&format!("step:{calls}")), "{name}: {profile}");
    }
}

/// Builds a kernel of one file beside the module, as the directory of a build has both.
fn build_kernel(here: &Path) {
    let source = FIRST.replace("work", "core").replace("step", "pace");
    let source = source.replace(".modinfo", "__ksymtab").replace("late", "tail");
    std::fs::write(here.join("core.c"), source).unwrap();
    let flags = "-O2 -g1 -fdebug-info-for-profiling -fbasic-block-address-map -mcmodel=kernel \
                 -ffreestanding -fno-pic -mno-red-zone --target=x86_64-linux-gnu -c core.c";
    let link = format!(
        "--build-id -Ttext={KERNEL:#x} --defsym=_text={KERNEL:#x} -e core -o vmlinux core.o"
    );
    for (program, words) in [("clang-22", flags), ("ld.lld-22", &link)] {
        let words: Vec<&str> = words.split_whitespace().collect();
        let done = run(here, program, &words).unwrap();
        assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

#[test]
fn a_kernel_and_its_modules_have_one_profile_and_one_layout() {
    let scratch = tempfile::tempdir().unwrap();
    let here = scratch.path();
    if !build(here) {
        return;
    }
    build_kernel(here);
    let [module, kernel] =
        ["x-mod.ko", "vmlinux"].map(|name| Image::open(&here.join(name)).unwrap());
    assert_eq!(kernel.kind(), ImageKind::Kernel);
    let entry = |image: &Image, name: &str| {
        image.functions().iter().find(|function| function.name == name).unwrap().address
    };
    let of_module = walk(&module, &[entry(&module, "work")], ENTRIES * 400);
    let of_kernel = walk(&kernel, &[entry(&kernel, "core")], ENTRIES * 400);
    record(&module, &of_module, Some(&of_kernel), "[x_mod]", &here.join("perf.data"));
    std::fs::write(here.join("modules.order"), "x-mod.o\n").unwrap();

    let planish = |words: &str, expected: i32| {
        let words: Vec<&str> = words.split(' ').collect();
        let done = run(here, env!("CARGO_BIN_EXE_planish"), &words).unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(expected), "{words:?}: {said}");
        (String::from_utf8(done.stdout).unwrap(), said)
    };
    let json = |words: &str| -> serde_json::Value {
        serde_json::from_str(&planish(&format!("{words} --format json"), 0).0).unwrap()
    };
    let named = |told: &serde_json::Value| -> Vec<String> {
        let images = told["images"].as_array().unwrap();
        images.iter().map(|image| image["path"].as_str().unwrap().to_owned()).collect()
    };
    let told = json("kernel profile . perf.data -o all.afdo");
    assert_eq!(told["schema"], "planish-kernel-profile");
    assert_eq!(named(&told), ["./vmlinux", "./x-mod.ko"]);
    // What it says is what each image has by itself.
    for image in ["vmlinux", "x-mod.ko"] {
        planish(&format!("profile perf.data --binary {image} -o {image}.afdo"), 0);
    }
    planish("profile merge vmlinux.afdo x-mod.ko.afdo -o merged.afdo", 0);
    for name in ["all", "merged"] {
        planish(&format!("profile merge {name}.afdo --emit text -o {name}.text"), 0);
    }
    let [all, merged] =
        ["all", "merged"].map(|name| std::fs::read_to_string(here.join(format!("{name}.text"))));
    let all = all.unwrap();
    assert_eq!(all, merged.unwrap());
    assert!(["core:", "pace:", "work:", "step:"].iter().all(|name| all.contains(name)), "{all}");

    let told = json("kernel layout . perf.data --prefix all");
    assert_eq!((told["schema"].as_str(), named(&told).len()), (Some("planish-kernel-layout"), 2));
    let cc = std::fs::read_to_string(here.join("all_cc_profile.txt")).unwrap();
    let names: Vec<String> = clusters(&cc).into_keys().collect();
    assert_eq!(names, ["core", "pace", "step", "work"]);

    // A module without a sample is counted, one that is missing named.
    std::fs::write(here.join("modules.order"), "x-mod.o\nother.o\n").unwrap();
    let (_, said) = planish("kernel profile . perf.data -o all.afdo", 2);
    assert!(said.contains("other.ko"), "{said}");
    assert!(
        run(here, "ld.lld-22", &["-r", "--build-id=0x01020304", "-o", "other.ko", "first.o"])
            .unwrap()
            .status
            .success()
    );
    let (_, said) = planish("kernel profile . perf.data -o all.afdo", 0);
    assert!(said.contains("nothing was counted in 1 module"), "{said}");
    let (told, _) = planish("kernel profile . perf.data -o all.afdo --format json", 0);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["idle"][0], "./other.ko");

    // One that is given twice is counted once, one that is not given is named.
    let (_, said) = planish("kernel profile . perf.data --module x-mod.ko -o all.afdo", 0);
    assert_eq!(said.matches("x-mod.ko").count(), 1, "{said}");
    std::fs::write(here.join("modules.order"), "other.o\n").unwrap();
    let (_, said) = planish("kernel profile . perf.data -o all.afdo", 0);
    assert!(said.contains("400 samples in the module x_mod, whose file is not given"), "{said}");
    let (_, said) = planish("kernel profile . perf.data --module vmlinux -o all.afdo", 2);
    assert!(said.contains("vmlinux: no module of Linux"), "{said}");

    // Another build of one that was recorded is left out, with a word.
    record(&module, &of_module, Some(&of_kernel), "/lib/modules/x-mod.ko", &here.join("perf.data"));
    planish("aggregate perf.data --binary vmlinux --binary x-mod.ko -o run.counts", 0);
    assert!(
        run(here, "ld.lld-22", &["-r", "--build-id=0x05060708", "-o", "x-mod.ko", "first.o"])
            .unwrap()
            .status
            .success()
    );
    let (_, said) = planish("kernel profile . run.counts --module x-mod.ko -o all.afdo", 0);
    assert!(said.contains("another build of it was recorded: x-mod.ko; give the file"), "{said}");
}
