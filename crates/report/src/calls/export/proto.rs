//! The wire format of protocol buffers, as far as profiles need it.
//!
//! Source: <https://protobuf.dev/programming-guides/encoding/>.

/// A message that is being written.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A number; 0 is what stands for none.
    pub(super) fn number(&mut self, field: u32, value: u64) -> &mut Message {
        if value != 0 {
            self.varint(u64::from(field) << 3);
            self.varint(value);
        }
        self
    }

    /// Bytes, or text.
    pub(super) fn text(&mut self, field: u32, bytes: &[u8]) -> &mut Message {
        const LENGTH_FIRST: u64 = 2;
        self.varint(u64::from(field) << 3 | LENGTH_FIRST);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// A message inside.
    pub(super) fn message(&mut self, field: u32, inner: &Message) -> &mut Message {
        self.text(field, &inner.0)
    }

    /// Several numbers at once.
    pub(super) fn packed(&mut self, field: u32, values: impl Iterator<Item = u64>) -> &mut Message {
        let mut inner = Message::default();
        values.for_each(|value| inner.varint(value));
        self.text(field, &inner.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_the_specification_has_them() {
        // The examples of the specification: 150 in field 1, "testing" in field 2, packed 3, 270 and
        // 86942 in field 6.
        let mut message = Message::default();
        message.number(1, 150).number(9, 0).text(2, b"testing");
        assert_eq!(message.bytes(), b"\x08\x96\x01\x12\x07testing");
        let mut message = Message::default();
        message.packed(6, [3, 270, 86942].into_iter());
        assert_eq!(message.bytes(), [0x32, 6, 3, 0x8e, 2, 0x9e, 0xa7, 5]);
        let mut outer = Message::default();
        outer.message(3, &message);
        assert_eq!(outer.bytes().get(..2), Some(&[0x1a, 8][..]));
    }
}
