//! What are the rows of a counts artefact, one after the other? Read lazily, some rows of one row
//! group at a time, so that a file of any length takes the memory of a few pages.
//!
//! Input: the file. Output: its rows in their order, those of an image in blocks, each checked: the
//! kind has its addresses, counts are below 10^38, no more is mispredicted than counted, and the
//! order is that of [`super::row`]. Cost: linear in the rows; memory [`super::About::held_bytes`] and
//! [`BATCH_BYTES`].

use super::columns::{self, Columns, Segment};
use super::open::{Opened, open, quietly};
use super::read::{MOST_ARCHITECTURE, MOST_NAME};
use super::row::{ImageKey, Kind, LIMIT, Row, RowKey};
use super::{About, bad_pages, malformed};
use crate::error::Error;
use image::BuildId;
use std::collections::VecDeque;
use std::fs::File;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows that are read at once.
const BATCH_ROWS: usize = 1024;
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

/// Rows of one image that follow one another.
#[derive(Clone, Debug)]
pub struct Block {
    /// The image.
    pub image: Arc<ImageKey>,
    /// The rows, in order; one at least.
    pub rows: Vec<Row>,
}

/// The rows of a file that is open.
pub struct Rows {
    path: PathBuf,
    /// Architecture of the images of a file without a column for it.
    architecture: String,
    opened: Opened,
    /// The row group that is being read, with the rows of it that are left, and those read.
    group: Option<(Columns, usize, usize)>,
    /// Row groups begun.
    groups: usize,
    /// The columns of the rows read last.
    batch: columns::Rows,
    /// What of them was not given out.
    blocks: VecDeque<Block>,
    /// The last row of the batch before, with its image.
    last: Option<(Arc<ImageKey>, RowKey)>,
}

impl Rows {
    /// Opens an artefact; `architecture` is that of its images where it does not tell.
    ///
    /// # Errors
    /// Where `file` is no counts artefact of this version, or damaged.
    pub fn open(path: &Path, file: File, architecture: &str) -> Result<(About, Rows), Error> {
        let (about, opened) = quietly(path, AssertUnwindSafe(|| open(path, file)))?;
        let columns = opened.metadata.file_metadata().schema_descr().columns();
        let names: Vec<&str> = columns.iter().map(|column| column.name()).collect();
        if !matches!(names.len(), 7 | 9 | 10) || Some(&names[..]) != NAMES.get(..names.len()) {
            let expected = format!("the columns {}", NAMES.join(", "));
            return Err(malformed(path, "schema", &expected, &names.join(", ")));
        }
        let rows = Rows {
            path: path.to_owned(),
            architecture: architecture.to_owned(),
            opened,
            group: None,
            groups: 0,
            batch: columns::Rows::default(),
            blocks: VecDeque::new(),
            last: None,
        };
        Ok((about, rows))
    }

    /// The next rows of an image; none at the end of the file. `spare` is used as room for rows.
    ///
    /// # Errors
    /// Where the file is damaged, or a row none, or before the last one in order.
    pub fn next_block(&mut self, mut spare: Vec<Row>) -> Result<Option<Block>, Error> {
        loop {
            if let Some(block) = self.blocks.pop_front() {
                return Ok(Some(block));
            }
            if !self.fill(&mut spare)? {
                return Ok(None);
            }
        }
    }

    /// Reads the next batch; false at the end of the file.
    fn fill(&mut self, spare: &mut Vec<Row>) -> Result<bool, Error> {
        let path = self.path.clone();
        let Some((columns, left, done)) = &mut self.group else {
            if self.groups == self.opened.metadata.num_row_groups() {
                return Ok(false);
            }
            let opened = self.opened.group(self.groups);
            self.groups += 1;
            let (columns, rows) = opened.map_err(|what| bad_pages(&path, self.groups, &what))?;
            self.group = Some((columns, rows, 0));
            return Ok(true);
        };
        if *left == 0 {
            self.group = None;
            return Ok(true);
        }
        let wanted = BATCH_ROWS.min(*left);
        let number = self.groups;
        let first = *done;
        let read = columns.next(wanted, &mut self.batch);
        read.map_err(|what| bad_pages(&path, number, &what))?.map_err(|found| {
            let place = format!("row group {number}, from row {first}");
            malformed(
                &path,
                &place,
                &format!("{wanted} rows in each column"),
                &format!("{found:?}"),
            )
        })?;
        (*left, *done) = (*left - wanted, first + wanted);
        spare.clear();
        let mut taker = Taker {
            architecture: &self.architecture,
            batch: &self.batch,
            blocks: &mut self.blocks,
            last: self.last.take(),
            spare: std::mem::take(spare),
        };
        let taken = self.batch.segments(|segment| taker.take(segment));
        self.last = taker.last;
        taken.map_err(|(row, expected)| {
            let place = format!("row group {number}, row {}", first + row);
            malformed(&path, &place, expected, "another row")
        })?;
        Ok(true)
    }
}

/// What makes rows of columns.
struct Taker<'r> {
    architecture: &'r str,
    batch: &'r columns::Rows,
    blocks: &'r mut VecDeque<Block>,
    last: Option<(Arc<ImageKey>, RowKey)>,
    spare: Vec<Row>,
}

impl Taker<'_> {
    /// Takes rows; else the row that is none, and what belongs there.
    fn take(&mut self, segment: Segment<'_>) -> Result<(), (usize, &'static str)> {
        const ORDER: &str = "rows in order, by build ID, path, architecture, kind and addresses";
        let start = segment.rows.start;
        let wrong = |expected| (start, expected);
        let machine = segment.architecture.unwrap_or(self.architecture.as_bytes());
        let is_last = |last: &ImageKey| {
            last.build_id.as_bytes() == segment.id
                && last.path.as_bytes() == segment.path
                && last.architecture.as_bytes() == machine
        };
        let kind = Kind::of(segment.kind)
            .ok_or(wrong("kind sample, branch, fall-through, path or one of the first half"))?;
        let mut before = None;
        let image = match self.last.take() {
            Some((image, key)) if is_last(&image) => {
                before = Some(key);
                image
            }
            last => {
                let image = key(segment.id, segment.path, machine).map_err(wrong)?;
                if last.is_some_and(|(last, _)| *last > image) {
                    return Err(wrong(ORDER));
                }
                Arc::new(image)
            }
        };
        // A batch may begin within an image, and an image has several kinds of rows.
        match self.blocks.back() {
            Some(block) if Arc::ptr_eq(&block.image, &image) => {}
            _ => {
                let mut rows = std::mem::take(&mut self.spare);
                rows.reserve(segment.rows.len());
                self.blocks.push_back(Block { image: Arc::clone(&image), rows });
            }
        }
        let Some(block) = self.blocks.back_mut() else { return Ok(()) };
        let mut before =
            before.unwrap_or(RowKey { kind, before: None, first: None, second: None, after: None });
        if before.kind > kind {
            return Err(wrong(ORDER));
        }
        let [firsts, seconds, befores, afters] = self.batch.ends();
        for row in segment.rows {
            let counted = self.batch.sums.values.get(row).zip(self.batch.missed.values.get(row));
            let Some((&count, &mispredicted)) = counted else {
                return Err((row, "a row in each column"));
            };
            let key = RowKey {
                kind,
                before: befores.at(row),
                first: firsts.at(row),
                second: seconds.at(row),
                after: afters.at(row),
            };
            if !key.is_whole() {
                return Err((row, "the addresses that rows of this kind have"));
            }
            if count >= LIMIT {
                return Err((row, "a count below 10^38"));
            }
            if mispredicted > count {
                return Err((row, "no more mispredicted than counted"));
            }
            if before > key {
                return Err((row, ORDER));
            }
            before = key;
            block.rows.push(Row { key, count, mispredicted });
        }
        self.last = Some((image, before));
        Ok(())
    }
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
