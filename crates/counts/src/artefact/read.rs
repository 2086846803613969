//! Reads a counts artefact, damaged ones included.

use super::columns::{Columns, Rows};
use super::{GROUP_ROWS, LEDGER_KEY, MAGIC, VERSION, VERSION_KEY, bounds, malformed};
use crate::error::Error;
use crate::ledger::Ledger;
use crate::model::{Branch, Counts, FallThrough, ImageCounts, Path, SampleCount};
use image::{BuildId, ImageAddr};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::unix::fs::FileExt;

/// Rows that are read at once.
const BATCH_ROWS: usize = 1 << 16;
/// Most rows of a larger file, for each byte of it. Rows differ, and honest ones need a byte or
/// more.
const ROWS_OF_BYTE: u64 = 16;
/// Most images of a file; a machine with many programs has some thousands.
const MOST_IMAGES: usize = 1 << 16;
/// Most bytes of an image's path: `PATH_MAX` of Linux, each byte shown as the sign of one that is
/// no text.
const MOST_NAME: usize = 3 * 4096;

/// Reads an artefact; `path` names it in messages.
///
/// # Errors
/// Where `file` is no counts artefact of this version, or damaged.
pub fn read(path: &std::path::Path, file: std::fs::File) -> Result<Counts, Error> {
    let mut magic = [0; MAGIC.len()];
    let start = file.read_exact_at(&mut magic, 0);
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

/// Runs `call` and catches its panic without a message on standard error. Other threads' panics
/// stay loud.
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

fn read_file(path: &std::path::Path, file: std::fs::File) -> Result<Counts, Error> {
    let fault = |source| Error::Parquet { path: path.to_owned(), source };
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    bounds::check_footer(path, &file, size)?;
    let own = file.try_clone().map_err(|source| Error::Io { path: path.to_owned(), source })?;
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
            return Err(Error::Version {
                path: path.to_owned(),
                found: version,
                expected: VERSION,
            });
        }
        Some(_) => {}
    }
    let ledger = serde_json::from_str::<Ledger>(&value(LEDGER_KEY).unwrap_or_default())
        .map_err(|_| malformed(path, LEDGER_KEY, "a ledger in JSON", "something else"))?;
    // Rows may be stated without bytes behind them.
    let most = (GROUP_ROWS as u64).max(size.saturating_mul(ROWS_OF_BYTE));
    let rows = reader
        .metadata()
        .row_groups()
        .iter()
        .map(|group| u64::try_from(group.num_rows()).unwrap_or(0));
    let stated = rows.fold(0, u64::saturating_add);
    if stated > most {
        let (expected, found) =
            (format!("at most {most} rows in a file of {size} bytes"), format!("{stated} rows"));
        return Err(malformed(path, "row groups", &expected, &found));
    }
    bounds::check_pages(path, &own, size, reader.metadata())?;
    let mut images = Images::default();
    for number in 0..reader.num_row_groups() {
        let group = reader.get_row_group(number).map_err(fault)?;
        read_group(path, number, group.as_ref(), &mut images)?;
    }
    let mut counts = Counts { images: images.list, ledger };
    crate::merge::normalise(&mut counts)?;
    Ok(counts)
}

fn read_group(
    path: &std::path::Path,
    number: usize,
    group: &dyn RowGroupReader,
    images: &mut Images,
) -> Result<(), Error> {
    let fault = |source| Error::Parquet { path: path.to_owned(), source };
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let mut columns = Columns::of(group).map_err(fault)?;
    let mut first = 0;
    while first < rows {
        let wanted = BATCH_ROWS.min(rows - first);
        let batch = columns.next(wanted).map_err(fault)?.map_err(|found| {
            let place = format!("row group {}, from row {first}", number + 1);
            malformed(path, &place, &format!("{wanted} rows in each column"), &format!("{found:?}"))
        })?;
        read_rows(&batch, images).map_err(|(row, expected)| {
            let place = format!("row group {}, row {}", number + 1, first + row);
            malformed(path, &place, expected, "another row")
        })?;
        first += wanted;
    }
    Ok(())
}

/// Adds rows to their images; else the number of the row that is none, from 0, and what belongs
/// there.
fn read_rows(batch: &Rows, images: &mut Images) -> Result<(), (usize, &'static str)> {
    let places =
        batch.firsts.iter().zip(&batch.seconds).zip(batch.befores.iter().zip(&batch.afters));
    let cells = batch.kinds.iter().zip(places).zip(batch.sums.iter().zip(&batch.missed));
    let mut current: Option<(&[u8], &[u8], usize)> = None;
    for (row, (((kind, ((first, second), (before, after))), (sum, miss)), (id, name))) in
        cells.zip(batch.ids.iter().zip(&batch.paths)).enumerate()
    {
        let (id, name) = (id.data(), name.data());
        let at = match current {
            Some((last_id, last_name, at)) if last_id == id && last_name == name => at,
            _ => images.place(id, name).map_err(|expected| (row, expected))?,
        };
        current = Some((id, name, at));
        let Some(image) = images.list.get_mut(at) else { continue };
        let ends = Ends { first: *first, second: *second, before: *before, after: *after };
        add_row(image, kind.data(), ends, *sum, *miss).map_err(|expected| (row, expected))?;
    }
    Ok(())
}

/// The images that the rows so far belong to. Rows of one image need not lie together, and each
/// image is kept once, so that rows which name images in turn take no more memory than others.
#[derive(Default)]
struct Images {
    list: Vec<ImageCounts>,
    /// Where they are in the list: by build ID, and by path where they have none, as
    /// [`crate::merge`] tells them apart.
    places: HashMap<(Option<BuildId>, String), usize>,
}

impl Images {
    /// The place of an image in the list, or what belongs into its row.
    fn place(&mut self, id: &[u8], name: &[u8]) -> Result<usize, &'static str> {
        if name.len() > MOST_NAME {
            return Err("a path of at most 12288 bytes");
        }
        let build_id = match std::str::from_utf8(id) {
            Ok("") => None,
            Ok(hex) => hex.parse::<BuildId>().ok(),
            Err(_) => None,
        };
        let name = String::from_utf8_lossy(name).into_owned();
        let key = (build_id, if build_id.is_some() { String::new() } else { name.clone() });
        match self.places.entry(key) {
            Entry::Occupied(known) => {
                let at = *known.get();
                // The first path of the alphabet stands for all.
                if let Some(image) = self.list.get_mut(at).filter(|image| name < image.path) {
                    image.path = name;
                }
                Ok(at)
            }
            Entry::Vacant(_) if self.list.len() >= MOST_IMAGES => {
                Err("rows of at most 65536 images")
            }
            Entry::Vacant(free) => {
                let at = *free.insert(self.list.len());
                self.list.push(ImageCounts { build_id, path: name, ..ImageCounts::default() });
                Ok(at)
            }
        }
    }
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
        (b"first-half-fall-through", Some(first), Some(last)) => {
            image.first_half.fall_throughs.push(FallThrough { first, last, count });
        }
        _ => {
            return Err("kind sample, branch, fall-through, path or one of the first half with \
                        its addresses");
        }
    }
    Ok(())
}
