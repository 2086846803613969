//! Writing the extensible binary format.

use std::collections::BTreeMap;
use std::io::Write;

use super::super::bytes::{put_u64, put_uleb};
use super::super::record::{self, NameIndex};
use super::super::summary_section::put_summary;
use super::super::{NameStorage, WriteOptions, binary};
use super::{FORMAT, MAGIC, flag, section};
use crate::{Context, Error, FunctionProfile, Name, SampleProfile};

/// LLVM's "should be inlined", which makes a profile a pre-inlined one.
const SHOULD_BE_INLINED: u32 = 2;

/// What a profile holds that the flags must announce.
#[derive(Default)]
struct Contents {
    attributes: bool,
    preinlined: bool,
    vtables: bool,
    checksums: bool,
    hashes: bool,
}

impl Contents {
    fn look(&mut self, function: &FunctionProfile) {
        self.attributes |= function.attributes != 0;
        self.preinlined |= function.attributes & SHOULD_BE_INLINED != 0;
        self.vtables |= !function.vtables.is_empty();
        self.checksums |= function.checksum.is_some();
        function.inlined_calls().for_each(|(_, callee)| self.look(callee));
    }
}

/// Writes an extensible binary profile, byte for byte as llvm-profdata does where it compresses
/// nothing, but for a section with the provenance behind all others, where there is one. When some
/// names are only known as hashes, all are written as hashes.
///
/// # Errors
/// Where compression fails.
pub fn write(profile: &SampleProfile, options: &WriteOptions) -> Result<Vec<u8>, Error> {
    let mut holds = Contents::default();
    profile.functions.values().for_each(|function| holds.look(function));
    let index = NameIndex::of(profile, false, holds.vtables);
    holds.hashes = index.names().iter().any(|name| name.as_text().is_none());
    let names = match options.names {
        NameStorage::Plain if holds.hashes => NameStorage::FixedHash,
        names => names,
    };
    let hashed = names != NameStorage::Plain;
    let index = if hashed { NameIndex::of(profile, true, holds.vtables) } else { index };

    let contexts = ContextIndex::of(profile);
    let own = OwnNumbers { names: &index, contexts: contexts.as_ref() };
    holds.attributes |= contexts.is_some();
    let (functions, offsets) = function_sections(profile, own, holds.vtables);
    let mut summary = Vec::new();
    put_summary(&mut summary, profile);
    let mut name_table = Vec::new();
    record::put_names(&mut name_table, &index, names);
    let symbols: Vec<u8> = profile
        .symbol_list
        .iter()
        .filter(|symbol| !symbol.as_bytes().contains(&0))
        .flat_map(|symbol| symbol.bytes().chain([0]))
        .collect();
    let mut metadata = Vec::new();
    if holds.checksums || holds.attributes {
        for function in profile.by_total() {
            put_metadata(&mut metadata, function, own.of(&function.name), own, &holds);
        }
    }
    let any = |test: bool, bit: u64| if test { bit } else { 0 };
    let unique =
        index.names().iter().filter_map(Name::as_text).any(|name| name.contains(".__uniq."));
    let summary_flags = any(profile.partial, flag::SUMMARY_PARTIAL)
        | any(contexts.is_some(), flag::SUMMARY_CONTEXTS)
        | any(profile.fs_discriminators, flag::SUMMARY_FS)
        | any(holds.preinlined, flag::SUMMARY_PREINLINED)
        | any(holds.vtables, flag::SUMMARY_VTABLES);
    let name_flags = any(hashed, flag::NAMES_HASHED)
        | any(names == NameStorage::FixedHash, flag::NAMES_FIXED)
        | any(unique, flag::NAMES_UNIQUE_SUFFIX);
    let metadata_flags = any(holds.checksums, flag::METADATA_PROBES)
        | any(holds.attributes, flag::METADATA_ATTRIBUTES);
    // In the order of the bytes; the table in front has the offsets before the functions, so that a
    // reader that loads single functions needs one pass.
    let mut bodies = vec![
        (section::SUMMARY, summary_flags, summary),
        (section::NAMES, name_flags, name_table),
        (
            section::CONTEXTS,
            0,
            contexts.as_ref().map_or_else(|| vec![0], |contexts| contexts.table(&index)),
        ),
        (section::FUNCTIONS, 0, functions),
        (section::SYMBOLS, 0, symbols),
        (section::OFFSETS, any(contexts.is_some(), flag::OFFSETS_ORDERED), offsets),
        (section::METADATA, metadata_flags, metadata),
    ];
    if !profile.provenance.is_empty() {
        let text: String = profile.provenance.lines().map(|line| line + "\n").collect();
        bodies.push((section::PROVENANCE, 0, text.into_bytes()));
    }
    assemble(bodies, options.compress)
}

/// The contexts of a context-sensitive profile, sorted, by number.
struct ContextIndex {
    numbers: BTreeMap<Context, u64>,
}

impl ContextIndex {
    /// `None` for a profile without contexts.
    fn of(profile: &SampleProfile) -> Option<ContextIndex> {
        let has_contexts =
            profile.context_sensitive || profile.functions.keys().any(Name::is_context);
        let contexts = profile.functions.keys().map(|name| (Context::of(name), 0));
        let mut numbers: BTreeMap<Context, u64> = has_contexts.then(|| contexts.collect())?;
        numbers.values_mut().zip(0..).for_each(|(number, next)| *number = next);
        Some(ContextIndex { numbers })
    }

    /// The section: the number of contexts, then for each its frames with their places.
    fn table(&self, names: &NameIndex) -> Vec<u8> {
        let mut out = Vec::new();
        put_uleb(&mut out, self.numbers.len() as u64);
        for context in self.numbers.keys() {
            put_uleb(&mut out, context.frames().len() as u64);
            for frame in context.frames() {
                put_uleb(&mut out, names.number(&frame.function));
                record::put_location(&mut out, frame.location);
            }
        }
        out
    }
}

/// By which numbers functions are known that exist on their own: those of their contexts, where
/// there are any.
#[derive(Clone, Copy)]
struct OwnNumbers<'w> {
    names: &'w NameIndex,
    contexts: Option<&'w ContextIndex>,
}

impl OwnNumbers<'_> {
    fn of(&self, name: &Name) -> u64 {
        match self.contexts {
            Some(contexts) => contexts.numbers.get(&Context::of(name)).copied().unwrap_or_default(),
            None => self.names.number(name),
        }
    }
}

fn function_sections(
    profile: &SampleProfile,
    own: OwnNumbers<'_>,
    vtables: bool,
) -> (Vec<u8>, Vec<u8>) {
    let (mut functions, mut offsets) = (Vec::new(), Vec::new());
    let mut places = Vec::with_capacity(profile.functions.len());
    for function in profile.by_total() {
        let number = own.of(&function.name);
        places.push((number, functions.len() as u64));
        put_uleb(&mut functions, function.head);
        record::put_named_record(&mut functions, function, number, own.names, vtables);
    }
    if own.contexts.is_some() {
        // So that a reader finds all contexts of a function's callers together.
        places.sort_unstable();
    }
    put_uleb(&mut offsets, places.len() as u64);
    for (number, place) in places {
        put_uleb(&mut offsets, number);
        put_uleb(&mut offsets, place);
    }
    (functions, offsets)
}

fn put_metadata(
    out: &mut Vec<u8>,
    function: &FunctionProfile,
    number: u64,
    own: OwnNumbers<'_>,
    holds: &Contents,
) {
    put_uleb(out, number);
    if holds.checksums {
        put_uleb(out, function.checksum.unwrap_or_default());
    }
    if holds.attributes {
        put_uleb(out, u64::from(function.attributes));
    }
    if own.contexts.is_some() {
        return;
    }
    put_uleb(out, function.inlined_calls().count() as u64);
    for (at, callee) in function.inlined_calls() {
        record::put_location(out, at);
        put_metadata(out, callee, own.names.number(&callee.name), own, holds);
    }
}

fn assemble(bodies: Vec<(u64, u64, Vec<u8>)>, compress: bool) -> Result<Vec<u8>, Error> {
    const TABLE_ORDER: [u64; 8] = [
        section::SUMMARY,
        section::NAMES,
        section::CONTEXTS,
        section::OFFSETS,
        section::FUNCTIONS,
        section::SYMBOLS,
        section::METADATA,
        section::PROVENANCE,
    ];
    let mut out = Vec::new();
    put_uleb(&mut out, MAGIC);
    put_uleb(&mut out, binary::VERSION);
    put_u64(&mut out, bodies.len() as u64);
    let header_bytes = out.len() + bodies.len() * 32;
    let mut data = Vec::new();
    let mut entries = Vec::new();
    for (kind, flags, body) in bodies {
        let start = data.len();
        let flags = if compress { flags | flag::COMPRESSED } else { flags };
        if compress && !body.is_empty() {
            put_compressed(&mut data, &body)?;
        } else {
            data.extend_from_slice(&body);
        }
        entries.push((kind, flags, header_bytes + start, data.len() - start));
    }
    for wanted in TABLE_ORDER {
        for (kind, flags, offset, size) in entries.iter().filter(|entry| entry.0 == wanted) {
            put_u64(&mut out, *kind);
            put_u64(&mut out, *flags);
            put_u64(&mut out, *offset as u64);
            put_u64(&mut out, *size as u64);
        }
    }
    out.append(&mut data);
    Ok(out)
}

fn put_compressed(out: &mut Vec<u8>, body: &[u8]) -> Result<(), Error> {
    let failed =
        |error: std::io::Error| Error::Unwritable { format: FORMAT, problem: error.to_string() };
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(body).map_err(failed)?;
    let compressed = encoder.finish().map_err(failed)?;
    put_uleb(out, body.len() as u64);
    put_uleb(out, compressed.len() as u64);
    out.extend_from_slice(&compressed);
    Ok(())
}
