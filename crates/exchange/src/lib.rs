//! Profiles of other tools to counts and back: pprof, OpenTelemetry profiles, and BOLT's
//! pre-aggregated text.
//!
//! [`read`] takes the bytes of a file and says what was sampled where ([`Sampled`]), each address as
//! the profile states it. [`counted`] finds the addresses of the images and keeps the books.
//! [`export`] writes counts for other tools. Only the innermost address of each stack counts: its
//! callers say what was waiting for it, not how often it was called.
//!
//! This crate opens no files; it takes and gives bytes. BOLT's text is read by
//! [`counts::preaggregated`].
#![forbid(unsafe_code)]

mod error;
pub mod export;
mod otlp;
mod pprof;
mod resolve;
mod sampled;
mod strings;
mod unpack;
mod value;
mod wire;

pub use error::Error;
pub use resolve::{File, Form, Imported, Program, counted};
pub use sampled::{Code, Mapping, Place, Sampled, StatedAddr, ValueType};
pub use unpack::Format;

use std::path::Path;

/// Reads the bytes of a profile, of a format that is given or found out; `value` names the type of
/// its values that counts. `path` stands in messages.
///
/// # Errors
/// Where the bytes are no profile, or none of its values counts what ran.
pub fn read(
    path: &Path,
    bytes: Vec<u8>,
    format: Option<Format>,
    value: Option<&str>,
) -> Result<(Sampled, Format), Error> {
    let (source, format) = unpack::open(path, bytes, format)?;
    let sampled = match format {
        Format::Pprof => pprof::read(&source, value),
        Format::Otlp => otlp::read(&source, value),
        Format::OtlpJson => otlp::read(&otlp::as_protocol_buffer(source)?, value),
    };
    Ok((sampled?, format))
}
