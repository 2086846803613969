//! OpenTelemetry profiles: `ProfilesData`, as the eBPF profiler and collectors send and keep them.
//!
//! A sample names a stack of the dictionary, whose first location is the innermost. Samples are
//! summed up by stack, stacks by location; of the dictionary only what is needed is kept. Profiles
//! of several types of values may be in one file; those of one type are taken.

mod dictionary;
mod json;
pub(crate) mod messages;

pub(crate) use json::as_protocol_buffer;

use crate::Error;
use crate::sampled::{self, Mapping, Sampled, StatedAddr, SumsOf, ValueType};
use crate::value::{self, Chosen, Period};
use crate::wire::{Field, Source};
use dictionary::{Dictionary, Key};
use messages::{KeyValue, ValueType as TypeMessage};
use std::collections::{BTreeMap, BTreeSet};

/// Fields of messages.
mod field {
    pub const RESOURCE_PROFILES: u32 = 1;
    pub const DICTIONARY: u32 = 2;
    pub const RESOURCE: u32 = 1;
    pub const SCOPE_PROFILES: u32 = 2;
    pub const PROFILES: u32 = 2;
    pub const SAMPLE_TYPE: u32 = 1;
    pub const SAMPLES: u32 = 2;
    pub const TIME: u32 = 3;
    pub const DURATION: u32 = 4;
    pub const PERIOD_TYPE: u32 = 5;
    pub const PERIOD: u32 = 6;
}

/// Most types of values, and periods of one type.
const MOST_TYPES: usize = 64;

/// What a profile says before its samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Head {
    of: TypeMessage,
    period_type: TypeMessage,
    period: u64,
    time: u64,
    duration: u64,
}

/// What all profiles say.
#[derive(Default)]
struct Heads {
    /// Types with the periods that profiles of each have.
    types: Vec<(TypeMessage, Vec<(TypeMessage, u64)>)>,
    samples: bool,
    /// The values of the resources' attributes.
    resources: BTreeMap<Key, BTreeSet<String>>,
}

/// Reads the data as a protocol buffer.
pub(crate) fn read(source: &Source, wanted: Option<&str>) -> Result<Sampled, Error> {
    let mut dictionary = Dictionary::read(source)?;
    let heads = heads(source, &mut dictionary)?;
    dictionary.read_strings(source)?;
    if !heads.samples {
        return Err(Error::NoSamples { path: source.path.clone() });
    }
    let value_type = |of: &TypeMessage| ValueType {
        name: dictionary.string(of.type_strindex).to_string(),
        unit: dictionary.string(of.unit_strindex).to_string(),
    };
    let mut types: Vec<ValueType> = heads.types.iter().map(|(of, _)| value_type(of)).collect();
    let chosen = value::choose(&source.path, &types, None, wanted)?;
    let Some((of, periods)) = heads.types.get(chosen.index) else {
        return Err(Error::NoSamples { path: source.path.clone() });
    };
    // Where profiles differ in their period, a sample of one is not that of another.
    let period = match &periods[..] {
        [(kind, number)] if *number > 0 => Some(Period { of: value_type(kind), number: *number }),
        _ => None,
    };
    let Chosen { divisor, .. } = value::choose(&source.path, &types, period.as_ref(), wanted)?;
    let (kind, of_period) = value::source(&types, period.as_ref());
    let value = types.remove(chosen.index);
    let only = |key: Key| match heads.resources.get(&key) {
        Some(all) if all.len() == 1 => all.first().cloned().unwrap_or_default(),
        _ => String::new(),
    };
    let mut sampled = Sampled {
        mappings: mappings(&dictionary),
        places: BTreeMap::new(),
        without_stack: 0,
        malformed: 0,
        value,
        divisor,
        others: types,
        period: of_period,
        source: kind,
        begin: None,
        end: None,
        host: only(Key::Host),
        architecture: match only(Key::Architecture).as_str() {
            "amd64" => "x86_64".to_owned(),
            "arm64" => "aarch64".to_owned(),
            other => other.to_owned(),
        },
        program: only(Key::Version),
    };
    let by_stack = sums(source, *of, &mut sampled)?;
    let by_location = dictionary.by_location(source, by_stack, &mut sampled)?;
    dictionary.places(source, by_location, &mut sampled)?;
    Ok(sampled)
}

fn mappings(dictionary: &Dictionary<'_>) -> Vec<Mapping> {
    let one = |message: &messages::Mapping| Mapping {
        start: StatedAddr(message.memory_start),
        limit: StatedAddr(message.memory_limit),
        offset: message.file_offset,
        path: dictionary.string(message.filename_strindex),
        build_id: dictionary
            .attribute(&message.attribute_indices, Key::BuildId)
            .and_then(|text| sampled::build_id(&text)),
    };
    dictionary.mappings.iter().map(one).collect()
}

/// Shows each profile, with the resource profiles that it stands in.
fn each<'b>(
    source: &'b Source,
    mut resource: impl FnMut(&'b [u8]) -> Result<(), Error>,
    mut profile: impl FnMut(&'b [u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    source.fields(&source.bytes, |number, value| {
        let (field::RESOURCE_PROFILES, Field::Bytes(bytes)) = (number, value) else {
            return Ok(());
        };
        source.fields(bytes, |number, value| match (number, value) {
            (field::RESOURCE, Field::Bytes(bytes)) => resource(bytes),
            (field::SCOPE_PROFILES, Field::Bytes(bytes)) => {
                source.fields(bytes, |number, value| match (number, value) {
                    (field::PROFILES, Field::Bytes(bytes)) => profile(bytes),
                    _ => Ok(()),
                })
            }
            _ => Ok(()),
        })
    })
}

fn head(source: &Source, profile: &[u8], samples: &mut bool) -> Result<Head, Error> {
    let mut head = Head::default();
    source.fields(profile, |number, value| {
        match (number, value) {
            (field::SAMPLE_TYPE, Field::Bytes(bytes)) => head.of = source.small(bytes)?,
            (field::SAMPLES, _) => *samples = true,
            (field::TIME, Field::Number(number)) => head.time = number,
            (field::DURATION, Field::Number(number)) => head.duration = number,
            (field::PERIOD_TYPE, Field::Bytes(bytes)) => head.period_type = source.small(bytes)?,
            (field::PERIOD, Field::Number(number)) => {
                head.period = u64::try_from(number as i64).unwrap_or(0);
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(head)
}

/// Reads what all profiles say, and asks for the strings.
fn heads(source: &Source, dictionary: &mut Dictionary<'_>) -> Result<Heads, Error> {
    let (mut types, mut samples) = (Vec::<(TypeMessage, Vec<_>)>::new(), false);
    let mut attributes: Vec<KeyValue> = Vec::new();
    each(
        source,
        |resource| {
            source.fields(resource, |number, value| {
                // More machines than that are none, and all others are not needed.
                if let (1, Field::Bytes(bytes), true) = (number, value, attributes.len() < 4096) {
                    attributes.push(source.small(bytes)?);
                }
                Ok(())
            })
        },
        |profile| {
            let own = head(source, profile, &mut samples)?;
            let at = match types.iter().position(|(of, _)| *of == own.of) {
                Some(at) => at,
                None if types.len() < MOST_TYPES => {
                    types.push((own.of, Vec::new()));
                    types.len().saturating_sub(1)
                }
                None => return Err(source.too_many("types", MOST_TYPES)),
            };
            let period = (own.period_type, own.period);
            if let Some((_, periods)) = types.get_mut(at)
                && periods.len() < 2
                && !periods.contains(&period)
            {
                periods.push(period);
            }
            Ok(())
        },
    )?;
    for (of, periods) in &types {
        for of in periods.iter().map(|(of, _)| of).chain([of]) {
            dictionary.want(of.type_strindex);
            dictionary.want(of.unit_strindex);
        }
    }
    let values = attributes.iter().filter_map(|one| one.value.as_ref());
    values.for_each(|value| dictionary.want(value.string_value_strindex));
    dictionary.read_strings(source)?;
    let mut resources: BTreeMap<Key, BTreeSet<String>> = BTreeMap::new();
    for one in &attributes {
        let key = Key::of(one.key.as_bytes()).or_else(|| dictionary.key(one.key_strindex));
        if let (Some(key), Some(value)) = (key, &one.value) {
            let text = sampled::name(dictionary.text(value).as_bytes());
            resources.entry(key).or_default().insert(text);
        }
    }
    Ok(Heads { types, samples, resources })
}

/// The sums of all profiles of a type, by stack; their times.
fn sums(source: &Source, of: TypeMessage, sampled: &mut Sampled) -> Result<SumsOf<i64>, Error> {
    let mut sums = SumsOf::default();
    each(
        source,
        |_| Ok(()),
        |profile| {
            let own = head(source, profile, &mut false)?;
            if own.of != of {
                return Ok(());
            }
            let (begin, end) = sampled::window(own.time, own.duration);
            sampled.begin = sampled.begin.into_iter().chain(begin).min();
            sampled.end = sampled.end.into_iter().chain(end).max();
            source.fields(profile, |number, value| match (number, value) {
                (field::SAMPLES, Field::Bytes(bytes)) => add(source, bytes, &mut sums, sampled),
                _ => Ok(()),
            })
        },
    )?;
    Ok(sums)
}

/// Adds a sample: its values, or where there are none one for each time.
fn add(
    source: &Source,
    sample: &[u8],
    sums: &mut SumsOf<i64>,
    sampled: &mut Sampled,
) -> Result<(), Error> {
    let (mut stack, mut sum, mut below, mut has_values, mut times) =
        (0i64, 0u128, 0u128, false, 0u128);
    source.fields(sample, |number, value| match (number, value) {
        (1, Field::Number(number)) => {
            stack = number as i64;
            Ok(())
        }
        (4, value) => source.numbers(value, false, |value| {
            has_values = true;
            match u64::try_from(value as i64) {
                Ok(value) => sum = sum.saturating_add(value.into()),
                Err(_) => below = below.saturating_add((value as i64).unsigned_abs().into()),
            }
        }),
        (5, value) => source.numbers(value, true, |_| times = times.saturating_add(1)),
        _ => Ok(()),
    })?;
    sampled.malformed = sampled.malformed.saturating_add(below);
    let sum = if has_values { sum } else { times };
    match stack {
        _ if sum == 0 => {}
        0 => sampled.without_stack = sampled.without_stack.saturating_add(sum),
        _ => sums.add(stack, sum, "distinct stacks", source)?,
    }
    Ok(())
}
