//! The tables of a kernel that say where it rewrites itself, in a small program that has the same
//! ones: of x86, and of arm64.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use image::{Image, ImageAddr, ImageKind};
use std::process::Command;

/// Four places in code, and tables that point at them. `FLAGS` makes an alternative 12 or 14 bytes
/// long.
const SOURCE: &str = r#"
    .text
    .globl _start
_start:
    nop
label_short: .byte 0xeb, 0x00
label_near:  .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
    nop
replaced:    call other
             nop
    nop
static:      call other
    nop
retpoline:   .byte 0x2e; call other
    nop
other:
    ret
    .data
    .globl __start___jump_table, __stop___jump_table, __alt_instructions, __alt_instructions_end
    .globl __start_static_call_sites, __stop_static_call_sites, __retpoline_sites, __retpoline_sites_end
__start___jump_table:
    .long label_short - ., other - .
    .quad 0
    .long label_near - ., other - .
    .quad 0
__stop___jump_table:
__alt_instructions:
    .long replaced - ., other - .
    FLAGS
    .byte 6, 1
__alt_instructions_end:
__start_static_call_sites:
    .long static - ., 0
__stop_static_call_sites:
__retpoline_sites:
    .long retpoline - .
__retpoline_sites_end:
    # What a kernel is recognised by.
    .section __ksymtab, "a"
    .quad 0
"#;

/// The two tables of arm64.
const ARM64: &str = r#"
    .text
    .globl _start
_start:
    nop
label:
    nop
    nop
replaced:
    nop
    nop
other:
    ret
    .data
    .globl __start___jump_table, __stop___jump_table, __alt_instructions, __alt_instructions_end
__start___jump_table:
    .long label - ., other - .
    .quad 0
__stop___jump_table:
__alt_instructions:
    .long replaced - ., 0
    .short 0x8005
    .byte 8, 0
__alt_instructions_end:
    .section __ksymtab, "a"
    .quad 0
"#;

#[test]
fn arm64_has_two_of_the_tables() {
    let dir = tempfile::tempdir().unwrap();
    let (text, object, output) =
        (dir.path().join("code.s"), dir.path().join("code.o"), dir.path().join("code"));
    std::fs::write(&text, ARM64).unwrap();
    let mut assembler = Command::new("clang-22");
    assembler.args(["--target=aarch64-linux-gnu", "-c", "-o"]).arg(&object).arg(&text);
    let mut linker = Command::new("ld.lld-22");
    linker.arg("-o").arg(&output).arg(&object);
    for command in [&mut assembler, &mut linker] {
        match command.output() {
            Err(_) => return eprintln!("skipped: clang-22 or lld-22 is not installed"),
            Ok(made) => {
                assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            }
        }
    }
    let image = Image::from_bytes("code", std::fs::read(output).unwrap()).unwrap();
    let start = image.kernel_symbol("_start").unwrap();
    let site = |from: u64, to: u64| ImageAddr(start.0 + from)..ImageAddr(start.0 + to);
    assert_eq!(image.patched_code(), [site(4, 8), site(12, 20)]);
}

fn program(source: &str) -> Image {
    let dir = tempfile::tempdir().unwrap();
    let (text, output) = (dir.path().join("code.s"), dir.path().join("code"));
    std::fs::write(&text, source).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-nostdlib", "-static", "-no-pie", "-o"]).arg(&output).arg(text);
    let made = compiler.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Image::from_bytes("code", std::fs::read(output).unwrap()).unwrap()
}

#[test]
fn the_tables_of_all_kernels_say_where_code_is_rewritten() {
    for flags in [".long 3", ".short 3"] {
        let image = program(&SOURCE.replace("FLAGS", flags));
        let start = image.kernel_symbol("_start").unwrap();
        let site = |from: u64, to: u64| ImageAddr(start.0 + from)..ImageAddr(start.0 + to);
        // The two labels touch, and stay apart.
        assert_eq!(
            image.patched_code(),
            [site(1, 3), site(3, 8), site(9, 15), site(16, 21), site(22, 28)],
            "{flags}"
        );
    }
}

#[test]
fn the_tables_of_a_module_are_sections_that_its_relocations_aim() {
    let [code, tables] =
        [SOURCE.find("    .data").unwrap(), SOURCE.find("__start___jump_table:").unwrap()]
            .map(|at| SOURCE.split_at(at));
    let tables = tables.1.replace("FLAGS", ".long 3");
    let mut module = code.0.replace("call other", "call elsewhere");
    for line in tables.lines() {
        let section = match line.trim() {
            "__start___jump_table:" => "__jump_table",
            "__alt_instructions:" => ".altinstructions",
            "__start_static_call_sites:" => ".static_call_sites",
            "__retpoline_sites:" => ".retpoline_sites",
            _ => "",
        };
        let named = line.replace("\"a\"", "\"a\"\n.section .modinfo, \"a\"");
        module += &if section.is_empty() { named } else { format!(".section {section}, \"a\"") };
        module += "\n";
    }
    let dir = tempfile::tempdir().unwrap();
    let (text, object) = (dir.path().join("code.s"), dir.path().join("code.ko"));
    std::fs::write(&text, module).unwrap();
    let made = Command::new("cc").arg("-c").arg("-o").arg(&object).arg(&text).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let image = Image::from_bytes("code.ko", std::fs::read(object).unwrap()).unwrap();
    assert_eq!(image.kind(), ImageKind::KernelModule);
    let start = image.sections().iter().find(|section| section.is_executable()).unwrap().address;
    let site = |from: u64, to: u64| ImageAddr(start.0 + from)..ImageAddr(start.0 + to);
    assert_eq!(
        image.patched_code(),
        [site(1, 3), site(3, 8), site(9, 15), site(16, 21), site(22, 28)]
    );
}

#[test]
fn tables_that_make_no_sense_and_programs_without_any_have_no_such_code() {
    assert!(program(".globl _start\n_start: ret\n").patched_code().is_empty());
    // The same tables in what is no kernel.
    let program_with_tables = SOURCE.replace("FLAGS", ".long 3").replace("__ksymtab", "ordinary");
    assert!(program(&program_with_tables).patched_code().is_empty());
    // The stop before the start, and an alternative outside of the code.
    let odd = SOURCE.replace("FLAGS", ".long 3").replace("replaced - .", "0x700000 - .");
    let odd = odd
        .replace("__start___jump_table:\n", "")
        .replace("__stop___jump_table:\n", "__start___jump_table:\n");
    let odd = odd.replace("    .data\n", "    .data\n__stop___jump_table:\n");
    assert_eq!(program(&odd).patched_code().len(), 2);
}
