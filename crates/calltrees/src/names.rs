//! The functions, libraries and source files of a recording, by number.

use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Number of a function in [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

/// Number of a library in [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LibraryId(pub u32);

/// How a function is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Known {
    /// By the symbol table.
    Symbol,
    /// By the debug information: inlined into its caller.
    Inlined,
    /// Not at all: the name is an address.
    Address,
    /// It stands for callers that the recording does not have.
    Missing,
    /// It stands for the whole stack: no sample tells it.
    NoSample,
}

/// A function, or a place without a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Function {
    /// The linkage name, or the address in the file.
    pub name: String,
    /// Where it lies.
    pub library: LibraryId,
    /// How it is known.
    pub known: Known,
    /// The line of the source that runs there, or calls, if [`Options::lines`](crate::Options::lines)
    /// asks for it and the debug information has it: a function is then one for each of its lines.
    pub line: Option<Line>,
}

/// Number of a source file in [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u32);

/// A line of a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    /// The file.
    pub file: SourceId,
    /// Its number, from 1; 0 where the compiler made the code for no line of the file.
    pub number: u32,
}

/// A file that code ran in: a program, a shared library, the kernel or a module.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Library {
    /// Its path as recorded; `[kernel]`, `[JIT PID]`, `[unknown]`, `[elsewhere]` and `[none]` stand for
    /// no file.
    pub path: String,
    /// The build ID that the recording has.
    pub build_id: Option<Vec<u8>>,
    /// Why its functions have no names.
    pub problem: Option<String>,
    /// Why some of them have none.
    pub lacks: Option<String>,
    /// Why its names may be those of another build.
    pub doubt: Option<String>,
}

impl Library {
    /// A library of which nothing is known but its path.
    pub fn at(path: impl Into<String>) -> Library {
        Library { path: path.into(), build_id: None, problem: None, lacks: None, doubt: None }
    }

    /// The last part of the path.
    pub fn short(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// The functions and libraries of a recording.
#[derive(Clone, Debug, Default)]
pub struct Names {
    functions: Vec<Function>,
    /// Of each function the number of the same one without its line.
    whole: Vec<FunctionId>,
    numbers: FxHashMap<Function, FunctionId>,
    libraries: Vec<Library>,
    sources: Vec<String>,
    /// Those whose debug information was read.
    inlining: BTreeSet<LibraryId>,
}

impl Names {
    /// Functions and libraries that another source numbered.
    pub fn of(functions: Vec<Function>, libraries: Vec<Library>) -> Names {
        let numbered = functions.iter().cloned().zip((0u32..).map(FunctionId));
        let numbers: FxHashMap<Function, FunctionId> = numbered.collect();
        let whole = |(own, function): (u32, &Function)| {
            let bare = Function { line: None, ..function.clone() };
            numbers.get(&bare).copied().unwrap_or(FunctionId(own))
        };
        let whole = (0u32..).zip(&functions).map(whole).collect();
        Names { whole, numbers, functions, libraries, ..Names::default() }
    }

    /// All functions, by number.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// All libraries, by number.
    pub fn libraries(&self) -> &[Library] {
        &self.libraries
    }

    /// The paths of all source files that lines lie in, by number: as the debug information has
    /// them.
    pub fn sources(&self) -> &[String] {
        &self.sources
    }

    /// A function.
    pub fn function(&self, id: FunctionId) -> Option<&Function> {
        self.functions.get(id.0 as usize)
    }

    /// The library of a function.
    pub fn library(&self, id: FunctionId) -> Option<&Library> {
        self.libraries.get(self.function(id)?.library.0 as usize)
    }

    /// The same function without its line, which stands for it whole.
    pub fn without_line(&self, id: FunctionId) -> FunctionId {
        self.whole.get(id.0 as usize).copied().unwrap_or(id)
    }

    /// The path of the source file that a line lies in.
    pub fn source(&self, line: Line) -> &str {
        self.sources.get(line.file.0 as usize).map_or("", String::as_str)
    }

    /// Whether it is known which functions were inlined in a library.
    pub fn has_inlining(&self, library: LibraryId) -> bool {
        self.inlining.contains(&library)
    }

    pub(crate) fn set_inlining(&mut self, libraries: BTreeSet<LibraryId>) {
        self.inlining = libraries;
    }

    pub(crate) fn intern(&mut self, function: Function) -> FunctionId {
        if let Some(known) = self.numbers.get(&function) {
            return *known;
        }
        let bare = function.line.map(|_| Function { line: None, ..function.clone() });
        let whole = bare.map(|bare| self.intern(bare));
        let next = FunctionId(self.functions.len() as u32);
        self.functions.push(function.clone());
        self.whole.push(whole.unwrap_or(next));
        self.numbers.insert(function, next);
        next
    }

    pub(crate) fn add_library(&mut self, library: Library) -> LibraryId {
        let next = LibraryId(self.libraries.len() as u32);
        self.libraries.push(library);
        next
    }

    pub(crate) fn library_mut(&mut self, library: LibraryId) -> Option<&mut Library> {
        self.libraries.get_mut(library.0 as usize)
    }

    pub(crate) fn set_sources(&mut self, sources: Vec<String>) {
        self.sources = sources;
    }
}
