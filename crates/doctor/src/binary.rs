//! What is in a binary, and what is missing in it for a profile?
//!
//! Only headers, the first unit of the debug information, the first bytes of some functions and,
//! where it may be split, their debug information are read, so that a binary of gigabytes is
//! answered soon.

use std::path::{Path, PathBuf};

use image::debug::DebugInfo;
use image::{Arch, DebugSearch, Endian, Image, ImageKind};

use crate::Finding;

/// Section types of the block address map: LLVM before 16, and since (llvm/BinaryFormat/ELF.h).
const BB_ADDR_MAP_TYPES: [u32; 2] = [0x6fff_4c08, 0x6fff_4c0a];

/// Functions shorter than this often need no frame whatever the flags, so they say nothing.
const TELLING_FUNCTION_BYTES: u64 = 64;

/// Enough functions for a share of a few percent.
const FUNCTIONS_LOOKED_AT: usize = 400;

/// Looks at one file; a file that cannot be read is itself a finding.
pub fn examine(path: &Path) -> Vec<Finding> {
    let image = match Image::open(path) {
        Ok(image) => image,
        Err(error) => {
            let next = "give an ELF executable, shared library, kernel (vmlinux, not bzImage) or \
                        kernel module";
            return vec![Finding::missing("file", error.to_string(), next)];
        }
    };
    let debug = debug_info(&image);
    vec![
        file(&image),
        build_id(&image),
        debug,
        symbols(&image),
        block_map(&image),
        frame_pointers(&image),
        links(&image),
    ]
}

fn file(image: &Image) -> Finding {
    let arch = match image.arch() {
        Arch::X86_64 => "x86-64".to_owned(),
        Arch::Aarch64 => "AArch64".to_owned(),
        Arch::Other(machine) => format!("machine {machine}"),
    };
    let kind = match image.kind() {
        ImageKind::Executable => "executable at fixed addresses",
        ImageKind::PositionIndependent => "position-independent executable or shared library",
        ImageKind::Kernel => "kernel",
        ImageKind::KernelModule => "kernel module",
        ImageKind::Relocatable => "object file",
    };
    // A damaged file may state any sizes.
    let sizes = image.code_ranges().map(|range| range.end.0.saturating_sub(range.start.0));
    let code = sizes.fold(0, u64::saturating_add);
    let found = format!("{arch} {kind}, {} KiB of code", code / 1024);
    match (image.arch(), image.kind()) {
        (_, ImageKind::Relocatable) => {
            Finding::limited("file", found, "profiles speak about linked files: give the program")
        }
        (Arch::Other(_), _) => {
            Finding::missing("file", found, "planish decodes x86-64 and AArch64")
        }
        _ => Finding::good("file", found),
    }
}

fn build_id(image: &Image) -> Finding {
    match image.build_id() {
        Some(id) => Finding::good("build ID", id.to_string()),
        None => Finding::limited(
            "build ID",
            "none: recordings are matched by file name alone, and a rebuilt file is not noticed",
            "link with -Wl,--build-id",
        ),
    }
}

/// Names of a section that may also be compressed the old way (`.zdebug_…`).
fn has_section(image: &Image, name: &str) -> bool {
    let old = name.strip_prefix(".debug_").map(|rest| format!(".zdebug_{rest}"));
    image.sections().iter().filter(|section| !section.is_empty_in_file()).any(|section| {
        let found = image.section_name(section);
        found == name || old.as_deref() == Some(found)
    })
}

fn debug_info(image: &Image) -> Finding {
    let subject = "debug info";
    if has_section(image, ".debug_info") {
        return own_debug_info(image, None);
    }
    let separate =
        separate_debug_file(image).and_then(|path| Some((Image::open(&path).ok()?, path)));
    if let Some((debug, path)) = separate.filter(|(debug, _)| has_section(debug, ".debug_info")) {
        return own_debug_info(&debug, Some(&path));
    }
    let stripped =
        if image.has_only_dynamic_symbols() { "none, and the file is stripped" } else { "none" };
    let next = match image.kind() {
        ImageKind::Kernel | ImageKind::KernelModule => {
            "CONFIG_DEBUG_INFO_DWARF5=y, or install the kernel's debug package"
        }
        _ if image.has_code_of_rustc() => {
            "build with -Cdebuginfo=1 -Cstrip=none -Zdebug-info-for-profiling (in RUSTFLAGS, for a \
             stable rustc with RUSTC_BOOTSTRAP=1); or install the debug package"
        }
        _ => {
            "build with -gmlt -fdebug-info-for-profiling (clang) or -g1 (gcc); or install the \
             debug package"
        }
    };
    Finding::missing(subject, stripped, next)
}

/// The debug file by build ID or debug link, where the system keeps them.
fn separate_debug_file(image: &Image) -> Option<PathBuf> {
    let roots = DebugSearch::default().roots;
    let by_id =
        image.build_id().map(ToString::to_string).filter(|id| id.len() > 2).and_then(|id| {
            let (folder, rest) = id.split_at(2);
            roots
                .iter()
                .map(|root| root.join(".build-id").join(folder).join(format!("{rest}.debug")))
                .find(|path| path.is_file())
        });
    by_id.or_else(|| by_link(image, &roots))
}

fn by_link(image: &Image, roots: &[PathBuf]) -> Option<PathBuf> {
    let link = image.section(".gnu_debuglink")?;
    let name = link.split(|byte| *byte == 0).next()?;
    let name =
        std::str::from_utf8(name).ok().filter(|name| !name.is_empty() && !name.contains('/'))?;
    let path = image.path().canonicalize().ok()?;
    let folder = path.parent()?;
    let beside = [folder.join(name), folder.join(".debug").join(name)];
    let below =
        roots.iter().map(|root| root.join(folder.strip_prefix("/").unwrap_or(folder)).join(name));
    beside.into_iter().chain(below).find(|candidate| candidate.is_file() && *candidate != path)
}

/// Version, place and special forms of the debug information in `image`, a separate file when
/// `elsewhere` names it.
fn own_debug_info(image: &Image, elsewhere: Option<&Path>) -> Finding {
    let subject = "debug info";
    let version =
        image.section(".debug_info").and_then(|section| unit_version(&section, image.endian()));
    let version = version
        .map_or_else(|| "DWARF of unknown version".to_owned(), |number| format!("DWARF {number}"));
    let mut found = version;
    let mut note = |text: String| {
        found.push_str(", ");
        found.push_str(&text);
    };
    if has_section(image, ".gnu_debugaltlink") {
        note("partly in a shared file (dwz)".into());
    }
    if has_section(image, ".debug_cu_index")
        || has_section(image, ".debug_addr") && !has_section(image, ".debug_str")
    {
        note("split (.dwo or .dwp)".into());
    }
    if image.sections().iter().any(|section| section.flags & SHF_COMPRESSED != 0) {
        note("compressed".into());
    }
    note(elsewhere.map_or_else(|| "in the file".into(), |path| format!("in {}", path.display())));
    if !has_section(image, ".debug_line") {
        let next = match image.has_code_of_rustc() {
            true => "build with -Cdebuginfo=1 or more; planish needs the line table",
            false => "build with -gmlt or -g1 or more; planish needs the line table",
        };
        return Finding::missing(subject, format!("{found}, without line table"), next);
    }
    note("with line table".into());
    if let Some((problem, partly)) = units_elsewhere(image) {
        let next = "keep the .dwo files where the compiler wrote them, or pack them with dwp \
                    (llvm-dwp -e FILE -o FILE.dwp) before they go; else build again, without \
                    -gsplit-dwarf";
        let found = format!("{found}, {problem}");
        return if partly {
            Finding::limited(subject, found, next)
        } else {
            Finding::missing(subject, found, next)
        };
    }
    Finding::good(subject, found)
}

/// Enough functions to meet most units of a program, few enough to be answered at once.
const UNITS_LOOKED_FOR: usize = 512;

/// What is missing of debug information split into other files, and whether some of it is there.
/// Split units address through `.debug_addr`, so a file without one has none.
fn units_elsewhere(image: &Image) -> Option<(String, bool)> {
    if !has_section(image, ".debug_addr") && !has_section(image, ".debug_gnu_pubnames") {
        return None;
    }
    let functions = image.functions();
    let step = (functions.len() / UNITS_LOOKED_FOR).max(1);
    let mut addresses: Vec<_> =
        functions.iter().step_by(step).map(|function| function.address).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let debug = DebugInfo::load(image, &DebugSearch::default()).ok()?;
    let resolved = debug.resolve(&addresses, 1).ok()?;
    let problems = &resolved.problems;
    if problems.missing_dwo == 0 {
        return None;
    }
    let units = if problems.missing_dwo == 1 { "unit lacks its" } else { "units lack their" };
    let first = problems.first.as_deref().unwrap_or_default();
    let first = first.split(';').next().unwrap_or_default();
    let known = (0..addresses.len()).any(|position| !resolved.frames(position).is_empty());
    Some((format!("but {} {units} .dwo ({first})", problems.missing_dwo), known))
}

/// `SHF_COMPRESSED` (System V ABI, chapter 4).
const SHF_COMPRESSED: u64 = 1 << 11;

/// The version in the first unit's header (DWARF 5, section 7.5.1): after the length, which is 4 or
/// 12 bytes.
fn unit_version(section: &[u8], endian: Endian) -> Option<u16> {
    let at = if section.get(..4)? == [0xff; 4] { 12 } else { 4 };
    let bytes: [u8; 2] = section.get(at..at + 2)?.try_into().ok()?;
    let version = match endian {
        Endian::Little => u16::from_le_bytes(bytes),
        Endian::Big => u16::from_be_bytes(bytes),
    };
    (2..=5).contains(&version).then_some(version)
}

fn symbols(image: &Image) -> Finding {
    let count = image.functions().len();
    if !image.has_only_dynamic_symbols() {
        return Finding::good("symbols", format!("{count} functions"));
    }
    Finding::limited(
        "symbols",
        format!("stripped: {count} functions from the dynamic table only"),
        "keep the unstripped file for planish; the one that runs may be stripped, its build ID \
         stays",
    )
}

fn block_map(image: &Image) -> Finding {
    let subject = "block address map";
    let maps: Vec<_> = image
        .sections()
        .iter()
        .filter(|section| BB_ADDR_MAP_TYPES.contains(&section.kind))
        .collect();
    let Some(first) = maps.first() else {
        let next = match image.has_code_of_rustc() {
            true => {
                "for layouts of blocks of Rust code: -Clinker-plugin-lto and lld 20 or newer with \
                 -Wl,--lto-basic-block-address-map; not needed for sample profiles"
            }
            false => {
                "for layouts of blocks: clang 20 or newer with -fbasic-block-address-map; not \
                 needed for sample profiles"
            }
        };
        return Finding::limited(subject, "none", next);
    };
    let version = image.section_file_bytes(first).and_then(|bytes| bytes.first().copied());
    let bytes: u64 = maps.iter().map(|section| section.size).fold(0, u64::saturating_add);
    let version = match version {
        Some(version) if first.kind == BB_ADDR_MAP_TYPES[1] => format!("version {version}"),
        _ => "version 0".into(),
    };
    Finding::good(subject, format!("{version}, {} KiB", bytes.div_ceil(1024)))
}

/// Looks at how functions begin. A hint only: leaf functions and hand-written code need no frame.
fn frame_pointers(image: &Image) -> Finding {
    let subject = "frame pointers";
    let functions = image.functions();
    let telling = || functions.iter().filter(|function| function.size >= TELLING_FUNCTION_BYTES);
    // Spread over the whole file, so that one library linked in does not decide.
    let step = (telling().count() / FUNCTIONS_LOOKED_AT).max(1);
    let (mut seen, mut framed) = (0_usize, 0_usize);
    for function in telling().step_by(step) {
        let Some(code) = image.code_at(function.address) else { continue };
        seen += 1;
        framed += usize::from(sets_up_frame(code, image.arch()));
    }
    if seen == 0 {
        return Finding::limited(subject, "unknown, no function to look at", "keep the symbols");
    }
    let share = framed * 100 / seen;
    let found = format!("{share} % of {seen} functions set one up");
    if share >= 60 {
        return Finding::good(subject, found);
    }
    let next = "only for call chains without branch stacks: -fno-omit-frame-pointer; sample \
                profiles need none";
    Finding::limited(subject, found, next)
}

/// Whether the first instructions link a frame: `push rbp; mov rbp, rsp`, or `stp x29, x30, [sp,
/// …]`.
fn sets_up_frame(code: &[u8], arch: Arch) -> bool {
    let start = &code[..code.len().min(48)];
    match arch {
        Arch::X86_64 => {
            let links: [&[u8]; 2] = [&[0x55, 0x48, 0x89, 0xe5], &[0x55, 0x48, 0x8b, 0xec]];
            links.iter().any(|link| start.windows(link.len()).any(|window| window == *link))
        }
        // Pre-indexed (0xa980…) and offset (0xa900…) forms, with any offset; registers x29, x30 and
        // base sp are fixed.
        Arch::Aarch64 => start.chunks_exact(4).any(|word| {
            let word = word.iter().rev().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
            matches!(word & 0xffc0_7fff, 0xa980_7bfd | 0xa900_7bfd)
        }),
        Arch::Other(_) => false,
    }
}

/// How the file was linked, as far as it matters for text on superpages.
fn links(image: &Image) -> Finding {
    let subject = "segments";
    let executable: Vec<_> = image.segments().iter().filter(|segment| segment.executable).collect();
    let align = executable.iter().map(|segment| segment.align).max().unwrap_or(0);
    let found = format!("{} executable, aligned to {} KiB", executable.len(), align / 1024);
    Finding::good(subject, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    fn fixture(name: &str) -> PathBuf {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/autofdo")).join(name)
    }

    fn finding(findings: &[Finding], subject: &str) -> Finding {
        findings
            .iter()
            .find(|finding| finding.subject == subject)
            .expect("the subject is looked at")
            .clone()
    }

    #[test]
    fn a_binary_with_dwarf_is_ready_for_a_profile() {
        let findings = examine(&fixture("test.binary"));
        assert!(findings.iter().all(|finding| finding.state != State::Missing), "{findings:?}");
        assert!(finding(&findings, "debug info").found.contains("DWARF"), "{findings:?}");
        assert!(finding(&findings, "file").found.contains("x86-64"), "{findings:?}");
    }

    #[test]
    fn a_block_address_map_is_seen_with_its_version() {
        let findings = examine(&fixture("propeller_sample.bin"));
        assert!(
            finding(&findings, "block address map").found.starts_with("version 1"),
            "{findings:?}"
        );
    }

    #[test]
    fn a_file_that_is_no_elf_is_a_missing_thing_with_a_next_step() {
        let findings = examine(&fixture("test.lbr"));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].state, State::Missing);
        assert!(findings[0].next.is_some());
        assert_eq!(examine(Path::new("no/such/file"))[0].state, State::Missing);
    }

    #[test]
    fn split_debug_information_without_its_files_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.c"), "int main(void) { return 0; }\n").unwrap();
        let mut compiler = std::process::Command::new("clang-22");
        compiler.current_dir(dir.path()).args(["-g", "-gsplit-dwarf", "-o", "app", "a.c"]);
        if !compiler.status().is_ok_and(|status| status.success()) {
            return eprintln!("skipped: clang-22 cannot build");
        }
        let app = dir.path().join("app");
        assert_eq!(finding(&examine(&app), "debug info").state, State::Good);
        for entry in std::fs::read_dir(dir.path()).unwrap().flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "dwo") {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
        let found = finding(&examine(&app), "debug info");
        assert_eq!(found.state, State::Missing);
        assert!(found.found.contains("1 unit lacks its .dwo"), "{found:?}");
        assert!(found.next.unwrap().contains("dwp"));
    }

    #[test]
    fn frames_are_recognised_in_both_instruction_sets() {
        // endbr64; push rbp; mov rbp, rsp
        assert!(sets_up_frame(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5], Arch::X86_64));
        assert!(!sets_up_frame(&[0x48, 0x83, 0xec, 0x18], Arch::X86_64));
        // stp x29, x30, [sp, #-32]!
        assert!(sets_up_frame(&0xa9be_7bfd_u32.to_le_bytes(), Arch::Aarch64));
        // ret
        assert!(!sets_up_frame(&0xd65f_03c0_u32.to_le_bytes(), Arch::Aarch64));
    }

    #[test]
    fn the_unit_version_is_read_in_both_widths_and_orders() {
        assert_eq!(unit_version(&[9, 0, 0, 0, 5, 0], Endian::Little), Some(5));
        assert_eq!(unit_version(&[0, 0, 0, 9, 0, 4], Endian::Big), Some(4));
        assert_eq!(
            unit_version(&[0xff, 0xff, 0xff, 0xff, 9, 0, 0, 0, 0, 0, 0, 0, 5, 0], Endian::Little),
            Some(5)
        );
        assert_eq!(unit_version(&[9, 0, 0, 0, 77, 0], Endian::Little), None);
        assert_eq!(unit_version(&[9, 0], Endian::Little), None);
    }
}
