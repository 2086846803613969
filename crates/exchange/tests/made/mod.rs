//! Messages of protocol buffers, made field by field.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::io::Write as _;

/// A message that is being made.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// A number.
    pub fn number(&mut self, field: u32, value: u64) -> &mut Message {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    /// Bytes.
    pub fn part(&mut self, field: u32, bytes: &[u8]) -> &mut Message {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Text.
    pub fn text(&mut self, field: u32, text: &str) -> &mut Message {
        self.part(field, text.as_bytes())
    }

    /// A message inside.
    pub fn message(&mut self, field: u32, inner: &Message) -> &mut Message {
        self.part(field, &inner.bytes)
    }

    /// Several numbers at once.
    pub fn packed(&mut self, field: u32, values: impl Iterator<Item = u64>) -> &mut Message {
        let mut inner = Message::default();
        values.for_each(|value| inner.varint(value));
        self.part(field, &inner.bytes)
    }
}

/// Compressed.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}
