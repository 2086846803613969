//! An AArch64 program whose branches are known: a loop that calls a function.

use image::code::{InstructionKind, instructions};
use image::{Image, ImageAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "volatile int sum;\n\
    __attribute__((noinline)) void work(int n) {\n\
      sum = sum + n * 3;\n\
    }\n\
    void _start(void) {\n\
      for (int i = 0; i < 1000; i++)\n\
        work(sum ^ i);\n\
      __builtin_trap();\n\
    }\n";

/// Addresses of what runs in a round of the loop; runtime addresses are the file's, as the program
/// has a fixed place.
pub struct Program {
    pub path: PathBuf,
    /// First instruction of a round.
    pub head: u64,
    pub call: u64,
    pub work: u64,
    pub ret: u64,
    /// Instruction behind the call.
    pub back: u64,
    /// The jump to the head.
    pub jump: u64,
    /// The code as it is mapped: first address, length, file offset.
    pub piece: (u64, u64, u64),
}

/// Builds it; `None`, with the reason said, where there is no compiler.
pub fn build(directory: &Path) -> Option<Program> {
    let (source, path) = (directory.join("rounds.c"), directory.join("rounds"));
    std::fs::write(&source, SOURCE).unwrap();
    let target =
        ["--target=aarch64-linux-gnu", "-O1", "-g", "-fdebug-info-for-profiling", "-fno-pic"];
    let linked = ["-fno-unroll-loops", "-nostdlib", "-static", "-fuse-ld=lld", "-Wl,--build-id"];
    let built = Command::new("clang-22")
        .args(target)
        .args(linked)
        .arg(&source)
        .arg("-o")
        .arg(&path)
        .output();
    match built {
        Ok(done) if done.status.success() => {}
        Ok(done) => panic!("clang-22: {}", String::from_utf8_lossy(&done.stderr)),
        Err(error) => {
            eprintln!("skipped: clang-22: {error}");
            return None;
        }
    }
    let image = Image::open(&path).unwrap();
    let function = |name: &str| image.functions().iter().find(|f| f.name == name).unwrap().address;
    let (start, work) = (function("_start"), function("work"));
    let find = |from: ImageAddr, kind: InstructionKind| {
        instructions(&image, from).find(|instruction| instruction.kind == kind).unwrap()
    };
    let call = find(start, InstructionKind::Call);
    let jump = find(call.address, InstructionKind::ConditionalBranch);
    let segment = image.segments().iter().find(|segment| segment.executable).unwrap();
    let (first, offset) = (segment.address.0 & !0xfff, segment.offset.0 & !0xfff);
    let len = (segment.address.0 + segment.file_bytes - first).next_multiple_of(0x1000);
    assert_eq!((call.target, jump.target.unwrap() < call.address), (Some(work), true));
    Some(Program {
        path,
        head: jump.target.unwrap().0,
        call: call.address.0,
        work: work.0,
        ret: find(work, InstructionKind::Return).address.0,
        back: call.address.0 + 4,
        jump: jump.address.0,
        piece: (first, len, offset),
    })
}
