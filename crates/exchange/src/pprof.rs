//! pprof: `perftools.profiles.Profile`, as Go's runtime, gperftools, Parca, Perforator, Pyroscope and
//! perf_to_profile write it.
//!
//! Read in passes over the unpacked bytes, since its tables may stand in any order: types, mappings
//! and times; the strings these name; the samples, summed up by innermost location; the locations.
//! Source: <https://github.com/google/pprof/blob/main/proto/profile.proto>.

use crate::Error;
use crate::sampled::{
    self, Code, MOST_MAPPINGS, Mapping, Place, Sampled, StatedAddr, SumsOf, ValueType,
};
use crate::strings::Strings;
use crate::value::{self, Chosen, Period};
use crate::wire::{Field, Source};
use std::collections::{BTreeMap, HashMap};

/// Fields of the profile.
mod field {
    pub const SAMPLE_TYPE: u32 = 1;
    pub const SAMPLE: u32 = 2;
    pub const MAPPING: u32 = 3;
    pub const LOCATION: u32 = 4;
    pub const STRING: u32 = 6;
    pub const TIME: u32 = 9;
    pub const DURATION: u32 = 10;
    pub const PERIOD_TYPE: u32 = 11;
    pub const PERIOD: u32 = 12;
}

/// Most types of values.
const MOST_TYPES: usize = 64;

/// `ValueType`, as indices of strings.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct ValueTypeMessage {
    #[prost(int64, tag = "1")]
    pub(crate) kind: i64,
    #[prost(int64, tag = "2")]
    pub(crate) unit: i64,
}

/// `Mapping`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct MappingMessage {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) memory_start: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) memory_limit: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) file_offset: u64,
    #[prost(int64, tag = "5")]
    pub(crate) filename: i64,
    #[prost(int64, tag = "6")]
    pub(crate) build_id: i64,
    #[prost(bool, tag = "7")]
    pub(crate) has_functions: bool,
}

/// `Location`, without its lines.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
struct LocationMessage {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
}

#[derive(Default)]
struct Head {
    types: Vec<ValueTypeMessage>,
    mappings: Vec<MappingMessage>,
    time: u64,
    duration: u64,
    period_type: ValueTypeMessage,
    period: u64,
    samples: u64,
}

/// Reads an unpacked profile.
pub(crate) fn read(source: &Source, wanted: Option<&str>) -> Result<Sampled, Error> {
    let head = head(source)?;
    let mut strings = Strings::default();
    let of_types = head.types.iter().chain([&head.period_type]).flat_map(|of| [of.kind, of.unit]);
    let of_mappings = head.mappings.iter().flat_map(|one| [one.filename, one.build_id]);
    of_types.chain(of_mappings).for_each(|index| strings.want(index as u64));
    strings.read(source, &source.bytes, field::STRING, &mut 0)?;
    let value_type = |of: &ValueTypeMessage| ValueType {
        name: strings.get(of.kind as u64).to_string(),
        unit: strings.get(of.unit as u64).to_string(),
    };
    let types: Vec<ValueType> = head.types.iter().map(value_type).collect();
    let period = Period { of: value_type(&head.period_type), number: head.period };
    let period = Some(period).filter(|period| period.number > 0);
    if head.samples == 0 {
        return Err(Error::NoSamples { path: source.path.clone() });
    }
    let chosen = value::choose(&source.path, &types, period.as_ref(), wanted)?;
    let mut numbers: HashMap<u64, usize> = HashMap::new();
    let mut mappings = Vec::with_capacity(head.mappings.len());
    for one in &head.mappings {
        numbers.entry(one.id).or_insert(mappings.len());
        mappings.push(Mapping {
            start: StatedAddr(one.memory_start),
            limit: StatedAddr(one.memory_limit),
            offset: one.file_offset,
            path: strings.get(one.filename as u64),
            build_id: sampled::build_id(&strings.get(one.build_id as u64)),
        });
    }
    let (kind, of_period) = value::source(&types, period.as_ref());
    let (begin, end) = sampled::window(head.time, head.duration);
    let mut others = types;
    let value = others.remove(chosen.index);
    let mut sampled = Sampled {
        mappings,
        places: BTreeMap::new(),
        without_stack: 0,
        malformed: 0,
        value,
        divisor: chosen.divisor,
        others,
        period: of_period,
        source: kind,
        begin,
        end,
        host: String::new(),
        architecture: String::new(),
        program: String::new(),
    };
    let sums = sums(source, chosen, &mut sampled)?;
    places(source, sums, &numbers, &mut sampled)?;
    Ok(sampled)
}

fn head(source: &Source) -> Result<Head, Error> {
    let mut head = Head::default();
    source.fields(&source.bytes, |number, value| {
        match (number, value) {
            (field::SAMPLE_TYPE, Field::Bytes(bytes)) if head.types.len() < MOST_TYPES => {
                head.types.push(source.small(bytes)?);
            }
            (field::SAMPLE_TYPE, _) => return Err(source.too_many("types", MOST_TYPES)),
            (field::SAMPLE, _) => head.samples = head.samples.saturating_add(1),
            (field::MAPPING, Field::Bytes(bytes)) if head.mappings.len() < MOST_MAPPINGS => {
                head.mappings.push(source.small(bytes)?);
            }
            (field::MAPPING, _) => return Err(source.too_many("mappings", MOST_MAPPINGS)),
            (field::TIME, Field::Number(number)) => head.time = positive(number),
            (field::DURATION, Field::Number(number)) => head.duration = positive(number),
            (field::PERIOD_TYPE, Field::Bytes(bytes)) => head.period_type = source.small(bytes)?,
            (field::PERIOD, Field::Number(number)) => head.period = positive(number),
            _ => {}
        }
        Ok(())
    })?;
    Ok(head)
}

/// Numbers are signed in the format, and those below zero make no sense here.
fn positive(number: u64) -> u64 {
    u64::try_from(number as i64).unwrap_or(0)
}

/// The sums of the chosen value by innermost location.
fn sums(
    source: &Source,
    chosen: Chosen,
    sampled: &mut Sampled,
) -> Result<HashMap<u64, u128>, Error> {
    let mut sums = SumsOf::default();
    source.fields(&source.bytes, |number, value| {
        let (field::SAMPLE, Field::Bytes(sample)) = (number, value) else { return Ok(()) };
        let (mut leaf, mut values, mut found) = (None, 0usize, None);
        source.fields(sample, |number, value| match number {
            1 => source.numbers(value, false, |id| leaf = leaf.or(Some(id))),
            2 => source.numbers(value, false, |value| {
                if values == chosen.index {
                    found = Some(value as i64);
                }
                values = values.saturating_add(1);
            }),
            _ => Ok(()),
        })?;
        let found = found
            .ok_or_else(|| source.malformed(sample, "a sample with fewer values than types"))?;
        let Ok(value) = u64::try_from(found) else {
            sampled.malformed = sampled.malformed.saturating_add(found.unsigned_abs().into());
            return Ok(());
        };
        match leaf.filter(|_| value > 0) {
            Some(leaf) => sums.add(leaf, value.into(), "distinct locations of samples", source)?,
            None => sampled.without_stack = sampled.without_stack.saturating_add(value.into()),
        }
        Ok(())
    })?;
    Ok(sums.0)
}

/// Brings the sums to the addresses of their locations.
fn places(
    source: &Source,
    mut sums: HashMap<u64, u128>,
    numbers: &HashMap<u64, usize>,
    sampled: &mut Sampled,
) -> Result<(), Error> {
    source.fields(&source.bytes, |number, value| {
        let (field::LOCATION, Field::Bytes(bytes)) = (number, value) else { return Ok(()) };
        let location: LocationMessage = source.small(bytes)?;
        let Some(sum) = sums.remove(&location.id) else { return Ok(()) };
        let mapping = numbers.get(&location.mapping).copied().filter(|_| location.mapping != 0);
        let place = Place { mapping, address: StatedAddr(location.address), code: Code::Native };
        let all = sampled.places.entry(place).or_default();
        *all = all.saturating_add(sum);
        Ok(())
    })?;
    // Locations that are not there.
    sampled.malformed = sums.values().fold(sampled.malformed, |all, sum| all.saturating_add(*sum));
    Ok(())
}
