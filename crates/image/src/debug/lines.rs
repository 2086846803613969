//! Which source line and discriminator an address has: one run over a unit's line program, beside
//! the addresses.

use super::damage::{Damage, Reading};
use super::unit::{Dwarf, Root};

/// A row of the line table, reduced to what a profile needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Row {
    /// Source line, 0 when the compiler gave none.
    pub(super) line: u32,
    /// Discriminator as encoded.
    pub(super) discriminator: u32,
}

/// The rows of `addresses` (sorted); `None` where no sequence covers the address.
///
/// Sequences below `floor` belong to functions that the linker dropped. On damage, the rows found
/// before it stay.
pub(super) fn rows(
    dwarf: &Dwarf<'_>,
    root: &Root<'_>,
    addresses: &[u64],
    floor: u64,
) -> (Vec<Option<Row>>, Option<Damage>) {
    let mut sweep = Sweep { addresses, rows: vec![None; addresses.len()], at: 0 };
    let damage = run(dwarf, root, floor, &mut sweep).err();
    (sweep.rows, damage)
}

fn run(dwarf: &Dwarf<'_>, root: &Root<'_>, floor: u64, sweep: &mut Sweep<'_>) -> Reading<()> {
    let Some(offset) = root.lines.and_then(|offset| usize::try_from(offset).ok()) else {
        return Ok(());
    };
    let offset = gimli::DebugLineOffset(offset);
    let mut rows = dwarf.debug_line.program(offset, root.encoding.address_size, None, None)?.rows();
    let mut previous: Option<(u64, Row)> = None;
    while let Some((_, row)) = rows.next_row()? {
        let address = row.address();
        if let Some((begin, found)) = previous {
            sweep.assign(begin, address, found);
        }
        previous = (!row.end_sequence() && address >= floor).then(|| {
            let line = row.line().map_or(0, |line| line.get() as u32);
            (address, Row { line, discriminator: row.discriminator() as u32 })
        });
    }
    Ok(())
}

/// Walks over the addresses as the line program walks over the code; both go upwards within a
/// sequence.
struct Sweep<'a> {
    addresses: &'a [u64],
    rows: Vec<Option<Row>>,
    /// Position of the first address at or above the end of the last assignment.
    at: usize,
}

impl Sweep<'_> {
    #[inline]
    fn assign(&mut self, begin: u64, end: u64, row: Row) {
        if end <= begin {
            return;
        }
        let before = self.at.checked_sub(1).and_then(|index| self.addresses.get(index));
        let here = self.addresses.get(self.at);
        let in_step = before.is_none_or(|address| *address < begin)
            && here.is_none_or(|address| *address >= begin);
        if !in_step {
            self.at = self.addresses.partition_point(|address| *address < begin);
        }
        while let (Some(address), Some(slot)) =
            (self.addresses.get(self.at), self.rows.get_mut(self.at))
        {
            if *address >= end {
                break;
            }
            *slot = Some(row);
            self.at += 1;
        }
    }
}
