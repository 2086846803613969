//! Reads a counts artefact, damaged ones included.

use super::{GROUP_ROWS, LEDGER_KEY, MAGIC, VERSION, VERSION_KEY};
use crate::error::Error;
use crate::ledger::Ledger;
use crate::model::{Branch, Counts, FallThrough, ImageCounts, Path, SampleCount};
use image::{BuildId, ImageAddr};
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};

/// The first column that files without paths do not have.
const FIRST_PATH_COLUMN: usize = 7;

/// Reads an artefact.
///
/// # Errors
/// Where `path` is no counts artefact of this version, or damaged.
pub fn read(path: &std::path::Path) -> Result<Counts, Error> {
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

fn malformed(path: &std::path::Path, place: &str, expected: &str, found: &str) -> Error {
    Error::Malformed {
        path: path.to_owned(),
        place: place.into(),
        expected: expected.into(),
        found: found.into(),
    }
}

fn read_file(path: &std::path::Path, file: std::fs::File) -> Result<Counts, Error> {
    let fault = |source| Error::Parquet { path: path.to_owned(), source };
    let size = file.metadata().map_or(0, |metadata| metadata.len());
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
        Some(version) if !(1..=VERSION).any(|known| version == known.to_string()) => {
            return Err(Error::Version { path: path.to_owned(), found: version, expected: VERSION });
        }
        Some(_) => {}
    }
    let ledger = serde_json::from_str::<Ledger>(&value(LEDGER_KEY).unwrap_or_default())
        .map_err(|_| malformed(path, LEDGER_KEY, "a ledger in JSON", "something else"))?;
    let mut counts = Counts { images: Vec::new(), ledger };
    // Groups may lie over each other, so that a small file states many rows; what it holds is bounded by its own size.
    let most = (GROUP_ROWS as u64).max(size.saturating_mul(64));
    let stated: u64 =
        reader.metadata().row_groups().iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(0)).sum();
    if stated > most {
        let (expected, found) =
            (format!("at most {most} rows in a file of {size} bytes"), format!("{stated} rows"));
        return Err(malformed(path, "row groups", &expected, &found));
    }
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(fault)?;
        read_group(path, group.as_ref(), &mut counts)?;
    }
    crate::merge::normalise(&mut counts)?;
    Ok(counts)
}

fn read_group(path: &std::path::Path, group: &dyn RowGroupReader, counts: &mut Counts) -> Result<(), Error> {
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
    let with_paths = group.num_columns() > FIRST_PATH_COLUMN;
    let optional = |column| {
        if with_paths { address_column(group, column, rows) } else { Ok(vec![None; rows]) }
    };
    let befores = optional(FIRST_PATH_COLUMN).map_err(fault)?;
    let afters = optional(FIRST_PATH_COLUMN + 1).map_err(fault)?;
    let columns = [
        ids.len(),
        paths.len(),
        kinds.len(),
        firsts.len(),
        seconds.len(),
        sums.len(),
        missed.len(),
        befores.len(),
        afters.len(),
    ];
    if columns.iter().any(|&n| n != rows) {
        return Err(malformed(
            path,
            "row group",
            &format!("{rows} rows in each column"),
            &format!("{columns:?}"),
        ));
    }
    // An image may go on in the next group.
    let mut image = counts.images.pop();
    let places = firsts.iter().zip(&seconds).zip(befores.iter().zip(&afters));
    let cells = ids.iter().zip(&paths).zip(&kinds).zip(places).zip(sums.iter().zip(&missed));
    for (((((id, name), kind), ((first, second), (before, after))), (sum, miss)), row) in cells.zip(0u64..) {
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
        let ends = Ends { first: *first, second: *second, before: *before, after: *after };
        add_row(image, kind.data(), ends, *sum, *miss)
            .map_err(|expected| malformed(path, &format!("row {row}"), expected, "another row"))?;
    }
    counts.images.extend(image);
    Ok(())
}

/// The addresses of a row.
struct Ends {
    first: Option<ImageAddr>,
    second: Option<ImageAddr>,
    before: Option<ImageAddr>,
    after: Option<ImageAddr>,
}

fn add_row(
    image: &mut ImageCounts,
    kind: &[u8],
    ends: Ends,
    count: u128,
    mispredicted: u128,
) -> Result<(), &'static str> {
    let narrow = |n: u128| u64::try_from(n).map_err(|_| "counts below 2^64");
    let (count, mispredicted) = (narrow(count)?, narrow(mispredicted)?);
    match (kind, ends.first, ends.second) {
        (b"sample", Some(address), None) => image.samples.push(SampleCount { address, count }),
        (b"branch", from, to) => image.branches.push(Branch { from, to, count, mispredicted }),
        (b"fall-through", Some(first), Some(last)) => {
            image.fall_throughs.push(FallThrough { first, last, count })
        }
        (b"path", Some(first), Some(last)) => {
            image.paths.push(Path { from: ends.before, first, last, to: ends.after, count });
        }
        (b"first-half-sample", Some(address), None) => {
            image.first_half.samples.push(SampleCount { address, count });
        }
        (b"first-half-branch", from, to) => {
            image.first_half.branches.push(Branch { from, to, count, mispredicted });
        }
        _ => {
            return Err(
                "kind sample, branch, fall-through, path or one of the first half with its addresses",
            );
        }
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
