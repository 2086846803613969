//! The sample profile itself: functions, lines, call targets and inlined calls with their counts.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::{Context, Provenance};

/// Name of a function: its linkage name, or only the hash of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// The hash that LLVM calls GUID (see [`name_hash`]), for files that hold hashes in place of
    /// names.
    Hash(u64),
    /// The linkage name. A calling context of a context-sensitive profile is kept whole, with its
    /// brackets: `[main:3 @ foo]`.
    Text(Arc<str>),
}

impl Name {
    /// A name from its text.
    pub fn text(name: &str) -> Name {
        Name::Text(Arc::from(name))
    }

    /// A name as a profile spells it: digits alone are a hash, since no linkage name starts with a
    /// digit.
    pub fn parse(name: &str) -> Name {
        match name.parse::<u64>() {
            Ok(hash) if hash == 0 && name == "0" => Name::Hash(0),
            Ok(hash)
                if name.as_bytes().first().is_some_and(|first| (b'1'..=b'9').contains(first)) =>
            {
                Name::Hash(hash)
            }
            _ => Name::text(name),
        }
    }

    /// The 64-bit hash by which LLVM knows this name.
    pub fn hash(&self) -> u64 {
        match self {
            Name::Hash(hash) => *hash,
            Name::Text(name) => name_hash(name),
        }
    }

    /// The name with nothing but hashes in it; a calling context stays one.
    fn hashed(&self) -> Name {
        match self.is_context() {
            true => Context::of(self).with_hashes().name(),
            false => Name::Hash(self.hash()),
        }
    }

    /// The text, unless only the hash is known.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Name::Hash(_) => None,
            Name::Text(name) => Some(name),
        }
    }

    /// Whether this is a calling context of a context-sensitive profile.
    pub fn is_context(&self) -> bool {
        matches!(self, Name::Text(name) if name.starts_with('[') && name.ends_with(']') && name.contains(" @ "))
    }
}

impl Default for Name {
    fn default() -> Name {
        Name::Text(Arc::from(""))
    }
}

impl From<&str> for Name {
    fn from(name: &str) -> Name {
        Name::text(name)
    }
}

impl fmt::Display for Name {
    /// The text, or the hash in decimal as llvm-profdata prints it.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Hash(hash) => write!(out, "{hash}"),
            Name::Text(name) => out.write_str(name),
        }
    }
}

/// The hash by which LLVM knows a function name: the first eight bytes of its MD5, little-endian.
pub fn name_hash(name: &str) -> u64 {
    image::probes::Guid::of(name).0
}

/// A place inside a function: the line relative to the function's first line, and the
/// discriminator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Location {
    /// Line minus the line of the function's declaration, in 0..=65535.
    pub line_offset: u32,
    /// DWARF discriminator; 0 when the line holds one block only.
    pub discriminator: u32,
}

impl Location {
    /// A location from its two parts.
    pub fn new(line_offset: u32, discriminator: u32) -> Location {
        Location { line_offset, discriminator }
    }
}

impl fmt::Display for Location {
    /// `3` or `3.1`, as the text format has it.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.discriminator {
            0 => write!(out, "{}", self.line_offset),
            discriminator => write!(out, "{}.{}", self.line_offset, discriminator),
        }
    }
}

/// How often one location ran, and whom it called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BodySample {
    /// Executions of the location.
    pub count: u64,
    /// Calls from the location that were not inlined, by callee.
    pub targets: BTreeMap<Name, u64>,
}

/// The samples of one function, or of one inlined copy of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FunctionProfile {
    /// The function.
    pub name: Name,
    /// All samples in the function and in what was inlined into it (weighed by instruction bytes,
    /// so more than the sum of the body counts).
    pub total: u64,
    /// How often the function was entered by a call; 0 for an inlined copy.
    pub head: u64,
    /// Counts by location.
    pub body: BTreeMap<Location, BodySample>,
    /// Inlined calls by location, then by callee.
    pub callsites: BTreeMap<Location, BTreeMap<Name, FunctionProfile>>,
    /// Control-flow checksum of a profile made with pseudo probes.
    pub checksum: Option<u64>,
    /// LLVM's context attributes: 1 was inlined, 2 should be inlined, 4 duplicated into the base
    /// profile.
    pub attributes: u32,
    /// Types of the objects that virtual calls saw, by location, then by virtual table.
    pub vtables: BTreeMap<Location, BTreeMap<Name, u64>>,
}

impl FunctionProfile {
    /// A function without samples.
    pub fn new(name: Name) -> FunctionProfile {
        FunctionProfile { name, ..FunctionProfile::default() }
    }

    /// The inlined copy of `callee` at `location`, made when absent.
    pub fn inlined(&mut self, location: Location, callee: &Name) -> &mut FunctionProfile {
        self.callsites
            .entry(location)
            .or_default()
            .entry(callee.clone())
            .or_insert_with(|| FunctionProfile::new(callee.clone()))
    }

    /// All inlined copies directly below this function with their location.
    pub fn inlined_calls(&self) -> impl Iterator<Item = (Location, &FunctionProfile)> {
        self.callsites
            .iter()
            .flat_map(|(at, callees)| callees.values().map(move |callee| (*at, callee)))
    }

    fn with_hashes(&self) -> FunctionProfile {
        let hashed = Name::hashed;
        let mut copy = self.clone();
        copy.name = hashed(&self.name);
        for sample in copy.body.values_mut() {
            sample.targets =
                sample.targets.iter().map(|(name, count)| (hashed(name), *count)).collect();
        }
        for callees in copy.callsites.values_mut() {
            *callees = callees.values().map(|f| (hashed(&f.name), f.with_hashes())).collect();
        }
        copy
    }

    /// Sum of the body counts, inlined copies included (saturating).
    pub fn body_sum(&self) -> u64 {
        let own = self.body.values().fold(0u64, |sum, sample| sum.saturating_add(sample.count));
        self.inlined_calls().fold(own, |sum, (_, callee)| sum.saturating_add(callee.body_sum()))
    }

    /// How often the function was entered, estimated from its first location as LLVM does: a record
    /// of a copy that was inlined has no head count.
    pub fn entry_estimate(&self) -> u64 {
        let first_body = self.body.iter().next();
        let first_call = self.callsites.iter().next();
        let count = match (first_body, first_call) {
            (Some((at, sample)), Some((call, _))) if at < call => sample.count,
            (Some((_, sample)), None) => sample.count,
            (_, Some((_, callees))) => callees
                .values()
                .fold(0u64, |sum, callee| sum.saturating_add(callee.entry_estimate())),
            (None, None) => 0,
        };
        if count > 0 { count } else { u64::from(self.total > 0) }
    }
}

/// A whole sample profile.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SampleProfile {
    /// The functions that exist on their own, by name.
    pub functions: BTreeMap<Name, FunctionProfile>,
    /// The profile tells calling contexts apart: functions are named by their context, as
    /// [`Context`] spells it, and a function without brackets is one whose callers are unknown
    /// or were merged.
    pub context_sensitive: bool,
    /// Discriminators are flow-sensitive ones (32 bits, all passes).
    pub fs_discriminators: bool,
    /// The profile covers only a part of the program (LLVM's partial flag): a function that is
    /// absent is unknown rather than cold.
    pub partial: bool,
    /// Every function that the profiled image contained, sampled or not; sorted.
    pub symbol_list: Vec<String>,
    /// Which programs were counted; empty where the file does not say.
    pub provenance: Provenance,
}

impl SampleProfile {
    /// The profile of `name`, made when absent.
    pub fn function(&mut self, name: &Name) -> &mut FunctionProfile {
        self.functions.entry(name.clone()).or_insert_with(|| FunctionProfile::new(name.clone()))
    }

    /// The functions in the order in which LLVM writes them: total descending, then name or
    /// context.
    pub fn by_total(&self) -> Vec<&FunctionProfile> {
        let mut functions: Vec<&FunctionProfile> = self.functions.values().collect();
        if self.context_sensitive {
            functions.sort_by_cached_key(|function| {
                (Reverse(function.total), Context::of(&function.name))
            });
            return functions;
        }
        functions.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.name.cmp(&b.name)));
        functions
    }

    /// Whether functions are named by hash only.
    pub fn has_hashes(&self) -> bool {
        self.functions.keys().any(|name| matches!(name, Name::Hash(_)))
    }

    /// The same profile with hashes in place of all names, as it can be compared with one that has
    /// only hashes.
    pub fn with_hashes(&self) -> SampleProfile {
        let functions = self.functions.values().map(FunctionProfile::with_hashes);
        SampleProfile {
            functions: functions.map(|f| (f.name.clone(), f)).collect(),
            ..self.clone()
        }
    }

    /// Whether any function carries a checksum of pseudo probes.
    pub fn is_probe_based(&self) -> bool {
        self.functions.values().any(|function| function.checksum.is_some())
    }
}
