//! Samples as a pprof profile: gzip, a location for each address, and the function that it lies in
//! where the program is at hand.

use super::{About, Programs, Table, hex, sampled, signed};
use crate::Error;
use crate::pprof::{MappingMessage, ValueTypeMessage};
use counts::{Counts, ImageCounts};
use flate2::{Compression, GzBuilder};
use image::Image;
use prost::Message;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    locations: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    values: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(message, repeated, tag = "4")]
    lines: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
}

/// What one write adds to the profile.
#[derive(Clone, PartialEq, Message)]
struct Part {
    #[prost(message, repeated, tag = "1")]
    sample_types: Vec<ValueTypeMessage>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mappings: Vec<MappingMessage>,
    #[prost(message, repeated, tag = "4")]
    locations: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    functions: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    strings: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueTypeMessage>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

/// Writes the samples of all images.
///
/// # Errors
/// Where there are none, or `out` refuses.
pub fn pprof(
    counts: &Counts,
    about: &About,
    programs: Programs<'_>,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let images = sampled(counts)?;
    // No time stamp, so that the bytes depend on the counts alone.
    let mut out = GzBuilder::new().write(out, Compression::default());
    let mut strings = Table::new();
    let mut put = |part: &Part| out.write_all(&part.encode_to_vec());
    put(&head(about, &mut strings))?;
    let mut functions: BTreeMap<String, u64> = BTreeMap::new();
    let mut next = 0u64;
    for (id, image) in (1u64..).zip(images) {
        let program = programs(image);
        put(&Part {
            mappings: vec![mapping(id, image, program.is_some(), &mut strings)],
            ..Part::default()
        })?;
        for sample in &image.samples {
            next = next.saturating_add(1);
            let mut part = Part::default();
            let function = function(program.as_ref(), sample.address, &mut functions);
            if let Some((name, number, true)) = &function {
                let name = signed(strings.number(name) as u64);
                part.functions.push(Function { id: *number, name, system_name: name });
            }
            let lines = function.map(|(_, function, _)| Line { function }).into_iter().collect();
            let address = sample.address.0;
            part.locations.push(Location { id: next, mapping: id, address, lines });
            let mut values = vec![signed(sample.count)];
            values.extend(about.clock_ns.map(|ns| signed(sample.count.saturating_mul(ns))));
            part.samples.push(Sample { locations: vec![next], values });
            put(&part)?;
        }
    }
    for text in strings.all {
        put(&Part { strings: vec![text], ..Part::default() })?;
    }
    out.finish()?.flush()?;
    Ok(())
}

fn head(about: &About, strings: &mut Table) -> Part {
    let mut of = |kind: &str, unit: &str| ValueTypeMessage {
        kind: signed(strings.number(kind) as u64),
        unit: signed(strings.number(unit) as u64),
    };
    let samples = of("samples", "count");
    let cpu = about.clock_ns.map(|_| of("cpu", "nanoseconds"));
    let (time, duration) = about.window();
    Part {
        sample_types: [samples].into_iter().chain(cpu).collect(),
        time_nanos: signed(time),
        duration_nanos: signed(duration),
        period_type: cpu,
        period: about.clock_ns.map_or(0, signed),
        default_sample_type: samples.kind,
        ..Part::default()
    }
}

fn mapping(id: u64, image: &ImageCounts, named: bool, strings: &mut Table) -> MappingMessage {
    MappingMessage {
        id,
        memory_start: 0,
        memory_limit: u64::MAX,
        file_offset: 0,
        filename: signed(strings.number(&image.path) as u64),
        build_id: signed(strings.number(&hex(image.build_id.as_ref())) as u64),
        has_functions: named,
    }
}

/// The name of the function at an address, its number, and whether it is a new one.
fn function(
    program: Option<&Arc<Image>>,
    address: image::ImageAddr,
    functions: &mut BTreeMap<String, u64>,
) -> Option<(String, u64, bool)> {
    let name = program?.functions().find(address)?.name.to_owned();
    let next = functions.len() as u64 + 1;
    let number = *functions.entry(name.clone()).or_insert(next);
    Some((name, number, number == next))
}
