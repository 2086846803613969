//! Reading and writing sample profiles: which formats there are, and which one a file is in.

pub mod binary;
mod bytes;
pub mod extbinary;
pub mod gcov;
pub mod pprof;

mod record;
mod spelling;
mod summary_section;
pub mod text;

use crate::{Error, SampleProfile};

/// Inlined calls may be nested this deep; deeper input is refused, so that reading needs a bounded
/// stack.
pub const MAX_DEPTH: usize = 256;

/// A file format of sample profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// LLVM's text format; lossless except for the symbol list and the flags.
    Text,
    /// LLVM's plain binary format.
    Binary,
    /// LLVM's extensible binary format: sections, name hashes, compression, symbol list.
    ExtBinary,
    /// gcc's AutoFDO file, three versions.
    Gcov,
    /// Gzipped protocol buffer as Go's tools use it.
    Pprof,
}

impl Format {
    /// All formats, in the order in which help texts name them.
    pub const ALL: [Format; 5] =
        [Format::Text, Format::ExtBinary, Format::Binary, Format::Gcov, Format::Pprof];

    /// The word for this format on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Binary => "binary",
            Format::ExtBinary => "extbinary",
            Format::Gcov => "gcov",
            Format::Pprof => "pprof",
        }
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.word())
    }
}

impl std::str::FromStr for Format {
    type Err = String;

    /// Reads the word that [`Format::word`] gives.
    fn from_str(word: &str) -> Result<Format, String> {
        Format::ALL.into_iter().find(|format| format.word() == word).ok_or_else(|| {
            format!("unknown profile format `{word}`: one of text, extbinary, binary, gcov, pprof")
        })
    }
}

/// How function names are stored in the extensible binary format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameStorage {
    /// As text.
    #[default]
    Plain,
    /// As hashes of eight bytes each; what `llvm-profdata --use-md5` writes.
    FixedHash,
    /// As hashes of variable length; older tools wrote this.
    VariableHash,
}

/// What a writer may be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOptions {
    /// extbinary: names as text or hashes.
    pub names: NameStorage,
    /// extbinary: compress every section with zlib.
    pub compress: bool,
    /// gcov: which version of the file.
    pub gcov: gcov::GcovVersion,
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions { names: NameStorage::Plain, compress: false, gcov: gcov::GcovVersion::V2 }
    }
}

/// The format that the first bytes announce, `None` when they fit none.
pub fn detect(bytes: &[u8]) -> Option<Format> {
    if binary::detect(bytes) {
        Some(Format::Binary)
    } else if extbinary::detect(bytes) {
        Some(Format::ExtBinary)
    } else if gcov::detect(bytes) {
        Some(Format::Gcov)
    } else if pprof::detect(bytes) {
        Some(Format::Pprof)
    } else if text::detect(bytes) {
        Some(Format::Text)
    } else {
        None
    }
}

/// Reads a profile of any format.
pub fn read(bytes: &[u8]) -> Result<SampleProfile, Error> {
    match detect(bytes) {
        Some(Format::Text) => text::read(bytes),
        Some(Format::Binary) => binary::read(bytes),
        Some(Format::ExtBinary) => extbinary::read(bytes),
        Some(Format::Gcov) => gcov::read(bytes),
        Some(Format::Pprof) => pprof::read(bytes),
        None if bytes.is_empty() => Err(Error::Empty),
        None => {
            let start = bytes.iter().take(8).copied().collect::<Vec<u8>>();
            Err(Error::UnknownFormat { start: format!("`{}`", start.escape_ascii()) })
        }
    }
}

/// Writes a profile; the same profile and options always give the same bytes.
///
/// # Errors
/// What the format has no place for: see the writers; probes, which only text and extbinary tell
/// from lines; and names that it cannot spell.
pub fn write(
    profile: &SampleProfile,
    format: Format,
    options: &WriteOptions,
) -> Result<Vec<u8>, Error> {
    spelling::check(profile, format, options)?;
    if profile.is_probe_based() && !matches!(format, Format::Text | Format::ExtBinary) {
        let problem = "it counts pseudo probes, and there their numbers would be taken for lines; \
                       write text or extbinary, or make a profile of lines"
            .to_owned();
        return Err(Error::Unwritable { format: format.word(), problem });
    }
    match format {
        Format::Text => Ok(text::write(profile)),
        Format::Binary => binary::write(profile),
        Format::ExtBinary => extbinary::write(profile, options),
        Format::Gcov => gcov::write(profile, options.gcov),
        Format::Pprof => pprof::write(profile),
    }
}
