//! Layout metrics of a machine's kernel, section by section.
//!
//! Each virtual CPU has a simulated core that runs the kernel's blocks alone: a program's block
//! breaks the flow, so that no branch is counted across it, and fetches nothing. At every marker
//! (see [`crate::sections`]) the caches and translation buffers of all cores are emptied, so that
//! what a section costs does not depend on the ones before it; each stretch therefore pays for its
//! cold start. Counts of all stretches of a section add up, and the lines that it fetched are a
//! union.
//!
//! The result file gets a line per section when the machine ends, section 0 (outside of all)
//! included, with `section` in place of a process's `process`. A machine that is killed leaves
//! none.
//!
//! A block that a fault breaks off counts to its end, and again from where it resumes.

use super::core::{Core, Counters};
use super::{begin, result};
use crate::api::{Api, LOADS_AND_STORES, NO_REGISTERS, PluginId, Tb};
use crate::block::{Block, Guest};
use crate::geometry::Geometry;
use crate::sections::{self, Stretch};
use crate::settings::Metrics;
use crate::{kernel, system};
use std::cell::UnsafeCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Global {
    api: Api,
    guest: Guest,
    settings: Metrics,
}

static GLOBAL: OnceLock<Global> = OnceLock::new();

/// What a section counted.
type Counted = (Counters, BTreeSet<u64>);

/// A virtual CPU.
struct Cpu {
    core: Core,
    /// The stretch that the core counts for.
    stretch: Stretch,
    /// What earlier stretches counted, by section.
    past: BTreeMap<u8, Counted>,
}

impl Cpu {
    const UNUSED: Cpu = Cpu { core: Core::UNUSED, stretch: Stretch::FIRST, past: BTreeMap::new() };

    #[inline(always)]
    fn enter(&mut self, block: &'static Block, now: Stretch) {
        if now != self.stretch {
            self.enter_stretch(now);
        }
        self.core.enter::<true>(block);
    }

    /// Puts what was counted with its section, and begins anew with empty caches.
    #[cold]
    #[inline(never)]
    fn enter_stretch(&mut self, now: Stretch) {
        let section = std::mem::replace(&mut self.stretch, now).section();
        add(&mut self.past, section, self.core.take());
    }
}

fn add(sums: &mut BTreeMap<u8, Counted>, section: u8, (counters, lines): Counted) {
    let sum = sums.entry(section).or_default();
    sum.0.add(&counters);
    sum.1.extend(lines);
}

struct Table([UnsafeCell<Cpu>; system::MAX_VCPUS]);

// SAFETY: qemu runs one virtual CPU on one thread at any time, and only that thread uses its entry.
unsafe impl Sync for Table {}

static TABLE: Table = Table([const { UnsafeCell::new(Cpu::UNUSED) }; system::MAX_VCPUS]);
/// One more than the highest number in use.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// A virtual CPU.
///
/// # Safety
/// Only the thread that runs this virtual CPU may call this, or any thread while no virtual CPU
/// runs.
#[inline(always)]
unsafe fn cpu(index: c_uint) -> Option<&'static mut Cpu> {
    // SAFETY: by the contract there is no other reference to this entry.
    TABLE.0.get(index as usize).map(|entry| unsafe { &mut *entry.get() })
}

/// Begins to simulate a machine.
pub fn install(
    id: PluginId,
    guest: Guest,
    max_vcpus: c_int,
    settings: Metrics,
) -> Result<(), String> {
    system::check(max_vcpus)?;
    let api = begin(&settings)?;
    let global = GLOBAL.get_or_init(|| Global { api, guest, settings });
    // SAFETY: version 1 of the interface: registrations with the plugin's own id and functions that
    // live forever.
    unsafe {
        (global.api.on_translate)(id, translated);
        (global.api.on_vcpu_start)(id, vcpu_started);
        (global.api.on_exit)(id, exiting, std::ptr::null_mut());
    }
    Ok(())
}

extern "C" fn vcpu_started(_id: PluginId, index: c_uint) {
    IN_USE.fetch_max(index as usize + 1, Ordering::AcqRel);
    // SAFETY: qemu calls this before the virtual CPU runs.
    let (Some(cpu), Some(global)) = (unsafe { cpu(index) }, GLOBAL.get()) else { return };
    start(cpu, &global.settings.geometry);
    if let Some(geometry) = &global.settings.data {
        // Its shapes were checked when they were read.
        let _ = cpu.core.data.begin(geometry);
    }
}

fn start(cpu: &mut Cpu, geometry: &Geometry) {
    // The geometry was checked at installation.
    let _ = cpu.core.begin_thread(geometry);
}

extern "C" fn translated(_id: PluginId, tb: *mut Tb) {
    let Some(Global { api, guest, settings }) = GLOBAL.get() else { return };
    // SAFETY: `tb` is the block being translated; the callback gets the pointer to a description
    // that lives forever.
    unsafe {
        match kernel::translated(api, *guest, tb) {
            Some(block) => {
                let block = (&raw const *block).cast_mut().cast::<c_void>();
                (api.on_block)(tb, before_kernel_block, NO_REGISTERS, block);
                if settings.data.is_some() {
                    watch_data(api, tb);
                }
            }
            None => {
                (api.on_block)(tb, before_program_block, NO_REGISTERS, std::ptr::null_mut());
                sections::watch(api, *guest, tb);
            }
        }
    }
}

/// Shows the core every load and store of a block.
///
/// # Safety
/// `tb` must be the block that qemu called a translation callback with, during that call.
unsafe fn watch_data(api: &Api, tb: *mut Tb) {
    // SAFETY: the contract of this function; the numbers are below that of the block's instructions.
    unsafe {
        for number in 0..(api.tb_instructions)(tb) {
            let instruction = (api.tb_instruction)(tb, number);
            let nothing = std::ptr::null_mut();
            (api.on_memory)(instruction, accessed, NO_REGISTERS, LOADS_AND_STORES, nothing);
        }
    }
}

extern "C" fn accessed(index: c_uint, access: u32, address: u64, _data: *mut c_void) {
    // SAFETY: qemu calls this on the virtual CPU's own thread.
    let (Some(cpu), Some(global)) = (unsafe { cpu(index) }, GLOBAL.get()) else { return };
    // SAFETY: `access` is what qemu handed over, in the callback that it is of.
    let shift = unsafe { (global.api.access_size_shift)(access) };
    cpu.core.data.access(address, 1 << shift.min(6));
}

extern "C" fn before_program_block(index: c_uint, _block: *mut c_void) {
    // SAFETY: qemu calls this on the virtual CPU's own thread.
    let Some(cpu) = (unsafe { cpu(index) }) else { return };
    cpu.core.break_off();
}

extern "C" fn before_kernel_block(index: c_uint, block: *mut c_void) {
    // SAFETY: qemu hands back the pointer to a leaked `Block` that was registered, on the virtual
    // CPU's own thread.
    let (Some(cpu), block) = (unsafe { (cpu(index), &*block.cast::<Block>()) }) else { return };
    cpu.enter(block, Stretch::now());
}

extern "C" fn exiting(_id: PluginId, _data: *mut c_void) {
    let Some(global) = GLOBAL.get() else { return };
    let in_use = IN_USE.load(Ordering::Acquire);
    // SAFETY: qemu stopped the virtual CPUs before it called the exit hook; each entry is visited
    // once.
    let cpus = (0..in_use).filter_map(|index| unsafe { cpu(index as c_uint) });
    let text = lines(cpus, in_use as u64, sections::begun());
    if let Err(error) = result::append(&global.settings.result, &text) {
        crate::say(&format!("{}: {error}", global.settings.result.display()));
    }
}

/// The lines of the result file; a section that began has one even if the kernel did nothing in it.
fn lines<'c>(
    cpus: impl Iterator<Item = &'c mut Cpu>,
    count: u64,
    begun: impl Iterator<Item = u8>,
) -> String {
    let mut sums: BTreeMap<u8, Counted> =
        begun.map(|section| (section, Counted::default())).collect();
    for cpu in cpus {
        cpu.enter_stretch(cpu.stretch);
        for (section, counted) in std::mem::take(&mut cpu.past) {
            add(&mut sums, section, counted);
        }
    }
    let line = |(section, (counters, lines)): (u8, Counted)| {
        result::line(("section", u64::from(section)), count, false, &counters, &lines)
    };
    sums.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::block;

    #[test]
    fn a_section_counts_the_same_whatever_came_before() {
        let (jump, back) = (
            block(0xa000, 0xa004, &[0xeb, 0x7a], 3),
            block(0xa080, 0xa080, &[0xe9, 0x7b, 255, 255, 255], 1),
        );
        let mut cpu = Cpu { core: Core::UNUSED, ..Cpu::UNUSED };
        start(&mut cpu, &Geometry::default());
        for (number, section) in [(0, 0), (1, 7), (2, 0), (3, 7)] {
            for block in [jump, back] {
                cpu.enter(block, Stretch::made(number, section));
            }
        }
        let text = lines([&mut cpu].into_iter(), 1, [0, 7, 9].into_iter());
        let found: Vec<&str> = text.lines().collect();
        // No branch led to the very first block.
        for (line, (section, taken)) in found.iter().zip([(0, 3), (7, 4)]) {
            let expected = format!(
                "\"section\":{section},\"threads\":1,\"instructions\":8,\"branches\":4,\"\
                 taken_branches\":{taken},\"conditional_branches\":0,\"conditional_taken\":0,\"\
                 l1i_misses\":4,\"l2_misses\":4,\"itlb_4k_misses\":2,\"itlb_2m_misses\":2,\"\
                 interruptions\":0,"
            );
            assert!(line.contains(&expected), "{line}");
        }
        assert_eq!(found.len(), 3);
        assert!(found[2].contains("\"section\":9,\"threads\":1,\"instructions\":0,"), "{text}");
        assert!(found[2].ends_with("\"lines\":[]}"), "{text}");
    }
}
