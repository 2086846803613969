//! For which processor is a kernel? All that differs between x86-64 and arm64 stands here.
//!
//! A build says it in its `.config`, a boot image in its header; where nothing is built yet, the
//! user says it.

use crate::command::Area;
use crate::config::Config;
use record::machine::Board;

/// A processor that kernels are built for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Architecture {
    /// PCs of 64 bit.
    #[default]
    X86_64,
    /// Arm of 64 bit.
    Arm64,
}

/// Whose compilers a processor needs where it is another one than the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compiler {
    /// The program.
    pub name: &'static str,
    /// Flags that make it one for this processor.
    pub flags: &'static [&'static str],
}

const fn compiler(name: &'static str, flags: &'static [&'static str]) -> Compiler {
    Compiler { name, flags }
}

/// How clang is made a compiler for another processor; GNU ld knows one processor alone.
const FOR_X86_64: &[&str] = &["--target=x86_64-linux-gnu", "-fuse-ld=lld"];
const FOR_ARM64: &[&str] = &["--target=aarch64-linux-gnu", "-fuse-ld=lld"];

/// Compilers of the host's own processor.
const OWN: &[Compiler] = &[compiler("clang-22", &[]), compiler("clang", &[]), compiler("cc", &[])];
/// Compilers for another one.
const CROSS_X86_64: &[Compiler] = &[
    compiler("clang-22", FOR_X86_64),
    compiler("clang", FOR_X86_64),
    compiler("x86_64-linux-gnu-gcc", &[]),
];
const CROSS_ARM64: &[Compiler] = &[
    compiler("clang-22", FOR_ARM64),
    compiler("clang", FOR_ARM64),
    compiler("aarch64-linux-gnu-gcc", &[]),
];

impl Architecture {
    /// All of them, the usual one first.
    pub const ALL: [Architecture; 2] = [Architecture::X86_64, Architecture::Arm64];
    /// Bytes of a boot image that tell for which processor it is.
    pub const HEADER: usize = 0x206;

    /// Its name in messages and options.
    pub fn name(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x86-64",
            Architecture::Arm64 => "arm64",
        }
    }

    /// make's `ARCH=`.
    pub fn make_word(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x86_64",
            Architecture::Arm64 => "arm64",
        }
    }

    /// The option that a configuration for it has, without `CONFIG_`.
    pub fn option(self) -> &'static str {
        match self {
            Architecture::X86_64 => "X86_64",
            Architecture::Arm64 => "ARM64",
        }
    }

    /// The one that a configuration is for; none where it is for another processor.
    pub fn of_config(config: &Config) -> Option<Architecture> {
        Architecture::ALL.into_iter().find(|architecture| config.is_on(architecture.option()))
    }

    /// The boot image in a build.
    pub fn image(self) -> &'static str {
        match self {
            Architecture::X86_64 => "arch/x86/boot/bzImage",
            Architecture::Arm64 => "arch/arm64/boot/Image",
        }
    }

    /// make's target for the boot image, which is its file's name too.
    pub fn image_target(self) -> &'static str {
        match self {
            Architecture::X86_64 => "bzImage",
            Architecture::Arm64 => "Image",
        }
    }

    /// What make makes where nothing else is asked for.
    pub fn targets(self) -> &'static [&'static str] {
        match self {
            Architecture::X86_64 => &["bzImage", "vmlinux"],
            Architecture::Arm64 => &["Image", "vmlinux"],
        }
    }

    /// Where the magic number of the boot image stands, and what it is
    /// (Documentation/arch/x86/boot.rst and Documentation/arch/arm64/booting.rst).
    pub fn magic(self) -> (usize, &'static [u8; 4]) {
        match self {
            Architecture::X86_64 => (0x202, b"HdrS"),
            Architecture::Arm64 => (0x38, b"ARM\x64"),
        }
    }

    /// The one that a boot image is for, by its first [`Architecture::HEADER`] bytes; none where it
    /// is no boot image.
    pub fn of_image(start: &[u8]) -> Option<Architecture> {
        Architecture::ALL.into_iter().find(|architecture| {
            let (at, magic) = architecture.magic();
            start.get(at..).is_some_and(|rest| rest.starts_with(magic))
        })
    }

    /// The machine that qemu emulates for it.
    pub fn board(self) -> Board {
        match self {
            Architecture::X86_64 => Board::Pc,
            Architecture::Arm64 => Board::ArmVirt,
        }
    }

    /// The directory of its sources in a tree.
    pub fn directory(self) -> &'static str {
        match self {
            Architecture::X86_64 => "arch/x86/",
            Architecture::Arm64 => "arch/arm64/",
        }
    }

    /// Begins of objects' names in parts of the tree that are no code of the running kernel.
    pub fn areas(self) -> &'static [(&'static str, Area)] {
        match self {
            Architecture::X86_64 => &[
                ("arch/x86/boot/", Area::Boot),
                ("arch/x86/realmode/rm/", Area::RealMode),
                ("arch/x86/purgatory/", Area::Purgatory),
            ],
            Architecture::Arm64 => &[
                ("arch/arm64/kernel/pi/", Area::EarlyCode),
                ("arch/arm64/kernel/vdso/", Area::Vdso),
                ("arch/arm64/kernel/vdso32/", Area::Vdso),
                ("arch/arm64/kvm/hyp/nvhe/", Area::Hypervisor),
            ],
        }
    }

    /// Objects that are shown as an example of their area where they are there.
    pub fn examples(self) -> &'static [&'static str] {
        match self {
            Architecture::X86_64 => &[
                "kernel/sched/core.o",
                "arch/x86/entry/vdso/vclock_gettime.o",
                "arch/x86/boot/compressed/string.o",
            ],
            Architecture::Arm64 => &[
                "kernel/sched/core.o",
                "arch/arm64/kernel/vdso/vgettimeofday.o",
                "arch/arm64/kernel/pi/kaslr_early.o",
            ],
        }
    }

    /// The directory of libraries in Debian's packages, and the processor's name there.
    pub fn triple(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x86_64-linux-gnu",
            Architecture::Arm64 => "aarch64-linux-gnu",
        }
    }

    /// The one of this host, if it is one of these.
    pub fn of_host() -> Option<Architecture> {
        Architecture::ALL
            .into_iter()
            .find(|architecture| architecture.board().processor() == std::env::consts::ARCH)
    }

    /// Compilers of programs for it that are tried, in this order.
    pub fn compilers(self) -> &'static [Compiler] {
        match self {
            _ if Architecture::of_host() == Some(self) => OWN,
            Architecture::X86_64 => CROSS_X86_64,
            Architecture::Arm64 => CROSS_ARM64,
        }
    }

    /// Where a compiler finds the static C library, as packages of distributions.
    pub fn c_library(self) -> &'static str {
        match self {
            _ if Architecture::of_host() == Some(self) => {
                "Debian and Ubuntu: libc6-dev, Fedora: glibc-static"
            }
            Architecture::X86_64 => {
                "for x86-64 on another machine, Debian: libc6-dev-amd64-cross and \
                 gcc-x86-64-linux-gnu"
            }
            Architecture::Arm64 => {
                "for arm64 on another machine, Debian: libc6-dev-arm64-cross and \
                 gcc-aarch64-linux-gnu"
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;
    use crate::config::parse;

    #[test]
    fn a_configuration_tells_its_processor() {
        let of = |text: &str| Architecture::of_config(&parse(text).unwrap());
        assert_eq!(of("CONFIG_X86_64=y\n"), Some(Architecture::X86_64));
        assert_eq!(of("CONFIG_ARM64=y\nCONFIG_64BIT=y\n"), Some(Architecture::Arm64));
        assert_eq!(of("# CONFIG_ARM64 is not set\nCONFIG_RISCV=y\n"), None);
    }

    #[test]
    fn a_boot_image_tells_its_processor_and_a_short_file_none() {
        let image = |architecture: Architecture| {
            let (at, magic) = architecture.magic();
            let mut bytes = vec![0; at];
            bytes.extend(magic);
            bytes.resize(Architecture::HEADER, 0);
            bytes
        };
        for architecture in Architecture::ALL {
            assert_eq!(Architecture::of_image(&image(architecture)), Some(architecture));
        }
        assert_eq!(Architecture::of_image(&image(Architecture::Arm64)[..0x3b]), None);
        assert_eq!([Architecture::of_image(&[]), Architecture::of_image(b"\x7fELF")], [None; 2]);
    }
}
