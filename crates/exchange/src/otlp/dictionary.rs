//! The tables of the dictionary: what an index stands for. Read one entry after the other; strings,
//! stacks and locations are kept only where something refers to them.

use super::field;
use super::messages::{AnyValue, KeyValueAndUnit, Location, Mapping};
use crate::Error;
use crate::sampled::{self, Code, MOST_MAPPINGS, Place, Sampled, StatedAddr, SumsOf};
use crate::strings::Strings;
use crate::wire::{Field, Source};
use std::collections::HashMap;
use std::sync::Arc;

/// Fields of the dictionary.
mod table {
    pub const MAPPING: u32 = 1;
    pub const LOCATION: u32 = 2;
    pub const STRING: u32 = 5;
    pub const ATTRIBUTE: u32 = 6;
    pub const STACK: u32 = 7;
}

/// Most dictionaries that stand one after the other; there should be one.
const MOST_DICTIONARIES: usize = 16;
/// Most attributes that are of use.
const MOST_ATTRIBUTES: usize = 1 << 18;
/// Most strings that are the name of a known attribute; each should be there once.
const MOST_KEYS: usize = 256;

/// Attributes that are of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// The build ID of a mapping's file, as GNU tools make it.
    BuildId,
    /// What kind of code a location is of.
    FrameType,
    /// The machine.
    Host,
    /// Its architecture.
    Architecture,
    /// The version of the service.
    Version,
}

impl Key {
    /// Source: <https://opentelemetry.io/docs/specs/semconv/registry/attributes/>.
    pub(crate) fn of(name: &[u8]) -> Option<Key> {
        Some(match name {
            b"process.executable.build_id.gnu" => Key::BuildId,
            b"profile.frame.type" => Key::FrameType,
            b"host.name" => Key::Host,
            b"host.arch" => Key::Architecture,
            b"service.version" => Key::Version,
            _ => return None,
        })
    }
}

/// What is kept of the dictionary.
pub(crate) struct Dictionary<'b> {
    /// Where it stands.
    parts: Vec<&'b [u8]>,
    strings: Strings,
    keys: HashMap<i32, Key>,
    attributes: HashMap<i32, (Key, AnyValue)>,
    pub(crate) mappings: Vec<Mapping>,
}

impl<'b> Dictionary<'b> {
    /// Reads attributes and mappings, and asks for their strings.
    pub(crate) fn read(source: &'b Source) -> Result<Dictionary<'b>, Error> {
        let mut parts = Vec::new();
        source.fields(&source.bytes, |number, value| {
            match (number, value) {
                (field::DICTIONARY, Field::Bytes(part)) if parts.len() < MOST_DICTIONARIES => {
                    parts.push(part);
                }
                (field::DICTIONARY, _) => {
                    return Err(source.too_many("dictionaries", MOST_DICTIONARIES));
                }
                _ => {}
            }
            Ok(())
        })?;
        let mut own = Dictionary {
            parts,
            strings: Strings::default(),
            keys: HashMap::new(),
            attributes: HashMap::new(),
            mappings: Vec::new(),
        };
        let mut keys = HashMap::new();
        own.entries(source, table::STRING, |index, text| {
            if let Some(key) = Key::of(text).filter(|_| keys.len() < MOST_KEYS) {
                keys.insert(index, key);
            }
            Ok(())
        })?;
        let mut attributes = HashMap::new();
        own.entries(source, table::ATTRIBUTE, |index, bytes| {
            let attribute: KeyValueAndUnit = source.small(bytes)?;
            if let (Some(key), Some(value)) = (keys.get(&attribute.key_strindex), attribute.value) {
                if attributes.len() >= MOST_ATTRIBUTES {
                    return Err(source.too_many("attributes", MOST_ATTRIBUTES));
                }
                let text = value.string_value.map(|text| sampled::name(text.as_bytes()));
                attributes.insert(index, (*key, AnyValue { string_value: text, ..value }));
            }
            Ok(())
        })?;
        let mut mappings = Vec::new();
        own.entries(source, table::MAPPING, |_, bytes| {
            if mappings.len() >= MOST_MAPPINGS {
                return Err(source.too_many("mappings", MOST_MAPPINGS));
            }
            mappings.push(source.small(bytes)?);
            Ok(())
        })?;
        own.keys = keys;
        own.attributes = attributes;
        own.mappings = mappings;
        own.mappings
            .iter()
            .for_each(|one: &Mapping| own.strings.want(index(one.filename_strindex)));
        let values = own.attributes.values();
        values.for_each(|(_, value)| own.strings.want(index(value.string_value_strindex)));
        Ok(own)
    }

    /// Shows the entries of a table with their indices.
    fn entries(
        &self,
        source: &Source,
        table: u32,
        mut take: impl FnMut(i32, &'b [u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut index = 0i32;
        for part in &self.parts {
            source.fields(part, |number, value| {
                let (true, Field::Bytes(bytes)) = (number == table, value) else { return Ok(()) };
                take(index, bytes)?;
                index = index.saturating_add(1);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Asks for a string.
    pub(crate) fn want(&mut self, strindex: i32) {
        self.strings.want(index(strindex));
    }

    /// Reads all strings that were asked for.
    pub(crate) fn read_strings(&mut self, source: &Source) -> Result<(), Error> {
        let mut at = 0;
        for part in &self.parts {
            self.strings.read(source, part, table::STRING, &mut at)?;
        }
        Ok(())
    }

    /// A string that was asked for.
    pub(crate) fn string(&self, strindex: i32) -> Arc<str> {
        self.strings.get(index(strindex))
    }

    /// Which attribute a string names.
    pub(crate) fn key(&self, strindex: i32) -> Option<Key> {
        self.keys.get(&strindex).copied()
    }

    /// The text of a value.
    pub(crate) fn text(&self, value: &AnyValue) -> String {
        let own = value.string_value.clone();
        own.unwrap_or_else(|| self.string(value.string_value_strindex).to_string())
    }

    /// The value of an attribute, of those that an entry has.
    pub(crate) fn attribute(&self, indices: &[i32], wanted: Key) -> Option<String> {
        let mut own = indices.iter().filter_map(|index| self.attributes.get(index));
        own.find(|(key, _)| *key == wanted).map(|(_, value)| self.text(value))
    }

    /// Sums by stack to sums by innermost location.
    pub(crate) fn by_location(
        &self,
        source: &Source,
        SumsOf(mut by_stack): SumsOf<i64>,
        sampled: &mut Sampled,
    ) -> Result<SumsOf<i32>, Error> {
        let mut sums = SumsOf::default();
        self.entries(source, table::STACK, |index, stack| {
            let Some(sum) = by_stack.remove(&index.into()) else { return Ok(()) };
            let mut leaf = None;
            source.fields(stack, |number, value| match number {
                1 => source.numbers(value, false, |location| leaf = leaf.or(Some(location))),
                _ => Ok(()),
            })?;
            match leaf.filter(|leaf| *leaf != 0).map(i32::try_from) {
                Some(Ok(leaf)) => sums.add(leaf, sum, "distinct locations of samples", source)?,
                Some(Err(_)) => sampled.malformed = sampled.malformed.saturating_add(sum),
                None => sampled.without_stack = sampled.without_stack.saturating_add(sum),
            }
            Ok(())
        })?;
        let lost = by_stack.values().fold(0u128, |all, sum| all.saturating_add(*sum));
        sampled.malformed = sampled.malformed.saturating_add(lost);
        Ok(sums)
    }

    /// Sums by location to sums by address.
    pub(crate) fn places(
        &self,
        source: &Source,
        SumsOf(mut by_location): SumsOf<i32>,
        sampled: &mut Sampled,
    ) -> Result<(), Error> {
        self.entries(source, table::LOCATION, |index, bytes| {
            let Some(sum) = by_location.remove(&index) else { return Ok(()) };
            let location: Location = source.small(bytes)?;
            let kind = self.attribute(&location.attribute_indices, Key::FrameType);
            let mapping = usize::try_from(location.mapping_index).ok();
            let place = Place {
                mapping: mapping.filter(|at| (1..self.mappings.len()).contains(at)),
                address: StatedAddr(location.address),
                code: match kind.as_deref() {
                    None | Some("native") => Code::Native,
                    Some("kernel") => Code::Kernel,
                    Some(_) => Code::Other,
                },
            };
            let all = sampled.places.entry(place).or_default();
            *all = all.saturating_add(sum);
            Ok(())
        })?;
        let lost = by_location.values().fold(0u128, |all, sum| all.saturating_add(*sum));
        sampled.malformed = sampled.malformed.saturating_add(lost);
        Ok(())
    }
}

/// An index below zero stands for nothing.
fn index(strindex: i32) -> u64 {
    u64::try_from(strindex).unwrap_or(u64::MAX)
}
