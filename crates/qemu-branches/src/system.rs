//! Branch stacks of an emulated machine's kernel: what happens before the blocks of `qemu-system`.
//!
//! Only transfers from kernel code to kernel code are recorded (see [`crate::kernel`]); a block of
//! a program empties the stack. With `from=LO,to=HI` only what the machine does in those sections
//! is recorded (see [`crate::sections`]), and every marker empties all stacks. With `traces=on`
//! nothing is sampled: every branch is counted, with what followed it (see [`crate::traces`]).
//!
//! A sample's time is the number of taken branches that the machine recorded before it, as
//! nanoseconds: the host's clock says nothing about the guest, and would make two recordings of the
//! same run differ.

use crate::api::{self, Api, NO_REGISTERS, PluginId, Tb};
use crate::block::{Block, Guest, NO_BLOCK, NOWHERE, Transfer};
use crate::kernel;
use crate::process;
use crate::sections::{self, Stretch};
use crate::settings::Settings;
use crate::spool::{EVENT_ID, STACK_ENTRIES, SpoolFile, Stream};
use crate::traces::{self, Traces};
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_uint, c_void};
use std::ops::RangeInclusive;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Virtual CPUs of a machine at most.
pub const MAX_VCPUS: usize = 256;
const RING_MASK: u64 = STACK_ENTRIES as u64 - 1;

static API: OnceLock<(Api, Guest)> = OnceLock::new();

/// The sections that are recorded.
static SECTIONS: OnceLock<RangeInclusive<u8>> = OnceLock::new();
/// Taken branches before the last sample, all virtual CPUs together.
static CLOCK: AtomicU64 = AtomicU64::new(0);
/// Branches are counted, not sampled.
static COUNTING: AtomicBool = AtomicBool::new(false);

/// One virtual CPU.
#[repr(C, align(1024))]
struct Cpu {
    /// Where the block after the running one begins if no branch is taken.
    next: u64,
    /// The running block; [`NO_BLOCK`] while a program runs.
    block: *const Block,
    /// Taken branches so far; its low bits are the place in the ring.
    taken: u64,
    /// `taken` at which the next sample is due.
    due: u64,
    /// `taken` when the ring was emptied last.
    emptied_at: u64,
    /// The stretch that the ring was filled in, and whether it is recorded.
    stretch: Stretch,
    recording: bool,
    interval: u64,
    random: u64,
    ring: [[u64; 2]; STACK_ENTRIES],
    stream: Stream,
    /// What of `taken` the spool's counter already holds.
    published: u64,
    /// What was counted; the newest branch of the ring is not in it yet, since what follows it is
    /// not known.
    traces: Traces,
}

const EMPTY: Cpu = Cpu {
    next: NOWHERE,
    block: &raw const NO_BLOCK,
    taken: 0,
    due: 0,
    emptied_at: 0,
    stretch: Stretch::FIRST,
    recording: true,
    interval: 0,
    random: 0,
    ring: [[0; 2]; STACK_ENTRIES],
    stream: Stream::new(),
    published: 0,
    traces: Traces::EMPTY,
};

struct Table([UnsafeCell<Cpu>; MAX_VCPUS]);

// SAFETY: qemu runs one virtual CPU on one thread at any time, and only that thread uses its entry.
unsafe impl Sync for Table {}

static TABLE: Table = Table([const { UnsafeCell::new(EMPTY) }; MAX_VCPUS]);
static IN_USE: AtomicU64 = AtomicU64::new(0);

/// An error says why this machine is not understood.
pub fn check(max_vcpus: c_int) -> Result<(), String> {
    if usize::try_from(max_vcpus).is_ok_and(|count| count > MAX_VCPUS) {
        return Err(format!("{max_vcpus} virtual CPUs are more than {MAX_VCPUS}"));
    }
    Ok(())
}

/// Prepares the recording of a machine.
pub fn install(
    id: PluginId,
    guest: Guest,
    max_vcpus: c_int,
    settings: Settings,
) -> Result<(), String> {
    check(max_vcpus)?;
    let _ = SECTIONS.set(settings.sections.clone().unwrap_or(0..=u8::MAX));
    COUNTING.store(settings.traces, Ordering::Release);
    let api = api::load()
        .map_err(|name| format!("this qemu has no function {name:?}; 6.0 to 8.2 have"))?;
    let spool = settings.spool.clone();
    process::begin(Settings { machine: true, ..settings })
        .map_err(|error| format!("cannot open the spool {}: {error}", spool.display()))?;
    let (api, _) = API.get_or_init(|| (api, guest));
    // SAFETY: version 1 of the interface: registrations with the plugin's own id and functions that
    // live forever.
    unsafe {
        (api.on_translate)(id, translated);
        (api.on_vcpu_start)(id, vcpu_started);
        (api.on_exit)(id, exiting, std::ptr::null_mut());
    }
    Ok(())
}

extern "C" fn translated(_id: PluginId, tb: *mut Tb) {
    let Some((api, guest)) = API.get() else { return };
    // SAFETY: `tb` is the block being translated.
    unsafe {
        match kernel::translated(api, *guest, tb) {
            Some(block) => {
                let block = (&raw const *block).cast_mut().cast::<c_void>();
                let counting = COUNTING.load(Ordering::Acquire);
                let callback = if counting { count_kernel_block } else { before_kernel_block };
                (api.on_block)(tb, callback, NO_REGISTERS, block);
            }
            None => {
                (api.on_block)(tb, before_program_block, NO_REGISTERS, std::ptr::null_mut());
                sections::watch(api, *guest, tb);
            }
        }
    }
}

/// The state of a virtual CPU, for the thread that runs it.
///
/// # Safety
/// Only the thread that runs this virtual CPU may call this, or any thread while no virtual CPU
/// runs.
#[inline(always)]
unsafe fn cpu(index: c_uint) -> Option<&'static mut Cpu> {
    // SAFETY: by the contract there is no other reference to this entry.
    TABLE.0.get(index as usize).map(|entry| unsafe { &mut *entry.get() })
}

extern "C" fn vcpu_started(_id: PluginId, index: c_uint) {
    IN_USE.fetch_max(u64::from(index) + 1, Ordering::AcqRel);
    // SAFETY: qemu calls this before the virtual CPU runs.
    let Some(cpu) = (unsafe { cpu(index) }) else { return };
    cpu.random = (u64::from(index) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    cpu.recording = SECTIONS.get().is_none_or(|sections| sections.contains(&cpu.stretch.section()));
    cpu.begin_interval();
}

extern "C" fn before_program_block(index: c_uint, _block: *mut c_void) {
    // SAFETY: qemu calls this on the virtual CPU's own thread.
    let Some(cpu) = (unsafe { cpu(index) }) else { return };
    cpu.next = NOWHERE;
    cpu.block = &raw const NO_BLOCK;
}

extern "C" fn before_kernel_block(index: c_uint, block: *mut c_void) {
    // SAFETY: qemu hands back the pointer to a leaked `Block` that was registered, on the virtual
    // CPU's own thread.
    let (Some(cpu), block) = (unsafe { (cpu(index), &*block.cast::<Block>()) }) else { return };
    cpu.enter::<false>(block);
}

extern "C" fn count_kernel_block(index: c_uint, block: *mut c_void) {
    // SAFETY: as in `before_kernel_block`.
    let (Some(cpu), block) = (unsafe { (cpu(index), &*block.cast::<Block>()) }) else { return };
    cpu.enter::<true>(block);
}

extern "C" fn exiting(_id: PluginId, _data: *mut c_void) {
    let Some(spool) = process::spool() else { return };
    let counting = COUNTING.load(Ordering::Acquire);
    let mut all = Traces::EMPTY;
    for index in 0..IN_USE.load(Ordering::Acquire) {
        // SAFETY: qemu stopped the virtual CPUs before it called the exit hook.
        let Some(cpu) = (unsafe { cpu(index as c_uint) }) else { continue };
        cpu.publish(&spool);
        if counting {
            cpu.empty::<true>();
            all.merge(std::mem::replace(&mut cpu.traces, Traces::EMPTY));
        }
    }
    if all.write(&spool).is_none() {
        let taken = spool.header.taken_branches.load(Ordering::Relaxed);
        spool.header.lost_samples.fetch_add(taken, Ordering::Relaxed);
    }
}

impl Cpu {
    /// A block of the kernel is about to run; `COUNT` says that branches are counted and not
    /// sampled.
    #[inline(always)]
    fn enter<const COUNT: bool>(&mut self, block: &'static Block) {
        let expected = std::mem::replace(&mut self.next, block.next);
        let before = std::mem::replace(&mut self.block, block);
        if expected != block.start {
            // SAFETY: `block` is only ever set to descriptions that live as long as the process.
            self.leave::<COUNT>(unsafe { &*before }, block);
        }
    }

    #[inline(always)]
    fn leave<const COUNT: bool>(&mut self, before: &Block, block: &Block) {
        match kernel::transfer(before, block) {
            Transfer::Taken => {}
            Transfer::Straight => return,
            Transfer::Interrupted => return self.empty::<COUNT>(),
        }
        let stretch = Stretch::now();
        if stretch != self.stretch {
            self.enter_stretch::<COUNT>(stretch, SECTIONS.get());
        }
        if !self.recording {
            return;
        }
        if COUNT {
            self.count_newest(before.last);
        }
        // The mask keeps the place inside the ring.
        self.ring[(self.taken & RING_MASK) as usize] = [before.last, block.start];
        self.taken += 1;
        if !COUNT && self.taken == self.due {
            self.sample();
        }
    }

    /// Counts the newest branch, which the next one, from `next_from`, followed.
    #[inline(always)]
    fn count_newest(&mut self, next_from: u64) {
        if self.emptied_at != self.taken {
            let newest = self.ring[(self.taken.wrapping_sub(1) & RING_MASK) as usize];
            self.traces.add(newest, next_from);
        }
    }

    /// Empties the stack: what comes next does not follow what is in it.
    #[inline(always)]
    fn empty<const COUNT: bool>(&mut self) {
        if COUNT {
            self.count_newest(traces::NONE);
        }
        self.emptied_at = self.taken;
    }

    #[cold]
    #[inline(never)]
    fn enter_stretch<const COUNT: bool>(
        &mut self,
        stretch: Stretch,
        sections: Option<&RangeInclusive<u8>>,
    ) {
        self.empty::<COUNT>();
        self.stretch = stretch;
        self.recording = sections.is_none_or(|sections| sections.contains(&stretch.section()));
    }

    fn begin_interval(&mut self) {
        let period = process::period();
        // xorshift64 (Marsaglia 2003). A fixed interval could fall into step with a loop of the
        // kernel.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let half_width = period / 4;
        self.interval = period - half_width + self.random % (2 * half_width + 1);
        self.due = self.taken.wrapping_add(self.interval);
    }

    fn publish(&mut self, spool: &SpoolFile) {
        let published = std::mem::replace(&mut self.published, self.taken);
        spool.header.taken_branches.fetch_add(self.taken - published, Ordering::Relaxed);
    }

    /// Writes the branch stack as a PERF_RECORD_SAMPLE with the fields of `spool::SAMPLE_TYPE`.
    #[cold]
    #[inline(never)]
    fn sample(&mut self) {
        const SAMPLE: u64 = 9;
        const MISC_KERNEL: u64 = 1;
        let interval = self.interval;
        self.begin_interval();
        let Some(spool) = process::spool() else { return };
        self.publish(&spool);
        let entries = (self.taken - self.emptied_at).min(STACK_ENTRIES as u64);
        let bytes = (7 + 3 * entries as usize) * 8;
        let Some(room) = self.stream.reserve(&spool, bytes) else {
            spool.header.lost_samples.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let place = |age: u64| (self.taken.wrapping_sub(age) & RING_MASK) as usize;
        let mut words = Vec::with_capacity(bytes / 8);
        words.extend([
            SAMPLE | MISC_KERNEL << 32 | (bytes as u64) << 48,
            EVENT_ID,
            self.ring[place(1)][1],
            // Process and thread are the guest's, which nobody tells; 0 is the kernel's idle one.
            0,
            CLOCK.fetch_add(interval, Ordering::Relaxed).wrapping_add(interval),
            interval,
            entries,
        ]);
        for age in 1..=entries {
            let [from, to] = self.ring[place(age)];
            words.extend([from, to, 0]);
        }
        // SAFETY: `reserve` gave `bytes`, which is what the words take: seven and three an entry.
        unsafe { room.cast::<u64>().copy_from_nonoverlapping(words.as_ptr(), words.len()) };
        self.stream.commit(bytes);
    }
}

#[cfg(test)]
mod tests;
