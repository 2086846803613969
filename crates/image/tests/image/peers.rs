//! The compilers and dump tools the tests compare with, and the answers of those tools as values.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use image::code::{Instruction, InstructionKind};
use image::{Image, ImageAddr};

/// A file of the repository's fixtures.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

/// What a tool prints; `None`, with a note, when the tool is not installed.
pub fn output_of(tool: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(tool).args(arguments).output() {
        Ok(output) => {
            assert!(
                output.status.success(),
                "{tool} {arguments:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(error) => {
            eprintln!("skipped: {tool}: {error}");
            None
        }
    }
}

/// A C program with calls, indirect calls, a switch, loops and a tail call, for both processors,
/// without libc.
pub const PROGRAM: &str = r#"
typedef int (*step)(int);
int sink;
__attribute__((noinline)) int twice(int x) { return x * 2 + sink; }
__attribute__((noinline)) int thrice(int x) { return x * 3 - sink; }
__attribute__((noinline)) int choose(int x) {
  switch (x & 7) {
    case 0: return twice(x);
    case 1: return x + 7;
    case 2: sink++; return x ^ 5;
    case 3: return thrice(x) + 1;
    case 4: sink += x; return x / 3;
    case 5: return 12 - x;
    default: break;
  }
  for (int i = 0; i < x; i++) { if (i & 1) sink ^= i; else x += sink & 3; if (!x) __builtin_trap(); }
  return x;
}
__attribute__((noinline, section(".text.unlikely"))) int cold(int x) { return choose(x) + twice(x); }
static step table[2] = { twice, thrice };
__attribute__((noinline)) int indirect(int x) { return table[x & 1](x) + cold(x); }
__asm__(".globl raw_entry\nraw_entry: nop\n.globl raw_end\nraw_end:\n");
void _start(void) { int s = 0; for (int i = 0; i < 100; i++) s += indirect(i); sink = s; for (;;) {} }
int alias_of_twice(int) __attribute__((alias("twice")));
"#;

/// Compiles a program with clang 22 into `directory`; `None`, with a note, when clang is not
/// installed.
pub fn compile(directory: &Path, name: &str, source: &str, arguments: &[&str]) -> Option<PathBuf> {
    let input = directory.join(format!("{name}.c"));
    let output = directory.join(name);
    std::fs::write(&input, source).unwrap();
    let (input, path) = (input.to_str().unwrap(), output.to_str().unwrap());
    let mut all = vec!["-O2", "-g", "-ffreestanding", "-fno-stack-protector", "-o", path, input];
    all.extend(arguments);
    output_of("clang-22", &all).map(|_| output)
}

/// An instruction as llvm-objdump shows it: address, class of its mnemonic, direct target.
pub type Shown = (u64, Class, Option<u64>);

/// What a mnemonic tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Other,
    Conditional,
    Jump,
    IndirectJump,
    Call,
    IndirectCall,
    Return,
    Syscall,
    Trap,
}

/// The instructions llvm-objdump finds in a section; `None` when the tool is not installed.
pub fn disassemble(path: &Path, section: &str) -> Option<Vec<Shown>> {
    let path = path.to_str().unwrap();
    let text = output_of(
        "llvm-objdump-22",
        &["-d", "-j", section, "--no-show-raw-insn", "--no-leading-headers", path],
    )?;
    Some(text.lines().filter_map(shown).collect())
}

fn shown(line: &str) -> Option<Shown> {
    let (address, rest) = line.split_once(':')?;
    let address = u64::from_str_radix(address.trim(), 16).ok()?;
    let rest = rest.trim();
    // A line "address <symbol>:" names a function.
    if rest.is_empty() {
        return None;
    }
    let mut words = rest.split_whitespace().skip_while(|word| {
        ["lock", "rep", "repz", "repne", "notrack", "bnd", "data16", "rep;"].contains(word)
    });
    let mnemonic = words.next().unwrap_or("");
    let operands: Vec<&str> =
        words.take_while(|word| *word != "#" && !word.starts_with("//")).collect();
    let class = class(mnemonic, operands.first().copied().unwrap_or(""));
    let direct = [Class::Conditional, Class::Jump, Class::Call].contains(&class);
    let number = |word: &&str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    // AArch64 writes the bit number of tbz before the target; the target is the last number.
    let target = operands.iter().rev().find_map(number).filter(|_| direct);
    Some((address, class, target))
}

fn class(mnemonic: &str, operand: &str) -> Class {
    let indirect = operand.starts_with('*');
    match mnemonic {
        "jmp" | "jmpq" | "jmpl" if indirect => Class::IndirectJump,
        "callq" | "calll" | "call" if indirect => Class::IndirectCall,
        "br" | "braa" | "brab" | "braaz" | "brabz" => Class::IndirectJump,
        "blr" | "blraa" | "blrab" | "blraaz" | "blrabz" => Class::IndirectCall,
        "jmp" | "jmpq" | "jmpl" | "b" => Class::Jump,
        "callq" | "calll" | "call" | "bl" => Class::Call,
        "ret" | "retq" | "retl" | "retaa" | "retab" | "iretq" => Class::Return,
        "syscall" | "svc" => Class::Syscall,
        "ud2" | "hlt" | "int3" | "brk" | "udf" => Class::Trap,
        "cbz" | "cbnz" | "tbz" | "tbnz" | "loop" => Class::Conditional,
        _ if mnemonic.starts_with("b.") || mnemonic.starts_with('j') => Class::Conditional,
        _ => Class::Other,
    }
}

/// An instruction of ours in the same form.
pub fn ours(instruction: &Instruction) -> Shown {
    let class = match instruction.kind {
        InstructionKind::Other => Class::Other,
        InstructionKind::ConditionalBranch => Class::Conditional,
        InstructionKind::UnconditionalBranch => Class::Jump,
        InstructionKind::IndirectBranch => Class::IndirectJump,
        InstructionKind::Call => Class::Call,
        InstructionKind::IndirectCall => Class::IndirectCall,
        InstructionKind::Return => Class::Return,
        InstructionKind::Syscall => Class::Syscall,
        InstructionKind::Trap => Class::Trap,
        InstructionKind::Invalid => panic!("invalid instruction at {}", instruction.address),
    };
    (instruction.address.0, class, instruction.target.map(|target| target.0))
}

/// Asserts that a section decodes to the instructions llvm-objdump shows; returns how many there
/// are.
#[track_caller]
pub fn assert_same_instructions(image: &Image, section: &str) -> usize {
    let Some(theirs) = disassemble(image.path(), section) else { return 0 };
    let header = *image.section_by_name(section).unwrap();
    let mine: Vec<Shown> = image::code::instructions(image, header.address)
        .map(|instruction| ours(&instruction))
        .collect();
    for (mine, theirs) in mine.iter().zip(&theirs) {
        assert_eq!(
            mine,
            theirs,
            "ours, then llvm-objdump's, in {} {section}",
            image.path().display()
        );
    }
    assert_eq!(mine.len(), theirs.len());
    mine.len()
}

/// The typed functions llvm-readelf lists in a symbol table: address, size, name.
pub fn listed_functions(path: &Path, table: &str) -> Option<BTreeSet<(u64, u64, String)>> {
    let text = output_of("llvm-readelf-22", &["-sW", path.to_str().unwrap()])?;
    let section = text.split("Symbol table '").find(|part| part.starts_with(table))?;
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, value, size, kind, _, _, index, name] = words.as_slice() else { return None };
        let defined = *index != "UND" && *index != "ABS";
        let size = match size.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok()?,
            None => size.parse().ok()?,
        };
        let found = (u64::from_str_radix(value, 16).ok()?, size, (*name).to_owned());
        (defined && ["FUNC", "IFUNC"].contains(kind)).then_some(found)
    };
    Some(section.lines().filter_map(row).collect())
}

/// Asserts that the image has exactly the functions llvm-readelf lists, in a relocatable file at
/// `base` of a section.
#[track_caller]
pub fn assert_same_functions(image: &Image, table: &str) {
    let Some(theirs) = listed_functions(image.path(), table) else { return };
    let own: Vec<_> = image.functions().iter().collect();
    for (address, size, name) in &theirs {
        let found =
            own.iter().find(|function| function.address.0 == *address && function.name == name);
        let found = found.unwrap_or_else(|| panic!("{name} at {address:#x} is missing"));
        assert!(
            found.size == *size || *size == 0 && found.size_inferred,
            "{name}: {} not {size}",
            found.size
        );
        let inside = image.functions().find(ImageAddr(address + found.size.saturating_sub(1)));
        assert_eq!(
            inside.map(|inside| inside.address),
            Some(found.address).filter(|_| found.size != 0)
        );
    }
    let typed = |name: &str| theirs.iter().any(|(_, _, other)| other == name);
    for function in own {
        assert!(
            typed(function.name) || function.size_inferred,
            "{} is not a function",
            function.name
        );
    }
}
