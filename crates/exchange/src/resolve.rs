//! At which address of its image does a value lie? From what a profile states to counts, with the
//! books kept.
//!
//! Profiles state addresses in one of three forms. Those of a process need the program's segments to
//! become addresses of the image, as do offsets into its file; addresses of the image need nothing.
//! A mapping of everything (start and offset 0, no limit or the highest) says that its addresses are
//! the image's, as `GetBase` of
//! <https://github.com/google/pprof/blob/main/internal/elfexec/elfexec.go> has it; so does any other
//! that starts at 0, where no process has anything, or that holds none of its addresses.

use crate::Error;
use crate::sampled::{Code, Mapping, Place, Sampled, StatedAddr};
use counts::{Counts, ImageCounts, Ledger, Reason, SampleCount};
use image::{Arch, BuildId, FileOffset, Image, ImageAddr};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the addresses of a profile are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Addresses of a process.
    Process,
    /// Addresses of the image, as its file states them.
    Image,
    /// Offsets into the image's file.
    File,
}

/// What was found of a mapped file.
#[derive(Clone, Debug)]
pub enum Program {
    /// The program: the build ID says so.
    Is(Arc<Image>),
    /// The program, as far as its name tells.
    Named(Arc<Image>),
    /// Only other files are counted.
    NotAskedFor,
    /// A file of that name with this build ID.
    OtherBuild(String),
    /// Nothing.
    Missing,
}

/// A file of a profile, and what became of its samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path, as the profile has it.
    pub path: String,
    /// Its build ID.
    pub build_id: Option<BuildId>,
    /// What its addresses are.
    pub form: Form,
    /// Its samples.
    pub samples: u64,
    /// Those that are counted.
    pub used: u64,
    /// Whether its name alone tells that the program at hand is it.
    pub by_name: bool,
    /// Why some are not counted.
    pub unused: BTreeMap<Reason, u64>,
    /// The build ID of the file of that name.
    pub other_build: Option<String>,
}

/// What a profile gave.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The counts.
    pub counts: Counts,
    /// The files, those with most samples first.
    pub files: Vec<File>,
    /// Samples that lie in no mapping, or have no stack.
    pub nowhere: u64,
    /// Samples of code that is of no file.
    pub no_file: u64,
    /// Samples that have names and no addresses.
    pub no_address: u64,
    /// Samples of the kernel.
    pub kernel: u64,
    /// Addresses whose values make less than half a sample.
    pub rounded_away: u64,
    /// The architecture of all programs at hand; empty where there is none, or more than one.
    pub architecture: String,
}

/// A value as samples, to the nearest.
fn samples(value: u128, divisor: u64) -> u64 {
    let divisor = u128::from(divisor.max(1));
    u64::try_from(value.saturating_add(divisor / 2) / divisor).unwrap_or(u64::MAX)
}

/// The form of each mapping's addresses.
fn forms(sampled: &Sampled, given: Option<Form>) -> Vec<Form> {
    if let Some(form) = given {
        return vec![form; sampled.mappings.len()];
    }
    let mut inside = vec![false; sampled.mappings.len()];
    for place in sampled.places.keys() {
        let mapping = place.mapping.and_then(|at| Some((at, sampled.mappings.get(at)?)));
        if let Some((at, mapping)) = mapping
            && holds(mapping, place.address)
            && let Some(inside) = inside.get_mut(at)
        {
            *inside = true;
        }
    }
    let of = |(mapping, inside): (&Mapping, bool)| {
        if mapping.start.0 == 0 || !inside { Form::Image } else { Form::Process }
    };
    sampled.mappings.iter().zip(inside).map(of).collect()
}

fn is_everything(mapping: &Mapping) -> bool {
    let no_limit = [0, u64::MAX].contains(&mapping.limit.0);
    mapping.start.0 == 0 && mapping.offset == 0 && no_limit
}

fn holds(mapping: &Mapping, address: StatedAddr) -> bool {
    mapping.start <= address && (mapping.limit.0 == 0 || address < mapping.limit)
}

/// Whether a mapping is of a file: not of the kernel's pages, nor of memory that has no name.
fn is_file(mapping: &Mapping) -> bool {
    let path = &*mapping.path;
    let no_file = ["[", "//anon", "/memfd:", "/dev/zero", "/SYSV", "anon_inode:"];
    !no_file.iter().any(|start| path.starts_with(start))
        && (!path.is_empty() || mapping.build_id.is_some())
}

fn is_kernel(mapping: &Mapping) -> bool {
    mapping.path.starts_with("[kernel") || mapping.path.starts_with("[guest.kernel")
}

/// Counts a profile's samples. `find` says which program a mapped file is; `given` what the
/// addresses are, where the profile is not to be believed.
///
/// # Errors
/// Where a sum exceeds 64 bits.
pub fn counted(
    sampled: &Sampled,
    given: Option<Form>,
    find: &mut dyn FnMut(&Mapping) -> Program,
) -> Result<Imported, Error> {
    let forms = forms(sampled, given);
    let mut found: Vec<Option<Program>> = vec![None; sampled.mappings.len()];
    let mut imported = Imported {
        counts: Counts::default(),
        files: Vec::new(),
        nowhere: 0,
        no_file: 0,
        no_address: 0,
        kernel: 0,
        rounded_away: 0,
        architecture: String::new(),
    };
    let mut files: BTreeMap<(String, Option<BuildId>), (File, ImageCounts)> = BTreeMap::new();
    let ledger = &mut Ledger::default();
    let divisor = sampled.divisor;
    let mut nowhere = |reason, value| {
        let count = samples(value, divisor);
        ledger.samples.write_off(reason, count);
        imported.nowhere = imported.nowhere.saturating_add(count);
    };
    nowhere(Reason::Unmapped, sampled.without_stack);
    nowhere(Reason::Malformed, sampled.malformed);
    for (place, value) in &sampled.places {
        let count = samples(*value, divisor);
        if count == 0 {
            imported.rounded_away = imported.rounded_away.saturating_add(1);
            continue;
        }
        let mapped = place
            .mapping
            .and_then(|at| Some((sampled.mappings.get(at)?, forms.get(at)?, found.get_mut(at)?)));
        let kernel = mapped.as_ref().is_some_and(|(mapping, ..)| is_kernel(mapping));
        if place.code == Code::Kernel || kernel {
            ledger.samples.write_off(Reason::ImageUnavailable, count);
            imported.kernel = imported.kernel.saturating_add(count);
            continue;
        }
        if place.address.0 == 0 && place.code == Code::Native {
            ledger.samples.write_off(Reason::NoFile, count);
            imported.no_address = imported.no_address.saturating_add(count);
            continue;
        }
        let (mapping, form, program) = match mapped {
            Some(mapped) if place.code == Code::Native && is_file(mapped.0) => mapped,
            None if place.code == Code::Native => {
                ledger.samples.write_off(Reason::Unmapped, count);
                imported.nowhere = imported.nowhere.saturating_add(count);
                continue;
            }
            _ => {
                ledger.samples.write_off(Reason::NoFile, count);
                imported.no_file = imported.no_file.saturating_add(count);
                continue;
            }
        };
        let program = program.get_or_insert_with(|| find(mapping));
        let key = (mapping.path.to_string(), mapping.build_id);
        let (file, counts) = files.entry(key).or_insert_with(|| begun(mapping, *form, program));
        file.samples = file.samples.saturating_add(count);
        match address(mapping, *form, given.is_some(), program, place) {
            Ok(address) => {
                ledger.samples.use_up(count);
                file.used = file.used.saturating_add(count);
                counts.samples.push(SampleCount { address, count });
            }
            Err(reason) => {
                ledger.samples.write_off(reason, count);
                let sum = file.unused.entry(reason).or_default();
                *sum = sum.saturating_add(count);
            }
        }
    }
    imported.architecture = architecture(found.iter().flatten());
    let ledger = std::mem::take(ledger);
    let (mut told, images): (Vec<File>, Vec<ImageCounts>) = files.into_values().unzip();
    told.sort_by_key(|file| std::cmp::Reverse(file.samples));
    imported.files = told;
    imported.counts = counts::merge([Counts { images, ledger }])?;
    Ok(imported)
}

/// A file of which nothing is counted yet.
fn begun(mapping: &Mapping, form: Form, program: &Program) -> (File, ImageCounts) {
    let own = match program {
        Program::Named(image) => image.build_id().copied(),
        _ => None,
    };
    let file = File {
        path: mapping.path.to_string(),
        build_id: mapping.build_id,
        form,
        samples: 0,
        used: 0,
        by_name: matches!(program, Program::Named(_)),
        unused: BTreeMap::new(),
        other_build: match program {
            Program::OtherBuild(id) => Some(id.clone()),
            _ => None,
        },
    };
    let build_id = mapping.build_id.or(own);
    let counts = ImageCounts { build_id, path: file.path.clone(), ..ImageCounts::default() };
    (file, counts)
}

/// The address of the image, or why there is none.
fn address(
    mapping: &Mapping,
    form: Form,
    is_given: bool,
    program: &Program,
    place: &Place,
) -> Result<ImageAddr, Reason> {
    if let Program::NotAskedFor = program {
        return Err(Reason::OtherImage);
    }
    let image = match program {
        Program::Is(image) | Program::Named(image) => Some(image),
        Program::OtherBuild(_) => return Err(Reason::BuildIdMismatch),
        _ => None,
    };
    let stated = place.address;
    let address = match (form, image) {
        // A file without a build ID is known by its path, if what it states is no guess.
        (Form::Image, None)
            if mapping.build_id.is_none() && !is_given && !is_everything(mapping) =>
        {
            return Err(Reason::ImageUnavailable);
        }
        (Form::Image, _) => ImageAddr(stated.0),
        (_, None) => return Err(Reason::ImageUnavailable),
        (Form::File, Some(image)) => {
            image.address_of(FileOffset(stated.0)).ok_or(Reason::NotExecutable)?
        }
        (Form::Process, Some(image)) => {
            if !holds(mapping, stated) {
                return Err(Reason::Unmapped);
            }
            let into = stated.0.checked_sub(mapping.start.0).ok_or(Reason::Unmapped)?;
            let offset = into.checked_add(mapping.offset).ok_or(Reason::Unmapped)?;
            image.address_of(FileOffset(offset)).ok_or(Reason::NotExecutable)?
        }
    };
    match image {
        Some(image) if !image.is_executable_address(address) => Err(Reason::NotExecutable),
        _ => Ok(address),
    }
}

/// The one architecture of the programs.
fn architecture<'p>(programs: impl Iterator<Item = &'p Program>) -> String {
    let of = |program: &Program| match program {
        Program::Is(image) | Program::Named(image) => Some(match image.arch() {
            Arch::X86_64 => "x86_64",
            Arch::Aarch64 => "aarch64",
            Arch::Other(_) => "",
        }),
        _ => None,
    };
    let mut all = programs.filter_map(of);
    let first = all.next().unwrap_or("");
    if all.all(|other| other == first) { first.to_owned() } else { String::new() }
}
