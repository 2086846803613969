//! What do CPU and kernel allow: branch stacks, events, privileges, memory for rings, superpages?

use std::fs;
use std::io;
use std::path::Path;

use crate::Finding;
use crate::sys;
use perfdata::{EventAttr, attr_flag as flag, branch_sample, sample_type};
use record::arm_spe::EVENT_SOURCES;

/// What is tried with `perf_event_open`, for this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    /// Hardware cycles, counted.
    Cycles,
    /// The software clock, sampled in the kernel too.
    KernelClock,
    /// The software clock, sampled.
    CpuClock,
    /// Hardware cycles, sampled with a branch stack.
    BranchStack,
}

impl Probe {
    /// The event, in user mode only unless it is about the kernel
    /// (`include/uapi/linux/perf_event.h`).
    fn attr(self) -> EventAttr {
        const TYPE_HARDWARE: u32 = 0;
        const TYPE_SOFTWARE: u32 = 1;
        let user_only = flag::DISABLED | flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV;
        let hardware = EventAttr { kind: TYPE_HARDWARE, flags: user_only, ..EventAttr::default() };
        let clock = EventAttr {
            kind: TYPE_SOFTWARE,
            period_or_freq: 1_000_000,
            sample_type: sample_type::IP,
            ..hardware.clone()
        };
        match self {
            Probe::Cycles => hardware,
            Probe::CpuClock => clock,
            Probe::KernelClock => EventAttr { flags: flag::DISABLED | flag::EXCLUDE_HV, ..clock },
            Probe::BranchStack => EventAttr {
                period_or_freq: 100_003,
                sample_type: sample_type::IP | sample_type::BRANCH_STACK,
                branch_sample_type: branch_sample::USER | branch_sample::ANY,
                ..hardware
            },
        }
    }
}

/// Whether the CPU has branch stacks, and whether the kernel hands them to us.
pub struct HardwareBranches {
    /// What was looked at.
    pub findings: Vec<Finding>,
    /// Whether `planish record --branches=hardware` works.
    pub usable: bool,
}

/// Settings and events, apart from branch stacks.
pub fn examine() -> Vec<Finding> {
    vec![
        cpu(),
        kernel(),
        event("hardware cycles", Probe::Cycles),
        event("cpu-clock samples", Probe::CpuClock),
        event("kernel samples", Probe::KernelClock),
        paranoid(),
        kernel_addresses(),
        ring_memory(),
        superpages(),
    ]
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn read_number(path: &str) -> Option<i64> {
    read(path)?.parse().ok()
}

fn cpu() -> Finding {
    let info = read("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let model =
        field("model name").or_else(|| field("CPU part")).unwrap_or_else(|| "unknown model".into());
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let nodes = fs::read_dir("/sys/devices/system/node").map_or(1, |entries| {
        let is_node =
            |name: &str| name.strip_prefix("node").is_some_and(|rest| rest.parse::<u32>().is_ok());
        entries
            .flatten()
            .filter(|entry| is_node(&entry.file_name().to_string_lossy()))
            .count()
            .max(1)
    });
    let memory_kib =
        read("/proc/meminfo").and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    let memory_gib = memory_kib.unwrap_or(0) as f64 / f64::from(1 << 20);
    let guest = if info.contains(" hypervisor") { ", virtual machine" } else { "" };
    Finding::good(
        "cpu",
        format!("{model}{guest}; usable CPUs: {cpus}, NUMA nodes: {nodes}, {memory_gib:.1} GiB"),
    )
}

fn kernel() -> Finding {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into());
    let sources = fs::read_dir(EVENT_SOURCES).map_or_else(
        |_| Vec::new(),
        |entries| {
            entries
                .flatten()
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect::<Vec<_>>()
        },
    );
    let mut sources = sources;
    sources.sort();
    if sources.is_empty() {
        return Finding::limited(
            "kernel",
            format!("Linux {release} without event sources in {EVENT_SOURCES}"),
            "a kernel with CONFIG_PERF_EVENTS and a mounted /sys; containers sometimes hide it",
        );
    }
    Finding::good("kernel", format!("Linux {release}, event sources: {}", sources.join(", ")))
}

/// One event, opened for real.
fn event(subject: &'static str, probe: Probe) -> Finding {
    match record::live::try_event(&probe.attr()) {
        Ok(()) => Finding::good(subject, "perf_event_open works"),
        Err(error) => {
            let (found, next) = explain(&error, probe);
            Finding::limited(subject, found, next)
        }
    }
}

/// Whether threads of an own program can be stopped and looked ahead from: tried on one.
pub fn software_branch_stacks() -> Finding {
    let subject = "software branch stacks";
    match record::software::probe() {
        Ok(()) => Finding::good(subject, "threads can be stopped, and their branches foreseen"),
        Err(error) => Finding::limited(
            subject,
            format!("cannot be had here: {error}"),
            "planish record --branches=emulated works without stopping anything",
        ),
    }
}

/// The kernel's answer as a sentence, and the step that would change it.
fn explain(error: &io::Error, probe: Probe) -> (String, &'static str) {
    let hardware = matches!(probe, Probe::Cycles | Probe::BranchStack);
    let code = error.raw_os_error().unwrap_or(0);
    let (reason, next) = match code {
        libc::EACCES | libc::EPERM => (
            "not permitted for this user",
            "sysctl kernel.perf_event_paranoid=1 (2 for user mode only), or the capability \
             CAP_PERFMON",
        ),
        libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::EINVAL
            if probe == Probe::BranchStack =>
        {
            (
                "this CPU, hypervisor or kernel gives no branch stacks",
                "planish record --branches=emulated; or run on bare metal, or let the hypervisor \
                 expose them",
            )
        }
        libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP if hardware => (
            "no hardware counters here, as in most virtual machines",
            "cpu-clock samples and --branches=emulated work without; else ask the hypervisor for \
             a virtual PMU",
        ),
        libc::ENOSYS => (
            "the kernel or a seccomp filter has no perf_event_open",
            "allow the call in the container's filter",
        ),
        libc::EMFILE | libc::ENFILE => ("too many open files", "raise ulimit -n"),
        _ => ("unexpected answer", "run with strace -e perf_event_open and report it"),
    };
    (format!("{reason} ({error})"), next)
}

/// Asks CPUID or sysfs what the CPU has, then opens the event.
pub fn branch_stacks() -> HardwareBranches {
    let subject = "hardware branch stacks";
    let has = cpu_branch_stacks();
    let opened = record::live::try_event(&Probe::BranchStack.attr());
    let usable = opened.is_ok();
    let mut finding = match opened {
        Ok(()) => Finding::good(subject, "perf_event_open works"),
        Err(error) => {
            let (found, next) = explain(&error, Probe::BranchStack);
            Finding::limited(subject, found, next)
        }
    };
    finding.found = format!("{has}; {}", finding.found);
    let mut findings = vec![finding];
    let mut usable = usable;
    if let Some((unit, command)) = record::arm_spe::told(Path::new(EVENT_SOURCES)) {
        let subject = "statistical samples";
        usable |= record::live::has_hardware_branches();
        findings.push(if usable {
            Finding::good(subject, format!("Arm SPE ({unit}): `{command}` records taken branches"))
        } else {
            let found = format!("Arm SPE ({unit}) is there and cannot be used");
            Finding::limited(
                subject,
                found,
                "planish record --branches=hardware -- true, which says why",
            )
        });
    }
    HardwareBranches { findings, usable }
}

/// What the CPU says it has, whatever the kernel lets through.
fn cpu_branch_stacks() -> String {
    let kernel_says = ["cpu", "cpu_core", "armv8_pmuv3_0"]
        .iter()
        .find_map(|pmu| read_number(&format!("{EVENT_SOURCES}/{pmu}/caps/branches")));
    let depth = kernel_says.map_or(String::new(), |depth| format!(", {depth} deep"));
    if cfg!(target_arch = "aarch64") {
        return if kernel_says.is_some() {
            format!("Arm BRBE{depth}")
        } else {
            "no Arm BRBE".into()
        };
    }
    describe_x86(
        sys::cpuid(7, 0),
        sys::cpuid(0x1c, 0),
        sys::cpuid(0x8000_0008, 0),
        sys::cpuid(0x8000_0022, 0),
    )
    .map_or_else(
        || match kernel_says {
            Some(_) => format!("Intel LBR{depth}"),
            // Older Intel LBR has no CPUID bit; there only the kernel can tell.
            None => "no branch stack named by CPUID".into(),
        },
        |name| format!("{name}{depth}"),
    )
}

/// Reads the CPUID bits: Intel SDM volume 2 (leaf 7 EDX bit 19, leaf 1CH EAX), AMD APM volume 3
/// (Fn8000_0008 EBX bit 31: BRS; Fn8000_0022 EAX bit 1: LBRv2, EBX bits 9:4: its depth).
fn describe_x86(
    features: Option<sys::Cpuid>,
    arch_lbr: Option<sys::Cpuid>,
    amd_size: Option<sys::Cpuid>,
    amd_pmu: Option<sys::Cpuid>,
) -> Option<String> {
    // Intel answers an unknown extended leaf with another leaf's data, so its own bits are asked
    // first.
    if features.is_some_and(|leaf| leaf.edx >> 19 & 1 == 1) {
        let depth = arch_lbr
            .map_or(0, |leaf| (leaf.eax & 0xff).checked_ilog2().map_or(0, |bit| (bit + 1) * 8));
        return Some(format!("Intel architectural LBR (CPUID leaf 0x1c: up to {depth})"));
    }
    if let Some(leaf) = amd_pmu.filter(|leaf| leaf.eax >> 1 & 1 == 1) {
        return Some(format!("AMD LBRv2 (CPUID leaf 0x80000022: {})", leaf.ebx >> 4 & 0x3f));
    }
    amd_size.filter(|leaf| leaf.ebx >> 31 == 1).map(|_| "AMD BRS (CPUID leaf 0x80000008)".into())
}

/// Bits of CapEff that matter for recording (include/uapi/linux/capability.h).
const CAPABILITIES: [(u32, &str); 4] =
    [(38, "CAP_PERFMON"), (21, "CAP_SYS_ADMIN"), (19, "CAP_SYS_PTRACE"), (14, "CAP_IPC_LOCK")];

fn effective_capabilities() -> Vec<&'static str> {
    let status = read("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    CAPABILITIES.iter().filter(|(bit, _)| mask >> bit & 1 == 1).map(|(_, name)| *name).collect()
}

fn paranoid() -> Finding {
    let subject = "permission to record";
    let held = effective_capabilities();
    let privileged = held.iter().any(|name| matches!(*name, "CAP_PERFMON" | "CAP_SYS_ADMIN"));
    let list = if held.is_empty() { "no capabilities".to_owned() } else { held.join(", ") };
    let Some(level) = read_number("/proc/sys/kernel/perf_event_paranoid") else {
        return Finding::limited(
            subject,
            "no perf_event_paranoid: no perf events",
            "a kernel with CONFIG_PERF_EVENTS",
        );
    };
    let found = format!("perf_event_paranoid = {level}, {list}");
    match level {
        _ if privileged => {
            Finding::good(subject, format!("{found}: everything, -a and the kernel included"))
        }
        i64::MIN..=0 => {
            Finding::good(subject, format!("{found}: own processes, whole system and kernel"))
        }
        1 => Finding::limited(
            subject,
            format!("{found}: own processes with their kernel part"),
            "0, or CAP_PERFMON, for -a",
        ),
        2 => Finding::limited(
            subject,
            format!("{found}: user mode of own processes"),
            "sysctl kernel.perf_event_paranoid=1 for the kernel part, 0 or CAP_PERFMON for -a",
        ),
        _ => Finding::limited(
            subject,
            format!("{found}: recording is closed to ordinary users"),
            "sysctl kernel.perf_event_paranoid=2; --branches=emulated works without any permission",
        ),
    }
}

fn kernel_addresses() -> Finding {
    let subject = "kernel addresses";
    let level = read_number("/proc/sys/kernel/kptr_restrict").unwrap_or(0);
    let visible = fs::read_to_string("/proc/kallsyms").is_ok_and(|text| {
        text.lines()
            .take(64)
            .filter_map(|line| line.split(' ').next())
            .any(|word| word.chars().any(|c| c != '0'))
    });
    if visible {
        return Finding::good(
            subject,
            format!("kptr_restrict = {level}, /proc/kallsyms shows them"),
        );
    }
    Finding::limited(
        subject,
        format!("kptr_restrict = {level}, hidden from this user"),
        "only for kernel profiles: sysctl kernel.kptr_restrict=0, or record as root",
    )
}

fn ring_memory() -> Finding {
    let subject = "memory for event rings";
    let Some(kib) = read_number("/proc/sys/kernel/perf_event_mlock_kb") else {
        return Finding::limited(
            subject,
            "no perf_event_mlock_kb",
            "a kernel with CONFIG_PERF_EVENTS",
        );
    };
    let limits = read("/proc/self/limits").unwrap_or_default();
    let locked =
        limits.lines().find_map(|line| line.strip_prefix("Max locked memory")).unwrap_or("");
    let locked = locked.split_whitespace().next().unwrap_or("unknown");
    let free = effective_capabilities().contains(&"CAP_IPC_LOCK");
    let found = format!("perf_event_mlock_kb = {kib} per CPU, locked memory limit {locked} bytes");
    if free {
        return Finding::good(subject, format!("{found}; CAP_IPC_LOCK lifts both"));
    }
    // One page of the default is the ring's header; 512 KiB of data is what perf itself uses.
    if kib >= 516 {
        return Finding::good(subject, found);
    }
    Finding::limited(
        subject,
        found,
        "sysctl kernel.perf_event_mlock_kb=516 or more; small rings lose samples",
    )
}

/// The chosen word of a file such as `always [madvise] never`.
fn chosen(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
}

fn superpages() -> Finding {
    let subject = "transparent superpages";
    let folder = "/sys/kernel/mm/transparent_hugepage";
    let Some(enabled) = read(&format!("{folder}/enabled")) else {
        return Finding::limited(
            subject,
            "this kernel has none",
            "a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
        );
    };
    let mode = chosen(&enabled).unwrap_or("unknown").to_owned();
    let shmem = read(&format!("{folder}/shmem_enabled"));
    let shmem = shmem.as_deref().and_then(chosen).unwrap_or("unknown");
    let found = format!("enabled = {mode}, shmem = {shmem}");
    if mode == "never" {
        let next = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (only for text on \
                    superpages)";
        return Finding::limited(subject, found, next);
    }
    Finding::good(subject, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers(eax: u32, ebx: u32, edx: u32) -> Option<sys::Cpuid> {
        Some(sys::Cpuid { eax, ebx, edx })
    }

    #[test]
    fn cpuid_bits_name_the_branch_stack() {
        let named =
            |features, lbr, size, pmu| describe_x86(features, lbr, size, pmu).unwrap_or_default();
        assert!(
            named(registers(0, 0, 1 << 19), registers(0b1111, 0, 0), None, None)
                .contains("up to 32")
        );
        assert!(
            named(registers(0, 0, 0), None, None, registers(2, 16 << 4, 0))
                .contains("LBRv2 (CPUID leaf 0x80000022: 16)")
        );
        assert!(named(None, None, registers(0, 1 << 31, 0), None).contains("BRS"));
        assert_eq!(
            describe_x86(registers(0, 0, 0), None, registers(0, 0, 0), registers(0, 0, 0)),
            None
        );
    }

    #[test]
    fn the_chosen_word_stands_in_brackets() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("always madvise"), None);
        assert_eq!(chosen(""), None);
    }

    #[test]
    fn a_refusal_names_the_setting_that_would_help() {
        let refused = io::Error::from_raw_os_error(libc::EACCES);
        assert!(explain(&refused, Probe::Cycles).1.contains("perf_event_paranoid"));
        let absent = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        assert!(explain(&absent, Probe::BranchStack).1.contains("--branches=emulated"));
        assert!(explain(&absent, Probe::Cycles).1.contains("virtual PMU"));
    }
}
