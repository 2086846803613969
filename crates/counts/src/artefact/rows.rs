//! What are the rows of a counts artefact, one after the other? Read lazily, some rows of one row
//! group at a time, so that a file of any length takes the memory of a few pages.
//!
//! Input: the file. Output: its rows in their order, each checked: the kind has its addresses,
//! counts are below 10^38, no more is mispredicted than counted, and the order is that of
//! [`super::row`]. Cost: linear in the rows; memory [`super::About::held_bytes`] and
//! [`BATCH_BYTES`].

use super::columns::{self, Columns};
use super::open::{open, quietly};
use super::read::{MOST_ARCHITECTURE, MOST_NAME};
use super::row::{ImageKey, Kind, LIMIT, Row, RowKey};
use super::{About, malformed};
use crate::error::Error;
use image::BuildId;
use parquet::data_type::ByteArray;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::collections::VecDeque;
use std::fs::File;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows that are read at once.
const BATCH_ROWS: usize = 2048;
/// Most bytes that a batch of rows takes beside its pages, about twice over.
pub const BATCH_BYTES: u64 = 1 << 20;
/// The columns, in their order; files have the first 7, 9 or all of them.
const NAMES: [&str; 10] = [
    "build_id",
    "path",
    "kind",
    "first",
    "second",
    "count",
    "mispredicted",
    "before",
    "after",
    "architecture",
];

/// The rows of a file that is open.
pub struct Rows {
    path: PathBuf,
    /// Architecture of the images of a file without a column for it.
    architecture: String,
    reader: SerializedFileReader<File>,
    /// The row group that is being read, with the rows of it that are left, and those read.
    group: Option<(Columns, usize, usize)>,
    /// Row groups begun.
    groups: usize,
    batch: VecDeque<Row>,
    /// Where in the batch the image changes: rows before that, and the image from there on.
    changes: VecDeque<(usize, Arc<ImageKey>)>,
    /// Rows of the batch that were given out.
    given: usize,
    image: Arc<ImageKey>,
    /// The last row of the batch before, with its image.
    last: Option<(Arc<ImageKey>, RowKey)>,
}

impl Rows {
    /// Opens an artefact; `architecture` is that of its images where it does not tell.
    ///
    /// # Errors
    /// Where `file` is no counts artefact of this version, or damaged.
    pub fn open(path: &Path, file: File, architecture: &str) -> Result<(About, Rows), Error> {
        let (about, reader) = quietly(path, AssertUnwindSafe(|| open(path, file)))?;
        let columns = reader.metadata().file_metadata().schema_descr().columns();
        let names: Vec<&str> = columns.iter().map(|column| column.name()).collect();
        if !matches!(names.len(), 7 | 9 | 10) || Some(&names[..]) != NAMES.get(..names.len()) {
            let expected = format!("the columns {}", NAMES.join(", "));
            return Err(malformed(path, "schema", &expected, &names.join(", ")));
        }
        let rows = Rows {
            path: path.to_owned(),
            architecture: architecture.to_owned(),
            reader,
            group: None,
            groups: 0,
            batch: VecDeque::new(),
            changes: VecDeque::new(),
            given: 0,
            image: Arc::default(),
            last: None,
        };
        Ok((about, rows))
    }

    /// The next row, and the image that it is of.
    ///
    /// # Errors
    /// Where the file is damaged, or the row none, or before the last one in order.
    pub fn next_row(&mut self) -> Result<Option<Row>, Error> {
        while self.batch.is_empty() {
            if !self.fill()? {
                return Ok(None);
            }
        }
        if let Some((_, image)) = self.changes.front().filter(|(at, _)| *at == self.given) {
            self.image = Arc::clone(image);
            self.changes.pop_front();
        }
        self.given += 1;
        Ok(self.batch.pop_front())
    }

    /// The image of the row given last.
    pub fn image(&self) -> &Arc<ImageKey> {
        &self.image
    }

    /// Reads the next batch; false at the end of the file.
    fn fill(&mut self) -> Result<bool, Error> {
        let path = self.path.clone();
        let fault = |source| Error::Parquet { path: path.clone(), source };
        let Some((columns, left, done)) = &mut self.group else {
            if self.groups == self.reader.num_row_groups() {
                return Ok(false);
            }
            let number = self.groups;
            let reader = &self.reader;
            let opened = AssertUnwindSafe(|| {
                let group = reader.get_row_group(number).map_err(fault)?;
                let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
                Ok((Columns::of(group.as_ref()).map_err(fault)?, rows, 0))
            });
            self.group = Some(quietly(&path, opened)?);
            self.groups += 1;
            return Ok(true);
        };
        if *left == 0 {
            self.group = None;
            return Ok(true);
        }
        let wanted = BATCH_ROWS.min(*left);
        let number = self.groups;
        let first = *done;
        let read = AssertUnwindSafe(|| columns.next(wanted).map_err(fault));
        let batch = quietly(&path, read)?.map_err(|found| {
            let place = format!("row group {number}, from row {first}");
            malformed(
                &path,
                &place,
                &format!("{wanted} rows in each column"),
                &format!("{found:?}"),
            )
        })?;
        (*left, *done) = (*left - wanted, first + wanted);
        self.given = 0;
        self.changes.clear();
        for index in 0..wanted {
            self.take(&batch, index).map_err(|expected| {
                let place = format!("row group {number}, row {}", first + index);
                malformed(&path, &place, expected, "another row")
            })?;
        }
        Ok(true)
    }

    /// Takes a row of the batch; else what belongs there.
    fn take(&mut self, batch: &columns::Rows, index: usize) -> Result<(), &'static str> {
        const SHORT: &str = "a row in each column";
        let before = index.checked_sub(1);
        let same = |texts: &[ByteArray]| match before.and_then(|before| texts.get(before)) {
            Some(last) => texts.get(index).is_some_and(|own| is_same(own.data(), last.data())),
            None => texts.is_empty(),
        };
        let names = [&batch.ids, &batch.paths];
        let machines = &batch.architectures;
        let unchanged = names.iter().all(|texts| same(texts));
        if !(unchanged && before.is_some() && (machines.is_empty() || same(machines))) {
            let text = |texts: &[ByteArray]| texts.get(index).cloned().ok_or(SHORT);
            let machine = match machines.get(index) {
                Some(machine) => machine.clone(),
                None => ByteArray::from(self.architecture.as_str()),
            };
            let image = key(text(&batch.ids)?.data(), text(&batch.paths)?.data(), machine.data())?;
            // A batch may begin within an image.
            let image = match &self.last {
                Some((last, _)) if **last == image => Arc::clone(last),
                _ => Arc::new(image),
            };
            self.changes.push_back((index, image));
        }
        let at = |cells: &[Option<image::ImageAddr>]| cells.get(index).copied().ok_or(SHORT);
        let kind = batch.kinds.get(index).ok_or(SHORT)?;
        let kind = Kind::of(kind.data())
            .ok_or("kind sample, branch, fall-through, path or one of the first half")?;
        let key = RowKey {
            kind,
            before: at(&batch.befores)?,
            first: at(&batch.firsts)?,
            second: at(&batch.seconds)?,
            after: at(&batch.afters)?,
        };
        if !key.is_whole() {
            return Err("the addresses that rows of this kind have");
        }
        let count = *batch.sums.get(index).ok_or(SHORT)?;
        let mispredicted = *batch.missed.get(index).ok_or(SHORT)?;
        if count >= LIMIT {
            return Err("a count below 10^38");
        }
        if mispredicted > count {
            return Err("no more mispredicted than counted");
        }
        let image = self.changes.back().map(|(_, image)| image).ok_or(SHORT)?;
        if self.last.as_ref().is_some_and(|(at, last)| (at, last) > (image, &key)) {
            return Err("rows in order, by build ID, path, architecture, kind and addresses");
        }
        self.last = Some((Arc::clone(image), key));
        self.batch.push_back(Row { key, count, mispredicted });
        Ok(())
    }
}

/// Whether two texts are equal; those of a dictionary lie at one place.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    std::ptr::eq(one, other) || one == other
}

/// The image of a row, or what belongs there.
fn key(id: &[u8], path: &[u8], machine: &[u8]) -> Result<ImageKey, &'static str> {
    if path.len() > MOST_NAME {
        return Err("a path of at most 12288 bytes");
    }
    if machine.len() > MOST_ARCHITECTURE {
        return Err("an architecture of at most 64 bytes");
    }
    let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err("names in UTF-8"),
    };
    let build_id = text(id)?;
    let spelled = |id: &str| id.parse::<BuildId>().is_ok_and(|read| read.to_string() == id);
    if !build_id.is_empty() && !spelled(&build_id) {
        return Err("a build ID in lower-case hex, or none");
    }
    Ok(ImageKey { build_id, path: text(path)?, architecture: text(machine)? })
}
