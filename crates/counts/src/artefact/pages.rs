//! What do the pages of a column hold, one value after the other? Plain values and those of a
//! dictionary, the only ones that [`super::bounds`] lets pass.
//!
//! The Parquet library's own decoder hands out each value as an object that is counted by reference,
//! which for shards of a fleet is most of the time. Input: the
//! pages of a column. Output: its values; of texts, runs of equal ones. Invariant: a value is within
//! its page or dictionary. Cost: linear in the rows, and for texts in the runs that the file has.
//! Source: [Encodings.md] of the Parquet format, and `DataPageHeader` of its parquet.thrift.
//!
//! [Encodings.md]: https://github.com/apache/parquet-format/blob/master/Encodings.md

use super::chunk::{Chunk, Page};
use super::hybrid::{Found, Hybrid};
use bytes::Bytes;
use parquet::basic::Type;
use parquet::file::metadata::RowGroupMetaData;
use std::fs::File;
use std::sync::Arc;

/// How values are stored, as `Encoding` of parquet.thrift numbers it.
const PLAIN: i32 = 0;
const PLAIN_DICTIONARY: i32 = 2;
const RLE_DICTIONARY: i32 = 8;

/// A row group of a file.
pub(super) struct Group<'f> {
    pub(super) file: &'f Arc<File>,
    pub(super) metadata: &'f RowGroupMetaData,
}

/// A value of a column of numbers.
pub(super) trait Number: Copy {
    /// How the schema calls such a column.
    const TYPE: Type;
    /// Its bytes.
    const BYTES: usize;
    /// Reads it.
    fn of(bytes: &[u8]) -> Option<Self>;
}

impl Number for u64 {
    const TYPE: Type = Type::INT64;
    const BYTES: usize = 8;
    fn of(bytes: &[u8]) -> Option<u64> {
        bytes.try_into().ok().map(u64::from_le_bytes)
    }
}

impl Number for u128 {
    const TYPE: Type = Type::FIXED_LEN_BYTE_ARRAY;
    const BYTES: usize = 16;
    fn of(bytes: &[u8]) -> Option<u128> {
        bytes.try_into().ok().map(u128::from_be_bytes)
    }
}

/// How the values of a page are stored.
enum Values {
    /// One after the other; where the next one is.
    Plain(Bytes, usize),
    /// As places in the dictionary.
    Places(Hybrid),
}

fn fault(column: usize, what: &str) -> String {
    format!("column {column}: {what}")
}

/// The pages of a column.
struct Pages {
    column: usize,
    chunk: Chunk,
    /// Whether values may be absent.
    is_optional: bool,
    /// Rows of the page that are left.
    left: usize,
    /// Which of the rows have a value; absent where all have.
    levels: Option<Hybrid>,
    values: Values,
    /// Room for numbers of a group.
    list: Vec<u32>,
}

/// What the next page is.
enum Turned {
    /// A dictionary of so many values.
    Dictionary(Bytes, usize),
    /// Rows.
    Rows,
    /// There is none.
    End,
}

impl Pages {
    fn of(group: &Group<'_>, column: usize, kind: Type, bytes: i32) -> Result<Pages, String> {
        let wrong = || fault(column, "is of another type than the counts schema has");
        let described = group.metadata.columns().get(column).ok_or_else(wrong)?;
        let schema = described.column_descr();
        let is_long = kind != Type::FIXED_LEN_BYTE_ARRAY || schema.type_length() == bytes;
        let is_flat = schema.max_rep_level() == 0 && schema.max_def_level() <= 1;
        if schema.physical_type() != kind || !is_long || !is_flat {
            return Err(wrong());
        }
        Ok(Pages {
            column,
            chunk: Chunk::of(group.file, described),
            is_optional: schema.max_def_level() == 1,
            left: 0,
            levels: None,
            values: Values::Plain(Bytes::new(), 0),
            list: Vec::new(),
        })
    }

    fn fault(&self, what: &str) -> String {
        fault(self.column, what)
    }

    /// Goes on to the next page.
    fn turn(&mut self) -> Result<Turned, String> {
        let column = self.column;
        let page = match self.chunk.next(self.is_optional).map_err(|what| fault(column, &what))? {
            None => return Ok(Turned::End),
            Some(Page::Dictionary(bytes, count)) => return Ok(Turned::Dictionary(bytes, count)),
            Some(Page::Rows(page)) => page,
        };
        self.left = page.rows;
        self.levels = if self.is_optional { Hybrid::new(page.levels, 1) } else { None };
        self.values = match page.encoding {
            PLAIN => Values::Plain(page.values, 0),
            PLAIN_DICTIONARY | RLE_DICTIONARY => {
                let (width, rest) = match page.values.split_first() {
                    Some((width, _)) => (*width, page.values.slice(1..)),
                    None => (0, page.values),
                };
                let places = Hybrid::new(rest, width);
                Values::Places(places.ok_or_else(|| self.fault("places of more than 32 bits"))?)
            }
            _ => return Err(self.fault("values in another encoding than plain or of a dictionary")),
        };
        Ok(Turned::Rows)
    }
}

/// A column of numbers.
pub(super) struct Numbers<N> {
    pages: Pages,
    dictionary: Vec<N>,
    /// Whether values may be absent.
    may_lack: bool,
}

/// What rows of a column of numbers hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Cells<N> {
    /// A value for each row; anything where there is none.
    pub(super) values: Vec<N>,
    /// Whether there is a value, for each row; empty where all rows have one.
    pub(super) present: Vec<bool>,
    /// Whether no row has one.
    pub(super) is_empty: bool,
}

impl<N: Number + Default> Numbers<N> {
    /// The column; `may_lack` says whether rows without a value are right.
    ///
    /// # Errors
    /// Where it is of another type.
    pub(super) fn of(
        group: &Group<'_>,
        column: usize,
        may_lack: bool,
    ) -> Result<Numbers<N>, String> {
        let bytes = i32::try_from(N::BYTES).unwrap_or(0);
        Ok(Numbers {
            pages: Pages::of(group, column, N::TYPE, bytes)?,
            dictionary: Vec::new(),
            may_lack,
        })
    }

    /// Reads the next `rows` rows into `cells`, or fewer where the column ends.
    ///
    /// # Errors
    /// Where the pages cannot be read.
    pub(super) fn next(&mut self, rows: usize, cells: &mut Cells<N>) -> Result<(), String> {
        cells.values.clear();
        cells.present.clear();
        cells.is_empty = true;
        while cells.values.len() < rows {
            if self.pages.left == 0 {
                match self.pages.turn()? {
                    Turned::End => break,
                    Turned::Rows => {}
                    Turned::Dictionary(bytes, count) => {
                        let whole = bytes.len() / N::BYTES;
                        let values = bytes.chunks_exact(N::BYTES).take(count);
                        self.dictionary = values.filter_map(N::of).collect();
                        if count > whole {
                            return Err(self.pages.fault("a dictionary that ends early"));
                        }
                    }
                }
                continue;
            }
            let wanted = (rows - cells.values.len()).min(self.pages.left);
            self.some(wanted, cells)?;
        }
        Ok(())
    }

    /// Reads rows of one page, `most` at most.
    fn some(&mut self, most: usize, cells: &mut Cells<N>) -> Result<(), String> {
        let Some(levels) = &mut self.pages.levels else {
            self.pages.left -= most;
            cells.is_empty = false;
            cells
                .present
                .resize(if cells.present.is_empty() { 0 } else { cells.values.len() + most }, true);
            return self.values(most, &mut cells.values);
        };
        let mut list = std::mem::take(&mut self.pages.list);
        let found = levels.next(most, &mut list).ok_or_else(|| self.pages.fault(SHORT))?;
        let before = cells.values.len();
        match found {
            Found::Same(1, count) => {
                self.values(count, &mut cells.values)?;
                if !cells.present.is_empty() {
                    cells.present.resize(before + count, true);
                }
                cells.is_empty = false;
                self.pages.left -= count;
            }
            Found::Same(0, count) => {
                cells.present.resize(before, true);
                cells.present.resize(before + count, false);
                cells.values.resize(before + count, N::default());
                self.pages.left -= count;
            }
            Found::Same(..) => return Err(self.pages.fault("levels above 1")),
            Found::Different => {
                cells.present.resize(before, true);
                let mut values = Vec::new();
                let there = list.iter().filter(|level| **level == 1).count();
                self.values(there, &mut values)?;
                let mut values = values.into_iter();
                for level in &list {
                    let value = if *level == 1 { values.next() } else { None };
                    cells.present.push(value.is_some());
                    cells.values.push(value.unwrap_or_default());
                }
                cells.is_empty &= there == 0;
                self.pages.left -= list.len();
            }
        }
        self.pages.list = list;
        if !self.may_lack && !cells.present.is_empty() {
            return Err(self.pages.fault("a row without a value"));
        }
        Ok(())
    }

    /// Adds exactly `count` values of the page.
    fn values(&mut self, count: usize, to: &mut Vec<N>) -> Result<(), String> {
        let end = to.len() + count;
        match &mut self.pages.values {
            Values::Plain(bytes, at) => {
                let until = count.checked_mul(N::BYTES).and_then(|length| at.checked_add(length));
                let found = until.and_then(|until| bytes.get(*at..until));
                let found = found.ok_or_else(|| fault(self.pages.column, SHORT))?;
                to.extend(found.chunks_exact(N::BYTES).filter_map(N::of));
                *at += found.len();
            }
            Values::Places(places) => {
                let mut list = Vec::new();
                while to.len() < end {
                    let wrong = match places.next(end - to.len(), &mut list) {
                        None => Some(SHORT),
                        Some(Found::Same(place, count)) => {
                            match self.dictionary.get(place as usize) {
                                Some(value) => {
                                    to.resize(to.len() + count, *value);
                                    None
                                }
                                None => Some(OUTSIDE),
                            }
                        }
                        Some(Found::Different) => {
                            let before = to.len();
                            to.extend(
                                list.iter().map_while(|place| self.dictionary.get(*place as usize)),
                            );
                            (to.len() < before + list.len()).then_some(OUTSIDE)
                        }
                    };
                    if let Some(wrong) = wrong {
                        return Err(self.pages.fault(wrong));
                    }
                }
            }
        }
        Ok(())
    }
}

const SHORT: &str = "a page with fewer values than it states";
const OUTSIDE: &str = "a value outside of the dictionary";

/// A column of texts.
pub(super) struct Texts {
    pages: Pages,
    dictionary: Bytes,
    /// Where the texts of the dictionary begin, each behind its length.
    starts: Vec<u32>,
}

/// A text, and how many rows have it one after the other.
pub(super) type TextRun = (Bytes, usize);

impl Texts {
    /// The column.
    ///
    /// # Errors
    /// Where it is of another type.
    pub(super) fn of(group: &Group<'_>, column: usize) -> Result<Texts, String> {
        let pages = Pages::of(group, column, Type::BYTE_ARRAY, 0)?;
        Ok(Texts { pages, dictionary: Bytes::new(), starts: Vec::new() })
    }

    /// Reads the next `rows` rows, or fewer where the column ends, as runs of equal texts.
    ///
    /// # Errors
    /// Where the pages cannot be read.
    pub(super) fn next(&mut self, rows: usize, runs: &mut Vec<TextRun>) -> Result<(), String> {
        runs.clear();
        let mut done = 0;
        while done < rows {
            if self.pages.left == 0 {
                match self.pages.turn()? {
                    Turned::End => break,
                    Turned::Rows => self.all_are_present()?,
                    Turned::Dictionary(bytes, count) => self.learn(bytes, count)?,
                }
                continue;
            }
            let wanted = (rows - done).min(self.pages.left);
            let taken = self.some(wanted, runs)?;
            done += taken;
            self.pages.left -= taken;
        }
        Ok(())
    }

    /// Refuses a page with rows that have no text.
    fn all_are_present(&mut self) -> Result<(), String> {
        let Some(mut levels) = self.pages.levels.take() else { return Ok(()) };
        let (mut left, mut list) = (self.pages.left, Vec::new());
        while left > 0 {
            let taken = match levels.next(left, &mut list) {
                Some(Found::Same(1, count)) => count,
                Some(Found::Different) if list.iter().all(|level| *level == 1) => list.len(),
                _ => return Err(self.pages.fault("a row without a text")),
            };
            left -= taken;
        }
        Ok(())
    }

    fn learn(&mut self, bytes: Bytes, count: usize) -> Result<(), String> {
        self.starts.clear();
        let mut at = 0;
        for _ in 0..count {
            let Some((_, to)) = text_at(&bytes, at) else {
                return Err(self.pages.fault("a dictionary that ends early"));
            };
            // A page has less than 2^31 bytes.
            self.starts.push(u32::try_from(at).unwrap_or(u32::MAX));
            at = to;
        }
        self.dictionary = bytes;
        Ok(())
    }

    /// Reads rows of one page, `most` at most; how many.
    fn some(&mut self, most: usize, runs: &mut Vec<TextRun>) -> Result<usize, String> {
        match &mut self.pages.values {
            Values::Plain(bytes, at) => {
                let found = text_at(bytes, *at).ok_or_else(|| fault(self.pages.column, SHORT))?;
                *at = found.1;
                push(runs, bytes.slice(found.0..found.1), 1);
                Ok(1)
            }
            Values::Places(places) => {
                let mut list = std::mem::take(&mut self.pages.list);
                let found = places.next(most, &mut list);
                let text = |place: u32| {
                    let start = *self.starts.get(place as usize)?;
                    let (from, to) = text_at(&self.dictionary, start as usize)?;
                    Some(self.dictionary.slice(from..to))
                };
                let outside = || fault(self.pages.column, OUTSIDE);
                let taken = match found {
                    None => return Err(self.pages.fault(SHORT)),
                    Some(Found::Same(place, count)) => {
                        push(runs, text(place).ok_or_else(outside)?, count);
                        count
                    }
                    Some(Found::Different) => {
                        let mut rest = &list[..];
                        while let Some(first) = rest.first() {
                            let same = rest.iter().take_while(|place| *place == first).count();
                            push(runs, text(*first).ok_or_else(outside)?, same);
                            rest = rest.get(same..).unwrap_or_default();
                        }
                        list.len()
                    }
                };
                self.pages.list = list;
                Ok(taken)
            }
        }
    }
}

/// Where the text is whose length stands at `at`.
fn text_at(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let from = at.checked_add(4)?;
    let length = u32::from_le_bytes(bytes.get(at..from)?.try_into().ok()?);
    let to = from.checked_add(usize::try_from(length).ok()?)?;
    (to <= bytes.len()).then_some((from, to))
}

/// Adds a run, to the last one where it has the same text.
fn push(runs: &mut Vec<TextRun>, text: Bytes, count: usize) {
    match runs.last_mut() {
        Some((last, length)) if *last == text => *length += count,
        _ => runs.push((text, count)),
    }
}
