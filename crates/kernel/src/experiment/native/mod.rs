//! How is kernel code timed where no machine can boot a stock kernel? As a process of the host: the architecture `um` runs
//! the same C code of net, VFS, mm and lib at the CPU's own speed.
//!
//! The workload is part of the kernel: threads of the kernel that call what system calls call. As programs in the guest,
//! system calls would be traced by the host (15 µs each), and most of the time its. [`tree::of`] gives a tree for that
//! beside the user's, [`refused`] says which questions such a kernel cannot answer.

pub(super) mod tree;

use super::variant::KernelVariant;
use crate::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The configuration of such a kernel, for `make ARCH=um KCONFIG_ALLCONFIG=… allnoconfig`.
pub const CONFIG: &str = include_str!("../../../../../kernel/native/native.config");

/// The compiler's flags of all such kernels: without modules the small code model holds, and `um` would take the large one,
/// which calls indirectly; functions are placed one by one.
pub const FLAGS: &str = "-mcmodel=small -ffunction-sections";
/// Flags of the linker: RELRO would split the segment that the linker script makes; recordings name a build by its ID.
const LINK_FLAGS: &str = "-Wl,-z,norelro -Wl,--build-id";

/// Options that change nothing in a kernel that is a process, or something else than in a kernel: beginnings of names,
/// and why.
const OPTIONS: [(&str, &str); 16] = [
    ("SMP", ONE_CPU),
    ("NR_CPUS", ONE_CPU),
    ("NUMA", ONE_CPU),
    ("PREEMPT_RCU", ONE_CPU),
    ("MITIGATION_", ENTRY),
    ("CPU_MITIGATIONS", ENTRY),
    ("SPECULATION_MITIGATIONS", ENTRY),
    ("RETPOLINE", ENTRY),
    ("RETHUNK", ENTRY),
    ("CPU_UNRET_ENTRY", ENTRY),
    ("PAGE_TABLE_ISOLATION", ENTRY),
    ("SLS", ENTRY),
    ("X86_KERNEL_IBT", ENTRY),
    ("JUMP_LABEL", "static keys are never patched in such a kernel"),
    ("TRANSPARENT_HUGEPAGE", FAULTS),
    ("RANDOMIZE_", "its text is where the linker put it"),
];
const ONE_CPU: &str = "it has one CPU, and takes no locks";
const ENTRY: &str = "it has no system call entry, no mitigations and no entry tracking";
const FAULTS: &str = "its pages are the host's, and its page faults too";
/// Flags of the compiler that harden entries and returns.
const HARDENING: [&str; 6] = [
    "-mretpoline",
    "-mindirect-branch",
    "-mfunction-return",
    "-mharden-sls",
    "-fcf-protection",
    "-mcmodel",
];

/// Why the times of such kernels say nothing of what a variant changes; none where they do.
pub fn refused(variant: &KernelVariant) -> Option<String> {
    let option = variant.options.iter().find_map(|line| {
        let name = line.trim_start_matches("CONFIG_").split('=').next().unwrap_or_default();
        let own = OPTIONS.iter().find(|(start, _)| match start.strip_suffix('_') {
            Some(_) => name.starts_with(start),
            None => name == *start,
        });
        own.map(|(_, why)| (name, *why))
    });
    let flag = variant.make.iter().find_map(|word| {
        let (_, value) = word.split_once('=')?;
        value.split_whitespace().find(|flag| HARDENING.iter().any(|start| flag.starts_with(start)))
    });
    let (what, why) = match (option, flag) {
        (Some((name, why)), _) => (format!("CONFIG_{name}"), why),
        (_, Some(flag)) => (flag.to_owned(), ENTRY),
        _ => return None,
    };
    Some(format!(
        "variant {}: {what}: times of a kernel that is a process (--native) cannot say what that costs: {why}; leave \
         --native out, and counts are compared, or time the kernels with KVM (planish kernel time)",
        variant.name
    ))
}

/// What makes the compiler link with the linker `ld.lld` in a directory.
pub(crate) fn link_words(linker: &Path) -> String {
    format!("PLANISH_LINK=-fuse-ld=lld -B{} {LINK_FLAGS}", linker.display())
}

/// How a kept kernel is called, after the number of its order.
pub(super) const ENDING: &str = "linux";

/// The kernel that a path names: a file, or the directory of a build, whose kernel as it was built is meant.
///
/// # Errors
/// Where there is none.
pub fn kernel_of(path: &Path) -> Result<PathBuf, Error> {
    if !path.is_dir() {
        // A name without a directory would be looked for in PATH.
        return path.canonicalize().map_err(Error::io(path));
    }
    let kernel = path.join(crate::make::DIRECTORY).join(format!("0.{ENDING}"));
    if kernel.is_file() {
        return Ok(kernel);
    }
    Err(Error::Wanted(format!(
        "{}: no kernel that is a process was built there (planish/0.{ENDING} is missing); `planish kernel compare --native \
         --output-dir DIR` builds variants in DIR/native/NAME",
        path.display()
    )))
}

/// What boots such a kernel: its memory, no time for calibration, nothing on the console but the workload, which gets
/// `sections` and `rounds` (a percentage). `directory` takes what the kernel writes beside (its number).
pub fn argv(kernel: &Path, sections: &str, rounds: u32, directory: &Path) -> Vec<OsString> {
    let words = [
        "mem=256M".to_owned(),
        // Loops of a microsecond; only waiting for devices counts them.
        "lpj=10000000".to_owned(),
        "quiet".to_owned(),
        "panic=-1".to_owned(),
        format!("uml_dir={}/", directory.display()),
        format!("PLANISH_SECTIONS={sections}"),
        format!("PLANISH_ROUNDS={rounds}"),
    ];
    std::iter::once(kernel.as_os_str().to_owned()).chain(words.map(OsString::from)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    #[test]
    fn what_such_a_kernel_does_not_have_is_refused() {
        let variant = |word: &str| KernelVariant::of("new", &[word.to_owned()]).unwrap();
        for (word, why) in [
            ("CONFIG_SMP=y", "one CPU"),
            ("CONFIG_MITIGATION_RETPOLINE=n", "no system call entry"),
            ("KCFLAGS=-O3 -mretpoline-external-thunk", "-mretpoline-external-thunk: "),
            ("CONFIG_TRANSPARENT_HUGEPAGE=y", "page faults"),
        ] {
            let said = refused(&variant(word)).unwrap();
            assert!(said.contains(why) && said.contains("variant new: "), "{said}");
        }
        for word in ["CONFIG_SLUB_TINY=y", "KCFLAGS=-falign-functions=32", "CONFIG_SMPX=y"] {
            assert_eq!(refused(&variant(word)), None);
        }
    }
}
