//! What do the headers of a Parquet file say, as far as it must be known before the Parquet library
//! reads them?
//!
//! They are Thrift structures in the compact protocol. The library passes over fields that it does not know, and over a list of flags without reading a
//! byte: ten bytes may ask for two thousand million steps. It also reads fields that it knows as
//! their type, whatever type stands there, so that only a look at all types tells what it will
//! read. Hence fields and types are those of the tables below, and all others are refused.
//!
//! Input: bytes from anybody. Invariant: a step takes at least one byte of the input, and
//! structures lie in one another as deep as in the tables; so the time is linear in the bytes there
//! are, and the memory constant. Numbers in more bytes than they need room for and fields out of
//! order are written by nobody; they are refused, since two readers could understand them
//! differently. Sources: parquet.thrift of [parquet-format] 2.12, and the [compact protocol].
//!
//! [parquet-format]: https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
//! [compact protocol]: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md

use std::io::{self, Read};

/// What a field holds.
#[derive(Clone, Copy)]
enum Kind {
    Flag,
    Byte,
    I16,
    I32,
    I64,
    Text,
    List(&'static Kind),
    Struct(&'static [(u8, Kind)]),
}

use Kind::{Byte, Flag, I16, I32, I64, List, Struct, Text};

const NOTHING: Kind = Struct(&[]);
const LOGICAL_TYPE: Kind = Struct(&[
    (1, NOTHING),
    (2, NOTHING),
    (3, NOTHING),
    (4, NOTHING),
    (5, Struct(&[(1, I32), (2, I32)])),
    (6, NOTHING),
    (10, Struct(&[(1, Byte), (2, Flag)])),
    (11, NOTHING),
    (12, NOTHING),
    (13, NOTHING),
    (14, NOTHING),
    (15, NOTHING),
]);
const SCHEMA_ELEMENT: Kind = Struct(&[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, Text),
    (5, I32),
    (6, I32),
    (7, I32),
    (8, I32),
    (9, I32),
    (10, LOGICAL_TYPE),
]);
const STATISTICS: Kind = Struct(&[
    (1, Text),
    (2, Text),
    (3, I64),
    (4, I64),
    (5, Text),
    (6, Text),
    (7, Flag),
    (8, Flag),
    (9, I64),
]);
const KEY_VALUE: Kind = Struct(&[(1, Text), (2, Text)]);
const ENCODING_STATS: Kind = Struct(&[(1, I32), (2, I32), (3, I32)]);
const SIZE_STATISTICS: Kind = Struct(&[(1, I64), (2, List(&I64)), (3, List(&I64))]);
const COLUMN: Kind = Struct(&[
    (1, I32),
    (2, List(&I32)),
    (3, List(&Text)),
    (4, I32),
    (5, I64),
    (6, I64),
    (7, I64),
    (8, List(&KEY_VALUE)),
    (9, I64),
    (10, I64),
    (11, I64),
    (12, STATISTICS),
    (13, List(&ENCODING_STATS)),
    (14, I64),
    (15, I32),
    (16, SIZE_STATISTICS),
]);
const COLUMN_CHUNK: Kind =
    Struct(&[(1, Text), (2, I64), (3, COLUMN), (4, I64), (5, I32), (6, I64), (7, I32)]);
const SORTING_COLUMN: Kind = Struct(&[(1, I32), (2, Flag), (3, Flag)]);
const ROW_GROUP: Kind = Struct(&[
    (1, List(&COLUMN_CHUNK)),
    (2, I64),
    (3, I64),
    (4, List(&SORTING_COLUMN)),
    (5, I64),
    (6, I64),
    (7, I16),
]);
const COLUMN_ORDER: Kind = Struct(&[(1, NOTHING), (2, NOTHING)]);
const FILE: [(u8, Kind); 7] = [
    (1, I32),
    (2, List(&SCHEMA_ELEMENT)),
    (3, I64),
    (4, List(&ROW_GROUP)),
    (5, List(&KEY_VALUE)),
    (6, Text),
    (7, List(&COLUMN_ORDER)),
];
const PAGE: [(u8, Kind); 8] = [
    (1, I32),
    (2, I32),
    (3, I32),
    (4, I32),
    (5, Struct(&[(1, I32), (2, I32), (3, I32), (4, I32), (5, STATISTICS)])),
    (6, NOTHING),
    (7, Struct(&[(1, I32), (2, I32), (3, Flag)])),
    (
        8,
        Struct(&[
            (1, I32),
            (2, I32),
            (3, I32),
            (4, I32),
            (5, I32),
            (6, I32),
            (7, Flag),
            (8, STATISTICS),
        ]),
    ),
];

impl Kind {
    /// Whether the encoding calls it by this number.
    fn is(self, number: u8) -> bool {
        match self {
            Flag => matches!(number, 1 | 2),
            Byte => number == 3,
            I16 => number == 4,
            I32 => number == 5,
            I64 => number == 6,
            Text => number == 8,
            List(_) => number == 9,
            Struct(_) => number == 12,
        }
    }
}

/// What sees each number, each flag as 1 or 0, and the length of each list: where it stands, as the numbers of its field
/// and of those around it, the outermost first, and what it is.
type See<'s> = &'s mut dyn FnMut(&[u8], i64) -> io::Result<()>;

/// Looks over the metadata of a file; the bytes that it takes.
///
/// # Errors
/// Where it is none, or `see` refuses it.
pub(super) fn file(bytes: impl Read, see: See<'_>) -> io::Result<u64> {
    Walk::over(&FILE, bytes, see)
}

/// Looks over the header of a page; the bytes that it takes.
///
/// # Errors
/// As [`file`].
pub(super) fn page(bytes: impl Read, see: See<'_>) -> io::Result<u64> {
    Walk::over(&PAGE, bytes, see)
}

fn refused(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

struct Walk<'s, R> {
    bytes: R,
    taken: u64,
    /// Numbers of the fields that are being read.
    at: Vec<u8>,
    see: See<'s>,
}

impl<R: Read> Walk<'_, R> {
    fn over(known: &[(u8, Kind)], bytes: R, see: See<'_>) -> io::Result<u64> {
        let mut walk = Walk { bytes, taken: 0, at: Vec::new(), see };
        walk.fields(known).map(|()| walk.taken)
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.bytes.read_exact(&mut byte)?;
        self.taken += 1;
        Ok(byte[0])
    }

    /// An unsigned number in groups of seven bits.
    fn number(&mut self) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(refused("a number of more than 64 bits"))
    }

    /// A signed number of so many bits.
    fn signed(&mut self, bits: u32) -> io::Result<()> {
        let value = self.number()?;
        let value = (value >> 1) as i64 ^ -((value & 1) as i64);
        let most = i64::MAX >> (64 - bits);
        if !(-most - 1..=most).contains(&value) {
            return Err(refused(format!("{value} where a number of {bits} bits belongs")));
        }
        (self.see)(&self.at, value)
    }

    fn fields(&mut self, known: &[(u8, Kind)]) -> io::Result<()> {
        let mut id = 0u8;
        loop {
            // The distance from the field before, and the type.
            let head = self.byte()?;
            let (distance, number) = (head >> 4, head & 0xf);
            if number == 0 {
                return Ok(());
            }
            id = id.saturating_add(distance);
            // A distance of 0 announces a number that follows, which no known field needs.
            let kind =
                known.iter().find(|(known, kind)| *known == id && kind.is(number) && distance > 0);
            let Some((_, kind)) = kind else {
                return Err(refused(format!("a header with a field {id} of type {number}")));
            };
            self.at.push(id);
            // A flag is in its type.
            match kind {
                Flag => (self.see)(&self.at, i64::from(number == 1))?,
                _ => self.value(*kind)?,
            }
            self.at.pop();
        }
    }

    fn value(&mut self, kind: Kind) -> io::Result<()> {
        match kind {
            Flag | Byte => self.byte().map(drop),
            I16 => self.signed(16),
            I32 => self.signed(32),
            I64 => self.signed(64),
            Text => {
                let length = self.number()?;
                let there = io::copy(&mut self.bytes.by_ref().take(length), &mut io::sink())?;
                self.taken += there;
                if there == length {
                    Ok(())
                } else {
                    Err(refused("a header that ends within a text"))
                }
            }
            List(element) => {
                let head = self.byte()?;
                if head == 0 {
                    return Ok(());
                }
                if !element.is(head & 0xf) {
                    return Err(refused(format!("a header with a list of type {}", head & 0xf)));
                }
                let count = if head >> 4 == 15 { self.number()? } else { u64::from(head >> 4) };
                (self.see)(&self.at, i64::try_from(count).unwrap_or(i64::MAX))?;
                (0..count).try_for_each(|_| self.value(*element))
            }
            Struct(fields) => self.fields(fields),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was found, with its numbers, and the bytes taken.
    type Walked = (Vec<(Vec<u8>, i64)>, u64);

    fn walked(
        bytes: &[u8],
        walk: fn(&mut &[u8], See<'_>) -> io::Result<u64>,
    ) -> Result<Walked, String> {
        let mut found = Vec::new();
        let taken = walk(&mut &*bytes, &mut |at, number| {
            found.push((at.to_vec(), number));
            Ok(())
        });
        taken.map(|taken| (found, taken)).map_err(|error| error.to_string())
    }

    fn page_of(bytes: &[u8]) -> Result<Walked, String> {
        walked(bytes, |bytes, see| page(bytes, see))
    }

    fn file_of(bytes: &[u8]) -> Result<Walked, String> {
        walked(bytes, |bytes, see| file(bytes, see))
    }

    #[test]
    fn numbers_and_flags_are_seen_where_they_stand_and_texts_are_stepped_over() {
        let mut bytes = vec![0x25, 0x04, 0x15, 0x81, 0x01]; // 2: 2, 3: -65
        bytes.extend([0x5c, 0x15, 0x06, 0x15, 0x00, 0x25, 0x02]); // 8: a structure, in it 1: 3, 2: 0, 4: 1,
        bytes.extend([0x31, 0x1c, 0x18, 0x03, b'a', b'b', b'c', 0, 0, 0]); // 7: a flag, 8: one with a text
        let whole = bytes.len() as u64;
        bytes.extend([0xff; 8]);
        let numbers = vec![
            (vec![2], 2),
            (vec![3], -65),
            (vec![8, 1], 3),
            (vec![8, 2], 0),
            (vec![8, 4], 1),
            (vec![8, 7], 1),
        ];
        assert_eq!(page_of(&bytes), Ok((numbers, whole)));
        // A list of two schema elements, each of nothing; then a number.
        assert_eq!(
            file_of(&[0x29, 0x2c, 0, 0, 0x16, 0x06, 0]),
            Ok((vec![(vec![2], 2), (vec![3], 3)], 7))
        );
    }

    #[test]
    fn no_few_bytes_ask_for_many_steps() {
        // 2^31 - 1 booleans; 2^40 structures, of which there are two; structures without end.
        assert!(
            page_of(&[0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07, 0])
                .unwrap_err()
                .contains("field 1 of type 9")
        );
        assert!(
            file_of(&[0x29, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07, 0])
                .unwrap_err()
                .contains("list of type 1")
        );
        assert!(page_of(&[0x1b, 0xff, 0xff, 0xff, 0xff, 0x07, 0x11, 0]).is_err());
        assert!(file_of(&[0x29, 0xfc, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0, 0]).is_err());
        assert!(page_of(&[0x5c; 1000]).is_err() && file_of(&[0x29; 1000]).is_err());
        assert!(
            file_of(&[0x68, 0xff, 0xff, 0xff, 0xff, 0x07, 0]).is_err(),
            "a string longer than the input"
        );
    }

    #[test]
    fn what_two_readers_could_understand_differently_is_refused() {
        let long = [0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0];
        assert_eq!(page_of(&long).unwrap_err(), "a number of more than 64 bits");
        let wide = [0x15, 0x80, 0x80, 0x80, 0x80, 0x20, 0];
        assert!(page_of(&wide).unwrap_err().contains("32 bits"));
        let twice = [0x15, 0x02, 0x05, 0x02, 0x04, 0];
        assert!(page_of(&twice).unwrap_err().contains("field 1 of type 5"));
        assert!(page_of(&[0x1e, 0]).unwrap_err().contains("type 14"));
    }
}
