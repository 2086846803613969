//! What the ledger of a profile says about code without debug information: by name, if asked for.

#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on shall fail its test")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use image::code::instructions;
use image::{Image, ImageAddr};

/// Functions of the assembly file, the last of which is followed by code under no symbol.
const BY_HAND: u64 = 13;
/// How often the code under no symbol and the function of the C file ran.
const NAMELESS: u64 = 55;
const DESCRIBED: u64 = 900;

fn assembly() -> String {
    let mut text = "\t.text\n".to_owned();
    for number in 1..=BY_HAND {
        let name = format!("by_hand_{number}");
        // As the kernel's assembly has them: global and typed, or global alone.
        let kind =
            if number % 2 == 0 { format!("\t.type {name}, @function\n") } else { String::new() };
        write!(text, "\t.globl {name}\n{kind}{name}:\n\tnop\n\tret\n\t.size {name}, . - {name}\n")
            .unwrap();
    }
    text + "\tnop\n\tret\n\t.section .note.GNU-stack, \"\", @progbits\n"
}

/// The straight line from an address to the next jump, call or return.
fn line(image: &Image, first: ImageAddr, count: u64) -> String {
    let last =
        instructions(image, first).find(|instruction| instruction.kind.is_transfer()).unwrap();
    format!("F {:x} {:x} {count}\n", first.0, last.address.0)
}

/// Builds `mixed.so` of a file in C and one in assembly, and `run.txt`, which says how often its
/// functions ran.
fn prepare(directory: &Path) {
    std::fs::write(directory.join("c.c"), "int described(int n)\n{\n\treturn n + 1;\n}\n").unwrap();
    std::fs::write(directory.join("by_hand.s"), assembly()).unwrap();
    for words in [
        &["-O1", "-g1", "-fPIC", "-c", "c.c"][..],
        &["-c", "by_hand.s"],
        &["-shared", "-nostdlib", "-Wl,--build-id", "-o", "mixed.so", "by_hand.o", "c.o"],
    ] {
        assert!(
            Command::new("cc").args(words).current_dir(directory).status().unwrap().success(),
            "{words:?}"
        );
    }
    let image = Image::open(&directory.join("mixed.so")).unwrap();
    let (mut text, mut end) = (String::new(), ImageAddr(0));
    for function in image.functions().iter() {
        let count = match function.name.strip_prefix("by_hand_") {
            Some(number) => number.parse::<u64>().unwrap() * 10,
            None if function.name == "described" => DESCRIBED,
            None => continue,
        };
        end = if count == BY_HAND * 10 { function.end() } else { end };
        text += &line(&image, function.address, count);
    }
    text += &line(&image, end, NAMELESS);
    std::fs::write(directory.join("run.txt"), text).unwrap();
}

/// What the command says about the code of the assembly file.
fn said(directory: &Path, more: &[&str]) -> Vec<String> {
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.args(["profile", "run.txt", "--binary", "mixed.so", "-o", "p.afdo"]).args(more);
    let output = planish.current_dir(directory).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    text.lines()
        .filter(|line| line.contains("debug information"))
        .map(|line| line.trim().to_owned())
        .collect()
}

#[test]
fn functions_without_debug_information_are_listed_by_name_when_more_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    prepare(directory.path());
    // 10 + 20 + … + 130, and what no symbol covers.
    let sum = format!("{} in code without debug information", 910 + NAMELESS);
    assert_eq!(said(directory.path(), &[]), [&*sum]);
    let expected = [
        (130, "by_hand_13"),
        (120, "by_hand_12"),
        (110, "by_hand_11"),
        (100, "by_hand_10"),
        (90, "by_hand_9"),
        (80, "by_hand_8"),
        (70, "by_hand_7"),
        (60, "by_hand_6"),
        (NAMELESS, "(no symbol)"),
        (50, "by_hand_5"),
    ];
    let mut lines = vec![sum];
    lines.extend(expected.map(|(count, name)| format!("no debug information: {count} in {name}")));
    lines.push("no debug information: 100 in 4 more".to_owned());
    assert_eq!(said(directory.path(), &["--verbose"]), lines);
}
