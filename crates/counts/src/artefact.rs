//! The counts artefact: one Parquet file per run, all images in it.
//!
//! One row is one count:
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `build_id` | string | build ID of the image in hex, empty where it has none |
//! | `path` | string | path of the image as recorded |
//! | `kind` | string | `sample`, `branch`, `fall-through`, `path`, or one of the first three after `first-half-` |
//! | `first` | uint64, optional | sampled address, branch source, or first instruction of the range; null: outside the image |
//! | `second` | uint64, optional | branch target or last instruction of the range; null: none, or outside the image |
//! | `count` | decimal(38,0) | times seen |
//! | `mispredicted` | decimal(38,0) | of which mispredicted |
//! | `before` | uint64, optional | path: source of the branch that led to `first` |
//! | `after` | uint64, optional | path: target of the branch at `second` |
//! | `architecture` | string | of the image's code, empty where nobody knows |
//!
//! `before`, `after` and rows of kind `path` are there only where paths were counted (version 2),
//! `architecture` only where it is known of an image (version 5). Rows of the kinds `first-half-…` say what of the samples, branches (version 3) and ranges
//! (version 4) is of the first half of the samples ([`crate::evidence`]). Sums over any number of files fit, whoever adds them:
//! group by all columns but `count` and `mispredicted` and add these. The key-value metadata carry
//! `planish.counts.version` and `planish.ledger` (JSON). Each page has its CRC-32, and so have the key-value metadata
//! (`planish.metadata.crc32`). Rows are sorted, so equal counts give equal bytes. [`read`] takes a whole file, [`rows::Rows`] some rows after the others.

use crate::error::Error;
use crate::ledger::Ledger;
use crate::model::{Branch, Counts, FallThrough, ImageCounts, SampleCount};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use row::Kind;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

mod bounds;
mod checked;
mod chunk;
mod columns;
mod group;
mod headers;
mod hybrid;
mod open;
mod page_header;
mod pages;
mod read;
pub mod row;
pub mod rows;
mod words;
pub mod writer;

pub use open::{About, about};
pub use read::{NARROW, read};

/// Newest version of the schema above; files without architectures are written as version 4, without
/// ranges of the first half as version 3, without halves as version 2, without paths as version 1.
pub const VERSION: u32 = 5;

/// First bytes of every artefact.
pub const MAGIC: &[u8; 4] = b"PAR1";

const VERSION_KEY: &str = "planish.counts.version";
const LEDGER_KEY: &str = "planish.ledger";
const COLUMNS: &str = "
    REQUIRED BYTE_ARRAY build_id (UTF8);
    REQUIRED BYTE_ARRAY path (UTF8);
    REQUIRED BYTE_ARRAY kind (UTF8);
    OPTIONAL INT64 first (INTEGER(64,false));
    OPTIONAL INT64 second (INTEGER(64,false));
    REQUIRED FIXED_LEN_BYTE_ARRAY (16) count (DECIMAL(38,0));
    REQUIRED FIXED_LEN_BYTE_ARRAY (16) mispredicted (DECIMAL(38,0));";
/// Columns of files with paths.
const PATH_COLUMNS: &str = "
    OPTIONAL INT64 before (INTEGER(64,false));
    OPTIONAL INT64 after (INTEGER(64,false));";
/// Column of files with architectures, which have those of paths, too.
const ARCHITECTURE_COLUMN: &str = "
    REQUIRED BYTE_ARRAY architecture (UTF8);";
/// Rows of one row group, so that a reader never needs more than this in memory.
const GROUP_ROWS: usize = 1 << 20;

fn malformed(path: &Path, place: &str, expected: &str, found: &str) -> Error {
    Error::Malformed {
        path: path.to_owned(),
        place: place.into(),
        expected: expected.into(),
        found: found.into(),
    }
}

/// The error of a row group, counted from 1, whose pages are not those of counts.
fn bad_pages(path: &Path, group: usize, what: &str) -> Error {
    malformed(path, &format!("row group {group}"), "pages of counts; aggregate again", what)
}

/// One row.
struct Row<'a> {
    build_id: &'a str,
    path: &'a str,
    architecture: &'a str,
    kind: Kind,
    first: Option<u64>,
    second: Option<u64>,
    count: u128,
    mispredicted: u128,
    before: Option<u64>,
    after: Option<u64>,
}

/// What the columns of a file are, and the version that it states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The version that is stated, unless there are architectures.
    pub version: u32,
    /// Whether there are the columns of paths.
    pub paths: bool,
    /// Whether there is the column of architectures, and those of paths with it.
    pub architectures: bool,
}

impl Form {
    fn stated(self) -> u32 {
        if self.architectures { VERSION } else { self.version }
    }

    /// Opens a file of this form, with the ledger and `more` in its metadata.
    fn begin<W: Write + Send>(
        self,
        out: W,
        ledger: &Ledger,
        more: Vec<(String, String)>,
    ) -> Result<SerializedFileWriter<W>, ParquetError> {
        let ledger = serde_json::to_string(ledger).unwrap_or_default();
        let mut pairs = vec![
            KeyValue::new(VERSION_KEY.into(), self.stated().to_string()),
            KeyValue::new(LEDGER_KEY.into(), ledger),
        ];
        pairs.extend(more.into_iter().map(|(key, value)| KeyValue::new(key, value)));
        let said = pairs.iter().map(|pair| (&*pair.key, pair.value.as_deref().unwrap_or_default()));
        let checksum = words::checksum(said);
        pairs.push(KeyValue::new(words::KEY.into(), checksum));
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_created_by("planish".into())
            .set_key_value_metadata(Some(pairs))
            .build();
        let paths = if self.paths || self.architectures { PATH_COLUMNS } else { "" };
        let last = if self.architectures { ARCHITECTURE_COLUMN } else { "" };
        let schema = parse_message_type(&format!("message counts {{{COLUMNS}{paths}{last}\n}}"))?;
        SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))
    }
}

/// Writes `counts` to `out` (named `path` in messages).
///
/// # Errors
/// Where `out` refuses.
pub fn write(path: &Path, counts: &Counts, out: impl Write + Send) -> Result<(), Error> {
    write_with(path, counts, Vec::new(), out)
}

/// Writes `counts` with `more` keys and values in the metadata.
///
/// # Errors
/// Where `out` refuses.
pub fn write_with(
    path: &Path,
    counts: &Counts,
    more: Vec<(String, String)>,
    out: impl Write + Send,
) -> Result<(), Error> {
    let fault = |source| Error::Parquet { path: path.to_owned(), source };
    let paths = counts.images.iter().any(|image| !image.paths.is_empty());
    let halves = counts.images.iter().any(|image| !image.first_half.is_empty());
    let ranges = counts.images.iter().any(|image| !image.first_half.fall_throughs.is_empty());
    let version = match (halves, paths) {
        (true, _) if ranges => 4,
        (true, _) => 3,
        (false, true) => 2,
        (false, false) => 1,
    };
    let architectures = counts.images.iter().any(|image| !image.architecture.is_empty());
    let form = Form { version, paths, architectures };
    let mut writer = form.begin(out, &counts.ledger, more).map_err(fault)?;
    for image in &counts.images {
        let id = image.build_id.as_ref().map(ToString::to_string).unwrap_or_default();
        let rows: Vec<Row<'_>> = rows_of(image, &id).collect();
        for rows in rows.chunks(GROUP_ROWS) {
            group::write(&mut writer, rows).map_err(fault)?;
        }
    }
    writer.close().map_err(fault)?;
    Ok(())
}

fn rows_of<'a>(image: &'a ImageCounts, build_id: &'a str) -> impl Iterator<Item = Row<'a>> {
    let row = move |kind, first, second, count, mispredicted| Row {
        build_id,
        path: &image.path,
        architecture: &image.architecture,
        kind,
        first,
        second,
        count: u128::from(count),
        mispredicted: u128::from(mispredicted),
        before: None,
        after: None,
    };
    let sample = move |kind, s: &SampleCount| row(kind, Some(s.address.0), None, s.count, 0);
    let branch = move |kind, b: &Branch| {
        row(kind, b.from.map(|a| a.0), b.to.map(|a| a.0), b.count, b.mispredicted)
    };
    let samples = image.samples.iter().map(move |s| sample(Kind::Sample, s));
    let branches = image.branches.iter().map(move |b| branch(Kind::Branch, b));
    let half = &image.first_half;
    let half_samples = half.samples.iter().map(move |s| sample(Kind::FirstHalfSample, s));
    let half_branches = half.branches.iter().map(move |b| branch(Kind::FirstHalfBranch, b));
    let range = move |kind, r: &FallThrough| row(kind, Some(r.first.0), Some(r.last.0), r.count, 0);
    let ranges = image.fall_throughs.iter().map(move |r| range(Kind::FallThrough, r));
    let half_ranges = half.fall_throughs.iter();
    let half_ranges = half_ranges.map(move |r| range(Kind::FirstHalfFallThrough, r));
    let paths = image.paths.iter().map(move |p| {
        let (before, after) = (p.from.map(|a| a.0), p.to.map(|a| a.0));
        Row { before, after, ..row(Kind::Path, Some(p.first.0), Some(p.last.0), p.count, 0) }
    });
    let halves = half_samples.chain(half_branches).chain(half_ranges);
    ranges.chain(samples).chain(branches).chain(paths).chain(halves)
}
