//! What a damaged copy may still contain.

use super::{COPY_WORDS, Superblock};

impl Superblock {
    /// The content of a copy with a wrong checksum, if that could be a superblock. For callers that trust nothing of
    /// it, and compare what they find by it.
    pub fn guess(words: &[u64; COPY_WORDS]) -> Option<Superblock> {
        Superblock::decode_content(words).ok()
    }
}
