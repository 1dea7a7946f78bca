//! Keys and values on their way into another store.

/// Pairs stored in one call: enough for the new pool to overlap its cache misses.
const BATCH_PAIRS: usize = 1024;
/// Most bytes of keys and values that are collected before they are stored, except for a single larger pair.
const BATCH_BYTES: usize = 1 << 20;

/// Keys and values in a row.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// Lengths of each key and its value.
    lengths: Vec<(usize, usize)>,
}

impl Batch {
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.lengths.push((key.len(), value.len()));
    }

    pub(crate) fn is_full(&self) -> bool {
        self.lengths.len() >= BATCH_PAIRS || self.bytes.len() >= BATCH_BYTES
    }

    pub(crate) fn pairs(&self) -> Vec<(&[u8], &[u8])> {
        let mut rest = &self.bytes[..];
        let pairs = self.lengths.iter().map(|&(key_bytes, value_bytes)| {
            let (pair, behind) = rest.split_at(key_bytes + value_bytes);
            rest = behind;
            pair.split_at(key_bytes)
        });
        pairs.collect()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.lengths.clear();
    }
}
