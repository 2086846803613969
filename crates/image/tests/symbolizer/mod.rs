//! What llvm-symbolizer says about the instructions of a program, beside what this crate says.
// Each test program uses a part of it.
#![allow(dead_code)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use image::debug::DebugInfo;
use image::{DebugSearch, Image, ImageAddr};

/// A frame as both sides can state it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainFrame {
    pub function: String,
    pub start_line: u32,
    pub line: u32,
    pub discriminator: u32,
    /// File of the line.
    pub file: String,
}

/// The directory with the programs.
pub fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// Whether a tool can be run; says so on stderr when it cannot.
pub fn has(tool: &str) -> bool {
    let found =
        Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: {tool} is not installed");
    }
    found
}

/// Runs a tool in a directory; its failure fails the test.
pub fn run(directory: &Path, tool: &str, arguments: &[&str]) {
    let output = Command::new(tool).args(arguments).current_dir(directory).output().unwrap();
    assert!(
        output.status.success(),
        "{tool} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Every instruction of the code sections.
pub fn instruction_addresses(image: &Image) -> Vec<ImageAddr> {
    let mut addresses = Vec::new();
    for range in image.code_ranges() {
        addresses.extend(
            image::code::instructions(image, range.start).map(|instruction| instruction.address),
        );
    }
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// Compares all instructions of a program. Returns how many have a stack, and how deep the deepest
/// is.
pub fn compare(path: &Path, more: &[&str]) -> (usize, usize) {
    compare_with(path, path, more)
}

/// As [`compare`], where llvm-symbolizer gets `theirs`, another form of the same program.
pub fn compare_with(path: &Path, theirs: &Path, more: &[&str]) -> (usize, usize) {
    let image = Image::open(path).unwrap();
    let debug = DebugInfo::load(&image, &DebugSearch::default()).unwrap();
    let addresses = instruction_addresses(&image);
    assert!(!addresses.is_empty(), "{} has no code", path.display());
    let resolved = debug.resolve(&addresses, 1).unwrap();
    assert_eq!(
        resolved,
        debug.resolve(&addresses, 3).unwrap(),
        "the number of threads must not matter"
    );
    let sources = debug.source_frames(&addresses, 2);
    let (mut with_stack, mut deepest) = (0, 0);
    for (position, theirs) in symbolize(theirs, &addresses, more).into_iter().enumerate() {
        let address = addresses[position];
        let ours: Vec<PlainFrame> = resolved
            .frames(position)
            .iter()
            .zip(sources.frames(position))
            .map(|(frame, source)| {
                let name = source.function.map(|name| sources.names.get(name));
                assert_eq!(name, Some(resolved.names.get(frame.function)));
                assert_eq!(source.line.map_or(0, |line| line.line), frame.line);
                let file = source.line.and_then(|line| sources.files.get(line.file.0 as usize));
                PlainFrame {
                    function: resolved.names.get(frame.function).to_owned(),
                    start_line: frame.start_line,
                    line: frame.line,
                    discriminator: frame.discriminator,
                    file: file.cloned().unwrap_or_default(),
                }
            })
            .collect();
        assert_eq!(ours.len(), resolved.frames(position).len());
        if ours.is_empty() {
            assert!(
                theirs.iter().all(|frame| frame.start_line == 0),
                "{address}: they have {theirs:#?}"
            );
            continue;
        }
        with_stack += 1;
        deepest = deepest.max(ours.len());
        let theirs = with_our_name_for_the_symbol(&image, address, &ours, theirs);
        assert_eq!(ours, theirs, "{} at {address}", path.display());
    }
    (with_stack, deepest)
}

/// llvm-symbolizer takes the outermost name from the symbol table, where aliases stand in any
/// order.
fn with_our_name_for_the_symbol(
    image: &Image,
    address: ImageAddr,
    ours: &[PlainFrame],
    mut theirs: Vec<PlainFrame>,
) -> Vec<PlainFrame> {
    let (Some(own), Some(outermost)) = (ours.last(), theirs.last_mut()) else { return theirs };
    if let Some(symbol) = image.functions().find(address) {
        let mut names = image.functions().at(symbol.address);
        if names.any(|function| function.name == outermost.function) {
            outermost.function = own.function.clone();
        }
    }
    theirs
}

fn symbolize(path: &Path, addresses: &[ImageAddr], more: &[&str]) -> Vec<Vec<PlainFrame>> {
    let mut child = Command::new("llvm-symbolizer-22")
        .arg(format!("--obj={}", path.display()))
        .args(["--verbose", "--inlining", "--functions=linkage", "--no-demangle"])
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let question: String = addresses.iter().map(|address| format!("{:#x}\n", address.0)).collect();
    let writer = std::thread::spawn(move || input.write_all(question.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let stacks: Vec<Vec<PlainFrame>> = text.trim_end().split("\n\n").map(parse).collect();
    assert_eq!(stacks.len(), addresses.len(), "llvm-symbolizer must answer every address");
    stacks
}

fn parse(text: &str) -> Vec<PlainFrame> {
    let mut frames: Vec<PlainFrame> = Vec::new();
    for line in text.lines() {
        let number = |text: &str| text.trim().parse().unwrap();
        match (line.strip_prefix("  "), frames.last_mut()) {
            (Some(fact), Some(frame)) => match fact.split_once(':') {
                Some(("Function start line", value)) => frame.start_line = number(value),
                Some(("Line", value)) => frame.line = number(value),
                Some(("Filename", value)) => frame.file = value.trim().to_owned(),
                Some(("Discriminator", value)) => frame.discriminator = number(value),
                _ => {}
            },
            _ if line.is_empty() => {}
            _ => frames.push(PlainFrame {
                function: line.to_owned(),
                start_line: 0,
                line: 0,
                discriminator: 0,
                file: String::new(),
            }),
        }
    }
    frames
}
