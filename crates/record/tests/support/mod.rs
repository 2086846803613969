//! Compiling test programs, and checking recordings against the code that they name.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use image::code::{Instruction, instructions};
use image::{FileOffset, Image, ImageAddr};
use perfdata::{Input, OrderOptions, Record};
use record::machine::{Board, Execution, Guest};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Compiles a program of `tests/programs`; `None`, with a note, where the compiler cannot.
pub fn compile(dir: &Path, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let output = dir.join(source.file_stem().unwrap());
    let done = Command::new("clang-22")
        .args(["-O1", "-g", "-o"])
        .arg(&output)
        .arg(source)
        .args(flags)
        .output();
    match done {
        Ok(done) if done.status.success() => Some(output),
        Ok(done) => skipped(&String::from_utf8_lossy(&done.stderr)),
        Err(error) => skipped(&format!("clang-22: {error}")),
    }
}

/// A machine that boots the little kernel of `programs/machine.S`; `None`, with a note, where there
/// is no emulator or compiler.
pub fn machine(dir: &Path, defines: &[&str]) -> Option<Guest> {
    if !has("qemu-system-x86_64") {
        return None;
    }
    let link = "-Wl,--image-base=0x200000,-Ttext=0x201000,--build-id=none";
    let flags = ["-m32", "-nostdlib", "-static", "-fuse-ld=lld", link];
    let kernel = compile(dir, "machine.S", &[&flags, defines].concat())?;
    Some(Guest {
        board: Board::Pc,
        kernel,
        initrd: None,
        memory_mib: 64,
        cpus: 1,
        append: String::new(),
        execution: Execution::Deterministic,
    })
}

/// The same for arm64, of `programs/machine_aarch64.S`.
pub fn machine_for_arm64(dir: &Path) -> Option<Guest> {
    if !has("qemu-system-aarch64") {
        return None;
    }
    let link = "-Wl,--image-base=0x40200000,-Ttext=0x40201000,--build-id=none";
    let flags = ["--target=aarch64-linux-gnu", "-nostdlib", "-static", "-fuse-ld=lld", link];
    let kernel = compile(dir, "machine_aarch64.S", &flags)?;
    Some(Guest {
        board: Board::ArmVirt,
        kernel,
        initrd: None,
        memory_mib: 64,
        cpus: 1,
        append: String::new(),
        execution: Execution::Deterministic,
    })
}

/// Notes that a test could not run.
pub fn skipped<T>(why: &str) -> Option<T> {
    eprintln!("skipped: {why}");
    None
}

/// True when a tool is installed.
pub fn has(tool: &str) -> bool {
    let found =
        Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        eprintln!("skipped: {tool} is not installed");
    }
    found.is_ok()
}

/// What a recording holds.
#[derive(Default)]
pub struct Facts {
    pub samples: u64,
    pub entries: u64,
    pub period: u64,
    pub pids: BTreeSet<i32>,
    pub tids: BTreeSet<i32>,
    pub comms: BTreeSet<String>,
    pub files: BTreeSet<String>,
    /// Every stack as it was recorded, in order.
    pub stacks: Vec<Vec<(u64, u64)>>,
}

#[derive(Clone)]
struct Mapping {
    start: u64,
    len: u64,
    file_offset: u64,
    path: PathBuf,
}

/// Reads a recording; every branch must be one that its code can take, and every straight line must
/// be straight.
#[derive(Default)]
pub struct Checker {
    images: HashMap<PathBuf, Option<Image>>,
    processes: BTreeMap<i32, Vec<Mapping>>,
    seen_branches: HashSet<(i32, u64, u64)>,
    seen_ranges: HashSet<(i32, u64, u64)>,
    facts: Facts,
}

/// Checks a whole file.
pub fn check(path: &Path) -> Facts {
    let input = Input::open(path).unwrap();
    let mut ordered = input.ordered(OrderOptions::default()).unwrap();
    let mut checker = Checker::default();
    while let Some(record) = ordered.next() {
        let record = record.unwrap();
        let (record, _) = record.parse().unwrap();
        checker.record(&record);
    }
    checker.facts
}

impl Checker {
    fn record(&mut self, record: &Record<'_>) {
        match record {
            Record::Comm { name, .. } => {
                self.facts.comms.insert(String::from_utf8_lossy(name).into_owned());
            }
            Record::Fork(task) if task.pid != task.parent_pid => {
                let parent = self.processes.get(&task.parent_pid).cloned().unwrap_or_default();
                self.processes.insert(task.pid, parent);
            }
            Record::Mmap(map) if map.executable => {
                let path = PathBuf::from(String::from_utf8_lossy(map.path).into_owned());
                self.facts.files.insert(path.display().to_string());
                let new =
                    Mapping { start: map.start.0, len: map.len, file_offset: map.pgoff, path };
                self.processes.entry(map.pid).or_default().insert(0, new);
            }
            Record::Sample(sample) => {
                let pid = sample.pid.unwrap();
                self.facts.samples += 1;
                self.facts.period += sample.period.unwrap();
                self.facts.pids.insert(pid);
                self.facts.tids.insert(sample.tid.unwrap());
                let Some(branches) = &sample.branches else { return };
                let stack: Vec<(u64, u64)> =
                    branches.iter().map(|entry| (entry.from.0, entry.to.0)).collect();
                assert_eq!(stack.first().map(|newest| newest.1), sample.ip.map(|ip| ip.0));
                self.stack(pid, &stack);
                self.facts.entries += stack.len() as u64;
                self.facts.stacks.push(stack);
            }
            _ => {}
        }
    }

    fn stack(&mut self, pid: i32, stack: &[(u64, u64)]) {
        for (from, to) in stack {
            if self.seen_branches.insert((pid, *from, *to)) {
                self.branch(pid, *from, *to);
            }
        }
        for pair in stack.windows(2) {
            let (newer, older) = (pair[0], pair[1]);
            if self.seen_ranges.insert((pid, older.1, newer.0)) {
                self.straight_line(pid, older.1, newer.0);
            }
        }
    }

    fn image_at(&mut self, pid: i32, address: u64) -> (&Image, ImageAddr) {
        let mapping = self
            .processes
            .get(&pid)
            .and_then(|maps| {
                maps.iter().find(|map| (map.start..map.start + map.len).contains(&address))
            })
            .unwrap_or_else(|| panic!("{address:#x} of process {pid} lies in no mapping"))
            .clone();
        let image = self
            .images
            .entry(mapping.path.clone())
            .or_insert_with(|| Image::open(&mapping.path).ok());
        let image =
            image.as_ref().unwrap_or_else(|| panic!("{} is no image", mapping.path.display()));
        let offset = address - mapping.start + mapping.file_offset;
        let found = image.address_of(FileOffset(offset)).unwrap();
        (image, found)
    }

    fn branch(&mut self, pid: i32, from: u64, to: u64) {
        let (_, to_there) = self.image_at(pid, to);
        let (image, from_there) = self.image_at(pid, from);
        let instruction: Instruction = instructions(image, from_there).next().unwrap();
        assert!(instruction.kind.is_transfer(), "{from:#x}: {instruction:?} is no branch");
        if let Some(target) = instruction.target {
            assert_eq!(target, to_there, "{from:#x} does not lead to {to:#x}");
        }
    }

    fn straight_line(&mut self, pid: i32, first: u64, last: u64) {
        assert!(first <= last, "the straight line {first:#x} to {last:#x} runs backwards");
        let (image, start) = self.image_at(pid, first);
        let end = ImageAddr(start.0 + (last - first));
        for instruction in instructions(image, start) {
            if instruction.address == end {
                return;
            }
            assert!(
                !instruction.kind.ends_straight_line() && instruction.address < end,
                "the straight line {first:#x} to {last:#x} breaks at {instruction:?}"
            );
        }
        panic!("the straight line {first:#x} to {last:#x} leaves its section");
    }
}

/// Lines that a command prints, and all that it says on standard error.
pub fn run(program: &str, arguments: &[&str]) -> (bool, String, String) {
    let done = Command::new(program).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.success(), text(&done.stdout), text(&done.stderr))
}
