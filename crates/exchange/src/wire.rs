//! Which fields has a message? Protocol buffers one field at a time, straight from the bytes: a
//! message in memory as a whole can take many times its bytes, and an array of small ones more.
//!
//! Source: <https://protobuf.dev/programming-guides/encoding/>.

use crate::Error;
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use std::path::PathBuf;

/// The bytes of a file, unpacked, and what is told of it where something is wrong.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) format: &'static str,
    pub(crate) packed: bool,
    pub(crate) bytes: Vec<u8>,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field<'b> {
    /// A number of any width.
    Number(u64),
    /// Text, bytes, a message or packed numbers.
    Bytes(&'b [u8]),
}

impl Source {
    /// An error at the place where `rest` begins.
    pub(crate) fn malformed(&self, rest: &[u8], problem: impl Into<String>) -> Error {
        let (begin, here) = (self.bytes.as_ptr() as usize, rest.as_ptr() as usize);
        Error::Malformed {
            path: self.path.clone(),
            format: self.format,
            offset: here.checked_sub(begin).filter(|at| *at <= self.bytes.len()).unwrap_or(0),
            packed: self.packed,
            problem: problem.into(),
        }
    }

    /// An error of a table that is too long.
    pub(crate) fn too_many(&self, what: &'static str, most: usize) -> Error {
        Error::TooMany { path: self.path.clone(), what, most }
    }

    /// Shows each field of a message, which is a part of the source.
    pub(crate) fn fields<'b>(
        &self,
        message: &'b [u8],
        mut take: impl FnMut(u32, Field<'b>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut rest = message;
        while !rest.is_empty() {
            let here = rest;
            let wrong = |error: prost::DecodeError| {
                self.malformed(here, format!("no field of a message ({error}); is it cut off?"))
            };
            let (number, kind) = decode_key(&mut rest).map_err(wrong)?;
            let cut = |bytes: u64| {
                let left = rest.len();
                self.malformed(here, format!("a field of {bytes} bytes where {left} are left"))
            };
            let value = match kind {
                WireType::Varint => Field::Number(decode_varint(&mut rest).map_err(wrong)?),
                WireType::SixtyFourBit => {
                    let (own, more) = rest.split_first_chunk().ok_or_else(|| cut(8))?;
                    rest = more;
                    Field::Number(u64::from_le_bytes(*own))
                }
                WireType::ThirtyTwoBit => {
                    let (own, more) = rest.split_first_chunk().ok_or_else(|| cut(4))?;
                    rest = more;
                    Field::Number(u64::from(u32::from_le_bytes(*own)))
                }
                WireType::LengthDelimited => {
                    let length = decode_varint(&mut rest).map_err(wrong)?;
                    let own = usize::try_from(length).ok().and_then(|n| rest.split_at_checked(n));
                    let cut = || {
                        let left = rest.len();
                        let told = format!("a field of {length} bytes where {left} are left");
                        self.malformed(here, told)
                    };
                    let (own, more) = own.ok_or_else(cut)?;
                    rest = more;
                    Field::Bytes(own)
                }
                WireType::StartGroup | WireType::EndGroup => {
                    skip_field(kind, number, &mut rest, DecodeContext::default()).map_err(wrong)?;
                    continue;
                }
            };
            take(number, value)?;
        }
        Ok(())
    }

    /// Shows the numbers of a repeated field, packed or not; `fixed` are those of eight bytes.
    pub(crate) fn numbers(
        &self,
        value: Field<'_>,
        fixed: bool,
        mut take: impl FnMut(u64),
    ) -> Result<(), Error> {
        let mut rest = match value {
            Field::Number(number) => {
                take(number);
                return Ok(());
            }
            Field::Bytes(bytes) => bytes,
        };
        while !rest.is_empty() {
            let here = rest;
            if fixed {
                let problem = "a number of 8 bytes that is cut off";
                let (own, more) =
                    rest.split_first_chunk().ok_or_else(|| self.malformed(here, problem))?;
                take(u64::from_le_bytes(*own));
                rest = more;
            } else {
                let number = decode_varint(&mut rest)
                    .map_err(|error| self.malformed(here, format!("no number ({error})")))?;
                take(number);
            }
        }
        Ok(())
    }

    /// A small message as a whole: one of a fixed number of numbers.
    pub(crate) fn small<M: Message + Default>(&self, bytes: &[u8]) -> Result<M, Error> {
        M::decode(bytes).map_err(|error| self.malformed(bytes, error.to_string()))
    }
}
