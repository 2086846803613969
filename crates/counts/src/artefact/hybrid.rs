//! Which small numbers does a run of bytes hold? Parquet's hybrid of runs and bit-packed groups, in which
//! dictionary indices and definition levels stand.
//!
//! Input: bytes from anybody, and the width of the numbers. Output: the numbers, as runs of one
//! value where they are stored so. Invariant: nothing is read outside of the bytes; a run is as long
//! as it says, however few bytes it has, so whoever asks says how many are wanted. Source: [Run
//! Length Encoding / Bit-Packing Hybrid].
//!
//! [Run Length Encoding / Bit-Packing Hybrid]: https://github.com/apache/parquet-format/blob/master/Encodings.md

use bytes::Bytes;

/// Widest numbers, in bits.
const MOST_WIDTH: u8 = 32;

/// Numbers that are being read.
#[derive(Clone, Debug)]
pub(super) struct Hybrid {
    bytes: Bytes,
    /// Where the next run begins.
    at: usize,
    width: u8,
    run: Run,
}

#[derive(Clone, Copy, Debug)]
enum Run {
    /// So many of one value are left.
    Same { value: u32, left: usize },
    /// So many are left, from this bit on.
    Packed { bit: usize, left: usize },
}

/// Numbers that follow one another.
pub(super) enum Found {
    /// So many times this one.
    Same(u32, usize),
    /// Those that were added to the list.
    Different,
}

impl Hybrid {
    /// Numbers of `width` bits in `bytes`; none where they are wider than 32 bits.
    pub(super) fn new(bytes: Bytes, width: u8) -> Option<Hybrid> {
        let run = Run::Same { value: 0, left: 0 };
        (width <= MOST_WIDTH).then_some(Hybrid { bytes, at: 0, width, run })
    }

    /// The next numbers, `most` at most and one at least; those that differ are put into `list`,
    /// which is empty then. None where the bytes end.
    pub(super) fn next(&mut self, most: usize, list: &mut Vec<u32>) -> Option<Found> {
        list.clear();
        loop {
            match &mut self.run {
                Run::Same { left: 0, .. } | Run::Packed { left: 0, .. } => self.begin()?,
                Run::Same { value, left } => {
                    let taken = most.min(*left);
                    *left -= taken;
                    return Some(Found::Same(*value, taken));
                }
                Run::Packed { bit, left } => {
                    let taken = most.min(*left);
                    unpack(&self.bytes, *bit, self.width, taken, list);
                    *bit += taken * usize::from(self.width);
                    *left -= taken;
                    return Some(Found::Different);
                }
            }
        }
    }

    fn begin(&mut self) -> Option<()> {
        let header = self.number()?;
        let rest = self.bytes.len() - self.at;
        if header & 1 == 0 {
            let length = usize::from(self.width).div_ceil(8);
            let bytes = self.bytes.get(self.at..self.at + length)?;
            let value = bytes.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
            self.at += length;
            self.run = Run::Same { value, left: usize::try_from(header >> 1).ok()? };
            return Some(());
        }
        // Groups of eight numbers, each group of as many bytes as a number has bits. The last one may be cut.
        let groups = usize::try_from(header >> 1).ok()?;
        let stated = groups.checked_mul(usize::from(self.width))?;
        let numbers = groups.checked_mul(8)?;
        let left = match (rest * 8).checked_div(usize::from(self.width)) {
            Some(there) => numbers.min(there),
            None => numbers,
        };
        if left == 0 && numbers > 0 {
            return None;
        }
        self.run = Run::Packed { bit: self.at * 8, left };
        self.at += stated.min(rest);
        Some(())
    }

    /// An unsigned number in groups of seven bits.
    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

/// Adds `count` numbers of `width` bits, the first at `bit`, to the list; all of them are within `bytes`.
fn unpack(bytes: &[u8], bit: usize, width: u8, count: usize, list: &mut Vec<u32>) {
    let mask = (1u64 << width) - 1;
    let width = usize::from(width);
    list.reserve(count);
    let one = |at: usize| -> u32 {
        let from = at / 8;
        let word = match bytes.get(from..from + 8).and_then(|word| word.try_into().ok()) {
            Some(word) => u64::from_le_bytes(word),
            None => bytes
                .get(from..)
                .unwrap_or_default()
                .iter()
                .rev()
                .fold(0u64, |word, &byte| word << 8 | u64::from(byte)),
        };
        ((word >> (at % 8)) & mask) as u32
    };
    list.extend((0..count).map(|number| one(bit + number * width)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8], width: u8, most: usize) -> Vec<u32> {
        let mut hybrid = Hybrid::new(Bytes::copy_from_slice(bytes), width).unwrap();
        let (mut numbers, mut list) = (Vec::new(), Vec::new());
        while let Some(found) = hybrid.next(most, &mut list) {
            match found {
                Found::Same(value, count) => numbers.extend(std::iter::repeat_n(value, count)),
                Found::Different => numbers.extend(&list),
            }
            assert!(numbers.len() < 1000);
        }
        numbers
    }

    #[test]
    fn runs_and_groups_are_read_and_what_is_cut_ends() {
        // The example of the format: 0 to 7 in three bits.
        let packed = [0x03, 0x88, 0xc6, 0xfa];
        for most in [1, 3, 100] {
            assert_eq!(all(&packed, 3, most), [0, 1, 2, 3, 4, 5, 6, 7]);
            assert_eq!(
                all(&[0x0a, 0x07, 0x03, 0x88, 0xc6, 0xfa], 3, most)[..6],
                [7, 7, 7, 7, 7, 0]
            );
            assert_eq!(all(&[0x04, 0x01, 0x02], 16, most), [0x0201; 2]);
        }
        assert_eq!(all(&packed[..3], 3, 8), [0, 1, 2, 3, 4], "cut within a group");
        assert_eq!(all(&packed[..1], 3, 8), [0u32; 0]);
        assert_eq!(all(&[0x06], 0, 8), [0, 0, 0]);
        assert_eq!(all(&[0xff; 8], 3, 8), [0u32; 0], "a length of more than 35 bits");
        assert!(Hybrid::new(Bytes::new(), 33).is_none());
        let wide = [0x03, 1, 0, 0, 0x80, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0];
        assert_eq!(all(&wide, 32, 9), [0x8000_0001, 2, 3, 4]);
    }
}
