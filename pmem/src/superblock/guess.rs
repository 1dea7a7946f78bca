//! What a damaged copy may still say.

use super::{COPY_WORDS, Superblock};

impl Superblock {
    /// What a copy says whose checksum does not fit its content, if that could be a superblock: for those who trust
    /// nothing of it, and compare what they find by it.
    pub fn guess(words: &[u64; COPY_WORDS]) -> Option<Superblock> {
        Superblock::decode_content(words).ok()
    }
}
