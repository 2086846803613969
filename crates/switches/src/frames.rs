//! Names for the addresses of a call chain, by what was mapped where at that time.

use crate::kernel::KernelSymbols;
use crate::pairing::StackId;
use image::{FileOffset, Image};
use perfdata::{MmapEvent, TaskEvent, Words};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::path::Path;

/// Values of a call chain from here on are no addresses but say whose the following ones are
/// (`enum perf_callchain_context`, `include/uapi/linux/perf_event.h`).
const CONTEXT_FIRST: u64 = -4095i64 as u64;
const CONTEXT_KERNEL: u64 = -128i64 as u64;
const CONTEXT_USER: u64 = -512i64 as u64;
/// The pid of the kernel's own mappings.
const KERNEL: i32 = -1;

#[derive(Clone, Copy)]
struct Mapping {
    end: u64,
    file_offset: u64,
    file: usize,
}

#[derive(Clone, Default)]
struct Process {
    /// By start; a new mapping replaces what it covers.
    mappings: BTreeMap<u64, Mapping>,
    /// Changes with the mappings, so that a chain that was named before is named again.
    generation: u64,
}

struct File {
    path: String,
    build_id: Option<Vec<u8>>,
    image: Option<Option<Image>>,
}

/// The stacks of a recording: numbers for call chains, names for their frames.
pub(crate) struct Stacks<'k> {
    kernel: Option<&'k KernelSymbols>,
    /// Whether the names are those of the recorded kernel.
    kernel_fits: bool,
    processes: FxHashMap<i32, Process>,
    files: Vec<File>,
    file_numbers: FxHashMap<(String, Option<Vec<u8>>), usize>,
    generations: u64,
    known: FxHashMap<(i32, u64, Vec<u64>), StackId>,
    numbers: FxHashMap<Vec<String>, StackId>,
    frames: Vec<Vec<String>>,
    /// Files that are there no more, or not the ones that ran.
    pub unusable: FxHashSet<String>,
}

impl<'k> Stacks<'k> {
    pub(crate) fn new(kernel: Option<&'k KernelSymbols>) -> Stacks<'k> {
        Stacks {
            kernel,
            kernel_fits: false,
            processes: FxHashMap::default(),
            files: Vec::new(),
            file_numbers: FxHashMap::default(),
            generations: 0,
            known: FxHashMap::default(),
            numbers: FxHashMap::default(),
            frames: Vec::new(),
            unusable: FxHashSet::default(),
        }
    }

    /// A process or the kernel mapped code.
    pub(crate) fn mmap(&mut self, map: &MmapEvent<'_>) {
        if map.pid == KERNEL {
            // The kernel's own mapping states its text's address as the offset.
            let kernel = map.path.starts_with(b"[kernel.kallsyms]");
            self.kernel_fits |= kernel && self.kernel.is_some_and(|kernel| kernel.is_at(map.pgoff));
            return;
        }
        if !map.executable {
            return;
        }
        let path = String::from_utf8_lossy(map.path).into_owned();
        let build_id = map.build_id.map(<[u8]>::to_vec);
        let next = self.files.len();
        let file = *self.file_numbers.entry((path.clone(), build_id.clone())).or_insert(next);
        if file == next {
            self.files.push(File { path, build_id, image: None });
        }
        self.generations += 1;
        let process = self.processes.entry(map.pid).or_default();
        process.generation = self.generations;
        let (start, end) = (map.start.0, map.start.0.saturating_add(map.len));
        // What began before and reaches in ends there; what begins within is gone.
        if let Some((_, before)) = process.mappings.range_mut(..start).next_back() {
            before.end = before.end.min(start);
        }
        let covered: Vec<u64> = process.mappings.range(start..end).map(|(start, _)| *start).collect();
        for start in covered {
            process.mappings.remove(&start);
        }
        process.mappings.insert(start, Mapping { end, file_offset: map.pgoff, file });
    }

    /// A process was made: it begins as its parent is.
    pub(crate) fn fork(&mut self, task: &TaskEvent) {
        if task.pid != task.parent_pid
            && let Some(parent) = self.processes.get(&task.parent_pid).cloned()
        {
            self.generations += 1;
            self.processes.insert(task.pid, Process { generation: self.generations, ..parent });
        }
    }

    /// A process became another program.
    pub(crate) fn exec(&mut self, pid: i32) {
        self.generations += 1;
        let generation = self.generations;
        self.processes.insert(pid, Process { generation, ..Process::default() });
    }

    /// The number of a call chain.
    pub(crate) fn id(&mut self, pid: i32, chain: &Words<'_>) -> StackId {
        let raw: Vec<u64> = chain.iter().collect();
        self.id_of(pid, raw)
    }

    /// The number of a chain of addresses and context marks, innermost first.
    pub(crate) fn id_of(&mut self, pid: i32, raw: Vec<u64>) -> StackId {
        let generation = self.processes.get(&pid).map_or(0, |process| process.generation);
        let key = (pid, generation, raw);
        if let Some(id) = self.known.get(&key) {
            return *id;
        }
        let mut names = Vec::new();
        let mut context = CONTEXT_USER;
        let mut innermost = true;
        for value in &key.2 {
            if *value >= CONTEXT_FIRST {
                context = *value;
                innermost = true;
                continue;
            }
            // Callers are return addresses, which may lie behind the function that made the call.
            let address = if innermost { *value } else { value.saturating_sub(1) };
            innermost = false;
            names.push(match context {
                CONTEXT_KERNEL => self.kernel_name(address),
                _ => self.user_name(pid, address),
            });
        }
        let id = self.number(names);
        self.known.insert(key, id);
        id
    }

    fn number(&mut self, names: Vec<String>) -> StackId {
        if let Some(id) = self.numbers.get(&names) {
            return *id;
        }
        let id = StackId(u32::try_from(self.frames.len()).unwrap_or(u32::MAX));
        self.numbers.insert(names.clone(), id);
        self.frames.push(names);
        id
    }

    /// The frames of a stack, innermost first.
    pub(crate) fn frames(&self, id: StackId) -> &[String] {
        self.frames.get(id.0 as usize).map_or(&[], Vec::as_slice)
    }

    fn kernel_name(&self, address: u64) -> String {
        let named = self.kernel.filter(|_| self.kernel_fits).and_then(|kernel| kernel.find(address));
        named.map_or_else(|| format!("[kernel] {address:#x}"), |name| format!("{name} [kernel]"))
    }

    fn user_name(&mut self, pid: i32, address: u64) -> String {
        let unknown = || format!("{address:#x}");
        let Some(process) = self.processes.get(&pid) else { return unknown() };
        let Some((start, mapping)) = process.mappings.range(..=address).next_back() else { return unknown() };
        if address >= mapping.end {
            return unknown();
        }
        let offset = (address - start).saturating_add(mapping.file_offset);
        let Some(file) = self.files.get_mut(mapping.file) else { return unknown() };
        let short = file.path.rsplit('/').next().unwrap_or(&file.path).to_owned();
        let (path, build_id) = (&file.path, &file.build_id);
        let image = file.image.get_or_insert_with(|| open(path, build_id.as_deref()));
        let Some(image) = image else {
            if path.starts_with('/') && !path.starts_with("//") {
                self.unusable.insert(path.clone());
            }
            return format!("{short}+{offset:#x}");
        };
        let found = image.address_of(FileOffset(offset)).and_then(|at| image.functions().find(at));
        found
            .map_or_else(|| format!("{short}+{offset:#x}"), |function| format!("{} ({short})", function.name))
    }
}

/// The file that ran, when it is still there and still the same.
fn open(path: &str, build_id: Option<&[u8]>) -> Option<Image> {
    // `[vdso]`, `//anon` and the like are no files.
    if !path.starts_with('/') || path.starts_with("//") {
        return None;
    }
    let image = Image::open(Path::new(path)).ok()?;
    match (build_id, image.build_id()) {
        (Some(recorded), Some(found)) if !found.matches_padded(recorded) => None,
        _ => Some(image),
    }
}
