//! The counts artefact: one Parquet file per run, all images in it.
//!
//! One row is one count:
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `build_id` | string | build ID of the image in hex, empty where it has none |
//! | `path` | string | path of the image as recorded |
//! | `kind` | string | `sample`, `branch` or `fall-through` |
//! | `first` | uint64, optional | sampled address, branch source, or first instruction of the range; null: outside the image |
//! | `second` | uint64, optional | branch target or last instruction of the range; null: none, or outside the image |
//! | `count` | decimal(38,0) | times seen |
//! | `mispredicted` | decimal(38,0) | of which mispredicted |
//!
//! Sums over any number of files therefore fit, whoever adds them: group by the first five columns and add the last
//! two. The key-value metadata carry `planish.counts.version` and `planish.ledger` (JSON). Rows are sorted, so equal
//! counts give equal bytes.

use crate::error::Error;
use crate::ledger::Ledger;
use crate::model::{Branch, Counts, FallThrough, ImageCounts, SampleCount};
use image::{BuildId, ImageAddr};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, FixedLenByteArray, FixedLenByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Version of the schema above.
pub const VERSION: u32 = 1;

/// First bytes of every artefact.
pub const MAGIC: &[u8; 4] = b"PAR1";

const VERSION_KEY: &str = "planish.counts.version";
const LEDGER_KEY: &str = "planish.ledger";
const SCHEMA: &str = "message counts {
    REQUIRED BYTE_ARRAY build_id (UTF8);
    REQUIRED BYTE_ARRAY path (UTF8);
    REQUIRED BYTE_ARRAY kind (UTF8);
    OPTIONAL INT64 first (INTEGER(64,false));
    OPTIONAL INT64 second (INTEGER(64,false));
    REQUIRED FIXED_LEN_BYTE_ARRAY (16) count (DECIMAL(38,0));
    REQUIRED FIXED_LEN_BYTE_ARRAY (16) mispredicted (DECIMAL(38,0));
}";
/// Rows of one row group, so that a reader never needs more than this in memory.
const GROUP_ROWS: usize = 1 << 20;

const SAMPLE: &str = "sample";
const BRANCH: &str = "branch";
const FALL_THROUGH: &str = "fall-through";

/// One row.
struct Row<'a> {
    build_id: &'a str,
    path: &'a str,
    kind: &'static str,
    first: Option<u64>,
    second: Option<u64>,
    count: u64,
    mispredicted: u64,
}

/// Writes `counts` to `out` (named `path` in messages).
///
/// # Errors
/// Where `out` refuses.
pub fn write(path: &Path, counts: &Counts, out: impl Write + Send) -> Result<(), Error> {
    let fault = |source| Error::Parquet { path: path.to_owned(), source };
    let ledger = serde_json::to_string(&counts.ledger).unwrap_or_default();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).map_err(fault)?))
        .set_created_by("planish".into())
        .set_key_value_metadata(Some(vec![
            KeyValue::new(VERSION_KEY.into(), VERSION.to_string()),
            KeyValue::new(LEDGER_KEY.into(), ledger),
        ]))
        .build();
    let schema = Arc::new(parse_message_type(SCHEMA).map_err(fault)?);
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties)).map_err(fault)?;
    for image in &counts.images {
        let id = image.build_id.as_ref().map(ToString::to_string).unwrap_or_default();
        let rows: Vec<Row<'_>> = rows_of(image, &id).collect();
        for group in rows.chunks(GROUP_ROWS) {
            let mut to = writer.next_row_group().map_err(fault)?;
            write_group(&mut to, group).map_err(fault)?;
            to.close().map_err(fault)?;
        }
    }
    writer.close().map_err(fault)?;
    Ok(())
}

fn rows_of<'a>(image: &'a ImageCounts, build_id: &'a str) -> impl Iterator<Item = Row<'a>> {
    let row = move |kind, first, second, count, mispredicted| Row {
        build_id,
        path: &image.path,
        kind,
        first,
        second,
        count,
        mispredicted,
    };
    let samples = image.samples.iter().map(move |s| row(SAMPLE, Some(s.address.0), None, s.count, 0));
    let branches = image
        .branches
        .iter()
        .map(move |b| row(BRANCH, b.from.map(|a| a.0), b.to.map(|a| a.0), b.count, b.mispredicted));
    let ranges = image
        .fall_throughs
        .iter()
        .map(move |r| row(FALL_THROUGH, Some(r.first.0), Some(r.last.0), r.count, 0));
    ranges.chain(samples).chain(branches)
}

fn write_group<W: Write + Send>(
    to: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[Row<'_>],
) -> Result<(), ParquetError> {
    let text =
        |f: &dyn Fn(&Row<'_>) -> Vec<u8>| rows.iter().map(|r| ByteArray::from(f(r))).collect::<Vec<_>>();
    let sum = |f: &dyn Fn(&Row<'_>) -> u64| {
        let wide = |r| FixedLenByteArray::from(ByteArray::from(u128::from(f(r)).to_be_bytes().to_vec()));
        rows.iter().map(wide).collect::<Vec<_>>()
    };
    let mut column = 0;
    while let Some(mut writer) = to.next_column()? {
        match column {
            0..=2 => {
                let values = text(&|r| match column {
                    0 => r.build_id.as_bytes().to_vec(),
                    1 => r.path.as_bytes().to_vec(),
                    _ => r.kind.as_bytes().to_vec(),
                });
                writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
            3 | 4 => {
                let cells: Vec<Option<u64>> =
                    rows.iter().map(|r| if column == 3 { r.first } else { r.second }).collect();
                let levels: Vec<i16> = cells.iter().map(|c| i16::from(c.is_some())).collect();
                let values: Vec<i64> = cells.iter().flatten().map(|&v| v as i64).collect();
                writer.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
            }
            _ => {
                let values = sum(&|r| if column == 5 { r.count } else { r.mispredicted });
                writer.typed::<FixedLenByteArrayType>().write_batch(&values, None, None)?;
            }
        }
        writer.close()?;
        column += 1;
    }
    Ok(())
}

/// Reads an artefact.
///
/// # Errors
/// Where `path` is no counts artefact of this version, or damaged.
pub fn read(path: &Path) -> Result<Counts, Error> {
    let file = std::fs::File::open(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    let mut magic = [0; MAGIC.len()];
    let start = std::io::Read::read_exact(&mut &file, &mut magic);
    if start.is_err() || magic != *MAGIC {
        return Err(malformed(
            path,
            "start",
            "a counts artefact (made by planish aggregate)",
            "another kind of file",
        ));
    }
    // The Parquet library checks much but not all of a damaged file before it indexes into it.
    let guarded = quietly(|| read_file(path, file));
    guarded.unwrap_or_else(|_| {
        Err(malformed(
            path,
            "Parquet pages",
            "undamaged pages",
            "pages that the Parquet reader could not follow",
        ))
    })
}

thread_local! {
    /// Whether a panic of this thread is expected, and its message of no use to anyone.
    static QUIET: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs `call` and catches its panic without a message on standard error. Other threads' panics stay loud.
fn quietly<T>(call: impl FnOnce() -> T + std::panic::UnwindSafe) -> std::thread::Result<T> {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                loud(panic);
            }
        }));
    });
    QUIET.set(true);
    let result = std::panic::catch_unwind(call);
    QUIET.set(false);
    result
}

fn malformed(path: &Path, place: &str, expected: &str, found: &str) -> Error {
    Error::Malformed {
        path: path.to_owned(),
        place: place.into(),
        expected: expected.into(),
        found: found.into(),
    }
}

fn read_file(path: &Path, file: std::fs::File) -> Result<Counts, Error> {
    let fault = |source| Error::Parquet { path: path.to_owned(), source };
    let reader = SerializedFileReader::new(file).map_err(fault)?;
    let metadata = reader.metadata().file_metadata();
    let value = |key: &str| {
        let pairs = metadata.key_value_metadata()?;
        pairs.iter().find(|p| p.key == key)?.value.clone()
    };
    match value(VERSION_KEY) {
        None => {
            return Err(malformed(
                path,
                "metadata",
                &format!("the key {VERSION_KEY}"),
                "a Parquet file of something else",
            ));
        }
        Some(version) if version != VERSION.to_string() => {
            return Err(Error::Version { path: path.to_owned(), found: version, expected: VERSION });
        }
        Some(_) => {}
    }
    let ledger = serde_json::from_str::<Ledger>(&value(LEDGER_KEY).unwrap_or_default())
        .map_err(|_| malformed(path, LEDGER_KEY, "a ledger in JSON", "something else"))?;
    let mut counts = Counts { images: Vec::new(), ledger };
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(fault)?;
        read_group(path, group.as_ref(), &mut counts)?;
    }
    crate::merge::normalise(&mut counts)?;
    Ok(counts)
}

fn read_group(path: &Path, group: &dyn RowGroupReader, counts: &mut Counts) -> Result<(), Error> {
    let fault = |source| Error::Parquet { path: path.to_owned(), source };
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let bytes = usize::try_from(group.metadata().total_byte_size()).unwrap_or(0);
    // A row takes well under a bit of the file only where a column repeats one value; this many rows cannot be honest.
    if rows > GROUP_ROWS.max(bytes.saturating_mul(64)) {
        return Err(malformed(
            path,
            "row group",
            &format!("at most {GROUP_ROWS} rows"),
            &format!("{rows} rows"),
        ));
    }
    let ids = text_column(group, 0, rows).map_err(fault)?;
    let paths = text_column(group, 1, rows).map_err(fault)?;
    let kinds = text_column(group, 2, rows).map_err(fault)?;
    let firsts = address_column(group, 3, rows).map_err(fault)?;
    let seconds = address_column(group, 4, rows).map_err(fault)?;
    let sums = sum_column(group, 5, rows).map_err(fault)?;
    let missed = sum_column(group, 6, rows).map_err(fault)?;
    let columns =
        [ids.len(), paths.len(), kinds.len(), firsts.len(), seconds.len(), sums.len(), missed.len()];
    if columns.iter().any(|&n| n != rows) {
        return Err(malformed(
            path,
            "row group",
            &format!("{rows} rows in each column"),
            &format!("{columns:?}"),
        ));
    }
    let mut image: Option<ImageCounts> = None;
    let cells =
        ids.iter().zip(&paths).zip(&kinds).zip(firsts.iter().zip(&seconds)).zip(sums.iter().zip(&missed));
    for (((((id, name), kind), (first, second)), (sum, miss)), row) in cells.zip(0u64..) {
        let same = image.as_ref().is_some_and(|i| {
            i.path.as_bytes() == name.data()
                && i.build_id.as_ref().map(ToString::to_string).unwrap_or_default().as_bytes() == id.data()
        });
        if !same {
            counts.images.extend(image.take());
            let build_id = match std::str::from_utf8(id.data()) {
                Ok("") => None,
                Ok(hex) => hex.parse::<BuildId>().ok(),
                Err(_) => None,
            };
            let name = String::from_utf8_lossy(name.data()).into_owned();
            image = Some(ImageCounts { build_id, path: name, ..ImageCounts::default() });
        }
        let Some(image) = &mut image else { continue };
        add_row(image, kind.data(), *first, *second, *sum, *miss)
            .map_err(|expected| malformed(path, &format!("row {row}"), expected, "another row"))?;
    }
    counts.images.extend(image);
    Ok(())
}

fn add_row(
    image: &mut ImageCounts,
    kind: &[u8],
    first: Option<ImageAddr>,
    second: Option<ImageAddr>,
    count: u128,
    mispredicted: u128,
) -> Result<(), &'static str> {
    let narrow = |n: u128| u64::try_from(n).map_err(|_| "counts below 2^64");
    let (count, mispredicted) = (narrow(count)?, narrow(mispredicted)?);
    match (kind, first, second) {
        (b"sample", Some(address), None) => image.samples.push(SampleCount { address, count }),
        (b"branch", from, to) => image.branches.push(Branch { from, to, count, mispredicted }),
        (b"fall-through", Some(first), Some(last)) => {
            image.fall_throughs.push(FallThrough { first, last, count })
        }
        _ => return Err("kind sample, branch or fall-through with its addresses"),
    }
    Ok(())
}

fn wrong_type(column: usize) -> ParquetError {
    ParquetError::General(format!("column {column} is of another type than the counts schema has"))
}

fn text_column(
    group: &dyn RowGroupReader,
    column: usize,
    rows: usize,
) -> Result<Vec<ByteArray>, ParquetError> {
    let parquet::column::reader::ColumnReader::ByteArrayColumnReader(mut reader) =
        group.get_column_reader(column)?
    else {
        return Err(wrong_type(column));
    };
    let mut values = Vec::new();
    reader.read_records(rows, None, None, &mut values)?;
    Ok(values)
}

fn sum_column(group: &dyn RowGroupReader, column: usize, rows: usize) -> Result<Vec<u128>, ParquetError> {
    let parquet::column::reader::ColumnReader::FixedLenByteArrayColumnReader(mut reader) =
        group.get_column_reader(column)?
    else {
        return Err(wrong_type(column));
    };
    let mut values: Vec<FixedLenByteArray> = Vec::new();
    reader.read_records(rows, None, None, &mut values)?;
    let wide = |v: &FixedLenByteArray| <[u8; 16]>::try_from(v.data()).map(u128::from_be_bytes);
    values.iter().map(|v| wide(v).map_err(|_| wrong_type(column))).collect()
}

fn address_column(
    group: &dyn RowGroupReader,
    column: usize,
    rows: usize,
) -> Result<Vec<Option<ImageAddr>>, ParquetError> {
    let parquet::column::reader::ColumnReader::Int64ColumnReader(mut reader) =
        group.get_column_reader(column)?
    else {
        return Err(wrong_type(column));
    };
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    reader.read_records(rows, Some(&mut levels), None, &mut values)?;
    let mut values = values.into_iter();
    Ok(levels
        .iter()
        .map(|&l| if l == 0 { None } else { values.next().map(|v| ImageAddr(v as u64)) })
        .collect())
}
