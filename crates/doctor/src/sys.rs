//! What does CPUID say?

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
