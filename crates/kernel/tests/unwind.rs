//! Can the stacks of a running kernel be unwound, through cold parts of its functions too?
//!
//! Asked twice: the kernel's own unwinder is asked for the stacks of a run, and a machine is
//! stopped where cold parts begin and unwound from outside. Needs a kernel with ORC unwind data and
//! perf events, and its `vmlinux`, named by `PLANISH_KERNEL_IMAGE` and `PLANISH_KERNEL_VMLINUX`,
//! and qemu. A kernel without cold parts is unwound too.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

mod unwinding;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use unwinding::machine::Machine;
use unwinding::orc::Kernel;
use unwinding::stub::Stub;
use unwinding::walk::{Chain, End, unwind};

/// How often the machine stops at each place, and how many instructions it is followed from there.
const STOPS_EACH: u32 = 2;
const STEPS_EACH: u32 = 40;
/// In kernels without cold parts the machine stops in every so-many-th function.
const WITHOUT_COLD: usize = 25;
/// Functions that stacks may end in: entries, and where tasks and CPUs begin.
const BEGINNINGS: &[&str] = &[
    "entry_SYSCALL_64",
    "entry_SYSCALL_64_after_hwframe",
    "ret_from_fork_asm",
    "ret_from_fork",
    "common_startup_64",
    "secondary_startup_64",
    "secondary_startup_64_no_verify",
];
/// And entries of exceptions and interrupts.
const ENTRIES: &[&str] = &["asm_exc_", "asm_sysvec_", "asm_common_interrupt"];

/// The kernel to look at; `None`, with the reason said, where none is named.
fn kernel() -> Option<(PathBuf, Kernel)> {
    let (image, vmlinux) = ("PLANISH_KERNEL_IMAGE", "PLANISH_KERNEL_VMLINUX");
    let (Some(image), Some(vmlinux)) = (std::env::var_os(image), std::env::var_os(vmlinux)) else {
        eprintln!("skipped: {image} and {vmlinux} name no kernel to unwind");
        return None;
    };
    Some((image.into(), Kernel::read(&std::fs::read(vmlinux).unwrap())))
}

/// The image is that of the `vmlinux`, and the workload came to its end.
fn assert_same_and_complete(kernel: &Kernel, console: &str) {
    let id: String = kernel.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let notes =
        console.lines().find_map(|line| line.strip_prefix("planish-notes ")).expect(console);
    assert!(
        !id.is_empty() && notes.contains(&id),
        "PLANISH_KERNEL_IMAGE is not of PLANISH_KERNEL_VMLINUX"
    );
    assert!(console.lines().any(|line| line.trim_end() == "planish: end"), "{console}");
}

/// What was seen at stops.
#[derive(Default)]
struct Seen {
    stops: u64,
    parts: BTreeSet<u64>,
    addresses: BTreeSet<u64>,
    chains: u64,
    frames: u64,
    deepest: usize,
    interrupted: u64,
    through_cold: BTreeSet<u64>,
    ends: BTreeMap<(End, String), u64>,
    failures: BTreeSet<String>,
    /// How often wrong data were tried, and how often they gave a chain all the same.
    wrong: (u64, u64),
}

impl Seen {
    /// Unwinds the stopped machine; gives the chain if it is sound.
    fn unwind(&mut self, kernel: &Kernel, stub: &mut Stub) -> Option<Chain> {
        let registers = stub.registers();
        let chain = match unwind(kernel, stub, registers) {
            Ok(chain) => chain,
            Err(reason) => {
                self.failures.insert(reason);
                return None;
            }
        };
        self.chains += 1;
        self.frames += chain.frames.len() as u64;
        self.deepest = self.deepest.max(chain.frames.len());
        self.interrupted += u64::from(chain.interrupted > 0);
        self.addresses.insert(registers.instruction());
        for frame in &chain.frames[1..] {
            let function = kernel.function(frame.address - 1);
            self.through_cold
                .extend(function.filter(|it| it.name.ends_with(".cold")).map(|it| it.start));
        }
        let last = kernel.function(chain.frames.last().unwrap().address - 1);
        let name = last.map_or("no function".to_owned(), |function| function.name.clone());
        *self.ends.entry((chain.end, name)).or_default() += 1;
        Some(chain)
    }

    /// Follows the machine through the function that it stopped in: the rest of the chain stays as
    /// it is. Gives where it returns to if it leaves by a call.
    fn follow(&mut self, kernel: &Kernel, stub: &mut Stub, running: &mut bool) -> Option<u64> {
        let first = self.unwind(kernel, stub)?;
        let start = kernel.function(first.frames[0].address)?.start;
        let mut last = first.clone();
        for _ in 0..STEPS_EACH {
            *running = stub.step();
            if !*running {
                return None;
            }
            let now = self.unwind(kernel, stub)?;
            let here = now.frames[0].address;
            if kernel.function(here).map(|function| function.start) == Some(start) {
                if now.frames[0].caller_stack != first.frames[0].caller_stack
                    || now.frames[1..] != first.frames[1..]
                {
                    self.failures.insert(format!(
                        "another chain within a function, at {}",
                        kernel.shown(here)
                    ));
                    return None;
                }
                last = now;
                // The machine stops there again by itself.
                if stub.is_trap(here) {
                    return None;
                }
                continue;
            }
            // A call adds a frame; all other ways lead out of the part.
            let called =
                now.frames.len() == first.frames.len() + 1 && now.interrupted == first.interrupted;
            let same = |called: &Chain| {
                called.frames[1].caller_stack == last.frames[0].caller_stack
                    && called.frames[2..] == last.frames[1..]
            };
            if called && !same(&now) {
                self.failures
                    .insert(format!("another chain after a call, at {}", kernel.shown(here)));
            }
            return called.then(|| now.frames[1].address).filter(|address| {
                kernel.function(*address).map(|function| function.start) == Some(start)
            });
        }
        None
    }
}

/// Lets the machine run to where the first process begins: the kernel is in its place by then, and
/// its text patched. Breakpoints set before would be looked for in every block of firmware too.
fn run_to_init(kernel: &Kernel, stub: &mut Stub) {
    let begin =
        kernel.functions.iter().find(|function| function.name == "kernel_init").unwrap().start;
    stub.set_breakpoint(begin);
    assert!(stub.go_on(), "the machine ended before its kernel was there");
    stub.remove_breakpoint(begin);
}

/// Whether wrong data about where the machine stopped give a chain; the data are as before
/// afterwards.
fn believes_wrong_data(kernel: &mut Kernel, stub: &mut Stub) -> bool {
    let registers = stub.registers();
    let number = kernel.entry_number(registers.instruction()).unwrap();
    kernel.shift(number, 8);
    let believed = unwind(kernel, stub, registers).is_ok();
    kernel.shift(number, -8);
    believed
}

#[test]
fn unwind_data_lead_from_every_cold_part_that_runs_to_where_the_kernel_was_entered() {
    let Some((image, mut kernel)) = kernel() else { return };
    let settings = "PLANISH_SECTIONS=held PLANISH_ROUNDS=1 PLANISH_ODD=60";
    let Some(mut machine) = Machine::start(&image, 1, true, settings) else { return };
    let mut stub = machine.stub();
    run_to_init(&kernel, &mut stub);
    let cold: Vec<u64> = kernel.cold_parts().map(|part| part.start).collect();
    // Most functions are never called: what is watched costs time at each jump.
    let watched: Vec<u64> = if cold.is_empty() {
        kernel.functions.iter().step_by(WITHOUT_COLD).map(|function| function.start).collect()
    } else {
        cold.clone()
    };
    let mut left: HashMap<u64, u32> =
        watched.iter().map(|address| (*address, STOPS_EACH)).collect();
    for address in &watched {
        stub.set_trap(*address);
    }
    let handler =
        kernel.functions.iter().find(|function| function.name == "asm_exc_int3").unwrap().start;
    stub.set_breakpoint(handler);
    let mut seen = Seen::default();
    let mut running = stub.go_on();
    while running {
        let Some(address) = stub.take_back() else {
            // Another's trap: past the breakpoint, and on.
            running = stub.step() && stub.go_on();
            continue;
        };
        seen.stops += 1;
        if cold.binary_search(&address).is_ok() {
            seen.parts.insert(address);
        }
        seen.wrong.0 += 1;
        seen.wrong.1 += u64::from(believes_wrong_data(&mut kernel, &mut stub));
        // Where a call returns to within the part, it is followed further.
        if let Some(returns) = seen.follow(&kernel, &mut stub, &mut running)
            && !left.contains_key(&returns)
        {
            left.insert(returns, STOPS_EACH);
            stub.set_trap(returns);
        }
        // Again there, now that the machine is behind it, or at least has gone one instruction on.
        let stops = left.entry(address).or_default();
        *stops = stops.saturating_sub(1);
        if *stops > 0 && running && stub.registers().instruction() != address {
            stub.set_trap(address);
        }
        running = running && stub.go_on();
    }
    assert_same_and_complete(&kernel, &machine.console());
    let in_cold =
        |address: &&u64| kernel.function(**address).is_some_and(|it| it.name.ends_with(".cold"));
    eprintln!("cold parts: {}, run into: {}", cold.len(), seen.parts.len());
    eprintln!("stops: {}, chains: {}, frames: {}", seen.stops, seen.chains, seen.frames);
    eprintln!("deepest chain: {}, chains through interrupts: {}", seen.deepest, seen.interrupted);
    eprintln!("distinct addresses: {}", seen.addresses.len());
    eprintln!("of them in cold parts: {}", seen.addresses.iter().filter(in_cold).count());
    eprintln!("cold parts as callers: {}", seen.through_cold.len());
    eprintln!("wrong data: tried {}, believed {}", seen.wrong.0, seen.wrong.1);
    for ((end, name), count) in &seen.ends {
        eprintln!("end {end:?} {name}: {count}");
    }
    assert!(seen.failures.is_empty(), "{} failures: {:#?}", seen.failures.len(), seen.failures);
    // Else a chain would show little. A frame without anything but its caller's address may be
    // passed over unseen.
    assert!(seen.wrong.1 * 3 <= seen.wrong.0, "{:?}", seen.wrong);
    assert!(
        seen.chains > 0
            && (cold.is_empty() || !seen.parts.is_empty() && !seen.through_cold.is_empty())
    );
    let strange: Vec<_> = seen.ends.keys().filter(|(_, name)| !is_beginning(name)).collect();
    assert!(strange.is_empty(), "{strange:?}");
}

/// Whether a stack may end in this function.
fn is_beginning(name: &str) -> bool {
    BEGINNINGS.contains(&name) || ENTRIES.iter().any(|entry| name.starts_with(entry))
}

/// The lines of the console that begin with this word: their other words.
fn told<'c>(console: &'c str, word: &str) -> Vec<Vec<&'c str>> {
    let words = console.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    words.filter(|words| words.first() == Some(&word)).map(|mut words| words.split_off(1)).collect()
}

/// By function in which stacks end: samples and distinct chains, all and those through cold parts.
fn ends(console: &str) -> BTreeMap<&str, [u64; 4]> {
    let number = |words: &[&str], index: usize| words[index].parse::<u64>().unwrap();
    let lines = told(console, "planish-stack-end");
    lines
        .iter()
        .map(|words| (words[0], std::array::from_fn(|index| number(words, index + 1))))
        .collect()
}

#[test]
fn the_kernel_unwinds_its_own_stacks_to_where_it_was_entered() {
    let Some((image, kernel)) = kernel() else { return };
    let settings = "PLANISH_STACKS=1 PLANISH_SECTIONS=all PLANISH_ROUNDS=5 PLANISH_ODD=200";
    // Two CPUs and, where the kernel can, another place in memory.
    let Some(mut machine) = Machine::start(&image, 2, false, settings) else { return };
    let mut stub = machine.stub();
    assert!(!stub.go_on());
    let console = machine.console();
    assert_same_and_complete(&kernel, &console);
    let (ends, cold) = (ends(&console), told(&console, "planish-stack-cold"));
    eprintln!("samples, chains, lost, unkept: {:?}", told(&console, "planish-stacks"));
    eprintln!("cold parts in stacks: {}", cold.len());
    for (name, [samples, chains, cold_samples, cold_chains]) in &ends {
        eprintln!(
            "end {name}: {samples} samples, {chains} chains; with cold parts {cold_samples}, {cold_chains}"
        );
    }
    for words in told(&console, "planish-stack").iter().take(6) {
        eprintln!("{}", words.join(" "));
    }
    let strange: Vec<_> = ends.keys().filter(|name| !is_beginning(name)).collect();
    assert!(strange.is_empty(), "stacks end in {strange:?}: {console}");
    assert!(ends.contains_key("entry_SYSCALL_64_after_hwframe"), "{console}");
    assert_eq!(
        kernel.cold_parts().next().is_some(),
        !cold.is_empty(),
        "stacks through cold parts: {console}"
    );
}

#[test]
fn stacks_end_in_cold_parts_when_these_have_no_unwind_data() {
    let Some((image, kernel)) = kernel() else { return };
    if kernel.cold_parts().next().is_none() {
        eprintln!("skipped: PLANISH_KERNEL_VMLINUX has no cold parts");
        return;
    }
    let settings = "PLANISH_STACKS=1 PLANISH_SECTIONS=held PLANISH_ROUNDS=1 PLANISH_ODD=20";
    let Some(mut machine) = Machine::start(&image, 1, true, settings) else { return };
    let mut stub = machine.stub();
    run_to_init(&kernel, &mut stub);
    for part in kernel.cold_parts() {
        let first = kernel.entry_number(part.start).unwrap();
        let last = kernel.entry_number(part.end - 1).unwrap();
        stub.write(kernel.entries_at + 6 * first as u64, &vec![0; 6 * (last + 1 - first)]);
    }
    assert!(!stub.go_on());
    let console = machine.console();
    let ends = ends(&console);
    eprintln!("ends: {:?}", ends.keys());
    assert!(ends.keys().any(|name| name.ends_with(".cold")), "{console}");
}
