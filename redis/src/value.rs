//! What the pool keeps for a key: a header, then the bytes that the client stored.
//!
//! ```text
//!   0        1                       9
//!  | flags  | ends_ms, if flag 0 set | the client's bytes …
//! ```

/// The key has an end.
const HAS_END: u8 = 1;

/// A stored value, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value<'a> {
    /// When it ends, in milliseconds since 1970.
    pub(crate) ends_ms: Option<u64>,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Value<'a> {
    /// Takes stored bytes apart. `None` if this module did not write them: another program did.
    pub(crate) fn read(stored: &'a [u8]) -> Option<Value<'a>> {
        match stored.split_first()? {
            (0, bytes) => Some(Value { ends_ms: None, bytes }),
            (&HAS_END, rest) => {
                let (ends_ms, bytes) = rest.split_first_chunk::<8>()?;
                Some(Value { ends_ms: Some(u64::from_le_bytes(*ends_ms)), bytes })
            }
            _ => None,
        }
    }

    /// Puts the stored form in `buffer`, in place of what that holds.
    pub(crate) fn write(self, buffer: &mut Vec<u8>) {
        buffer.clear();
        match self.ends_ms {
            None => buffer.push(0),
            Some(ends_ms) => {
                buffer.push(HAS_END);
                buffer.extend_from_slice(&ends_ms.to_le_bytes());
            }
        }
        buffer.extend_from_slice(self.bytes);
    }

    pub(crate) fn has_ended(&self, now_ms: u64) -> bool {
        self.ends_ms.is_some_and(|ends_ms| ends_ms <= now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_as_written() {
        let mut buffer = vec![7; 100];
        for ends_ms in [None, Some(0), Some(1 << 40), Some(u64::MAX)] {
            for bytes in [&b""[..], b"\0", b"some bytes"] {
                let value = Value { ends_ms, bytes };
                value.write(&mut buffer);
                assert_eq!(Value::read(&buffer), Some(value));
            }
        }
    }

    #[test]
    fn foreign_bytes_are_no_value() {
        for stored in [&b""[..], b"\x02", b"\x01", b"\x01\0\0\0\0\0\0\0"] {
            assert_eq!(Value::read(stored), None);
        }
    }
}
