//! Name tables and function records, which LLVM's two binary formats share.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use super::bytes::{Reader, put_uleb};
use super::{MAX_DEPTH, NameStorage};
use crate::{BodySample, Context, Error, FunctionProfile, Location, Name, SampleProfile};

/// Names in the order in which records refer to them.
#[derive(Debug, Default)]
pub(crate) struct NameIndex {
    names: Vec<Name>,
    index: FxHashMap<Name, u64>,
    hashed: bool,
}

impl NameIndex {
    /// All names of a profile, sorted as LLVM sorts them: by text, hashes without a known text
    /// first.
    pub(crate) fn of(profile: &SampleProfile, hashed: bool, vtables: bool) -> NameIndex {
        let mut names = BTreeSet::new();
        for function in profile.functions.values() {
            collect(function, vtables, &mut names);
        }
        let names: Vec<Name> = if hashed {
            // In the order of the names, where they are known.
            let mut seen = FxHashSet::default();
            names.iter().map(Name::hash).filter(|hash| seen.insert(*hash)).map(Name::Hash).collect()
        } else {
            // A hash among texts is spelled in decimal, so it sorts as text.
            let mut texts: Vec<Name> = names.into_iter().collect();
            texts.sort_by_cached_key(Name::to_string);
            texts
        };
        let index = names.iter().cloned().zip(0u64..).collect();
        NameIndex { names, index, hashed }
    }

    /// The names in table order.
    pub(crate) fn names(&self) -> &[Name] {
        &self.names
    }

    /// The number that stands for `name` in records.
    pub(crate) fn number(&self, name: &Name) -> u64 {
        let found = match (self.hashed, name) {
            (true, Name::Text(_)) => self.index.get(&Name::Hash(name.hash())),
            _ => self.index.get(name),
        };
        found.copied().unwrap_or_default()
    }
}

fn collect(function: &FunctionProfile, vtables: bool, names: &mut BTreeSet<Name>) {
    let mut add = |name: &Name| {
        if !names.contains(name) {
            names.insert(name.clone());
        }
    };
    if function.name.is_context() {
        Context::of(&function.name).frames().iter().for_each(|frame| add(&frame.function));
    } else {
        add(&function.name);
    }
    function.body.values().flat_map(|sample| sample.targets.keys()).for_each(&mut add);
    if vtables {
        function.vtables.values().flat_map(|types| types.keys()).for_each(&mut add);
    }
    for (_, callee) in function.inlined_calls() {
        collect(callee, vtables, names);
    }
}

/// Appends a name table: the number of names, then the names or hashes.
pub(crate) fn put_names(out: &mut Vec<u8>, index: &NameIndex, storage: NameStorage) {
    put_uleb(out, index.names.len() as u64);
    for name in &index.names {
        match storage {
            NameStorage::Plain => {
                out.extend_from_slice(name.to_string().as_bytes());
                out.push(0);
            }
            NameStorage::FixedHash => out.extend_from_slice(&name.hash().to_le_bytes()),
            NameStorage::VariableHash => put_uleb(out, name.hash()),
        }
    }
}

/// Reads a name table.
pub(crate) fn names(reader: &mut Reader<'_>, storage: NameStorage) -> Result<Vec<Name>, Error> {
    let count = reader.uleb()?;
    let mut names = Vec::with_capacity(count.min(reader.remaining() as u64) as usize);
    for _ in 0..count {
        names.push(match storage {
            NameStorage::Plain => Name::parse(reader.c_string()?),
            NameStorage::FixedHash => Name::Hash(reader.u64()?),
            NameStorage::VariableHash => Name::Hash(reader.uleb()?),
        });
    }
    Ok(names)
}

/// The name that the next number in `reader` stands for.
pub(crate) fn name(reader: &mut Reader<'_>, names: &[Name]) -> Result<Name, Error> {
    let number = reader.uleb()?;
    let found = usize::try_from(number).ok().and_then(|number| names.get(number));
    found
        .cloned()
        .ok_or_else(|| reader.error(format!("name {number} of a table of {}", names.len())))
}

/// Reads a location.
pub(crate) fn location(reader: &mut Reader<'_>) -> Result<Location, Error> {
    let line_offset = reader.uleb32()?;
    if line_offset > 0xffff {
        return Err(reader.error(format!("line offset {line_offset} where 65535 is the limit")));
    }
    Ok(Location { line_offset, discriminator: reader.uleb32()? })
}

/// Appends a location.
pub(crate) fn put_location(out: &mut Vec<u8>, at: Location) {
    put_uleb(out, u64::from(at.line_offset));
    put_uleb(out, u64::from(at.discriminator));
}

/// Call targets in the order in which LLVM writes them: count descending, then name.
pub(crate) fn targets_by_count(sample: &BodySample) -> Vec<(&Name, u64)> {
    let mut targets: Vec<(&Name, u64)> =
        sample.targets.iter().map(|(name, count)| (name, *count)).collect();
    targets.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    targets
}

/// Appends a function record without its head count.
pub(crate) fn put_record(
    out: &mut Vec<u8>,
    function: &FunctionProfile,
    index: &NameIndex,
    vtables: bool,
) {
    put_named_record(out, function, index.number(&function.name), index, vtables);
}

/// Appends a function record that is known by `number`, of its name or of its context.
pub(crate) fn put_named_record(
    out: &mut Vec<u8>,
    function: &FunctionProfile,
    number: u64,
    index: &NameIndex,
    vtables: bool,
) {
    put_uleb(out, number);
    put_uleb(out, function.total);
    put_uleb(out, function.body.len() as u64);
    for (at, sample) in &function.body {
        put_location(out, *at);
        put_uleb(out, sample.count);
        put_uleb(out, sample.targets.len() as u64);
        for (name, count) in targets_by_count(sample) {
            put_uleb(out, index.number(name));
            put_uleb(out, count);
        }
    }
    put_uleb(out, function.inlined_calls().count() as u64);
    for (at, callee) in function.inlined_calls() {
        put_location(out, at);
        put_record(out, callee, index, vtables);
    }
    if vtables {
        put_uleb(out, function.vtables.len() as u64);
        for (at, types) in &function.vtables {
            put_location(out, *at);
            put_uleb(out, types.len() as u64);
            for (name, count) in types {
                put_uleb(out, index.number(name));
                put_uleb(out, *count);
            }
        }
    }
}

/// What a record reader needs besides the bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tables<'t> {
    /// Names by number.
    pub names: &'t [Name],
    /// Whether records carry the types of virtual calls.
    pub vtables: bool,
}

/// Reads a record whose name is known into `function`, adding to what is there.
pub(crate) fn read_record(
    reader: &mut Reader<'_>,
    function: &mut FunctionProfile,
    tables: Tables<'_>,
    depth: usize,
) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::TooDeep { limit: MAX_DEPTH });
    }
    function.total = function.total.saturating_add(reader.uleb()?);
    for _ in 0..reader.uleb()? {
        let at = location(reader)?;
        let count = reader.uleb()?;
        let sample = function.body.entry(at).or_default();
        sample.count = sample.count.saturating_add(count);
        for _ in 0..reader.uleb()? {
            let callee = name(reader, tables.names)?;
            let count = reader.uleb()?;
            let target = sample.targets.entry(callee).or_default();
            *target = target.saturating_add(count);
        }
    }
    for _ in 0..reader.uleb()? {
        let at = location(reader)?;
        let callee = name(reader, tables.names)?;
        read_record(reader, function.inlined(at, &callee), tables, depth + 1)?;
    }
    if tables.vtables {
        for _ in 0..reader.uleb()? {
            let at = location(reader)?;
            for _ in 0..reader.uleb()? {
                let vtable = name(reader, tables.names)?;
                let count = reader.uleb()?;
                let sum = function.vtables.entry(at).or_default().entry(vtable).or_default();
                *sum = sum.saturating_add(count);
            }
        }
    }
    Ok(())
}
