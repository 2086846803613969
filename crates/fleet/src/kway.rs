//! How are the rows of many sorted files added up? By [trees](crate::tree) on as many threads as there are
//! to use, each over some of the files, and a last one over these.
//!
//! Input: rows of each source in order. Output: one row for each key, in order, with the sum of the
//! weighted counts; keys without a count fall away. Sums do not depend on how the files are divided.

use crate::Error;
use crate::digest::{Begun, Partition};
use crate::tree::{self, Handed, Heard, Source, Stream};
use counts::artefact::row::{ImageKey, Row};
use counts::artefact::rows::Block;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};

/// Blocks that are handed from one thread to another together, and how many such lots wait.
const TOGETHER: usize = 16;
const WAITING: usize = 2;
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

/// Opens files and adds up all of their rows on so many threads beside this one, and hands out the
/// sums; the rows read.
pub(crate) fn merge<P: Send>(
    mut parts: Vec<P>,
    open: impl Fn(P) -> Result<Source, Error> + Sync,
    kept: Kept,
    threads: usize,
    tell: &(dyn Fn(u64) + Sync),
    emit: impl FnMut(&Arc<ImageKey>, Row) -> Result<(), Error>,
) -> Result<u64, Error> {
    let heard = Told { rows: AtomicU64::new(0), tell };
    let streams = |parts: Vec<P>| -> Result<Vec<Stream>, Error> {
        let file = |part| {
            let source = open(part)?;
            let source = if kept.halves { source } else { source.without_halves() };
            Ok(Stream::File(Box::new(source)))
        };
        parts.into_iter().map(file).collect()
    };
    let threads = threads.min(parts.len() / LEAST_FILES);
    if threads < 2 {
        add_up(streams(parts)?, kept, &heard, emit)?;
        return Ok(heard.rows.into_inner());
    }
    std::thread::scope(|scope| {
        let mut from = Vec::new();
        for left in (1..=threads).rev() {
            let own = parts.split_off(parts.len() - parts.len() / left);
            let (send, receive) = sync_channel(WAITING);
            let (give_back, empty) = channel();
            let (heard, streams) = (&heard, &streams);
            scope.spawn(move || match streams(own) {
                Ok(files) => hand_over(files, heard, &send, &empty),
                Err(error) => drop(send.send(Err(error))),
            });
            let from_thread = Handed { receive, waiting: VecDeque::new(), give_back };
            from.push(Stream::Thread(Box::new(from_thread)));
        }
        add_up(from, kept, &heard, emit)
    })?;
    Ok(heard.rows.into_inner())
}

/// Merges files for another thread, until there are no more rows or nobody wants them.
fn hand_over(
    files: Vec<Stream>,
    heard: &dyn Heard,
    to: &SyncSender<Result<VecDeque<Block>, Error>>,
    empty: &Receiver<Vec<Row>>,
) {
    let Some(mut stream) = Stream::over(files) else { return };
    let mut waiting = VecDeque::with_capacity(TOGETHER);
    loop {
        match stream.next(empty.try_recv().unwrap_or_default(), heard) {
            Ok(Some(block)) => waiting.push_back(block),
            Ok(None) => {
                // Whoever does not want it has an error of its own.
                let _ = to.send(Ok(waiting));
                return;
            }
            Err(error) => {
                let _ = to.send(Err(error));
                return;
            }
        }
        if waiting.len() == TOGETHER {
            let full = std::mem::replace(&mut waiting, VecDeque::with_capacity(TOGETHER));
            if to.send(Ok(full)).is_err() {
                return;
            }
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
