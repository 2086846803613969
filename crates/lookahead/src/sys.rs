//! What needs the processor itself: memory for stubs, calling them, and the few instructions that
//! only say what the machine is.

use crate::state::State;
use std::arch::asm;
use std::ptr::NonNull;

/// Exceptions of MXCSR, masked.
const MXCSR_MASKS: u32 = 0x1f80;
/// Exceptions of the x87 control word, masked.
const X87_MASKS: u16 = 0x3f;
/// Bits of the x87 status word that say that an exception waits.
const X87_PENDING: u16 = 0x8080;
const X87_IMAGE_BYTES: usize = 512;

/// Memory that is mapped twice, to be written in one place and run in the other.
pub(crate) struct Arena {
    write: NonNull<u8>,
    run: NonNull<u8>,
    bytes: usize,
    used: usize,
}

// SAFETY: the mappings belong to the value alone, and are only written through `&mut self`.
unsafe impl Send for Arena {}

impl Arena {
    /// `None` where the system does not allow memory that runs.
    pub(crate) fn new(bytes: usize) -> Option<Arena> {
        // SAFETY: a new descriptor and two new mappings of it; the pointers are checked, and the
        // descriptor is closed once the mappings hold the memory.
        unsafe {
            let fd = libc::memfd_create(c"planish-stubs".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return None;
            }
            let found = |at: *mut libc::c_void| {
                if at == libc::MAP_FAILED { None } else { NonNull::new(at.cast::<u8>()) }
            };
            let (read_write, read_run) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::PROT_READ | libc::PROT_EXEC);
            let map = |access, kind, fd| {
                found(libc::mmap(std::ptr::null_mut(), bytes, access, kind, fd, 0))
            };
            let (write, run) = if libc::ftruncate(fd, bytes as libc::off_t) == 0 {
                (map(read_write, libc::MAP_SHARED, fd), map(read_run, libc::MAP_SHARED, fd))
            } else {
                // A limit on file sizes (`ulimit -f`) holds for such files too. Memory without a
                // file is mapped a second time by moving none of it.
                let write = map(read_write, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1);
                let twin = write.and_then(|write| {
                    found(libc::mremap(write.as_ptr().cast(), 0, bytes, libc::MREMAP_MAYMOVE))
                });
                let run =
                    twin.filter(|twin| libc::mprotect(twin.as_ptr().cast(), bytes, read_run) == 0);
                (write, run)
            };
            libc::close(fd);
            match (write, run) {
                (Some(write), Some(run)) => Some(Arena { write, run, bytes, used: 0 }),
                (one, other) => {
                    for left in [one, other].into_iter().flatten() {
                        libc::munmap(left.as_ptr().cast(), bytes);
                    }
                    None
                }
            }
        }
    }

    /// Places code; `None` when it is full.
    pub(crate) fn place(&mut self, code: &[u8]) -> Option<u32> {
        let at = self.used.next_multiple_of(16);
        let end = at.checked_add(code.len()).filter(|end| *end <= self.bytes)?;
        // SAFETY: `at..end` lies within the mapping.
        unsafe {
            std::ptr::copy_nonoverlapping(code.as_ptr(), self.write.as_ptr().add(at), code.len())
        };
        self.used = end;
        u32::try_from(at).ok()
    }

    /// Forgets all code.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    /// Runs a stub on the registers and a memory operand, which is as long as the stub's
    /// instruction wants at least.
    #[inline(always)]
    pub(crate) fn call(&self, at: u32, state: &mut State, memory: &mut [u8]) {
        debug_assert!((at as usize) < self.used);
        // SAFETY: `at` came from `place`, whose only caller makes stubs that touch the registers
        // they restore, `state`, and as many bytes of `memory` as it was told; that
        // caller's op checks the length before it calls.
        unsafe {
            let stub: extern "sysv64" fn(*mut State, *mut u8) =
                std::mem::transmute(self.run.as_ptr().add(at as usize));
            stub(state, memory.as_mut_ptr());
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for mapping in [self.write, self.run] {
            // SAFETY: exactly what was mapped.
            unsafe { libc::munmap(mapping.as_ptr().cast(), self.bytes) };
        }
    }
}

/// Bits of MXCSR that every processor has; others must not be set.
pub(crate) const MXCSR_KNOWN: u32 = 0xffff;

/// Sets MXCSR, with all exceptions masked: rounding and denormals as the thread has them.
pub(crate) fn set_mxcsr(value: u32) {
    let masked = value & MXCSR_KNOWN | MXCSR_MASKS;
    // SAFETY: no reserved bit is set, all exceptions are masked, and no floating-point code of
    // Rust's runs until it is set back.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &masked, options(nostack, readonly)) };
}

/// The MXCSR of the moment.
pub(crate) fn mxcsr() -> u32 {
    let mut value = 0u32;
    // SAFETY: writes the local variable.
    unsafe { asm!("stmxcsr [{}]", in(reg) &mut value, options(nostack)) };
    value
}

/// Room for the x87 and vector registers as `fxsave` lays them out.
#[repr(C, align(16))]
pub(crate) struct X87Image(pub [u8; X87_IMAGE_BYTES]);

/// Loads the x87 registers, exceptions masked, and leaves the vector registers and MXCSR as they
/// were.
pub(crate) fn load_x87(image: &X87Image) {
    let mut now = X87Image([0; X87_IMAGE_BYTES]);
    // SAFETY: an aligned local area. Registers from 160 on are the vector registers of the moment,
    // so loading the mixed image changes the x87 part alone.
    unsafe {
        asm!("fxsave64 [{}]", in(reg) &mut now, options(nostack));
        let control = u16::from_le_bytes([image.0[0], image.0[1]]) | X87_MASKS;
        now.0[..24].copy_from_slice(&image.0[..24]);
        now.0[32..160].copy_from_slice(&image.0[32..160]);
        now.0[..2].copy_from_slice(&control.to_le_bytes());
        // With all exceptions masked none is pending: neither the summary bit nor the busy bit.
        let status = u16::from_le_bytes([image.0[2], image.0[3]]) & !X87_PENDING;
        now.0[2..4].copy_from_slice(&status.to_le_bytes());
        asm!("fxrstor64 [{}]", in(reg) &now, options(nostack, readonly));
    }
}

/// Sets the x87 control word, with all exceptions masked: rounding and precision as the thread
/// wants them.
pub(crate) fn set_x87_control(value: u16) {
    let masked = value | X87_MASKS;
    // SAFETY: all exceptions are masked, and Rust code does not compute with x87 registers.
    unsafe { asm!("fldcw [{}]", in(reg) &masked, options(nostack, readonly)) };
}

/// Empties the x87 registers, as Rust code expects them.
pub(crate) fn clear_x87() {
    // SAFETY: Rust code keeps nothing in x87 registers.
    unsafe { asm!("fninit", options(nomem, nostack)) };
}

/// rax, rbx, rcx and rdx after `cpuid`.
pub(crate) fn cpuid(leaf: u32, sub: u32) -> [u32; 4] {
    // The lint knows that some compilers find this call safe and some do not.
    #[allow(unused_unsafe, reason = "safe from Rust 1.94 on")]
    // SAFETY: every processor of this architecture has the instruction.
    let found = unsafe { std::arch::x86_64::__cpuid_count(leaf, sub) };
    [found.eax, found.ebx, found.ecx, found.edx]
}

/// The time stamp counter and the number that the kernel keeps with it (`rdtscp`).
pub(crate) fn time_stamp() -> (u64, u32) {
    let mut aux = 0;
    // SAFETY: the instruction is on every processor with 64-bit Linux that a vdso clock works on;
    // `aux` is local.
    let stamp = unsafe { std::arch::x86_64::__rdtscp(&mut aux) };
    (stamp, aux)
}

/// An extended control register.
pub(crate) fn extended_control(number: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: number 0 is there where the vector state is saved with xsave, which the caller asks
    // first.
    unsafe {
        asm!("xgetbv", in("ecx") number, out("eax") low, out("edx") high, options(nomem, nostack))
    };
    u64::from(high) << 32 | u64::from(low)
}
