//! What do the next rows of a row group hold? Its columns, read side by side some rows at a time,
//! so that a group of many rows is never in memory as a whole.

use super::pages::{Cells, Group, Numbers, TextRun, Texts};
use image::ImageAddr;

/// The first column that files without paths do not have.
const FIRST_PATH_COLUMN: usize = 7;
/// The column that only files with architectures have.
const ARCHITECTURE_COLUMN: usize = 9;

/// The columns of a row group.
pub(super) struct Columns {
    ids: Texts,
    paths: Texts,
    kinds: Texts,
    firsts: Numbers<u64>,
    seconds: Numbers<u64>,
    sums: Numbers<u128>,
    missed: Numbers<u128>,
    /// Before and after; absent in files without paths.
    ends: Option<(Numbers<u64>, Numbers<u64>)>,
    /// Absent in files without architectures.
    architectures: Option<Texts>,
}

/// Some rows, column by column; all of one length.
#[derive(Default)]
pub(super) struct Rows {
    ids: Vec<TextRun>,
    paths: Vec<TextRun>,
    kinds: Vec<TextRun>,
    /// Empty in files without architectures.
    architectures: Vec<TextRun>,
    firsts: Cells<u64>,
    seconds: Cells<u64>,
    befores: Cells<u64>,
    afters: Cells<u64>,
    pub(super) sums: Cells<u128>,
    pub(super) missed: Cells<u128>,
}

/// Rows that have all texts in common.
pub(super) struct Segment<'r> {
    pub(super) id: &'r [u8],
    pub(super) path: &'r [u8],
    pub(super) kind: &'r [u8],
    /// Absent in files without architectures.
    pub(super) architecture: Option<&'r [u8]>,
    /// The first row, and the one behind the last.
    pub(super) rows: std::ops::Range<usize>,
}

impl Columns {
    /// The columns of a group.
    ///
    /// # Errors
    /// Where they are of other types than the counts schema has.
    pub(super) fn of(group: &Group<'_>) -> Result<Columns, String> {
        let with_paths = group.metadata.num_columns() > FIRST_PATH_COLUMN;
        let with_architectures = group.metadata.num_columns() > ARCHITECTURE_COLUMN;
        let machine = || Texts::of(group, ARCHITECTURE_COLUMN);
        let end = |column| Numbers::of(group, FIRST_PATH_COLUMN + column, true);
        Ok(Columns {
            ids: Texts::of(group, 0)?,
            paths: Texts::of(group, 1)?,
            kinds: Texts::of(group, 2)?,
            firsts: Numbers::of(group, 3, true)?,
            seconds: Numbers::of(group, 4, true)?,
            sums: Numbers::of(group, 5, false)?,
            missed: Numbers::of(group, 6, false)?,
            ends: if with_paths { Some((end(0)?, end(1)?)) } else { None },
            architectures: if with_architectures { Some(machine()?) } else { None },
        })
    }

    /// Reads the next `rows` rows into `found`, or says the lengths of the columns where some hold
    /// fewer.
    ///
    /// # Errors
    /// Where the pages cannot be read.
    pub(super) fn next(
        &mut self,
        rows: usize,
        found: &mut Rows,
    ) -> Result<Result<(), Vec<usize>>, String> {
        let Rows {
            ids,
            paths,
            kinds,
            architectures,
            firsts,
            seconds,
            befores,
            afters,
            sums,
            missed,
        } = found;
        let of = |runs: &[TextRun]| runs.iter().map(|(_, count)| count).sum();
        self.ids.next(rows, ids)?;
        self.paths.next(rows, paths)?;
        self.kinds.next(rows, kinds)?;
        self.firsts.next(rows, firsts)?;
        self.seconds.next(rows, seconds)?;
        self.sums.next(rows, sums)?;
        self.missed.next(rows, missed)?;
        let mut lengths =
            vec![of(ids), of(paths), of(kinds), firsts.values.len(), seconds.values.len()];
        lengths.extend([sums.values.len(), missed.values.len()]);
        match &mut self.ends {
            Some((before, after)) => {
                before.next(rows, befores)?;
                after.next(rows, afters)?;
                lengths.extend([befores.values.len(), afters.values.len()]);
            }
            None => (befores.is_empty, afters.is_empty) = (true, true),
        }
        match &mut self.architectures {
            Some(column) => {
                column.next(rows, architectures)?;
                lengths.push(of(architectures));
            }
            None => architectures.clear(),
        }
        Ok(if lengths.iter().all(|&length| length == rows) { Ok(()) } else { Err(lengths) })
    }
}

impl Rows {
    /// Hands out the rows in their order, as many at once as have all texts in common.
    ///
    /// # Errors
    /// The first that `take` has.
    pub(super) fn segments<E>(
        &self,
        mut take: impl FnMut(Segment<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut texts =
            [&self.ids, &self.paths, &self.kinds, &self.architectures].map(|runs| runs.iter());
        let mut now: [(&[u8], usize); 4] = Default::default();
        let with_architectures = !self.architectures.is_empty();
        let mut row = 0;
        loop {
            for ((text, left), runs) in now.iter_mut().zip(&mut texts) {
                while *left == 0 {
                    let Some((next, count)) = runs.next() else { break };
                    (*text, *left) = (next, *count);
                }
            }
            let [(id, ids), (path, paths), (kind, kinds), (machine, machines)] = now;
            let machines = if with_architectures { machines } else { usize::MAX };
            let rows = ids.min(paths).min(kinds).min(machines);
            if rows == 0 {
                return Ok(());
            }
            let architecture = with_architectures.then_some(machine);
            take(Segment { id, path, kind, architecture, rows: row..row + rows })?;
            row += rows;
            for (_, left) in &mut now {
                *left = left.saturating_sub(rows);
            }
        }
    }

    /// The address in each column of addresses: first, second, before and after.
    pub(super) fn ends(&self) -> [Ends<'_>; 4] {
        [&self.firsts, &self.seconds, &self.befores, &self.afters].map(Ends)
    }
}

/// A column of addresses.
#[derive(Clone, Copy)]
pub(super) struct Ends<'r>(&'r Cells<u64>);

impl Ends<'_> {
    /// The address in a row, if it has one.
    pub(super) fn at(self, row: usize) -> Option<ImageAddr> {
        if self.0.is_empty || self.0.present.get(row) == Some(&false) {
            return None;
        }
        self.0.values.get(row).copied().map(ImageAddr)
    }
}
