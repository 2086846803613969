//! Layout metrics: what a program's code costs the instruction side of a simulated core, the same
//! for every run.
//!
//! Each virtual CPU has one simulated core (see [`core`]): first-level instruction cache, a second
//! level that sees the first's instruction misses alone, translation buffers for two page sizes,
//! all with least recently used replacement and without prefetching. The work is per block, not per
//! instruction: a block's lines follow from its first and last byte, and a block within the line
//! fetched last touches no model at all.
//!
//! The result file exists before; the plugin's first line there proves that it was loaded. When a
//! process ends, and before it starts another program, it adds a line of JSON to the result file.
//! The last line of a process counts. Of a machine only the kernel is simulated, and each section
//! of its run has a line of its own (see [`machine`]).

mod core;
mod data;
pub mod machine;
mod result;

use crate::api::{self, Api, NO_REGISTERS, PluginId, Tb};
use crate::block::{self, Block, Guest};
use crate::calls::numbers;
use crate::settings::Metrics;
use crate::watch;
use core::{Core, Counters};
pub use result::RESULT_BEGINS;
use std::cell::UnsafeCell;
use std::collections::BTreeSet;
use std::ffi::{c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

struct Global {
    api: Api,
    guest: Guest,
    settings: Metrics,
}

static GLOBAL: OnceLock<Global> = OnceLock::new();
/// Virtual CPUs that have a core; qemu-user gives each thread one and uses numbers again. Threads
/// beyond are not simulated, and the result says that there were more threads than one.
const MAX_CORES: usize = 1 << 12;
struct Table([UnsafeCell<Core>; MAX_CORES]);

// SAFETY: a virtual CPU is one thread's at any time (qemu's rule), and only that thread uses its
// entry; what happens at fork and exit happens while qemu keeps all virtual CPUs out of guest code.
unsafe impl Sync for Table {}

static TABLE: Table = Table([const { UnsafeCell::new(Core::UNUSED) }; MAX_CORES]);
/// One more than the highest number in use.
static IN_USE: AtomicUsize = AtomicUsize::new(0);
/// Threads of this process so far.
static THREADS: AtomicU64 = AtomicU64::new(0);

/// The core of a virtual CPU.
///
/// # Safety
/// Only the thread that runs this virtual CPU may call this, or any thread while no virtual CPU
/// runs.
#[inline(always)]
unsafe fn core_of(index: c_uint) -> Option<&'static mut Core> {
    // SAFETY: by the contract there is no other reference to this entry.
    TABLE.0.get(index as usize).map(|entry| unsafe { &mut *entry.get() })
}

/// The cores in use.
///
/// # Safety
/// No virtual CPU may run.
unsafe fn cores() -> impl Iterator<Item = &'static mut Core> {
    // SAFETY: the contract of this function; each entry is visited once.
    (0..IN_USE.load(Ordering::Acquire)).filter_map(|index| unsafe { core_of(index as c_uint) })
}

/// Looks qemu's functions up, and proves in the result file that the plugin was loaded.
fn begin(settings: &Metrics) -> Result<Api, String> {
    if !settings.result.is_absolute() {
        return Err("metrics=FILE needs an absolute path".into());
    }
    settings.geometry.check()?;
    let api = api::load()
        .map_err(|name| format!("this qemu has no function {name:?}; 6.0 to 8.2 have"))?;
    result::append(&settings.result, RESULT_BEGINS)
        .map_err(|error| format!("cannot write {}: {error}", settings.result.display()))?;
    Ok(api)
}

/// Begins to simulate a program.
pub fn install(id: PluginId, guest: Guest, settings: Metrics) -> Result<(), String> {
    let api = begin(&settings)?;
    let global = GLOBAL.get_or_init(|| Global { api, guest, settings });
    // SAFETY: version 1 of the interface: registrations with the plugin's own id and functions that
    // live forever; the functions at fork only use atomics, a lock and the forking thread's
    // memory.
    unsafe {
        (global.api.on_translate)(id, translated);
        (global.api.on_vcpu_start)(id, vcpu_started);
        (global.api.on_syscall)(id, syscall);
        (global.api.on_exit)(id, exiting, std::ptr::null_mut());
        libc::pthread_atfork(
            Some(before_fork),
            Some(after_fork_in_parent),
            Some(after_fork_in_child),
        );
    }
    Ok(())
}

extern "C" fn vcpu_started(_id: PluginId, index: c_uint) {
    IN_USE.fetch_max((index as usize + 1).min(MAX_CORES), Ordering::AcqRel);
    THREADS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: qemu calls this before the virtual CPU runs.
    let (Some(core), Some(global)) = (unsafe { core_of(index) }, GLOBAL.get()) else { return };
    // The geometry was checked at installation.
    let _ = core.begin_thread(&global.settings.geometry);
}

extern "C" fn translated(_id: PluginId, tb: *mut Tb) {
    let Some(global) = GLOBAL.get() else { return };
    // SAFETY: `tb` is the block being translated.
    let Some((block, host)) = (unsafe { block::describe(&global.api, global.guest, tb) }) else {
        return;
    };
    watch::set_guest_base(block.start, host);
    let block: *const Block = watch::intern(block);
    // SAFETY: as above; the callback gets the pointer to a description that lives forever.
    unsafe {
        (global.api.on_block)(tb, before_block, NO_REGISTERS, block.cast_mut().cast::<c_void>());
    }
}

extern "C" fn before_block(index: c_uint, block: *mut c_void) {
    // SAFETY: qemu hands back the pointer to a leaked `Block` that was registered, on the virtual
    // CPU's own thread.
    let (Some(core), block) = (unsafe { (core_of(index), &*block.cast::<Block>()) }) else {
        return;
    };
    core.enter::<false>(block);
}

#[allow(clippy::too_many_arguments)] // qemu fixes the prototype.
#[rustfmt::skip]
extern "C" fn syscall(
    _id: PluginId, _vcpu: c_uint, number: i64, _a1: u64, a2: u64, _a3: u64, _a4: u64, _a5: u64, _a6: u64, _a7: u64,
    _a8: u64,
) {
    let Some(global) = GLOBAL.get() else { return };
    let known = numbers(global.guest);
    if number == known.rt_sigaction && a2 != 0 {
        watch::handler_set(a2);
    } else if number == known.execve || number == known.execveat {
        // One that succeeds does not return; after one that fails, a later line replaces this one.
        publish(global, true);
    }
}

extern "C" fn exiting(_id: PluginId, _data: *mut c_void) {
    if let Some(global) = GLOBAL.get() {
        publish(global, false);
    }
}

/// Adds this process's line to the result.
fn publish(global: &Global, starts_program: bool) {
    let threads = THREADS.load(Ordering::Relaxed);
    let mut counters = Counters::default();
    let mut lines = BTreeSet::new();
    // SAFETY: at exit qemu stopped the virtual CPUs; before an execve other threads may run, whose
    // counts are then read as they are, and replaced by a later line or lost with the thread.
    for core in unsafe { cores() } {
        counters.add(&core.counters);
        lines.extend(core.lines.iter().copied());
    }
    let who = ("process", u64::from(std::process::id()));
    let line = result::line(who, threads, starts_program, &counters, &lines);
    if let Err(error) = result::append(&global.settings.result, &line) {
        crate::say(&format!("{}: {error}", global.settings.result.display()));
    }
}

extern "C" fn before_fork() {
    watch::before_fork();
}

extern "C" fn after_fork_in_parent() {
    watch::after_fork();
}

extern "C" fn after_fork_in_child() {
    watch::after_fork();
    THREADS.store(1, Ordering::Relaxed);
    // SAFETY: the child has this one thread, which is not in guest code.
    unsafe { cores() }.for_each(Core::begin_child);
}
