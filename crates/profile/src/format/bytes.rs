//! Reading and writing the numbers and strings that binary profiles are made of.

use crate::Error;

/// A position in bytes that never runs past their end.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    format: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], format: &'static str) -> Reader<'a> {
        Reader { bytes, at: 0, format }
    }

    /// A reader that starts at `at`, which may lie past the end: then every read fails.
    pub(crate) fn starting_at(bytes: &'a [u8], at: usize, format: &'static str) -> Reader<'a> {
        Reader { bytes, at: at.min(bytes.len()), format }
    }

    pub(crate) fn error(&self, problem: impl Into<String>) -> Error {
        Error::Corrupt { format: self.format, offset: self.at as u64, problem: problem.into() }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    pub(crate) fn take(&mut self, length: u64) -> Result<&'a [u8], Error> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = usize::try_from(length).ok().and_then(|length| rest.get(..length));
        let Some(taken) = taken else {
            return Err(self.error(format!("{length} bytes expected, {} left", rest.len())));
        };
        self.at += taken.len();
        Ok(taken)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Error> {
        let bytes = self.take(8)?;
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// A number in LEB128 of at most 64 bits.
    pub(crate) fn uleb(&mut self) -> Result<u64, Error> {
        let mut value = 0u64;
        let mut shift = 0u32;
        loop {
            let Some(byte) = self.bytes.get(self.at).copied() else {
                return Err(self.error("the data ends within a number"));
            };
            let bits = u64::from(byte & 0x7f);
            if shift >= 64 && bits != 0 || shift == 63 && bits > 1 || shift > 140 {
                return Err(self.error("a number of more than 64 bits"));
            }
            if shift < 64 {
                value |= bits << shift;
            }
            self.at += 1;
            shift += 7;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
    }

    pub(crate) fn uleb32(&mut self) -> Result<u32, Error> {
        let value = self.uleb()?;
        u32::try_from(value).map_err(|_| self.error(format!("{value} where 32 bits are the limit")))
    }

    /// A string up to its NUL.
    pub(crate) fn c_string(&mut self) -> Result<&'a str, Error> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(length) = rest.iter().position(|byte| *byte == 0) else {
            return Err(self.error("a name without its end"));
        };
        let text = self.text(length as u64)?;
        self.at += 1;
        Ok(text)
    }

    /// A string of `length` bytes.
    pub(crate) fn text(&mut self, length: u64) -> Result<&'a str, Error> {
        let start = self.clone();
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map_err(|_| start.error("a name that is not UTF-8"))
    }
}

/// Appends a number in LEB128.
pub(crate) fn put_uleb(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            out.push(byte);
            return;
        }
        out.push(byte | 0x80);
    }
}

/// Appends four bytes, little-endian.
pub(crate) fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends eight bytes, little-endian.
pub(crate) fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_at_their_limits() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_uleb(&mut bytes, value);
            assert_eq!(Reader::new(&bytes, "test").uleb(), Ok(value));
        }
    }

    #[test]
    fn a_number_of_65_bits_is_refused() {
        let bytes = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert!(Reader::new(&bytes, "test").uleb().is_err());
        assert!(Reader::new(&[0x80; 64], "test").uleb().is_err());
    }
}
