//! Reading pprof profiles, our own and those of other tools.

use std::io::Read;

use rustc_hash::FxHashMap;

use super::super::MAX_DEPTH;
use super::super::bytes::Reader;
use super::{FORMAT, field};
use crate::{BodySample, Error, Location, Name, SampleProfile};

/// A file may decompress to this many bytes.
const MAX_BYTES: u64 = 1 << 29;
/// And so much, and so many times its own size: stacks compress to a tenth of their size at best.
const FREE_BYTES: u64 = 4 << 20;
const MAX_RATIO: u64 = 32;

#[derive(Default)]
struct Message<'a> {
    types: Vec<(u64, u64)>,
    /// The messages, not yet parsed: many small ones would grow a lot.
    samples: Vec<&'a [u8]>,
    locations: FxHashMap<u64, ReadLocation>,
    functions: FxHashMap<u64, (u64, u64)>,
    strings: Vec<&'a str>,
}

#[derive(Default)]
struct ReadLocation {
    address: u64,
    /// Function, line, column; innermost first.
    lines: Vec<(u64, u64, u64)>,
}

/// One field: its number and its value, a number or bytes.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn fields<'a>(
    bytes: &'a [u8],
    mut take: impl FnMut(u64, Value<'a>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut reader = Reader::new(bytes, FORMAT);
    while !reader.is_at_end() {
        let key = reader.uleb()?;
        let value = match key & 7 {
            0 => Value::Number(reader.uleb()?),
            1 => Value::Number(reader.u64()?),
            2 => {
                let length = reader.uleb()?;
                Value::Bytes(reader.take(length)?)
            }
            5 => Value::Number(u64::from(reader.u32()?)),
            kind => return Err(reader.error(format!("wire type {kind}"))),
        };
        take(key >> 3, value)?;
    }
    Ok(())
}

/// Numbers of a repeated field, packed or one at a time.
fn repeated(into: &mut Vec<u64>, value: Value<'_>) -> Result<(), Error> {
    match value {
        Value::Number(number) => into.push(number),
        Value::Bytes(bytes) => {
            let mut reader = Reader::new(bytes, FORMAT);
            while !reader.is_at_end() {
                into.push(reader.uleb()?);
            }
        }
    }
    Ok(())
}

/// Reads a gzipped pprof profile. The count of a line is the first value of type `samples` (else
/// the first value); values of type `calls` give call targets and head counts. Other stacks are
/// read for their innermost location only: time spent under a caller says nothing about how often
/// it called. A location without symbols becomes a function named by its address.
///
/// # Errors
/// Truncated or malformed bytes, a decompression bomb, a profile without samples.
pub fn read(bytes: &[u8]) -> Result<SampleProfile, Error> {
    let mut data = Vec::new();
    let most =
        MAX_BYTES.min(FREE_BYTES.saturating_add((bytes.len() as u64).saturating_mul(MAX_RATIO)));
    let mut decoder = flate2::read::MultiGzDecoder::new(bytes).take(most + 1);
    if let Err(error) = decoder.read_to_end(&mut data) {
        let problem = format!("the gzip stream does not decompress: {error}");
        return Err(Error::Corrupt { format: FORMAT, offset: 0, problem });
    }
    if data.len() as u64 > most {
        return Err(Error::TooLarge { limit: most });
    }
    let message = parse(&data)?;
    build(&message)
}

fn parse(data: &[u8]) -> Result<Message<'_>, Error> {
    let mut message = Message::default();
    fields(data, |number, value| {
        match (number, value) {
            (field::SAMPLE_TYPE, Value::Bytes(body)) => message.types.push(pair(body, 1, 2)?),
            (field::SAMPLE, Value::Bytes(body)) => message.samples.push(body),
            (field::LOCATION, Value::Bytes(body)) => {
                let (id, location) = parse_location(body)?;
                message.locations.insert(id, location);
            }
            (field::FUNCTION, Value::Bytes(body)) => {
                let ((id, name), (system_name, start_line)) =
                    (pair(body, 1, 2)?, pair(body, 3, 5)?);
                // The system name is the linkage name; the other one may be demangled.
                let name = if system_name != 0 { system_name } else { name };
                message.functions.insert(id, (name, start_line));
            }
            (field::STRING, Value::Bytes(text)) => {
                let problem = "a string that is not UTF-8";
                message.strings.push(std::str::from_utf8(text).map_err(|_| corrupt(problem))?);
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(message)
}

fn corrupt(problem: &str) -> Error {
    Error::Corrupt { format: FORMAT, offset: 0, problem: problem.to_owned() }
}

/// The two numbers of a small message.
fn pair(body: &[u8], first: u64, second: u64) -> Result<(u64, u64), Error> {
    let mut found = (0, 0);
    fields(body, |number, value| {
        if let Value::Number(value) = value {
            if number == first {
                found.0 = value;
            } else if number == second {
                found.1 = value;
            }
        }
        Ok(())
    })?;
    Ok(found)
}

fn parse_location(body: &[u8]) -> Result<(u64, ReadLocation), Error> {
    let mut id = 0;
    let mut location = ReadLocation::default();
    fields(body, |number, value| {
        match (number, value) {
            (1, Value::Number(value)) => id = value,
            (3, Value::Number(value)) => location.address = value,
            (4, Value::Bytes(line)) => {
                let (function, line_number) = pair(line, 1, 2)?;
                let (column, _) = pair(line, 3, 3)?;
                location.lines.push((function, line_number, column));
            }
            _ => {}
        }
        Ok(())
    })?;
    if location.lines.len() > MAX_DEPTH {
        return Err(Error::TooDeep { limit: MAX_DEPTH });
    }
    Ok((id, location))
}

impl Message<'_> {
    fn type_index(&self, wanted: &str) -> Option<usize> {
        let text =
            |number: u64| usize::try_from(number).ok().and_then(|number| self.strings.get(number));
        self.types.iter().position(|(kind, _)| text(*kind) == Some(&wanted))
    }

    /// The inline stack of a location, outermost frame first.
    fn stack(&self, id: u64) -> Result<Vec<(Name, Location)>, Error> {
        let location = self
            .locations
            .get(&id)
            .ok_or_else(|| corrupt("a sample of a location that is not there"))?;
        if location.lines.is_empty() {
            return Ok(vec![(
                Name::text(&format!("{:#x}", location.address)),
                Location::default(),
            )]);
        }
        let frame = |(function, line, column): &(u64, u64, u64)| {
            let (name, start_line) = self.functions.get(function).copied().unwrap_or_default();
            let name = usize::try_from(name).ok().and_then(|name| self.strings.get(name)).copied();
            let name = name.ok_or_else(|| corrupt("a function whose name is not there"))?;
            let offset = line.wrapping_sub(start_line) & 0xffff;
            let discriminator =
                u32::try_from(*column).map_err(|_| corrupt("a column of more than 32 bits"))?;
            Ok((Name::parse(name), Location::new(offset as u32, discriminator)))
        };
        location.lines.iter().rev().map(frame).collect()
    }
}

fn build(message: &Message<'_>) -> Result<SampleProfile, Error> {
    let count_index = message.type_index("samples").unwrap_or(0);
    let calls_index = message.type_index("calls");
    let mut profile = SampleProfile::default();
    for body in &message.samples {
        let (mut locations, mut values) = (Vec::new(), Vec::new());
        fields(body, |number, value| match number {
            1 => repeated(&mut locations, value),
            2 => repeated(&mut values, value),
            _ => Ok(()),
        })?;
        let Some(innermost) = locations.first() else { continue };
        let stack = message.stack(*innermost)?;
        let calls = calls_index.and_then(|index| values.get(index)).copied().unwrap_or(0);
        if calls > 0 {
            let Some((callee, _)) = stack.first() else { continue };
            let function = profile.function(callee);
            function.head = function.head.saturating_add(calls);
            if let Some(caller) = locations.get(1) {
                let sample = leaf(&mut profile, &message.stack(*caller)?, 0);
                if let Some(sample) = sample {
                    let sum = sample.targets.entry(callee.clone()).or_default();
                    *sum = sum.saturating_add(calls);
                }
            }
            continue;
        }
        let count = values.get(count_index).copied().unwrap_or(0);
        if let Some(sample) = leaf(&mut profile, &stack, count) {
            sample.count = sample.count.saturating_add(count);
        }
    }
    if profile.functions.is_empty() {
        return Err(Error::Empty);
    }
    Ok(profile)
}

/// The body sample at the end of an inline stack; `count` is added to the totals on the way.
fn leaf<'f>(
    profile: &'f mut SampleProfile,
    stack: &[(Name, Location)],
    count: u64,
) -> Option<&'f mut BodySample> {
    let (outermost, _) = stack.first()?;
    let mut function = profile.function(outermost);
    function.total = function.total.saturating_add(count);
    for pair in stack.windows(2) {
        if let [(_, at), (callee, _)] = pair {
            function = function.inlined(*at, callee);
            function.total = function.total.saturating_add(count);
        }
    }
    let (_, at) = stack.last()?;
    Some(function.body.entry(*at).or_default())
}
