//! Which of the formats is it, and what does it unpack to? Gzip and plain bytes are told apart by
//! their first bytes, pprof and OpenTelemetry by the numbers of their fields.

use crate::Error;
use crate::wire::{Field, Source};
use flate2::read::MultiGzDecoder;
use std::io::Read;
use std::path::Path;

/// A file may unpack to so many bytes, to so many in any case, and to so many times its size.
/// Stacks shrink to a tenth at best, names to a twentieth.
const MOST_BYTES: u64 = 1 << 30;
const FREE_BYTES: u64 = 4 << 20;
const MOST_RATIO: u64 = 64;

/// Formats that are told apart by their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `perftools.profiles.Profile`, which pprof and many others read.
    Pprof,
    /// `opentelemetry.proto.profiles.v1development.ProfilesData` as a protocol buffer.
    Otlp,
    /// The same in JSON.
    OtlpJson,
}

impl Format {
    /// What it is called in messages.
    pub fn name(self) -> &'static str {
        match self {
            Format::Pprof => "pprof",
            Format::Otlp => "OpenTelemetry profiles",
            Format::OtlpJson => "OpenTelemetry profiles in JSON",
        }
    }
}

/// The unpacked bytes, and their format: the one given, or what they look like.
pub(crate) fn open(
    path: &Path,
    bytes: Vec<u8>,
    given: Option<Format>,
) -> Result<(Source, Format), Error> {
    let packed = bytes.starts_with(&[0x1f, 0x8b]);
    let bytes = if packed { unpacked(path, &bytes)? } else { bytes };
    let mut source = Source { path: path.to_owned(), format: "a profile", packed, bytes };
    let format = match given {
        Some(Format::Otlp) if is_json(&source.bytes) => Format::OtlpJson,
        Some(format) => format,
        None => detected(&source)?,
    };
    source.format = format.name();
    Ok((source, format))
}

fn unpacked(path: &Path, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let packed = bytes.len();
    let most = FREE_BYTES.saturating_add((packed as u64).saturating_mul(MOST_RATIO));
    let most = MOST_BYTES.min(most);
    let mut out = Vec::new();
    let mut stream = MultiGzDecoder::new(bytes).take(most.saturating_add(1));
    if let Err(source) = stream.read_to_end(&mut out) {
        return Err(Error::Gzip { path: path.to_owned(), source });
    }
    if out.len() as u64 > most {
        return Err(Error::Bomb { path: path.to_owned(), packed, most });
    }
    Ok(out)
}

fn is_json(bytes: &[u8]) -> bool {
    bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

/// The data of OpenTelemetry have two fields; every pprof has a table of strings, its field 6.
fn detected(source: &Source) -> Result<Format, Error> {
    let unknown = |found: &str, advice| Error::Unknown {
        path: source.path.clone(),
        found: found.to_owned(),
        advice,
    };
    let bytes = &source.bytes;
    let known: [(&[u8], &str, &str); 5] = [
        (b"PERFILE2", "a recording of perf", "; `planish fleet shard` counts it"),
        (b"2ELIFREP", "a recording of perf", "; `planish fleet shard` counts it"),
        (b"PAR1", "a counts file", "; `planish fleet merge` takes it as it is"),
        (b"ARROW1", "an Arrow file", "; have your store send pprof or OTLP"),
        (
            b"\0\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            "a CPU profile of gperftools in its own form",
            "; `pprof -proto PROGRAM FILE > out.pb.gz` (github.com/google/pprof) converts it",
        ),
    ];
    if let Some((_, found, advice)) = known.iter().find(|(start, ..)| bytes.starts_with(start)) {
        return Err(unknown(found, advice));
    }
    if bytes.is_empty() {
        return Err(unknown("empty", "; did the program that should write it fail?"));
    }
    if is_json(bytes) {
        return Ok(Format::OtlpJson);
    }
    let (mut strings, mut others, mut highest) = (false, false, 0);
    let read = source.fields(bytes, |number, value| {
        highest = highest.max(number);
        let is_bytes = matches!(value, Field::Bytes(_));
        strings |= number == 6 && is_bytes;
        others |= !is_bytes || number > 2;
        Ok(())
    });
    match read {
        Ok(()) if strings && highest <= 64 => Ok(Format::Pprof),
        Ok(()) if !others => Ok(Format::Otlp),
        Ok(()) => Err(unknown("a protocol buffer of another kind", "")),
        Err(_) => {
            Err(unknown("neither gzip, JSON nor a whole protocol buffer", "; is it cut off?"))
        }
    }
}
