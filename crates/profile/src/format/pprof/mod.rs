//! The protocol buffer that Go's tools, and many viewers, know as pprof.
//!
//! A sample is a stack of source lines, innermost first, with values. Two kinds of values are
//! written: `samples`, the count of a line, and `calls`, how often a function was called from a
//! line. A profile knows no file names and lines only relative to their function, so every function
//! starts at line 1: the offsets stay right, which is what Go's compiler compares too. pprof has no
//! discriminators; the column of a line carries them.
//!
//! Source: <https://github.com/google/pprof/blob/main/proto/profile.proto>.

mod read;

pub use read::read;

use std::collections::BTreeMap;
use std::io::Write;

use rustc_hash::FxHashMap;

use super::bytes::put_uleb;
use crate::{Error, FunctionProfile, Location, Name, SampleProfile};

const FORMAT: &str = "pprof";
/// The line at which every function is said to start.
const START_LINE: u64 = 1;

/// Field numbers of the messages, as profile.proto has them.
mod field {
    pub const SAMPLE_TYPE: u64 = 1;
    pub const SAMPLE: u64 = 2;
    pub const MAPPING: u64 = 3;
    pub const LOCATION: u64 = 4;
    pub const FUNCTION: u64 = 5;
    pub const STRING: u64 = 6;
    pub const DEFAULT_SAMPLE_TYPE: u64 = 14;
}

/// Whether `bytes` start as a gzip file, the only dress that pprof profiles wear.
pub fn detect(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// A frame: a function and a location in it.
type Frame<'p> = (&'p Name, Location);

#[derive(Default)]
struct Tables<'p> {
    strings: Vec<String>,
    string_index: FxHashMap<String, u64>,
    functions: FxHashMap<&'p Name, u64>,
    function_bytes: Vec<u8>,
    locations: FxHashMap<Vec<Frame<'p>>, u64>,
    location_bytes: Vec<u8>,
    samples: Vec<u8>,
}

impl<'p> Tables<'p> {
    fn string(&mut self, text: &str) -> u64 {
        if let Some(number) = self.string_index.get(text) {
            return *number;
        }
        let number = self.strings.len() as u64;
        self.strings.push(text.to_owned());
        self.string_index.insert(text.to_owned(), number);
        number
    }

    fn function(&mut self, name: &'p Name) -> u64 {
        if let Some(number) = self.functions.get(name) {
            return *number;
        }
        let number = self.functions.len() as u64 + 1;
        self.functions.insert(name, number);
        let text = self.string(&name.to_string());
        let mut body = Vec::new();
        for (field, value) in [(1, number), (2, text), (3, text), (5, START_LINE)] {
            put_number(&mut body, field, value);
        }
        put_bytes(&mut self.function_bytes, field::FUNCTION, &body);
        number
    }

    /// The location of an inline stack, innermost frame first.
    fn location(&mut self, stack: &[Frame<'p>]) -> u64 {
        if let Some(number) = self.locations.get(stack) {
            return *number;
        }
        let number = self.locations.len() as u64 + 1;
        self.locations.insert(stack.to_vec(), number);
        let mut body = Vec::new();
        put_number(&mut body, 1, number);
        put_number(&mut body, 2, 1);
        for (name, at) in stack {
            let mut line = Vec::new();
            put_number(&mut line, 1, self.function(name));
            put_number(&mut line, 2, START_LINE + u64::from(at.line_offset));
            put_number(&mut line, 3, u64::from(at.discriminator));
            put_bytes(&mut body, 4, &line);
        }
        put_bytes(&mut self.location_bytes, field::LOCATION, &body);
        number
    }

    fn sample(&mut self, locations: &[u64], values: [u64; 2]) {
        let (mut packed_locations, mut packed_values) = (Vec::new(), Vec::new());
        locations.iter().for_each(|location| put_uleb(&mut packed_locations, *location));
        // The values are signed in the format.
        values.iter().for_each(|value| put_uleb(&mut packed_values, (*value).min(i64::MAX as u64)));
        let mut body = Vec::new();
        put_bytes(&mut body, 1, &packed_locations);
        put_bytes(&mut body, 2, &packed_values);
        put_bytes(&mut self.samples, field::SAMPLE, &body);
    }

    /// The samples of `function`, whose callers by inlining are `outer`, innermost first.
    fn walk(
        &mut self,
        function: &'p FunctionProfile,
        outer: &[Frame<'p>],
        called: &mut BTreeMap<&'p Name, u64>,
    ) {
        for (at, sample) in &function.body {
            let mut stack = vec![(&function.name, *at)];
            stack.extend_from_slice(outer);
            let here = self.location(&stack);
            self.sample(&[here], [sample.count, 0]);
            for (callee, count) in &sample.targets {
                let entry = self.location(&[(callee, Location::default())]);
                self.sample(&[entry, here], [0, *count]);
                let sum = called.entry(callee).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        for (at, callee) in function.inlined_calls() {
            let mut stack = vec![(&function.name, at)];
            stack.extend_from_slice(outer);
            self.walk(callee, &stack, called);
        }
    }
}

/// Writes a gzipped pprof profile. Totals, checksums, attributes, flags and the symbol list have no
/// place in it. Calls of a function beyond those whose caller is known become a sample of the entry
/// alone.
///
/// # Errors
/// Compressing in memory does not fail in practice.
pub fn write(profile: &SampleProfile) -> Result<Vec<u8>, Error> {
    let mut tables = Tables::default();
    tables.string("");
    let types = [("samples", "count"), ("calls", "count")];
    let mut out = Vec::new();
    for (kind, unit) in types {
        let mut body = Vec::new();
        put_number(&mut body, 1, tables.string(kind));
        put_number(&mut body, 2, tables.string(unit));
        put_bytes(&mut out, field::SAMPLE_TYPE, &body);
    }
    let default_type = tables.string("samples");
    let mut called = BTreeMap::new();
    for function in profile.functions.values() {
        tables.walk(function, &[], &mut called);
    }
    for function in profile.functions.values() {
        let unknown =
            function.head.saturating_sub(called.get(&function.name).copied().unwrap_or(0));
        if unknown > 0 {
            let entry = tables.location(&[(&function.name, Location::default())]);
            tables.sample(&[entry], [0, unknown]);
        }
    }
    // One mapping that says "everything is symbolised already", so that no viewer looks for the
    // binary.
    let mut mapping = Vec::new();
    for field in [1, 7, 8, 9, 10] {
        put_number(&mut mapping, field, 1);
    }
    out.append(&mut tables.samples);
    put_bytes(&mut out, field::MAPPING, &mapping);
    out.append(&mut tables.location_bytes);
    out.append(&mut tables.function_bytes);
    for text in &tables.strings {
        put_bytes(&mut out, field::STRING, text.as_bytes());
    }
    put_number(&mut out, field::DEFAULT_SAMPLE_TYPE, default_type);
    gzip(&out)
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let failed =
        |error: std::io::Error| Error::Unwritable { format: FORMAT, problem: error.to_string() };
    // Without a time stamp, so that the bytes depend on the profile alone.
    let mut encoder = flate2::GzBuilder::new().write(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).map_err(failed)?;
    encoder.finish().map_err(failed)
}

fn put_number(out: &mut Vec<u8>, field: u64, value: u64) {
    if value != 0 {
        put_uleb(out, field << 3);
        put_uleb(out, value);
    }
}

fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_uleb(out, field << 3 | 2);
    put_uleb(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
