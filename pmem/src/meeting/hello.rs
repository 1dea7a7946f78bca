//! What the owner says first.

/// "firnmeet"
const MAGIC: u64 = u64::from_le_bytes(*b"firnmeet");
/// The format of everything that passes between owner and guests.
const FORMAT: u64 = 2;

/// Who the owner is, and of which pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The pool's identity.
    pub uuid: u128,
    /// How often the pool had been opened for writing, this time included.
    pub incarnation: u64,
    /// The owner's process, as its own namespace numbers it.
    pub process: u32,
}

pub(super) const HELLO_BYTES: usize = 48;

impl Hello {
    pub(super) fn encode(&self) -> [u8; HELLO_BYTES] {
        let words = [
            MAGIC,
            FORMAT,
            self.uuid as u64,
            (self.uuid >> 64) as u64,
            self.incarnation,
            self.process.into(),
        ];
        let mut bytes = [0; HELLO_BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Says what was found if it is no hello of this format.
    pub(super) fn decode(bytes: &[u8]) -> Result<Hello, String> {
        let mut words = [0; HELLO_BYTES / 8];
        if bytes.len() != HELLO_BYTES {
            return Err(format!("a greeting of {} bytes", bytes.len()));
        }
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = from.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        }
        let [magic, format, low, high, incarnation, process] = words;
        if magic != MAGIC {
            return Err(format!("a greeting that begins with {magic:#018x}"));
        }
        if format != FORMAT {
            return Err(format!("format {format} of what passes between processes"));
        }
        let uuid = u128::from(high) << 64 | u128::from(low);
        Ok(Hello { uuid, incarnation, process: process as u32 })
    }

    /// What this build understands.
    pub(super) fn expected() -> String {
        format!("format {FORMAT}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_said_and_nothing_else_is() {
        let hello = Hello { uuid: u128::MAX / 3, incarnation: 7, process: 42 };
        let said = hello.encode();
        assert_eq!(Hello::decode(&said), Ok(hello));
        assert!(Hello::decode(&said[1..]).unwrap_err().contains("47 bytes"));
        for (at, says) in [(0, "begins with"), (8, "format 253")] {
            let mut other = said;
            other[at] ^= 0xff;
            assert!(Hello::decode(&other).unwrap_err().contains(says));
        }
    }
}
