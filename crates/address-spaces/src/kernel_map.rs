//! What a mapping of the kernel's side is, and which addresses are its own.
//!
//! perf's map of the kernel itself has the run-time address of `_text` (or `_stext`) as its file
//! offset. Newer recordings begin the map there too; older ones begin it at 0 and let it reach over
//! everything, and those of machines that hide the kernel's addresses (`kernel.kptr_restrict`) have
//! 0 for both. Source: `perf_event__synthesize_kernel_mmap` and
//! `machine__process_kernel_mmap_event`
//! (<https://github.com/torvalds/linux/blob/master/tools/perf/util/machine.c>).

/// What a name of the kernel's side stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelPart {
    /// The kernel itself, under perf's name or the path of its vmlinux.
    Core {
        /// Of a virtual machine.
        guest: bool,
    },
    /// A module.
    Module,
}

impl KernelPart {
    /// The part that `path` names, given that the kernel's side maps or lists it.
    pub fn of(path: &str) -> KernelPart {
        let guest = path.starts_with("[guest.kernel");
        let module = path.starts_with('[') || ends_as_module(base_name(path));
        if guest || path.starts_with("[kernel") || !module {
            KernelPart::Core { guest }
        } else {
            KernelPart::Module
        }
    }
}

/// The last component of a path.
fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// What a module is called whose mapping or file has this path: `[snd_hda]`, `/lib/…/snd-hda.ko.xz` and
/// `snd-hda.ko` are one.
pub fn module_name(path: &str) -> String {
    let name = base_name(path).trim_start_matches('[').trim_end_matches(']');
    name.split(".ko").next().unwrap_or(name).replace('-', "_")
}

fn ends_as_module(name: &str) -> bool {
    name.rsplit_once(".ko")
        .is_some_and(|(_, packed)| matches!(packed, "" | ".gz" | ".xz" | ".zst" | ".bz2"))
}

/// Whether a file of this name is taken for a kernel's image.
pub fn is_vmlinux(path: &str) -> bool {
    base_name(path).starts_with("vmlinux")
}

/// Addresses from here on are the kernel's, on every machine with 64-bit addresses that is read
/// here.
const UPPER_HALF: u64 = 1 << 63;

/// The addresses of a mapping of the kernel's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// First address; of the kernel itself, where its reference symbol lay.
    pub start: u64,
    pub len: u64,
    /// Whether the recording says where the kernel lay.
    pub placed: bool,
}

/// The addresses that belong to a mapping, of the recorded ones.
///
/// The kernel's own map begins where its reference symbol lay: what is before, in recordings whose
/// map begins at 0, are the addresses of programs. It reaches to the end of the kernel's own
/// gigabyte (`Documentation/arch/x86/x86_64/mm.rst`): perf ends it at `_etext` or `_edata`, and
/// what runs during boot lies behind. Modules come later in the recording and replace their part,
/// and an address where vmlinux has no code is told apart later.
pub(crate) fn extent(path: &str, start: u64, len: u64, pgoff: u64) -> Extent {
    if KernelPart::of(path) == KernelPart::Module {
        return Extent { start, len, placed: true };
    }
    let end = start.saturating_add(len);
    let placed = (start, pgoff) != (0, 0);
    let begin = match placed {
        true if start < pgoff && pgoff < end => pgoff,
        true => start,
        // Which address is whose is not known, but none of them is a program's.
        false => UPPER_HALF,
    };
    let reach = if begin >= UPPER_HALF { begin | 0x3fff_ffff } else { begin };
    let end = if placed { end.max(reach) } else { u64::MAX };
    Extent { start: begin, len: end.saturating_sub(begin), placed }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: u64 = 0xffff_ffff_9e80_0000;

    #[test]
    fn the_kernels_own_map_reaches_to_where_modules_begin() {
        let kernel = extent("[kernel.kallsyms]_text", TEXT, 0xe0_1ef2, TEXT);
        assert_eq!((kernel.start, kernel.start + kernel.len), (TEXT, 0xffff_ffff_bfff_ffff));
        assert_eq!(
            extent("[guest.kernel.kallsyms]_stext", TEXT, 1 << 40, TEXT).len,
            u64::MAX - TEXT
        );
        assert_eq!(extent("[snd_hda]", 0xffff_ffff_c000_0000, 0x4000, 0).len, 0x4000);
    }

    #[test]
    fn a_map_that_begins_at_0_holds_what_lies_behind_the_reference_symbol_only() {
        for len in [u64::MAX, 0xffff_ffff_9fff_ffff] {
            let kernel = extent("[kernel.kallsyms]_text", 0, len, TEXT);
            assert_eq!((kernel.start, kernel.placed), (TEXT, true));
            assert!(kernel.start + kernel.len >= 0xffff_ffff_9fff_ffff);
        }
        let hidden = extent("[kernel.kallsyms]_text", 0, 0x10_0000, 0);
        assert_eq!((hidden.start, hidden.placed), (UPPER_HALF, false));
    }

    #[test]
    fn the_kernel_and_its_modules_are_told_apart_by_name() {
        for (path, guest) in [
            ("[kernel.kallsyms]", false),
            ("[kernel.kallsyms]_text", false),
            ("[kernel.vmlinux]", false),
            ("/tmp/vmlinux", false),
            ("/usr/lib/debug/.build-id/aa/bb.debug", false),
            ("[guest.kernel.kallsyms]", true),
            ("[guest.kernel.kallsyms.77]_stext", true),
        ] {
            assert_eq!(KernelPart::of(path), KernelPart::Core { guest }, "{path}");
        }
        for path in ["[snd_hda]", "/lib/modules/6.1/snd-hda.ko.xz", "snd-hda.ko"] {
            assert_eq!(KernelPart::of(path), KernelPart::Module, "{path}");
            assert_eq!(module_name(path), "snd_hda");
        }
    }
}
