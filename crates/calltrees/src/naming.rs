//! Names for addresses: each distinct place once.

use crate::dumped::Dumps;
use crate::files::{Files, Place};
use crate::inlining::{Asked, Inlining, Inner};
use crate::kernel::KernelNames;
use crate::kernel_code;
use crate::made::Made;
use crate::marks::{Owner, Step};
use crate::names::{Function, FunctionId, Known, Library, LibraryId, Names};
use crate::perf_map::MapOpener;
use address_spaces::{FileId, KERNEL_PID, KernelPart, Side, SpaceRef};
use image::ImageAddr;
use perfdata::RuntimeAddr;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Number of a distinct place of code of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlaceId(u32);

impl PlaceId {
    /// Its position among all places.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A distinct place of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Spot {
    Code(Place),
    /// Where nothing is mapped, with the address.
    Unmapped(u64),
    /// Made by a process while it ran.
    Made(i32, u64),
    /// The same, with the word that stands for a place in its dump.
    Dumped(i32, u64),
    Kernel(u64),
    Elsewhere(u64),
    Missing,
    NoSample,
}

/// By what places are known.
fn key(pid: i32, space: SpaceRef<'_>, step: Step) -> (i32, u32, Step) {
    // The kernel lies at the same place for all.
    match step.owner {
        Owner::Process => (pid, space.version, step),
        _ => (KERNEL_PID, 0, step),
    }
}

/// Whose code lies at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Of a program or library, or where nothing is known to be mapped.
    User,
    /// Made by a program while it ran.
    Made,
    /// The kernel's and its modules'.
    Kernel,
    /// A hypervisor's or a virtual machine's.
    Elsewhere,
    /// Nobody's: it stands for what the recording does not have.
    Nobody,
}

/// The distinct places of a recording.
pub(crate) struct Places<'f> {
    files: &'f Files<'f>,
    kernel_space: SpaceRef<'f>,
    spots: Vec<Spot>,
    numbers: FxHashMap<Spot, PlaceId>,
    known: FxHashMap<(i32, u32, Step), PlaceId>,
    made: Made<'f>,
    dumps: &'f Dumps,
}

impl<'f> Places<'f> {
    /// `kernel_space`: what the kernel had mapped at the end; modules rarely go.
    pub(crate) fn new(
        files: &'f Files<'f>,
        kernel_space: SpaceRef<'f>,
        map: &'f MapOpener<'f>,
        dumps: &'f Dumps,
    ) -> Places<'f> {
        let (spots, numbers, known) = Default::default();
        Places { files, kernel_space, spots, numbers, known, made: Made::new(map), dumps }
    }

    /// The place of an address of a process.
    pub(crate) fn of(&mut self, pid: i32, space: SpaceRef<'_>, step: Step) -> PlaceId {
        let key = key(pid, space, step);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let spot = match step.owner {
            Owner::Process if Dumps::is_word(step.code) => Spot::Dumped(pid, step.code),
            Owner::Process => self.in_process(pid, space, RuntimeAddr(step.code)),
            Owner::Kernel => Spot::Kernel(step.code),
            Owner::Elsewhere => Spot::Elsewhere(step.code),
            Owner::Missing => Spot::Missing,
            Owner::NoSample => Spot::NoSample,
        };
        let next = PlaceId(self.spots.len() as u32);
        let id = *self.numbers.entry(spot).or_insert_with(|| {
            self.spots.push(spot);
            next
        });
        self.known.insert(key, id);
        id
    }

    /// The place that an address of a process was found to be.
    pub(crate) fn known(&self, pid: i32, space: SpaceRef<'_>, step: Step) -> Option<PlaceId> {
        self.known.get(&key(pid, space, step)).copied()
    }

    /// Whose code it is.
    pub(crate) fn kind(&self, place: PlaceId) -> Kind {
        match self.spots.get(place.index()) {
            Some(Spot::Code(_) | Spot::Unmapped(_)) => Kind::User,
            Some(Spot::Made(..) | Spot::Dumped(..)) => Kind::Made,
            Some(Spot::Kernel(_)) => Kind::Kernel,
            Some(Spot::Elsewhere(_)) => Kind::Elsewhere,
            Some(Spot::Missing | Spot::NoSample) | None => Kind::Nobody,
        }
    }

    /// Where a place lies in its image.
    pub(crate) fn address(&self, place: PlaceId) -> Option<ImageAddr> {
        match self.spots.get(place.index())? {
            Spot::Code(Place::In(_, at)) => Some(*at),
            Spot::Kernel(address) => Some(self.kernel_place(*address)?.1),
            _ => None,
        }
    }

    fn kernel_place(&self, address: u64) -> Option<(FileId, ImageAddr)> {
        kernel_code::place(self.files, self.kernel_space, RuntimeAddr(address))
    }

    fn in_process(&mut self, pid: i32, space: SpaceRef<'_>, address: RuntimeAddr) -> Spot {
        match self.files.place(space, address) {
            // Programs may have had memory before the recording that it does not tell of.
            Place::Nowhere if self.made.has_name(pid, address) => Spot::Made(pid, address.0),
            Place::Nowhere => Spot::Unmapped(address.0),
            Place::At(file, _) if self.files.is_anonymous(file) && self.made.has_map(pid) => {
                Spot::Made(pid, address.0)
            }
            place => Spot::Code(place),
        }
    }

    /// What is to be said about the names of code that programs made.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut remarks = self.dumps.remarks();
        remarks.extend(self.made.remarks());
        remarks
    }

    /// Names for all places: for each its functions, innermost first, more than one where calls
    /// were inlined and `asked` asks for them.
    pub(crate) fn name(
        &self,
        kernel: Option<KernelNames<'_>>,
        asked: Option<Asked<'_>>,
    ) -> (Names, Vec<Vec<FunctionId>>) {
        let inlining = asked.map(|asked| self.inlining(asked)).unwrap_or_default();
        let (names, special, nameless_kernel) = Default::default();
        let mut naming = Naming { places: self, kernel, names, special, nameless_kernel };
        naming.libraries();
        let of = |(index, spot): (u32, &Spot)| naming.of(*spot, inlining.at(index));
        let functions = (0u32..).zip(&self.spots).map(of).collect();
        naming.names.set_inlining(inlining.libraries());
        naming.problems();
        naming.names.set_sources(inlining.into_sources());
        (naming.names, functions)
    }

    /// What the debug information says of each place.
    fn inlining(&self, asked: Asked<'_>) -> Inlining {
        let mut by_file: BTreeMap<FileId, Vec<(ImageAddr, u32)>> = BTreeMap::new();
        for (index, spot) in (0u32..).zip(&self.spots) {
            if let Spot::Code(Place::In(file, at)) = spot {
                by_file.entry(*file).or_default().push((*at, index));
            }
        }
        let mut found = Inlining::default();
        for (file, mut places) in by_file {
            places.sort_unstable();
            if let Some(image) = self.files.image(file) {
                found.add(image, LibraryId(file.0), &places, asked);
            }
        }
        for (index, spot) in (0u32..).zip(&self.spots).filter(|_| asked.lines) {
            if let Spot::Dumped(_, word) = spot
                && let Some((file, line)) = self.dumps.line(*word)
            {
                found.add_line(index, &file, line);
            }
        }
        found
    }
}

/// What has no file.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Special {
    Kernel,
    Unknown,
    /// Of a process.
    Made(i32),
    Elsewhere,
    Nobody,
}

/// Of addresses that lie in nothing.
const NO_MAPPING: &str = "the recording does not tell what was mapped there: a part of it is \
                          missing, or it began later than the process and does not list its mappings";

struct Naming<'p, 'f> {
    places: &'p Places<'f>,
    kernel: Option<KernelNames<'p>>,
    names: Names,
    special: FxHashMap<Special, LibraryId>,
    /// An address of the kernel itself that got no name.
    nameless_kernel: Option<u64>,
}

impl Naming<'_, '_> {
    /// One for each file of the recording, by the same number.
    fn libraries(&mut self) {
        let files = self.places.files;
        let of = |file: FileId| {
            let mapped = files.mapped(file)?;
            let build_id = files.id(file).map(|id| id.as_bytes().to_vec());
            Some(Library { build_id, ..Library::at(&mapped.path) })
        };
        (0u32..).map_while(|number| of(FileId(number))).for_each(|library| {
            self.names.add_library(library);
        });
    }

    /// Why functions have no names or may have wrong ones, once it is known which files that takes.
    fn problems(&mut self) {
        let mut problems: FxHashMap<FileId, &str> = FxHashMap::default();
        for (file, opened) in self.places.files.asked_for() {
            let Some(library) = self.names.library_mut(LibraryId(file.0)) else { continue };
            match opened {
                Ok(opened) => {
                    library.lacks.clone_from(&opened.lacks);
                    library.doubt.clone_from(&opened.doubt);
                }
                Err(why) => {
                    library.problem = Some(why.clone());
                    problems.insert(file, why);
                }
            }
        }
        let Some(address) = self.nameless_kernel else { return };
        let mapping = self.places.kernel_space.find(RuntimeAddr(address));
        let mapped = mapping.and_then(|mapping| self.places.files.mapped(mapping.file));
        let why = match (mapping, mapped) {
            (Some(_), Some(file)) if file.side == Side::HiddenKernel => kernel_code::HIDDEN,
            (Some(mapping), _) => match problems.get(&mapping.file) {
                Some(why) => why,
                None => return,
            },
            _ => kernel_code::HIDDEN,
        };
        let kernel = self.special(Special::Kernel);
        if let Some(library) = self.names.library_mut(kernel) {
            library.problem = Some(why.to_owned());
        }
    }

    fn special(&mut self, special: Special) -> LibraryId {
        *self.special.entry(special).or_insert_with(|| {
            let (path, problem) = match special {
                Special::Kernel => ("[kernel]".to_owned(), None),
                Special::Unknown => ("[unknown]".to_owned(), Some(NO_MAPPING.to_owned())),
                Special::Made(pid) => (format!("[JIT {pid}]"), self.places.made.problem(pid)),
                Special::Elsewhere => ("[elsewhere]".to_owned(), None),
                Special::Nobody => ("[none]".to_owned(), None),
            };
            self.names.add_library(Library { problem, ..Library::at(path) })
        })
    }

    fn of(&mut self, spot: Spot, found: &[Inner]) -> Vec<FunctionId> {
        let (name, library, known) = match spot {
            Spot::Code(Place::In(file, at)) => {
                let image = self.places.files.image(file);
                let found = image.and_then(|image| image.functions().find_shown(at));
                match found {
                    Some(function) => (function.name.to_owned(), LibraryId(file.0), Known::Symbol),
                    None => match image.and_then(|image| image.stub_name(at)) {
                        Some(stub) => (stub.to_owned(), LibraryId(file.0), Known::Symbol),
                        None => {
                            // A function without a name is its first address.
                            let range = image.and_then(|image| image.unwind_range(at));
                            let first = range.map_or(at, |range| range.start);
                            (format!("{:#x}", first.0), LibraryId(file.0), Known::Address)
                        }
                    },
                }
            }
            Spot::Code(Place::At(file, offset)) => {
                (format!("{:#x}", offset.0), LibraryId(file.0), Known::Address)
            }
            Spot::Code(Place::Nowhere) => {
                ("?".to_owned(), self.special(Special::Unknown), Known::Address)
            }
            Spot::Unmapped(address) => {
                (format!("{address:#x}"), self.special(Special::Unknown), Known::Address)
            }
            Spot::Made(pid, address) => {
                let name = self.places.made.name(pid, RuntimeAddr(address));
                let known = if name.is_some() { Known::Symbol } else { Known::Address };
                let library = self.special(Special::Made(pid));
                (name.unwrap_or_else(|| format!("{address:#x}")), library, known)
            }
            Spot::Dumped(pid, word) => {
                let name = self.places.dumps.name(word);
                let known = if name.is_some() { Known::Symbol } else { Known::Address };
                let name = name.map_or_else(|| "?".to_owned(), Cow::into_owned);
                (name, self.special(Special::Made(pid)), known)
            }
            Spot::Elsewhere(address) => {
                (format!("{address:#x}"), self.special(Special::Elsewhere), Known::Address)
            }
            Spot::Kernel(address) => self.in_kernel(address),
            Spot::Missing => {
                let name = "[a caller is missing]".to_owned();
                (name, self.special(Special::Nobody), Known::Missing)
            }
            Spot::NoSample => {
                ("[no sample]".to_owned(), self.special(Special::Nobody), Known::NoSample)
            }
        };
        let (own, inner) =
            found.split_last().map_or((None, found), |(own, rest)| (Some(own), rest));
        let line = own.and_then(|own| own.line);
        let inlined = inner.iter().map(|inner| {
            let name = inner.name.clone();
            Function { name, library, known: Known::Inlined, line: inner.line }
        });
        let functions = inlined.chain([Function { name, library, known, line }]);
        functions.map(|function| self.names.intern(function)).collect()
    }

    fn in_kernel(&mut self, address: u64) -> (String, LibraryId, Known) {
        let here = RuntimeAddr(address);
        let module = self.places.kernel_space.find(here).filter(|mapping| {
            let file = self.places.files.mapped(mapping.file);
            file.is_some_and(|file| KernelPart::of(&file.path) == KernelPart::Module)
        });
        let library = match module {
            Some(mapping) => LibraryId(mapping.file.0),
            None => self.special(Special::Kernel),
        };
        let in_module = module.is_some();
        let known = self.kernel.and_then(|kernel| kernel.find(here, in_module));
        let name = known.map(str::to_owned).or_else(|| {
            // What runs there has no name in the list of all, which is not the files' fault.
            if self.kernel.is_some() && !in_module {
                return None;
            }
            let (file, at) = self.places.kernel_place(address)?;
            let function = self.places.files.image(file)?.functions().find_shown(at)?;
            Some(function.name.to_owned())
        });
        match name {
            Some(name) => (name, library, Known::Symbol),
            None => {
                if self.kernel.is_none() && !in_module {
                    self.nameless_kernel = self.nameless_kernel.or(Some(address));
                }
                (format!("{address:#x}"), library, Known::Address)
            }
        }
    }
}
