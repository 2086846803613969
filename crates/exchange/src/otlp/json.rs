//! OpenTelemetry profiles in JSON to the same as a protocol buffer, which is then read.

use super::messages::ProfilesData;
use crate::Error;
use crate::wire::Source;
use prost::Message as _;

/// Most bytes of JSON: its values take many times that in memory.
const MOST_BYTES: usize = 16 << 20;

/// The same data as a protocol buffer.
///
/// # Errors
/// Where the JSON is none, or more than one value.
pub(crate) fn as_protocol_buffer(source: Source) -> Result<Source, Error> {
    if source.bytes.len() > MOST_BYTES {
        let most = MOST_BYTES >> 20;
        let problem = format!("more than {most} MiB of JSON; have them sent as protocol buffers");
        return Err(source.malformed(&source.bytes, problem));
    }
    let mut values = serde_json::Deserializer::from_slice(&source.bytes).into_iter();
    let first: Option<Result<ProfilesData, _>> = values.next();
    let wrong = |error: serde_json::Error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        source.malformed(&source.bytes, format!("{error} ({place} of the JSON)"))
    };
    let data = first.transpose().map_err(wrong)?.unwrap_or_default();
    let rest = source.bytes.get(values.byte_offset()..).unwrap_or_default();
    if let Some(at) = rest.iter().position(|byte| !byte.is_ascii_whitespace()) {
        let next = rest.get(at..).unwrap_or_default();
        let problem = "another value behind the first; give each a file of its own (split -l 1)";
        return Err(source.malformed(next, problem));
    }
    Ok(Source { bytes: data.encode_to_vec(), ..source })
}
