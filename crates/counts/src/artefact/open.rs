//! Is a file a counts artefact that can be read, and what does it say of itself? Asked before any
//! row is read.

use super::columns::Columns;
use super::pages::Group;
use super::{GROUP_ROWS, LEDGER_KEY, MAGIC, VERSION, VERSION_KEY, bounds, malformed, words};
use crate::error::Error;
use crate::ledger::Ledger;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;

/// Most rows of a larger file, for each byte of it. Rows differ, and honest ones need a byte or
/// more.
const ROWS_OF_BYTE: u64 = 16;

/// What an artefact says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Version of its schema.
    pub version: u32,
    /// What its recordings held, used or not.
    pub ledger: Ledger,
    /// Rows.
    pub rows: u64,
    /// Whether it has the columns of paths.
    pub paths: bool,
    /// Whether it has the column of architectures.
    pub architectures: bool,
    /// Most bytes that reading its rows in order holds at a time.
    pub held_bytes: u64,
    /// Metadata that other crates wrote, as keys and values.
    pub more: Vec<(String, String)>,
}

impl About {
    /// The value of a key of the metadata.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.more.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_str())
    }
}

/// What the artefact in `file` says of itself; `path` names it in messages.
///
/// # Errors
/// Where it is none of this version, or damaged.
pub fn about(path: &Path, file: File) -> Result<About, Error> {
    quietly(path, AssertUnwindSafe(|| open(path, file).map(|(about, _)| about)))
}

/// An artefact that is open.
pub(super) struct Opened {
    pub(super) file: Arc<File>,
    pub(super) metadata: Arc<ParquetMetaData>,
}

impl Opened {
    /// The columns of a row group, and the number of its rows.
    ///
    /// # Errors
    /// Where its columns are not those of counts.
    pub(super) fn group(&self, number: usize) -> Result<(Columns, usize), String> {
        let metadata = self.metadata.row_groups().get(number).ok_or("no such row group")?;
        let rows = usize::try_from(metadata.num_rows()).unwrap_or(0);
        Ok((Columns::of(&Group { file: &self.file, metadata })?, rows))
    }
}

/// An artefact that is open, with what it says of itself.
pub(super) fn open(path: &Path, file: File) -> Result<(About, Opened), Error> {
    let fault = |source| Error::Parquet { path: path.to_owned(), source };
    let mut magic = [0; MAGIC.len()];
    if file.read_exact_at(&mut magic, 0).is_err() || magic != *MAGIC {
        return Err(malformed(
            path,
            "start",
            "a counts artefact (made by planish aggregate)",
            "another kind of file",
        ));
    }
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    bounds::check_footer(path, &file, size)?;
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).map_err(fault)?;
    let pairs = pairs(&metadata);
    let value = |key: &str| pairs.iter().find(|(own, _)| own == key).map(|(_, value)| value);
    let Some(stated) = value(VERSION_KEY) else {
        return Err(malformed(
            path,
            "metadata",
            &format!("the key {VERSION_KEY}"),
            "a Parquet file of something else",
        ));
    };
    let Some(version) = (1..=VERSION).find(|known| *stated == known.to_string()) else {
        let (path, found) = (path.to_owned(), stated.clone());
        return Err(Error::Version { path, found, expected: VERSION });
    };
    if let Some(stated) = value(words::KEY) {
        let found = words::checksum(pairs.iter().map(|(key, value)| (&**key, &**value)));
        if found != *stated {
            return Err(malformed(
                path,
                "metadata",
                &format!(
                    "those of the checksum {stated}; take {} away where you changed them",
                    words::KEY
                ),
                &format!("others, of {found}: damaged"),
            ));
        }
    }
    let ledger = value(LEDGER_KEY).map_or("", String::as_str);
    let ledger = serde_json::from_str::<Ledger>(ledger)
        .map_err(|_| malformed(path, LEDGER_KEY, "a ledger in JSON", "something else"))?;
    let rows = rows(path, size, &metadata)?;
    let held_bytes = bounds::check_pages(path, &file, size, &metadata)?;
    let columns = metadata.file_metadata().schema_descr().num_columns();
    let known = [VERSION_KEY, LEDGER_KEY, words::KEY];
    let more = pairs.into_iter().filter(|(key, _)| !known.contains(&&**key));
    let about = About {
        version,
        ledger,
        rows,
        paths: columns > 7,
        architectures: columns > 9,
        held_bytes,
        more: more.collect(),
    };
    Ok((about, Opened { file: Arc::new(file), metadata: Arc::new(metadata) }))
}

/// The keys and values of the metadata.
fn pairs(metadata: &ParquetMetaData) -> Vec<(String, String)> {
    let pairs = metadata.file_metadata().key_value_metadata();
    let pairs = pairs.into_iter().flatten();
    pairs.filter_map(|pair| Some((pair.key.clone(), pair.value.clone()?))).collect()
}

/// The rows that are stated; they may have no bytes behind them.
fn rows(path: &Path, size: u64, metadata: &ParquetMetaData) -> Result<u64, Error> {
    let most = (GROUP_ROWS as u64).max(size.saturating_mul(ROWS_OF_BYTE));
    let groups = metadata.row_groups().iter();
    let rows = groups.map(|group| u64::try_from(group.num_rows()).unwrap_or(0));
    let stated = rows.fold(0, u64::saturating_add);
    if stated > most {
        let (expected, found) =
            (format!("at most {most} rows in a file of {size} bytes"), format!("{stated} rows"));
        return Err(malformed(path, "row groups", &expected, &found));
    }
    let whole = metadata.file_metadata().num_rows();
    if u64::try_from(whole) != Ok(stated) {
        let found = format!("{stated} rows in its row groups: damaged");
        return Err(malformed(path, "footer", &format!("a file of {whole} rows"), &found));
    }
    Ok(stated)
}

thread_local! {
    /// Whether a panic of this thread is expected, and its message of no use to anyone.
    static QUIET: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs `call`, and catches its panic without a message on standard error: the Parquet library
/// checks much but not all of a damaged file before it indexes into it. Other threads' panics stay
/// loud.
pub(super) fn quietly<T>(
    path: &Path,
    call: impl FnOnce() -> Result<T, Error> + std::panic::UnwindSafe,
) -> Result<T, Error> {
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
    result.unwrap_or_else(|_| {
        Err(malformed(
            path,
            "Parquet pages",
            "undamaged pages",
            "pages that the Parquet reader could not follow",
        ))
    })
}
