// SPDX-License-Identifier: GPL-2.0-only
//! As much of protocol buffers' encoding as a trace needs: a message is a row of fields, each a
//! number and a value, and a field that holds a message holds its bytes. Two kinds of value: a
//! variable-length integer (kind 0) and bytes with their length before them (kind 2). Example:
//! field 1 with the value 150 is `08 96 01`.

/// A message being put together.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// A whole number that is not negative.
    pub(super) fn add_number(mut self, field: u32, value: u64) -> Message {
        self.write_key(field, 0);
        self.write_varint(value);
        self
    }

    /// Adds a field of text.
    pub(super) fn add_text(self, field: u32, value: &str) -> Message {
        self.add_bytes(field, value.as_bytes())
    }

    /// Adds a field that is a message.
    pub(super) fn add_message(self, field: u32, value: Message) -> Message {
        self.add_bytes(field, &value.0)
    }

    /// A number with a fraction (kind 1: eight bytes).
    pub(super) fn add_double(mut self, field: u32, value: f64) -> Message {
        self.write_key(field, 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Bytes of the message so far.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn add_bytes(mut self, field: u32, value: &[u8]) -> Message {
        self.write_key(field, 2);
        self.write_varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    fn write_key(&mut self, field: u32, kind: u64) {
        self.write_varint((u64::from(field) << 3) | kind);
    }

    fn write_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_encoded_as_documented() {
        // The examples of protobuf.dev's description of the encoding.
        assert_eq!(
            Message::default().add_number(1, 150).into_bytes(),
            [0x08, 0x96, 0x01]
        );
        assert_eq!(
            Message::default().add_text(2, "testing").into_bytes(),
            b"\x12\x07testing"
        );
        let inner = Message::default().add_number(1, 150);
        assert_eq!(
            Message::default().add_message(3, inner).into_bytes(),
            [0x1a, 0x03, 0x08, 0x96, 0x01]
        );
        assert_eq!(
            Message::default().add_double(1, 1.0).into_bytes(),
            [9, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]
        );
        assert_eq!(
            Message::default().add_number(16, u64::MAX).into_bytes()[..3],
            [0x80, 0x01, 0xff]
        );
    }
}
