//! Samples as OpenTelemetry profiles: a stack of one location for each address.

use super::{About, Programs, Table, hex, sampled, signed};
use crate::Error;
use crate::otlp::messages::{
    AnyValue, Dictionary, Function, KeyValue, KeyValueAndUnit, Line, Link, Location, Mapping,
    Profile, ProfilesData, Resource, ResourceProfiles, Sample, Scope, ScopeProfiles, Stack,
    ValueType,
};
use counts::Counts;
use prost::Message as _;
use std::collections::BTreeMap;
use std::io::Write;

/// Writes the samples of all images.
///
/// # Errors
/// Where there are none, or too many for the format, or `out` refuses.
pub fn otlp(
    counts: &Counts,
    about: &About,
    programs: Programs<'_>,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let images = sampled(counts)?;
    let mut strings = Table::new();
    // The first entry of each table stands for none.
    let mut own = Dictionary {
        mapping_table: vec![Mapping::default()],
        location_table: vec![Location::default()],
        function_table: vec![Function::default()],
        link_table: vec![Link::default()],
        attribute_table: vec![KeyValueAndUnit::default()],
        stack_table: vec![Stack::default()],
        string_table: Vec::new(),
    };
    let native = attribute(&mut own, &mut strings, "profile.frame.type", "native")?;
    let mut functions: BTreeMap<String, i32> = BTreeMap::new();
    let mut samples = Vec::new();
    for image in images {
        let id = hex(image.build_id.as_ref());
        let attributes = if id.is_empty() {
            Vec::new()
        } else {
            vec![attribute(&mut own, &mut strings, "process.executable.build_id.gnu", &id)?]
        };
        let mapping = index(own.mapping_table.len())?;
        own.mapping_table.push(Mapping {
            memory_start: 0,
            memory_limit: u64::MAX,
            file_offset: 0,
            filename_strindex: index(strings.number(&image.path))?,
            attribute_indices: attributes,
        });
        let program = programs(image);
        for sample in &image.samples {
            let name = program.as_ref().and_then(|own| own.functions().find(sample.address));
            let mut lines = Vec::new();
            if let Some(function) = name {
                let next = index(own.function_table.len())?;
                let number = *functions.entry(function.name.to_owned()).or_insert(next);
                if number == next {
                    let name = index(strings.number(function.name))?;
                    let one = Function { name_strindex: name, system_name_strindex: name };
                    own.function_table.push(one);
                }
                lines.push(Line { function_index: number });
            }
            let location = index(own.location_table.len())?;
            own.location_table.push(Location {
                mapping_index: mapping,
                address: sample.address.0,
                lines,
                attribute_indices: vec![native],
            });
            samples.push(Sample {
                stack_index: index(own.stack_table.len())?,
                values: vec![signed(sample.count)],
                timestamps_unix_nano: Vec::new(),
            });
            own.stack_table.push(Stack { location_indices: vec![location] });
        }
    }
    let mut of = |kind: &str, unit: &str| -> Result<ValueType, Error> {
        let type_strindex = index(strings.number(kind))?;
        Ok(ValueType { type_strindex, unit_strindex: index(strings.number(unit))? })
    };
    let (time_unix_nano, duration_nano) = about.window();
    let profile = Profile {
        sample_type: Some(of("samples", "count")?),
        samples,
        time_unix_nano,
        duration_nano,
        period_type: about.clock_ns.map(|_| of("cpu", "nanoseconds")).transpose()?,
        period: about.clock_ns.map_or(0, signed),
        profile_id: Vec::new(),
    };
    own.string_table = strings.all;
    out.write_all(&data(profile, own, about).encode_to_vec())?;
    Ok(())
}

fn data(profile: Profile, dictionary: Dictionary, about: &About) -> ProfilesData {
    let text = AnyValue { string_value: Some(about.host.clone()), ..AnyValue::default() };
    let host = KeyValue { key: "host.name".to_owned(), value: Some(text), key_strindex: 0 };
    let attributes = if about.host.is_empty() { Vec::new() } else { vec![host] };
    let scope = Scope { name: "planish".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let of_scope = ScopeProfiles { scope: Some(scope), profiles: vec![profile] };
    ProfilesData {
        resource_profiles: vec![ResourceProfiles {
            resource: Some(Resource { attributes }),
            scope_profiles: vec![of_scope],
        }],
        dictionary: Some(dictionary),
    }
}

fn attribute(
    own: &mut Dictionary,
    strings: &mut Table,
    key: &str,
    value: &str,
) -> Result<i32, Error> {
    let number = index(own.attribute_table.len())?;
    own.attribute_table.push(KeyValueAndUnit {
        key_strindex: index(strings.number(key))?,
        value: Some(AnyValue { string_value: Some(value.to_owned()), ..AnyValue::default() }),
    });
    Ok(number)
}

fn index(number: usize) -> Result<i32, Error> {
    i32::try_from(number).map_err(|_| Error::Nothing {
        problem: "more addresses than OpenTelemetry profiles have indices for; write pprof"
            .to_owned(),
    })
}
