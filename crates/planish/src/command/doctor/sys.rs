//! The two questions that need unsafe code: what CPUID says, and whether the kernel opens an event.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// What is tried with `perf_event_open`; all in user mode only, for this thread, and closed at
/// once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// Hardware cycles, counted.
    Cycles,
    /// The software clock, sampled in the kernel too.
    KernelClock,
    /// The software clock, sampled.
    CpuClock,
    /// Hardware cycles, sampled with a branch stack.
    BranchStack,
}

/// `struct perf_event_attr` up to `sample_max_stack`, version 5 (include/uapi/linux/perf_event.h).
/// Only the fields that the probes set have names.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u64,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    rest: [u64; 4],
}

const _: () = assert!(size_of::<Attr>() == 112, "PERF_ATTR_SIZE_VER5");

const TYPE_HARDWARE: u32 = 0;
const TYPE_SOFTWARE: u32 = 1;
const SAMPLE_IP: u64 = 1;
const SAMPLE_BRANCH_STACK: u64 = 1 << 11;
const BRANCH_USER_ANY: u64 = 1 | 1 << 3;
const DISABLED: u64 = 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HV: u64 = 1 << 6;

/// Opens the event for this thread and closes it again; the error is the kernel's.
pub fn open_event(probe: Probe) -> io::Result<()> {
    let user_only = DISABLED | EXCLUDE_KERNEL | EXCLUDE_HV;
    let mut attr = Attr { size: size_of::<Attr>() as u32, flags: user_only, ..Attr::default() };
    match probe {
        Probe::Cycles => attr.kind = TYPE_HARDWARE,
        Probe::CpuClock | Probe::KernelClock => {
            (attr.kind, attr.sample_period, attr.sample_type) =
                (TYPE_SOFTWARE, 1_000_000, SAMPLE_IP);
            if probe == Probe::KernelClock {
                attr.flags = DISABLED | EXCLUDE_HV;
            }
        }
        Probe::BranchStack => {
            (attr.kind, attr.sample_period) = (TYPE_HARDWARE, 100_003);
            attr.sample_type = SAMPLE_IP | SAMPLE_BRANCH_STACK;
            attr.branch_sample_type = BRANCH_USER_ANY;
        }
    }
    const FD_CLOEXEC: libc::c_ulong = 8;
    let (this_thread, any_cpu, no_group): (libc::pid_t, libc::c_int, libc::c_int) = (0, -1, -1);
    // SAFETY: the kernel reads `size` bytes of the attr, which is exactly that long and outlives
    // the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            this_thread,
            any_cpu,
            no_group,
            FD_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call just returned this descriptor, and nobody else has it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) };
    debug_assert!(fd.as_raw_fd() >= 0);
    Ok(())
}

/// The registers CPUID returns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cpuid {
    /// Register EAX.
    pub eax: u32,
    /// Register EBX.
    pub ebx: u32,
    /// Register EDX.
    pub edx: u32,
}

/// Asks one CPUID leaf; `None` when the CPU does not have the leaf or is no x86.
#[cfg(target_arch = "x86_64")]
pub fn cpuid(leaf: u32, subleaf: u32) -> Option<Cpuid> {
    // Calling CPUID became a safe function after our oldest compiler.
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 CPU has the instruction, and it only writes the registers it returns.
    let ask = |leaf, subleaf| unsafe { std::arch::x86_64::__cpuid_count(leaf, subleaf) };
    let highest = ask(leaf & 0x8000_0000, 0).eax;
    (leaf <= highest).then(|| {
        let answer = ask(leaf, subleaf);
        Cpuid { eax: answer.eax, ebx: answer.ebx, edx: answer.edx }
    })
}

/// Asks one CPUID leaf; `None` when the CPU does not have the leaf or is no x86.
#[cfg(not(target_arch = "x86_64"))]
pub fn cpuid(_leaf: u32, _subleaf: u32) -> Option<Cpuid> {
    None
}
