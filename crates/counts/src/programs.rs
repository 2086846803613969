//! What was counted of which program? Samples of all programs together, or of each for itself.
//!
//! A sample belongs to the program that its process runs at that time: the executable, with all
//! libraries and with what the kernel does for it. Samples of no program are those of the kernel's
//! own threads, and of processes of which nothing is known.

use crate::aggregate::{What, Whole, counted};
use crate::binding::Elsewhere;
use crate::error::Error;
use crate::listed::lasting;
use crate::model::Counts;
use crate::options::CountOptions;
use crate::resolve::{Spaces, Sums};
use crate::workers::Shared;
use address_spaces::FileId;
use perfdata::Input;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::Path;

/// Sums of each program, or of all under no name.
pub(crate) struct SumsOf<'t> {
    shared: Shared<'t>,
    all: FxHashMap<Option<FileId>, Sums<'t>>,
}

impl<'t> SumsOf<'t> {
    pub(crate) fn new(shared: &Shared<'t>) -> SumsOf<'t> {
        SumsOf { shared: *shared, all: FxHashMap::default() }
    }

    /// Those of the program that runs in an address space.
    pub(crate) fn of(&mut self, spaces: Spaces<'_>) -> &mut Sums<'t> {
        let program = if self.shared.apart { spaces.user.program() } else { None };
        self.all.entry(program).or_insert_with(|| self.shared.sums())
    }

    /// Those of no program.
    pub(crate) fn rest(&mut self) -> &mut Sums<'t> {
        self.all.entry(None).or_insert_with(|| self.shared.sums())
    }

    /// Adds the sums of another worker.
    pub(crate) fn merge(&mut self, other: SumsOf<'t>) {
        for (program, sums) in other.all {
            self.all.entry(program).or_insert_with(|| self.shared.sums()).merge(sums);
        }
    }

    /// All as one.
    pub(crate) fn together(mut self) -> Sums<'t> {
        let mut total = self.all.remove(&None).unwrap_or_else(|| self.shared.sums());
        self.all.into_values().for_each(|sums| total.merge(sums));
        total
    }

    /// Those of each program, by path and build ID in hex.
    fn apart(self) -> BTreeMap<Option<(String, String)>, Sums<'t>> {
        let files = self.shared.timeline.files();
        let mut named: BTreeMap<_, Sums<'t>> = BTreeMap::new();
        for (program, sums) in self.all {
            let file = program.and_then(|program| files.get(program.0 as usize));
            let name = file.map(|file| {
                let id = file.build_id.as_deref().filter(|id| id.iter().any(|byte| *byte != 0));
                (lasting(&file.path).to_owned(), id.map(hex::encode).unwrap_or_default())
            });
            match named.entry(name) {
                std::collections::btree_map::Entry::Vacant(free) => drop(free.insert(sums)),
                std::collections::btree_map::Entry::Occupied(mut own) => own.get_mut().merge(sums),
            }
        }
        named
    }
}

/// What was counted of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Path of its executable, as recorded; empty for the kernel's own threads and for processes of
    /// which nothing is known.
    pub path: String,
    /// Build ID of the executable in hex; empty where it has none.
    pub build_id: String,
    /// Its counts, with those of its libraries and of what the kernel did for it.
    pub counts: Counts,
}

impl Program {
    /// Samples that were taken of it.
    pub fn samples(&self) -> u64 {
        self.counts.ledger.samples.entered
    }
}

/// What was counted of all programs of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Programs {
    /// The programs, by path and build ID.
    pub programs: Vec<Program>,
    /// Samples of all.
    pub samples: u64,
    /// Remarks for the reader: files that did not match, in words.
    pub notes: Vec<String>,
}

/// As [`crate::aggregate::aggregate`] in all files that the recording names, each program for
/// itself; files that are not at their paths may be `elsewhere`. What is known of the recording as a
/// whole (records that were lost, bytes that are damaged) stands in the ledger of the program with
/// the most samples. A program in whose files nothing could be counted has a ledger alone.
///
/// # Errors
/// Where the recording cannot be read or holds no sample.
pub fn by_program(
    path: &Path,
    input: &Input,
    options: CountOptions,
    elsewhere: Elsewhere<'_>,
) -> Result<Programs, Error> {
    let what = What { images: &[], options, apart: true, elsewhere: Some(elsewhere) };
    counted(path, input, what, &|_| {}, |sums, whole: Whole<'_>| {
        let mut programs: Vec<Program> = Vec::new();
        for (name, sums) in sums.apart() {
            let counts = sums.finish(whole.unrecorded);
            let ledger = &counts.ledger;
            if ledger.samples.is_empty() && ledger.branches.is_empty() {
                continue;
            }
            let (path, build_id) = name.unwrap_or_default();
            programs.push(Program { path, build_id, counts });
        }
        if let Some(largest) = programs.iter_mut().max_by_key(|program| program.samples()) {
            whole.losses(&mut largest.counts.ledger);
        }
        Ok(Programs { programs, samples: whole.samples, notes: whole.notes() })
    })
}
