//! Names for the addresses of a call chain, by what was mapped where at that time.

use crate::pairing::StackId;
use address_spaces::{AddressSpaces, Change, FileId, KERNEL_PID, MappedFile};
use calltrees::KernelSymbols;
use calltrees::stack_copy::{self, CallerOf, Walk};
use image::{FileOffset, Image, ImageAddr};
use perfdata::{Record, RuntimeAddr, Sample};
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::Path;

/// Values of a call chain from here on are no addresses but say whose the following ones are
/// (`enum perf_callchain_context`, `include/uapi/linux/perf_event.h`).
const CONTEXT_FIRST: u64 = -4095i64 as u64;
const CONTEXT_KERNEL: u64 = -128i64 as u64;
const CONTEXT_USER: u64 = -512i64 as u64;

/// Stands in a chain for callers that it lacks; no mark of the kernel's.
const MISSING: u64 = -3001i64 as u64;
const MISSING_NAME: &str = "[a caller is missing]";
/// The stacks of a recording: numbers for call chains, names for their frames.
pub(crate) struct Stacks<'k> {
    kernel: Option<&'k KernelSymbols>,
    /// Whether the names are those of the recorded kernel.
    kernel_fits: bool,
    spaces: AddressSpaces,
    /// How often each process's address space changed, so that a chain that was named before is
    /// named again.
    generations: FxHashMap<i32, u64>,
    /// Files opened, and those that cannot be.
    images: FxHashMap<FileId, Option<Image>>,
    known: FxHashMap<(i32, u64, Vec<u64>), StackId>,
    numbers: FxHashMap<Vec<String>, StackId>,
    frames: Vec<Vec<String>>,
    /// Frames of samples that unwinding added to their chains.
    pub unwound_frames: u64,
    /// Chains that lack a caller behind their first user frames.
    pub incomplete_chains: u64,
    /// Files that are there no more, or not the ones that ran.
    pub unusable: FxHashSet<String>,
}

impl<'k> Stacks<'k> {
    pub(crate) fn new(kernel: Option<&'k KernelSymbols>) -> Stacks<'k> {
        Stacks {
            kernel,
            kernel_fits: false,
            spaces: AddressSpaces::default(),
            generations: FxHashMap::default(),
            images: FxHashMap::default(),
            known: FxHashMap::default(),
            numbers: FxHashMap::default(),
            frames: Vec::new(),
            unwound_frames: 0,
            incomplete_chains: 0,
            unusable: FxHashSet::default(),
        }
    }

    /// Keeps what a record says about address spaces.
    pub(crate) fn note(&mut self, record: &Record<'_>) {
        if let Record::Mmap(map) = record
            && map.pid == KERNEL_PID
        {
            // The kernel's own mapping states its text's address as the offset.
            let kernel = map.path.starts_with(b"[kernel.kallsyms]");
            self.kernel_fits |=
                kernel && self.kernel.is_some_and(|kernel| kernel.is_at(RuntimeAddr(map.pgoff)));
        }
        if let Some(pid) = Change::of(record).and_then(|change| self.spaces.apply(change)) {
            *self.generations.entry(pid).or_default() += 1;
        }
    }

    /// The number of a sample's call chain, its first user frames completed by what the sample has
    /// of the stack.
    pub(crate) fn id(&mut self, pid: i32, mut chain: Vec<u64>, sample: &Sample<'_>) -> StackId {
        match chain.iter().rposition(|&word| word == CONTEXT_USER) {
            Some(mark) => {
                let user = chain.split_off(mark + 1);
                chain.extend(self.completed(pid, &user, sample));
            }
            // Recordings of --call-graph dwarf leave the user part to the reader.
            None => {
                let unwound = self.unwound(pid, sample);
                if !unwound.addresses.is_empty() {
                    self.unwound_frames += unwound.addresses.len() as u64;
                    chain.push(CONTEXT_USER);
                    chain.extend(unwound.addresses);
                }
            }
        }
        self.id_of(pid, chain)
    }

    /// The user part of a chain with the callers that have no frame pointer. What a walk along
    /// frame pointers gives begins with the sampled address and goes on with the first function
    /// that has one: its caller. Unwinding fills the gap.
    fn completed(&mut self, pid: i32, user: &[u64], sample: &Sample<'_>) -> Vec<u64> {
        let Some((&innermost, callers)) = user.split_first() else { return Vec::new() };
        if user.iter().any(|&word| word >= CONTEXT_FIRST) {
            return user.to_vec();
        }
        let mut unwound = self.unwound(pid, sample);
        if unwound.addresses.first() != Some(&innermost) {
            unwound = Walk { addresses: vec![innermost], cut: true };
        }
        let mut frames = unwound.addresses;
        let joined = frames.iter().skip(1).position(|frame| callers.first() == Some(frame));
        if let Some(between) = joined {
            frames.truncate(between + 1);
        }
        self.unwound_frames += frames.len() as u64 - 1;
        // A stack that was unwound to its end needs no other callers.
        if joined.is_none() && !unwound.cut {
            return frames;
        }
        // Of a function that has set up its frame pointer the chain is whole.
        if joined.is_none() && !callers.is_empty() && !self.has_frame_pointer(pid, &frames) {
            self.incomplete_chains += 1;
            frames.push(MISSING);
        }
        frames.extend(callers);
        frames
    }

    /// Whether the outermost of these frames has a frame pointer, or nothing is known of it.
    fn has_frame_pointer(&mut self, pid: i32, frames: &[u64]) -> bool {
        let Some(&last) = frames.last() else { return true };
        let address = if frames.len() > 1 { last.saturating_sub(1) } else { last };
        let found = self.place(pid, address).and_then(|(image, at)| image.has_frame_pointer_at(at));
        found.unwrap_or(true)
    }

    /// The user's frames, as far as the recorded part of the stack reaches.
    fn unwound(&mut self, pid: i32, sample: &Sample<'_>) -> Walk {
        stack_copy::walk(sample, |address, registers, read| match self.place(pid, address.0) {
            Some((image, at)) => CallerOf::in_image(image, at, registers, read),
            None => CallerOf::NoCode,
        })
    }

    /// The number of a chain of addresses and context marks, innermost first.
    pub(crate) fn id_of(&mut self, pid: i32, raw: Vec<u64>) -> StackId {
        let generation = self.generations.get(&pid).copied().unwrap_or(0);
        let key = (pid, generation, raw);
        if let Some(id) = self.known.get(&key) {
            return *id;
        }
        let mut names = Vec::new();
        let mut context = CONTEXT_USER;
        let mut innermost = true;
        for value in &key.2 {
            if *value >= CONTEXT_FIRST && *value != MISSING {
                context = *value;
                innermost = true;
                continue;
            }
            // Callers are return addresses, which may lie behind the function that made the call.
            let address = if innermost { *value } else { value.saturating_sub(1) };
            innermost = false;
            names.push(match context {
                _ if *value == MISSING => MISSING_NAME.to_owned(),
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
        let named = self
            .kernel
            .filter(|_| self.kernel_fits)
            .and_then(|kernel| kernel.find(RuntimeAddr(address)));
        named.map_or_else(|| format!("[kernel] {address:#x}"), |name| format!("{name} [kernel]"))
    }

    /// The file that a process has mapped at an address, and the address's offset in it.
    fn mapped(&self, pid: i32, address: u64) -> Option<(FileId, u64)> {
        let mapping = self.spaces.find(pid, RuntimeAddr(address))?;
        let offset = (address - mapping.origin.0).saturating_add(mapping.pgoff);
        Some((mapping.file, offset))
    }

    /// The image of a file, opened once.
    fn image(&mut self, file: FileId) -> Option<&Image> {
        let mapped = self.spaces.files().get(file.0 as usize)?;
        self.images.entry(file).or_insert_with(|| open(mapped)).as_ref()
    }

    /// Where a run-time address of a process lies.
    fn place(&mut self, pid: i32, address: u64) -> Option<(&Image, ImageAddr)> {
        let (file, offset) = self.mapped(pid, address)?;
        let image = self.image(file)?;
        Some((image, image.address_of(FileOffset(offset))?))
    }

    fn user_name(&mut self, pid: i32, address: u64) -> String {
        let Some((number, offset)) = self.mapped(pid, address) else {
            return format!("{address:#x}");
        };
        let file = self.spaces.files().get(number.0 as usize);
        let Some(path) = file.map(|file| file.path.clone()) else {
            return format!("{address:#x}");
        };
        let short = path.rsplit('/').next().unwrap_or(&path);
        let Some(image) = self.image(number) else {
            if path.starts_with('/') && !path.starts_with("//") {
                self.unusable.insert(path.clone());
            }
            return format!("{short}+{offset:#x}");
        };
        let found = image.address_of(FileOffset(offset)).and_then(|at| image.functions().find(at));
        found.map_or_else(
            || format!("{short}+{offset:#x}"),
            |function| format!("{} ({short})", function.name),
        )
    }
}

/// The file that ran, when it is still there and still the same.
fn open(MappedFile { path, build_id, .. }: &MappedFile) -> Option<Image> {
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
