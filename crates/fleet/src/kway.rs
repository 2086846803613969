//! How are the rows of many sorted files added up? By [trees](crate::tree) on as many threads as there are
//! to use, each over some of the files, and a last one over these.
//!
//! Input: rows of each source in order. Output: one row for each key, in order, with the sum of the
//! weighted counts; keys without a count fall away. Sums do not depend on how the files are divided.

use crate::Error;
use crate::digest::{Begun, Partition};
use crate::tree::{self, Heard, Source, Stream};
use counts::artefact::row::{ImageKey, Row};
use counts::artefact::rows::Block;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

/// Blocks that wait between two threads.
const WAITING: usize = 4;
/// Files that a thread has at least, if there are several threads.
const LEAST_FILES: usize = 2;

/// What of the rows is kept.
#[derive(Clone, Copy)]
pub(crate) struct Kept {
    /// Whether rows of the first half are.
    pub(crate) halves: bool,
    /// The part of the rows that is.
    pub(crate) partition: Option<Partition>,
}

/// What was read.
struct Told<'t> {
    rows: AtomicU64,
    tell: &'t (dyn Fn(u64) + Sync),
}

impl Heard for Told<'_> {
    fn read(&self, rows: u64, bytes: u64) {
        // A sum that is looked at when all threads have ended.
        self.rows.fetch_add(rows, Ordering::Relaxed);
        if bytes > 0 {
            (self.tell)(bytes);
        }
    }
}

/// Adds up all rows on so many threads beside this one and hands out the sums; the rows read.
pub(crate) fn merge(
    sources: Vec<Source>,
    kept: Kept,
    threads: usize,
    tell: &(dyn Fn(u64) + Sync),
    emit: impl FnMut(&Arc<ImageKey>, Row) -> Result<(), Error>,
) -> Result<u64, Error> {
    let heard = Told { rows: AtomicU64::new(0), tell };
    let file = |source: Source| {
        Stream::File(Box::new(if kept.halves { source } else { source.without_halves() }))
    };
    let mut files: Vec<Stream> = sources.into_iter().map(file).collect();
    let threads = threads.min(files.len() / LEAST_FILES);
    if threads < 2 {
        add_up(files, kept, &heard, emit)?;
        return Ok(heard.rows.into_inner());
    }
    std::thread::scope(|scope| {
        let mut streams = Vec::new();
        for left in (1..=threads).rev() {
            let own = files.split_off(files.len() - files.len() / left);
            let (send, receive) = sync_channel(WAITING);
            let heard = &heard;
            scope.spawn(move || hand_over(own, heard, &send));
            streams.push(Stream::Thread(receive));
        }
        add_up(streams, kept, &heard, emit)
    })?;
    Ok(heard.rows.into_inner())
}

/// Merges files for another thread, until there are no more rows or nobody wants them.
fn hand_over(files: Vec<Stream>, heard: &dyn Heard, to: &SyncSender<Result<Block, Error>>) {
    let Some(mut stream) = Stream::over(files) else { return };
    loop {
        let next = stream.next(Vec::new(), heard).transpose();
        let Some(next) = next else { return };
        let is_last = next.is_err();
        if to.send(next).is_err() || is_last {
            return;
        }
    }
}

/// Merges streams and hands out the sums.
fn add_up(
    streams: Vec<Stream>,
    kept: Kept,
    heard: &dyn Heard,
    emit: impl FnMut(&Arc<ImageKey>, Row) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some(mut stream) = Stream::over(streams) else { return Ok(()) };
    let image = Arc::default();
    let mut sum = Sum { begun: Begun::of(&image), image, kept, emit, row: None };
    let mut spare = Vec::new();
    while let Some(block) = stream.next(spare, heard)? {
        sum.add(&block)?;
        spare = block.rows;
    }
    sum.end()
}

/// The sum of the rows of one key.
struct Sum<E> {
    image: Arc<ImageKey>,
    begun: Begun,
    kept: Kept,
    emit: E,
    row: Option<Row>,
}

impl<E: FnMut(&Arc<ImageKey>, Row) -> Result<(), Error>> Sum<E> {
    fn add(&mut self, block: &Block) -> Result<(), Error> {
        if !Arc::ptr_eq(&self.image, &block.image) && *self.image != *block.image {
            self.end()?;
            self.begun = Begun::of(&block.image);
            self.image = Arc::clone(&block.image);
        }
        for row in &block.rows {
            match &mut self.row {
                Some(sum) if sum.key == row.key => tree::add(sum, row, &self.image)?,
                _ => {
                    self.end()?;
                    self.row = Some(*row);
                }
            }
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
        if is_kept { (self.emit)(&self.image, row) } else { Ok(()) }
    }
}
