//! With which command did a kernel build make an object?
//!
//! kbuild keeps the command of each target beside it, in `.NAME.cmd`, to see when it changes. The
//! first line reads `cmd_PATH := COMMAND`, since Linux 6.5 `savedcmd_PATH := COMMAND`; what follows
//! are dependencies.

use crate::architecture::Architecture;

/// How an object was compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compilation {
    /// The object, as seen from the top of the build.
    pub object: String,
    /// The words of the command.
    pub words: Vec<String>,
}

/// For which part of a kernel an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// vmlinux.
    Kernel,
    /// A module.
    Module,
    /// The vDSO, which runs in user programs.
    Vdso,
    /// The boot loader's part.
    Boot,
    /// Real mode code.
    RealMode,
    /// What checks and starts a kexec kernel.
    Purgatory,
    /// The EFI stub.
    EfiStub,
    /// What runs before arm64's kernel is where it was linked (`pi`).
    EarlyCode,
    /// What arm64's KVM runs at the hypervisor's level, apart from the kernel (`nvhe`).
    Hypervisor,
}

impl Area {
    /// All of them.
    pub const ALL: [Area; 9] = [
        Area::Kernel,
        Area::Module,
        Area::Vdso,
        Area::Boot,
        Area::RealMode,
        Area::Purgatory,
        Area::EfiStub,
        Area::EarlyCode,
        Area::Hypervisor,
    ];

    /// Whether flags for profiles belong there.
    pub fn is_profiled(self) -> bool {
        matches!(self, Area::Kernel | Area::Module)
    }

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Area::Kernel => "vmlinux",
            Area::Module => "modules",
            Area::Vdso => "vdso",
            Area::Boot => "boot",
            Area::RealMode => "realmode",
            Area::Purgatory => "purgatory",
            Area::EfiStub => "libstub",
            Area::EarlyCode => "pi",
            Area::Hypervisor => "nvhe",
        }
    }
}

/// Starts of flags that only AutoFDO's option brings.
const AUTOFDO_FLAGS: &[&str] = &["-fdebug-info-for-profiling", "-fprofile-sample-use="];
/// Starts of flags that only Propeller's option brings.
const PROPELLER_FLAGS: &[&str] = &["-fbasic-block-address-map", "-fbasic-block-sections="];
/// Starts of flags that either brings.
const BOTH_FLAGS: &[&str] = &[
    "-enable-fs-discriminator",
    "-improved-fs-discriminator",
    "-gmlt",
    "-ffunction-sections",
    "-fsplit-machine-functions",
    "-fno-split-machine-functions",
    "-funique-basic-block-section-names",
];

fn starts_with_any(word: &str, starts: &[&str]) -> bool {
    starts.iter().any(|start| word.starts_with(start))
}

impl Compilation {
    /// Reads a `.cmd` file; `None` where it is not about a C file of the kernel that was compiled
    /// to an object.
    pub fn parse(cmd: &str) -> Option<Compilation> {
        let first = cmd.lines().next()?;
        let (target, command) = first.split_once(" := ")?;
        let object = target.strip_prefix("savedcmd_").or_else(|| target.strip_prefix("cmd_"))?;
        // What follows a semicolon works on the finished object.
        let compile = command.split(" ; ").next()?;
        let words: Vec<String> = compile.split_ascii_whitespace().map(str::to_owned).collect();
        let compiles = words.iter().any(|word| word == "-c") && words.last()?.ends_with(".c");
        let kernel = words.iter().any(|word| word.starts_with("-D__KERNEL__"));
        (object.ends_with(".o") && compiles && kernel)
            .then(|| Compilation { object: object.to_owned(), words })
    }

    fn has(&self, flag: &str) -> bool {
        self.words.iter().any(|word| word == flag)
    }

    /// For which part of the kernel it is.
    pub fn area(&self) -> Area {
        let mut areas = Architecture::ALL.iter().flat_map(|architecture| architecture.areas());
        let of_directory = areas.find(|(directory, _)| self.object.starts_with(directory));
        // The directories of x86's vDSO and of the purgatory hold objects of vmlinux as well.
        match of_directory {
            _ if self.has("-DBUILD_VDSO") || self.has("-DBUILD_VDSO32") => Area::Vdso,
            Some((_, area)) => *area,
            None if self.object.starts_with("drivers/firmware/efi/libstub/") => Area::EfiStub,
            None if self.has("-DMODULE") => Area::Module,
            None => Area::Kernel,
        }
    }

    /// Whether AutoFDO's flags are there.
    pub fn has_autofdo(&self) -> bool {
        self.words.iter().any(|word| starts_with_any(word, AUTOFDO_FLAGS))
    }

    /// Whether Propeller's flags are there.
    pub fn has_propeller(&self) -> bool {
        self.words.iter().any(|word| starts_with_any(word, PROPELLER_FLAGS))
    }

    /// Whether it was compiled in a layout; the compiler writes no map of its blocks then.
    pub fn has_layout(&self) -> bool {
        self.words.iter().any(|word| word.starts_with("-fbasic-block-sections=list="))
    }

    /// The flags that the options bring, in the order of the command.
    pub fn flags(&self) -> Vec<&str> {
        let ours = |word: &&str| {
            [AUTOFDO_FLAGS, PROPELLER_FLAGS, BOTH_FLAGS]
                .iter()
                .any(|starts| starts_with_any(word, starts))
        };
        self.words.iter().map(String::as_str).filter(ours).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    fn parse(target: &str, flags: &str) -> Option<Compilation> {
        let source = format!("{}c", target.trim_end_matches('o'));
        Compilation::parse(&format!(
            "{target} := clang-22 -D__KERNEL__ {flags} -c -o x.o {source} ; objtool --orc \
             x.o\n\nsource_x\n"
        ))
    }

    #[test]
    fn commands_of_old_and_new_kernels_are_read() {
        for prefix in ["cmd_", "savedcmd_"] {
            let found =
                parse(&format!("{prefix}kernel/fork.o"), "-fbasic-block-address-map -O2 -gmlt")
                    .unwrap();
            assert_eq!((found.object.as_str(), found.area()), ("kernel/fork.o", Area::Kernel));
            assert!(found.has_propeller() && !found.has_autofdo() && !found.has_layout());
            assert_eq!(found.flags(), ["-fbasic-block-address-map", "-gmlt"]);
            let laid_out =
                parse(&format!("{prefix}a.o"), "-fbasic-block-sections=list=l.txt").unwrap();
            assert!(laid_out.has_layout() && laid_out.has_propeller());
        }
    }

    #[test]
    fn what_is_no_compilation_of_the_kernel_is_left_out() {
        assert_eq!(
            Compilation::parse("cmd_vmlinux.a := rm -f vmlinux.a; ar cDPrST vmlinux.a x.o\n"),
            None
        );
        assert_eq!(
            Compilation::parse(
                "cmd_scripts/mod/modpost.o := clang-22 -O2 -c -o x.o scripts/mod/modpost.c\n"
            ),
            None
        );
        assert_eq!(Compilation::parse(""), None);
        assert_eq!(Compilation::parse("savedcmd_"), None);
    }

    #[test]
    fn the_vdso_is_told_by_its_definition_and_not_by_its_directory() {
        let area = |target, flags| parse(target, flags).unwrap().area();
        assert_eq!(area("cmd_arch/x86/entry/vdso/vma.o", ""), Area::Kernel);
        assert_eq!(area("cmd_arch/x86/entry/vdso/vclock_gettime.o", "-DBUILD_VDSO"), Area::Vdso);
        assert_eq!(area("cmd_arch/x86/boot/compressed/misc.o", ""), Area::Boot);
        assert_eq!(area("cmd_drivers/firmware/efi/libstub/file.o", ""), Area::EfiStub);
        assert_eq!(area("cmd_fs/ext4/inode.o", "-DMODULE"), Area::Module);
        assert_eq!(area("cmd_arch/arm64/kernel/vdso.o", ""), Area::Kernel);
        assert_eq!(area("cmd_arch/arm64/kernel/vdso/vgettimeofday.o", ""), Area::Vdso);
        assert_eq!(area("cmd_arch/arm64/kernel/pi/lib-fdt.o", ""), Area::EarlyCode);
        assert_eq!(area("cmd_arch/arm64/kvm/hyp/nvhe/switch.nvhe.o", ""), Area::Hypervisor);
        assert_eq!(area("cmd_arch/arm64/kvm/hyp/vhe/switch.o", ""), Area::Kernel);
    }
}
