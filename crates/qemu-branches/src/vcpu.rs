//! The hot path: what happens before every translation block, and how a branch stack becomes a
//! sample.

use crate::block::{Block, NO_BLOCK, NOWHERE, Transfer};
use crate::chain::{Chain, Flow};
use crate::process::{self, Thread};
use crate::spool::{EVENT_ID, STACK_ENTRIES, Stream};
use std::cell::UnsafeCell;
use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Virtual CPUs that have a state; qemu-user gives each thread one and uses numbers again. A thread
/// beyond is not recorded.
const MAX_VCPUS: usize = 1 << 16;
const RING_MASK: u64 = STACK_ENTRIES as u64 - 1;

/// What happens when a sample is due. `extern "C"` since it cannot unwind then, which lets the hot
/// path jump to it and keep no stack frame.
type IntervalOver = extern "C" fn(&mut Vcpu);

/// One virtual CPU. The first cache line is all that a block without a taken branch touches.
#[repr(C, align(1024))]
pub struct Vcpu {
    /// Where the block after the running one begins if no branch is taken.
    next: u64,
    /// The running block.
    block: *const Block,
    /// Taken branches so far; its low bits are the place in the ring.
    taken: u64,
    /// `taken` at which the next sample is due.
    due: u64,
    /// `taken` when the ring was emptied last.
    emptied_at: u64,
    /// Instructions so far (counting mode).
    instructions: u64,
    /// Length of the running interval, in taken branches.
    interval: u64,
    /// State of the generator that varies the interval.
    random: u64,
    ring: [[u64; 2]; STACK_ENTRIES],
    stream: Stream,
    thread: Thread,
    /// What of `taken` and `instructions` the spool's counters already hold.
    published: (u64, u64),
    /// The calls the thread is in; empty where chains are not asked for.
    chain: Chain,
}

/// All virtual CPUs. Zeroed memory that is never touched costs nothing.
struct Table([UnsafeCell<Vcpu>; MAX_VCPUS]);

// SAFETY: a virtual CPU is one thread's at any time (qemu's rule), and only that thread uses its
// entry; what happens at fork and exit happens while qemu keeps all virtual CPUs out of guest code.
unsafe impl Sync for Table {}

const EMPTY: Vcpu = Vcpu {
    next: 0,
    block: std::ptr::null(),
    taken: 0,
    due: 0,
    emptied_at: 0,
    instructions: 0,
    interval: 0,
    random: 0,
    ring: [[0; 2]; STACK_ENTRIES],
    stream: Stream::new(),
    thread: Thread::unknown(),
    published: (0, 0),
    chain: Chain::EMPTY,
};

static TABLE: Table = Table([const { UnsafeCell::new(EMPTY) }; MAX_VCPUS]);
/// One more than the highest number in use.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// The state of a virtual CPU, for the thread that runs it.
///
/// # Safety
/// Only the thread that runs this virtual CPU may call this, or any thread while no virtual CPU
/// runs.
#[inline(always)]
unsafe fn vcpu(index: c_uint) -> Option<&'static mut Vcpu> {
    // SAFETY: by the contract there is no other reference to this entry.
    TABLE.0.get(index as usize).map(|entry| unsafe { &mut *entry.get() })
}

/// A virtual CPU begins to serve a (new) thread.
pub fn start(index: c_uint) {
    IN_USE.fetch_max(index as usize + 1, Ordering::AcqRel);
    // SAFETY: qemu calls this before the virtual CPU runs.
    let Some(vcpu) = (unsafe { vcpu(index) }) else { return };
    vcpu.next = NOWHERE;
    vcpu.block = &raw const NO_BLOCK;
    vcpu.emptied_at = vcpu.taken;
    // A thread that ended leaves the rest of its chunk unused: the records of two threads would not
    // be in order.
    vcpu.stream.close();
    vcpu.thread = Thread::unknown();
    vcpu.chain.clear();
    // Each virtual CPU has its own fixed sequence, so a single-threaded program gives the same
    // samples each time.
    vcpu.random = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    vcpu.begin_interval();
}

/// Before every block, in sampling mode.
pub extern "C" fn before_block(index: c_uint, block: *mut c_void) {
    // SAFETY: qemu hands back the pointer to a leaked `Block` that was registered, on the virtual
    // CPU's own thread.
    let (Some(vcpu), block) = (unsafe { (vcpu(index), &*block.cast::<Block>()) }) else { return };
    vcpu.enter::<false>(block, sample);
}

/// Before every block, in sampling mode with call chains.
pub extern "C" fn before_block_in_chain(index: c_uint, block: *mut c_void) {
    // SAFETY: as in `before_block`.
    let (Some(vcpu), block) = (unsafe { (vcpu(index), &*block.cast::<Block>()) }) else { return };
    vcpu.enter::<true>(block, sample);
}

/// Before every block, in counting mode.
pub extern "C" fn count_block(index: c_uint, block: *mut c_void) {
    // SAFETY: as in `before_block`.
    let (Some(vcpu), block) = (unsafe { (vcpu(index), &*block.cast::<Block>()) }) else { return };
    vcpu.instructions = vcpu.instructions.wrapping_add(u64::from(block.instructions));
    vcpu.enter::<false>(block, publish);
}

impl Vcpu {
    #[inline(always)]
    fn enter<const CHAIN: bool>(&mut self, block: &'static Block, interval_over: IntervalOver) {
        let expected = std::mem::replace(&mut self.next, block.next);
        let before = std::mem::replace(&mut self.block, block);
        if expected != block.start {
            // SAFETY: `block` is only ever set to descriptions that live as long as the process.
            self.leave::<CHAIN>(unsafe { &*before }, block, interval_over);
        }
    }

    /// The block does not follow the one before: a taken branch, or something that is none.
    #[inline(always)]
    fn leave<const CHAIN: bool>(
        &mut self,
        before: &Block,
        block: &Block,
        interval_over: IntervalOver,
    ) {
        match before.transfer_to(block) {
            Transfer::Taken => {}
            Transfer::Straight => {
                self.instructions = self.instructions.wrapping_sub(1);
                return;
            }
            Transfer::Interrupted => {
                self.emptied_at = self.taken;
                return;
            }
        }
        if CHAIN {
            match before.flow {
                Flow::Call => self.chain.call(before.last_byte.wrapping_add(1)),
                Flow::Return => self.chain.return_to(block.start),
                Flow::Neither => {}
            }
        }
        // The mask keeps the place inside the ring.
        self.ring[(self.taken & RING_MASK) as usize] = [before.last, block.start];
        self.taken += 1;
        if self.taken == self.due {
            interval_over(self);
        }
    }

    fn begin_interval(&mut self) {
        let period = process::period();
        // xorshift64 (Marsaglia 2003). A fixed interval could fall into step with a loop of the
        // program.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let half_width = period / 4;
        self.interval = period - half_width + self.random % (2 * half_width + 1);
        self.due = self.taken.wrapping_add(self.interval);
    }
}

/// Adds what was counted since the last time to the spool's counters.
#[cold]
#[inline(never)]
extern "C" fn publish(vcpu: &mut Vcpu) {
    let (taken, instructions) = vcpu.published;
    vcpu.published = (vcpu.taken, vcpu.instructions);
    vcpu.begin_interval();
    if let Some(spool) = process::spool() {
        spool.header.taken_branches.fetch_add(vcpu.taken - taken, Ordering::Relaxed);
        spool
            .header
            .instructions
            .fetch_add(vcpu.instructions.wrapping_sub(instructions), Ordering::Relaxed);
    }
}

/// Writes the branch stack as a PERF_RECORD_SAMPLE with the fields of `spool::SAMPLE_TYPE`.
#[cold]
#[inline(never)]
extern "C" fn sample(vcpu: &mut Vcpu) {
    const SAMPLE: u64 = 9;
    const MISC_USER: u64 = 2;
    /// What follows in a chain are frames of the program (`enum perf_callchain_context`).
    const CONTEXT_USER: u64 = -512i64 as u64;
    let interval = vcpu.interval;
    let Some(spool) = process::spool() else { return };
    publish(vcpu);
    let (pid, tid) = process::announce(&mut vcpu.thread);
    let entries = (vcpu.taken - vcpu.emptied_at).min(STACK_ENTRIES as u64);
    let newest = vcpu.ring[(vcpu.taken.wrapping_sub(1) & RING_MASK) as usize];
    // The number of words that follow, whose frames they are, the newest target, and where the
    // calls return to.
    let chain_words = if process::call_chains() { vcpu.chain.len() + 3 } else { 0 };
    let bytes = (7 + chain_words + 3 * entries as usize) * 8;
    let Some(room) = vcpu.stream.reserve(&spool, bytes) else {
        spool.header.lost_samples.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let fixed = [
        SAMPLE | MISC_USER << 32 | (bytes as u64) << 48,
        EVENT_ID,
        newest[1],
        u64::from(pid as u32) | u64::from(tid as u32) << 32,
        process::now(),
        interval,
    ];
    let mut to = room.cast::<u64>();
    // SAFETY: `reserve` gave `bytes`, which is what seven fields, the chain and three words an
    // entry take; records are multiples of eight bytes, so every word is aligned.
    unsafe {
        to.copy_from_nonoverlapping(fixed.as_ptr(), fixed.len());
        to = to.add(fixed.len());
        if chain_words > 0 {
            for word in [chain_words as u64 - 1, CONTEXT_USER, newest[1]]
                .into_iter()
                .chain(vcpu.chain.iter())
            {
                to.write(word);
                to = to.add(1);
            }
        }
        to.write(entries);
        to = to.add(1);
        for age in 1..=entries {
            let [from, target] = vcpu.ring[(vcpu.taken.wrapping_sub(age) & RING_MASK) as usize];
            to.copy_from_nonoverlapping([from, target, 0].as_ptr(), 3);
            to = to.add(3);
        }
    }
    vcpu.stream.commit(bytes);
}

/// Publishes what all virtual CPUs counted; called when the process ends.
pub fn publish_all() {
    for index in 0..IN_USE.load(Ordering::Acquire) {
        // SAFETY: qemu stopped the virtual CPUs before it called the exit hook.
        if let Some(vcpu) = unsafe { vcpu(index as c_uint) } {
            publish(vcpu);
        }
    }
}

/// In a forked child: what the parent counted, and the chunks it writes, are not the child's.
pub fn after_fork() {
    for index in 0..IN_USE.load(Ordering::Acquire) {
        // SAFETY: the child has this one thread, which is not in guest code.
        if let Some(vcpu) = unsafe { vcpu(index as c_uint) } {
            vcpu.published = (vcpu.taken, vcpu.instructions);
            vcpu.stream.forget();
            vcpu.thread = Thread::unknown();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Guest;

    fn leak(start: u64, last: u64, bytes: &[u8]) -> &'static Block {
        Box::leak(Box::new(Block::new(Guest::X86_64, start, last, bytes, 1)))
    }

    fn fresh() -> Vcpu {
        Vcpu { block: &raw const NO_BLOCK, next: NOWHERE, due: u64::MAX, ..EMPTY }
    }

    extern "C" fn nothing(_vcpu: &mut Vcpu) {}

    fn stack(vcpu: &Vcpu) -> Vec<[u64; 2]> {
        let entries = (vcpu.taken - vcpu.emptied_at).min(32);
        (1..=entries).map(|age| vcpu.ring[((vcpu.taken - age) & RING_MASK) as usize]).collect()
    }

    #[test]
    fn taken_branches_enter_the_ring_and_straight_lines_do_not() {
        let mut vcpu = fresh();
        let (first, second) = (leak(0x10, 0x14, &[0x74, 0x0a]), leak(0x16, 0x18, &[0xc3]));
        let third = leak(0x20, 0x22, &[0xeb, 0xec]);
        for block in [first, second, third, first, third] {
            vcpu.enter::<false>(block, nothing);
        }
        assert_eq!(stack(&vcpu), [[0x14, 0x20], [0x22, 0x10], [0x18, 0x20]]);
    }

    #[test]
    fn calls_enter_the_chain_and_returns_leave_it() {
        let mut vcpu = fresh();
        let (call, callee) =
            (leak(0x10, 0x11, &[0xe8, 0xea, 0, 0, 0]), leak(0x100, 0x104, &[0xc3]));
        let (again, jump) =
            (leak(0x100, 0x103, &[0xe8, 0xf8, 0xff, 0xff, 0xff]), leak(0x16, 0x18, &[0xeb, 0xf6]));
        for block in [call, again] {
            vcpu.enter::<true>(block, nothing);
        }
        assert_eq!(vcpu.chain.iter().collect::<Vec<_>>(), [0x16]);
        vcpu.enter::<true>(callee, nothing);
        assert_eq!(vcpu.chain.iter().collect::<Vec<_>>(), [0x108, 0x16]);
        vcpu.enter::<true>(leak(0x108, 0x108, &[0xc3]), nothing);
        vcpu.enter::<true>(jump, nothing);
        assert_eq!(vcpu.chain.len(), 0);
        assert_eq!(stack(&vcpu)[0], [0x108, 0x16]);
    }

    #[test]
    fn interruptions_empty_the_ring_and_repeated_strings_do_not() {
        let mut vcpu = fresh();
        let (jump, target) = (leak(0x10, 0x10, &[0xeb, 0x0e]), leak(0x20, 0x24, &[0xf3, 0xaa]));
        let again = leak(0x24, 0x24, &[0xf3, 0xaa]);
        for block in [jump, target, again, again] {
            vcpu.enter::<false>(block, nothing);
        }
        assert_eq!(stack(&vcpu), [[0x10, 0x20]]);
        vcpu.enter::<false>(jump, nothing);
        assert_eq!(stack(&vcpu), [[0u64; 2]; 0], "from a string instruction there is no branch");
        let handler = leak(0x80, 0x84, &[0xc3]);
        handler.handler.store(true, Ordering::Relaxed);
        vcpu.enter::<false>(target, nothing);
        vcpu.enter::<false>(leak(0x26, 0x28, &[0xc3]), nothing);
        assert_eq!(stack(&vcpu).len(), 1);
        vcpu.enter::<false>(handler, nothing);
        assert_eq!(stack(&vcpu).len(), 0, "a return is not what entered the signal handler");
    }
}
