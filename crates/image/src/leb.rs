//! LEB128 numbers, of which clang's own sections are made.

use gimli::{EndianSlice, LittleEndian, Reader as _};

/// What stands where a number was expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wrong {
    /// The bytes end in the middle of it.
    CutOff,
    /// It has more than 64 bits.
    TooLong,
}

/// Reads an unsigned number at an offset, which is then behind what was read, also of a wrong one.
pub(crate) fn unsigned(bytes: &[u8], offset: &mut usize) -> Result<u64, Wrong> {
    read(bytes, offset, |slice| slice.read_uleb128())
}

/// Reads a signed number in the same way.
pub(crate) fn signed(bytes: &[u8], offset: &mut usize) -> Result<i64, Wrong> {
    read(bytes, offset, |slice| slice.read_sleb128())
}

/// A byte order means nothing to numbers that are read byte by byte.
type Slice<'b> = EndianSlice<'b, LittleEndian>;

fn read<T>(
    bytes: &[u8],
    offset: &mut usize,
    number: impl FnOnce(&mut Slice<'_>) -> gimli::Result<T>,
) -> Result<T, Wrong> {
    let mut slice = Slice::new(bytes.get(*offset..).unwrap_or_default(), LittleEndian);
    let found = number(&mut slice);
    *offset = bytes.len() - slice.len();
    found.map_err(|error| match error {
        gimli::Error::UnexpectedEof(_) => Wrong::CutOff,
        _ => Wrong::TooLong,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number with how far the reader got.
    fn both(bytes: &[u8]) -> [(Result<i128, Wrong>, usize); 2] {
        let (mut one, mut other) = (1, 1);
        let plain = unsigned(bytes, &mut one).map(i128::from);
        let with_sign = signed(bytes, &mut other).map(i128::from);
        [(plain, one), (with_sign, other)]
    }

    #[test]
    fn numbers_are_read_to_their_limits() {
        assert_eq!(both(&[0xff, 0x7f, 0xff]), [(Ok(127), 2), (Ok(-1), 2)]);
        assert_eq!(both(&[0, 0x80, 0x01]), [(Ok(128), 3), (Ok(128), 3)]);
        let ends = |last| [&[0][..], &[0xff; 9], &[last]].concat();
        assert_eq!(both(&ends(0x01)), [(Ok(u64::MAX.into()), 11), (Err(Wrong::TooLong), 11)]);
        assert_eq!(both(&ends(0x7f)), [(Err(Wrong::TooLong), 11), (Ok(-1), 11)]);
        assert_eq!(both(&ends(0x02)).map(|(number, _)| number), [Err(Wrong::TooLong); 2]);
    }

    #[test]
    fn a_number_that_is_cut_off_or_too_long_is_no_number() {
        assert_eq!(both(&[0, 0x80, 0x80]), [(Err(Wrong::CutOff), 3); 2]);
        assert_eq!(both(&[0]), [(Err(Wrong::CutOff), 1); 2]);
        assert_eq!(both(&[]), [(Err(Wrong::CutOff), 0); 2]);
        assert_eq!(both(&[0x80; 20]), [(Err(Wrong::TooLong), 11); 2]);
    }
}
