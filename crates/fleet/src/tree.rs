//! How are the rows of many sorted files brought into one order? By a tree that merges two streams at
//! each node and adds up what has the same key there and then.
//!
//! Hosts that run the same program count mostly the same keys, so a node hands on about as many rows
//! as each of the two below it, and all nodes together do about twice the work of the leaves; only
//! where keys are all different it is rows × log of the files. Input: rows of each file in order.
//! Output: blocks of rows in order. Rows of one key may still follow one another, since a file may
//! have a key twice. Invariant: each stream has a block or two in memory.

use crate::shard::Claim;
use crate::{Error, Weight};
use counts::artefact::row::{ImageKey, Kind, LIMIT, Row, RowKey};
use counts::artefact::rows::{Block, Rows};
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// Rows that a node hands on at a time.
const BLOCK_ROWS: usize = 512;

/// One file.
pub(crate) struct Source {
    path: PathBuf,
    rows: Rows,
    weight: Weight,
    /// Its bytes, and its rows as it states them; what is told as the rows are read.
    bytes: u64,
    stated: u64,
    told: u64,
    read: u64,
    /// Whether rows of the first half are kept.
    halves: bool,
    claim: Claim,
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
        Source {
            path,
            rows,
            weight,
            bytes,
            stated,
            told: 0,
            read: 0,
            halves: true,
            claim: Claim::NONE,
        }
    }

    /// Sees to it that its rows add up to no more than it says.
    pub(crate) fn claiming(mut self, claim: Claim) -> Source {
        self.claim = claim;
        self
    }

    /// Leaves out rows of the first half.
    pub(crate) fn without_halves(mut self) -> Source {
        self.halves = false;
        self
    }

    fn next(&mut self, mut spare: Vec<Row>, heard: &dyn Heard) -> Result<Option<Block>, Error> {
        loop {
            let next = self.rows.next_block(spare);
            let next = next.map_err(|source| Error::of_shard(&self.path, source))?;
            let Some(mut block) = next else {
                return Ok(None);
            };
            self.read += block.rows.len() as u64;
            let until =
                u128::from(self.bytes) * u128::from(self.read) / u128::from(self.stated.max(1));
            let until = u64::try_from(until).unwrap_or(u64::MAX).min(self.bytes);
            heard.read(block.rows.len() as u64, until - self.told);
            self.told = until;
            self.claim.add(&self.path, &block)?;
            if !self.halves {
                block.rows.retain(|row| !row.key.kind.is_first_half());
            }
            if self.weight != Weight::ONE {
                self.weigh(&mut block)?;
            }
            if !block.rows.is_empty() {
                return Ok(Some(block));
            }
            spare = block.rows;
        }
    }

    fn weigh(&self, block: &mut Block) -> Result<(), Error> {
        for row in &mut block.rows {
            let both = self.weight.of(row.count).zip(self.weight.of(row.mispredicted));
            let Some((count, mispredicted)) = both.filter(|(count, _)| *count < LIMIT) else {
                let place = format!("{} of {}", place(&row.key, &block.image), self.path.display());
                return Err(Error::Overflow { place });
            };
            (row.count, row.mispredicted) = (count, mispredicted);
        }
        Ok(())
    }
}

/// Who hears of rows and bytes as they are read.
pub(crate) trait Heard {
    /// So many rows and bytes more.
    fn read(&self, rows: u64, bytes: u64);
}

/// Where a row is, for messages.
pub(crate) fn place(key: &RowKey, image: &ImageKey) -> String {
    let address = key.first.or(key.second).unwrap_or_default();
    format!("{} {:#x} ({})", image.path, address.0, key.kind.name())
}

/// Adds the counts of `row` to those of `sum`, which has the same key.
pub(crate) fn add(sum: &mut Row, row: &Row, image: &ImageKey) -> Result<(), Error> {
    // Below 10^38 each. No more is mispredicted than counted.
    sum.count = sum.count.saturating_add(row.count);
    sum.mispredicted = sum.mispredicted.saturating_add(row.mispredicted);
    if sum.count < LIMIT { Ok(()) } else { Err(Error::Overflow { place: place(&row.key, image) }) }
}

/// What blocks come from.
pub(crate) enum Stream {
    /// A file.
    File(Box<Source>),
    /// Two others.
    Node(Box<Node>),
    /// Another thread.
    Thread(Box<Handed>),
}

/// What another thread hands over.
pub(crate) struct Handed {
    pub(crate) receive: Receiver<Result<VecDeque<Block>, Error>>,
    /// What came, and was not given out.
    pub(crate) waiting: VecDeque<Block>,
    /// Takes rooms for rows back, so that they are not made anew for each block.
    pub(crate) give_back: Sender<Vec<Row>>,
}

impl Stream {
    /// The tree over files or other streams; none over none.
    pub(crate) fn over(mut streams: Vec<Stream>) -> Option<Stream> {
        while streams.len() > 1 {
            let mut above = Vec::with_capacity(streams.len().div_ceil(2));
            let mut below = streams.into_iter();
            while let Some(left) = below.next() {
                above.push(match below.next() {
                    Some(right) => {
                        let sides = [left, right].map(|stream| Side {
                            stream,
                            block: None,
                            at: 0,
                            ended: false,
                        });
                        Stream::Node(Box::new(Node { sides }))
                    }
                    None => left,
                });
            }
            streams = above;
        }
        streams.pop()
    }

    /// The next block; none at the end. `spare` is used as room for rows.
    pub(crate) fn next(
        &mut self,
        spare: Vec<Row>,
        heard: &dyn Heard,
    ) -> Result<Option<Block>, Error> {
        match self {
            Stream::File(source) => source.next(spare, heard),
            Stream::Node(node) => node.next(spare, heard),
            Stream::Thread(handed) => {
                if spare.capacity() > 0 {
                    // Where the thread has ended, nobody needs it.
                    let _ = handed.give_back.send(spare);
                }
                if handed.waiting.is_empty() {
                    handed.waiting = handed.receive.recv().ok().transpose()?.unwrap_or_default();
                }
                Ok(handed.waiting.pop_front())
            }
        }
    }
}

/// Two streams that are merged.
pub(crate) struct Node {
    sides: [Side; 2],
}

struct Side {
    stream: Stream,
    block: Option<Block>,
    /// The row of the block that is looked at.
    at: usize,
    ended: bool,
}

impl Side {
    /// Sees to it that there is a row, if there are any left.
    fn load(&mut self, heard: &dyn Heard) -> Result<(), Error> {
        if self.ended || self.block.as_ref().is_some_and(|block| self.at < block.rows.len()) {
            return Ok(());
        }
        let spare = self.block.take().map(|block| block.rows).unwrap_or_default();
        self.block = self.stream.next(spare, heard)?;
        (self.at, self.ended) = (0, self.block.is_none());
        Ok(())
    }

    /// Hands out what is left of the block.
    fn rest(&mut self) -> Option<Block> {
        let mut block = self.block.take()?;
        if self.at > 0 {
            block.rows.drain(..self.at);
        }
        self.at = 0;
        Some(block)
    }
}

impl Node {
    fn next(&mut self, spare: Vec<Row>, heard: &dyn Heard) -> Result<Option<Block>, Error> {
        let [left, right] = &mut self.sides;
        left.load(heard)?;
        right.load(heard)?;
        let order = match (&left.block, &right.block) {
            (None, None) => return Ok(None),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) if Arc::ptr_eq(&one.image, &other.image) => Ordering::Equal,
            (Some(one), Some(other)) => one.image.cmp(&other.image),
        };
        match order {
            Ordering::Less => return Ok(left.rest()),
            Ordering::Greater => return Ok(right.rest()),
            Ordering::Equal => {}
        }
        let (Some(one), Some(other)) = (&mut left.block, &mut right.block) else { return Ok(None) };
        // From here on the comparison is that of two pointers.
        other.image = Arc::clone(&one.image);
        let mut out = spare;
        out.clear();
        out.reserve(BLOCK_ROWS);
        join(&one.rows, &mut left.at, &other.rows, &mut right.at, &mut out, &one.image)?;
        Ok(Some(Block { image: Arc::clone(&one.image), rows: out }))
    }
}

/// Merges rows until one side or the room in `out` ends.
fn join(
    left: &[Row],
    left_at: &mut usize,
    right: &[Row],
    right_at: &mut usize,
    out: &mut Vec<Row>,
    image: &ImageKey,
) -> Result<(), Error> {
    let mut one = left.get(*left_at..).unwrap_or_default();
    let mut other = right.get(*right_at..).unwrap_or_default();
    while let (Some(first), Some(second)) = (one.first(), other.first()) {
        if out.len() >= BLOCK_ROWS {
            break;
        }
        let order = compare(&first.key, &second.key);
        if order.is_le() {
            out.push(*first);
            one = one.get(1..).unwrap_or_default();
        }
        if order.is_ge() {
            match out.last_mut() {
                Some(sum) if order.is_eq() => add(sum, second, image)?,
                _ => out.push(*second),
            }
            other = other.get(1..).unwrap_or_default();
        }
    }
    (*left_at, *right_at) = (left.len() - one.len(), right.len() - other.len());
    Ok(())
}

/// The order of rows of an image, as [`RowKey`] has it; most have neither `before` nor `after`.
fn compare(one: &RowKey, other: &RowKey) -> Ordering {
    if one.kind == Kind::Path || one.kind != other.kind {
        return one.cmp(other);
    }
    one.first.cmp(&other.first).then_with(|| one.second.cmp(&other.second))
}
