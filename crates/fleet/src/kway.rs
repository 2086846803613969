//! How are the rows of many sorted files added up? A merge of all of them at once: image by image,
//! and within an image key by key.
//!
//! Input: rows of each source in order. Output: one row for each key, in order, with the sum of the
//! weighted counts; keys without a count fall away. Invariant: a source has one row in memory beside
//! those of its batch. Cost: rows × log of the sources.

use crate::digest::{Begun, Partition};
use crate::{Error, Weight};
use counts::artefact::row::{ImageKey, LIMIT, Row, RowKey};
use counts::artefact::rows::Rows;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::path::PathBuf;
use std::sync::Arc;

/// Rows of a source after which is told how far it is.
const TELL_ROWS: u64 = 1 << 14;

/// One file.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) rows: Rows,
    pub(crate) weight: Weight,
    /// Bytes of the file for each [`TELL_ROWS`] rows; 0 where nothing is told.
    pub(crate) told_bytes: u64,
    /// The row that is looked at.
    row: Option<Row>,
    read: u64,
}

impl Source {
    /// A file with so many bytes and rows; its bytes are told of as they are read, if they are any.
    pub(crate) fn new(
        path: PathBuf,
        rows: Rows,
        weight: Weight,
        bytes: u64,
        stated: u64,
    ) -> Source {
        let told = u128::from(bytes) * u128::from(TELL_ROWS) / u128::from(stated.max(1));
        let told_bytes = u64::try_from(told).unwrap_or(u64::MAX).min(bytes);
        Source { path, rows, weight, told_bytes, row: None, read: 0 }
    }

    fn step(&mut self, tell: &dyn Fn(u64)) -> Result<Option<Row>, Error> {
        let next = self.rows.next_row();
        self.row = next.map_err(|source| Error::of_shard(&self.path, source))?;
        self.read += 1;
        if self.read.is_multiple_of(TELL_ROWS) {
            tell(self.told_bytes);
        }
        Ok(self.row)
    }
}

/// What of the rows is kept.
#[derive(Clone, Copy)]
pub(crate) struct Kept {
    /// Whether rows of the first half are.
    pub(crate) halves: bool,
    /// The part of the rows that is.
    pub(crate) partition: Option<Partition>,
}

/// Adds up all rows and hands out the sums; the rows read.
pub(crate) fn merge(
    mut sources: Vec<Source>,
    kept: Kept,
    tell: &dyn Fn(u64),
    mut emit: impl FnMut(&Arc<ImageKey>, Row) -> Result<(), Error>,
) -> Result<u64, Error> {
    let mut images: BinaryHeap<Reverse<(Arc<ImageKey>, usize)>> = BinaryHeap::new();
    for (at, source) in sources.iter_mut().enumerate() {
        if source.step(tell)?.is_some() {
            images.push(Reverse((Arc::clone(source.rows.image()), at)));
        }
    }
    while let Some(Reverse((image, first))) = images.pop() {
        let mut of_image = vec![first];
        while let Some(top) = images.peek_mut() {
            if top.0.0 != image {
                break;
            }
            of_image.push(PeekMut::pop(top).0.1);
        }
        let mut sum =
            Sum { image: &image, begun: Begun::of(&image), kept, emit: &mut emit, row: None };
        let mut keys: BinaryHeap<Reverse<(RowKey, usize)>> = BinaryHeap::new();
        for at in of_image {
            if let Some(row) = sources.get(at).and_then(|source| source.row) {
                keys.push(Reverse((row.key, at)));
            }
        }
        while let Some(mut top) = keys.peek_mut() {
            let at = top.0.1;
            let Some(source) = sources.get_mut(at) else { break };
            if let Some(row) = source.row {
                sum.add(row, source)?;
            }
            let next = source.step(tell)?;
            let own = source.rows.image();
            match next {
                Some(row) if Arc::ptr_eq(own, &image) || **own == *image => {
                    *top = Reverse((row.key, at));
                }
                Some(_) => {
                    PeekMut::pop(top);
                    images.push(Reverse((Arc::clone(own), at)));
                }
                None => drop(PeekMut::pop(top)),
            }
        }
        sum.end()?;
    }
    // The step that found the end of each is none of a row.
    Ok(sources.iter().map(|source| source.read - 1).sum())
}

/// The sum of the rows of one key.
struct Sum<'m, E> {
    image: &'m Arc<ImageKey>,
    begun: Begun,
    kept: Kept,
    emit: &'m mut E,
    row: Option<Row>,
}

impl<E: FnMut(&Arc<ImageKey>, Row) -> Result<(), Error>> Sum<'_, E> {
    fn add(&mut self, row: Row, source: &Source) -> Result<(), Error> {
        if row.key.kind.is_first_half() && !self.kept.halves {
            return Ok(());
        }
        let place = |key: &RowKey, image: &ImageKey| {
            let address = key.first.or(key.second).unwrap_or_default();
            format!("{} {:#x} ({})", image.path, address.0, key.kind.name())
        };
        let weighted = |count: u128| {
            if source.weight == Weight::ONE { Some(count) } else { source.weight.of(count) }
        };
        let both = weighted(row.count).zip(weighted(row.mispredicted));
        let Some((count, mispredicted)) = both else {
            let place = format!("{} of {}", place(&row.key, self.image), source.path.display());
            return Err(Error::Overflow { place });
        };
        match &mut self.row {
            Some(sum) if sum.key == row.key => {
                // Below 10^38 each, or far below with a weight.
                sum.count = sum.count.saturating_add(count);
                sum.mispredicted = sum.mispredicted.saturating_add(mispredicted);
            }
            _ => {
                self.end()?;
                self.row = Some(Row { key: row.key, count, mispredicted });
            }
        }
        // No more is mispredicted than counted.
        if self.row.is_some_and(|sum| sum.count >= LIMIT) {
            return Err(Error::Overflow { place: place(&row.key, self.image) });
        }
        Ok(())
    }

    /// Hands out the sum.
    fn end(&mut self) -> Result<(), Error> {
        let Some(row) = self.row.take().filter(|row| row.count > 0) else { return Ok(()) };
        let is_kept = self
            .kept
            .partition
            .is_none_or(|asked| self.begun.part(&row.key, asked.of) == asked.part);
        if is_kept { (self.emit)(self.image, row) } else { Ok(()) }
    }
}
