//! Bytes that others may be storing meanwhile, read word by word.

use super::Memory;
use crate::medium::Medium;
use crate::offset::{Offset, WORD};
use std::sync::atomic::{AtomicU64, Ordering};

#[inline(always)]
fn relaxed(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

impl Memory {
    /// The words that `len` bytes from `at` on lie in, if these are aligned and in the pool.
    #[inline(always)]
    fn words(&self, at: Offset, len: u64) -> Option<&[AtomicU64]> {
        if at.0.checked_add(len)? > self.size() || at.0 & (WORD - 1) != 0 {
            return None;
        }
        let count = len.div_ceil(WORD) as usize;
        // SAFETY: aligned, and in the mapped part of the reservation, which ends with a page; as in `atomic` otherwise.
        Some(unsafe { std::slice::from_raw_parts(self.at(at).cast(), count) })
    }

    #[inline(always)]
    pub(super) fn has_racing_bytes(&self, at: Offset, bytes: &[u8]) -> bool {
        let Some(found) = self.words(at, bytes.len() as u64) else { return false };
        let (words, rest) = bytes.as_chunks::<{ WORD as usize }>();
        let whole = words.len();
        words.iter().zip(found).all(|(bytes, word)| u64::from_ne_bytes(*bytes) == relaxed(word))
            && (rest.is_empty() || relaxed(&found[whole]).to_ne_bytes().starts_with(rest))
    }

    #[inline(always)]
    pub(super) fn copy_racing_bytes(&self, at: Offset, len: u64) -> Option<Box<[u8]>> {
        let found = self.words(at, len)?;
        let mut copy = Box::<[u8]>::new_uninit_slice(len as usize);
        let (words, rest) = copy.as_chunks_mut::<{ WORD as usize }>();
        let whole = words.len();
        for (bytes, word) in words.iter_mut().zip(found) {
            bytes.write_copy_of_slice(&relaxed(word).to_ne_bytes());
        }
        if !rest.is_empty() {
            let bytes = rest.len();
            rest.write_copy_of_slice(&relaxed(&found[whole]).to_ne_bytes()[..bytes]);
        }
        // SAFETY: every byte has been written.
        Some(unsafe { copy.assume_init() })
    }
}
