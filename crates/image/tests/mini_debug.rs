//! Does a stripped program name the same functions with its compressed symbol table as before it
//! was stripped, and does a table that lies do no harm?

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use image::{Image, ImageAddr};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

const PROGRAM: &str = "
    #include <stdio.h>
    static __attribute__((noinline)) int hidden(int n) { return n * 3 + 1; }
    __attribute__((noinline)) int shown(int n) { return hidden(n) + 1; }
    __attribute__((noinline, visibility(\"hidden\"))) int inner(int n) { return hidden(n) + 7; }
    int main(int n, char **words) { printf(\"%d\\n\", shown(n) + inner(n)); return 0; }
";

/// What Fedora's find-debuginfo does: the functions that the dynamic symbol table lacks, in an ELF
/// file of their own, in the stripped program.
const PACK: &str = "
    set -e
    nm -D full --format=posix --defined-only | awk '{print $1}' | sort > dynamic
    nm full --format=posix --defined-only | awk '$2 ~ /[TtD]/ {print $1}' | sort > functions
    comm -13 dynamic functions > wanted
    objcopy --only-keep-debug full debug
    objcopy -S --remove-section .gdb_index --remove-section .comment --keep-symbols=wanted debug mini
    strip --strip-all -R .comment -o bare full
    xz -k mini
    objcopy --add-section .gnu_debugdata=mini.xz bare packed
";

fn shell(dir: &Path, script: &str) {
    let done = Command::new("sh").current_dir(dir).args(["-c", script]).output().unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

fn has(program: &str) -> bool {
    let ran = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    let there = ran.is_ok_and(|status| status.success());
    if !there {
        println!("skipped: {program} is not here");
    }
    there
}

/// The program as built (`full`), stripped (`bare`), and with the compressed table (`packed`).
fn built(dir: &Path) {
    std::fs::write(dir.join("a.c"), PROGRAM).unwrap();
    // -rdynamic puts what is visible into the dynamic symbol table.
    shell(dir, "gcc -O1 -g -rdynamic -o full a.c");
    shell(dir, PACK);
}

/// `bare` with these bytes as its section, opened.
fn with_section(dir: &Path, bytes: &[u8]) -> Image {
    std::fs::write(dir.join("section"), bytes).unwrap();
    shell(dir, "objcopy --add-section .gnu_debugdata=section bare lying");
    Image::open(&dir.join("lying")).unwrap()
}

fn names(image: &Image) -> BTreeSet<(ImageAddr, String)> {
    image.functions().iter().map(|function| (function.address, function.name.to_owned())).collect()
}

#[test]
fn a_packed_symbol_table_names_what_the_program_named_before() {
    if !has("xz") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    built(dir.path());
    let open = |name: &str| Image::open(&dir.path().join(name)).unwrap();
    let (full, bare, packed) = (open("full"), open("bare"), open("packed"));
    assert!(bare.has_only_dynamic_symbols() && !packed.has_only_dynamic_symbols());
    let known = names(&full);
    for name in ["hidden", "inner", "shown", "main"] {
        assert!(known.iter().any(|(_, known)| known == name), "{name}");
    }
    assert!(!names(&bare).iter().any(|(_, name)| name == "hidden" || name == "inner"));
    // nm lists what is typed `t` or `T`; that is every function.
    assert_eq!(names(&packed), known);
    assert!(packed.labels().iter().any(|label| label.name == "hidden"));
    if has("gdb") {
        for (address, _) in &known {
            let Some(shown) = packed.functions().find(*address) else { continue };
            let ask = format!("info symbol {address}");
            let mut gdb = Command::new("gdb");
            gdb.current_dir(dir.path()).args(["-nx", "-batch", "-ex", &ask, "packed"]);
            let said = String::from_utf8(gdb.output().unwrap().stdout).unwrap();
            let said = said.split_whitespace().next().unwrap_or_default().to_owned();
            // Where several names stand for one place, each is right.
            let all: Vec<&str> = packed.functions().at(shown.address).map(|f| f.name).collect();
            assert!(all.contains(&&*said), "{address}: gdb says {said}, planish {all:?}");
        }
    }
}

#[test]
fn a_packed_table_that_lies_is_refused_with_its_reason() {
    if !has("xz") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    built(dir.path());
    let bare = names(&Image::open(&dir.path().join("bare")).unwrap());
    let whole = std::fs::read(dir.path().join("mini.xz")).unwrap();
    shell(dir.path(), "head -c 100000000 /dev/zero | xz -0 > bomb; echo text | xz > text");
    shell(dir.path(), "printf abc | xz --lzma2=dict=1536MiB > greedy");
    let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    let mut broken = whole.clone();
    let middle = broken.len() / 2;
    broken[middle] ^= 0xff;
    let cases = [
        (b"no xz".to_vec(), "not an xz file"),
        (whole[..whole.len() - 40].to_vec(), "not an xz file"),
        (broken, "not an xz file"),
        (read("bomb"), "more than"),
        (read("greedy"), "not an xz file"),
        (read("text"), "not an ELF file"),
    ];
    for (bytes, why) in cases {
        let image = with_section(dir.path(), &bytes);
        let said = image.try_mini_debug().unwrap_err().to_string();
        assert!(said.contains(why) && said.contains("lying"), "{said}");
        assert_eq!(names(&image), bare, "{said}");
    }
}

#[test]
fn of_several_names_of_one_place_the_one_that_perf_shows_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let program = "
        .text
        .globl _start, __strong, longest_name, short
        .weak weak_but_longest_of_them_all
        .type _start, @function
        .type __strong, @function
        .type longest_name, @function
        .type short, @function
        .type local_and_very_long_indeed, @function
        .type weak_but_longest_of_them_all, @function
        _start:
        __strong:
        local_and_very_long_indeed:
        weak_but_longest_of_them_all:
        short:
        longest_name:
            nop
            ret
        .set size, . - _start
        .size _start, size
        .size __strong, size
        .size longest_name, size
        .size short, size
        .size local_and_very_long_indeed, size
        .size weak_but_longest_of_them_all, size
    ";
    std::fs::write(dir.path().join("a.s"), program).unwrap();
    shell(dir.path(), "gcc -nostdlib -static -o a a.s");
    let image = Image::open(&dir.path().join("a")).unwrap();
    let start = image.functions().iter().next().unwrap().address;
    assert_eq!(image.functions().find_shown(start).unwrap().name, "longest_name");
    assert_eq!(image.functions().find(start).unwrap().name, "__strong", "the first by name");
}
