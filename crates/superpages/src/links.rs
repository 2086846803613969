//! Which flags make a linker lay text out for superpages in the first place?

use crate::elf::Arch;

/// Flags for one linker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The linker.
    pub linker: &'static str,
    /// Flags for the compiler that calls it.
    pub flags: String,
    /// What they cost and give.
    pub effect: &'static str,
}

/// The flags for lld, GNU ld and mold; `base_page` in bytes decides the superpage on AArch64.
pub fn link_flags(arch: Arch, base_page: u64) -> Vec<Advice> {
    let superpage = match (arch, base_page) {
        (Arch::Aarch64 | Arch::Arm, 0x4000) => "0x2000000",
        // 64 KiB base pages: 512 MiB is out of reach; 2 MiB is the contiguous size.
        _ => "0x200000",
    };
    let advice = |linker, flags: &str, effect| Advice {
        linker,
        flags: flags.replace("SIZE", superpage),
        effect,
    };
    vec![
        advice(
            "lld",
            "-fuse-ld=lld -Wl,-z,max-page-size=SIZE",
            "no larger file; offsets agree with addresses, head and tail of the text are lost",
        ),
        advice(
            "lld, text on superpages of its own",
            "-fuse-ld=lld -Wl,-z,max-page-size=SIZE -Wl,-z,separate-loadable-segments",
            "up to 8 MiB larger; planish pages align --fill then takes the tail in too",
        ),
        advice(
            "GNU ld",
            "-fuse-ld=bfd -Wl,-z,max-page-size=SIZE -Wl,-z,separate-code",
            "up to 6 MiB larger (holes, where the file system has them); the tail is lost unless \
             filled",
        ),
        advice(
            "mold",
            "-fuse-ld=mold -Wl,-z,max-page-size=SIZE",
            "offsets agree with addresses; add -Wl,-z,separate-loadable-segments for superpages \
             of its own",
        ),
    ]
}
