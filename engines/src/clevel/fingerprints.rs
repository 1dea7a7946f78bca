//! Fingerprints in the sidecar: they tell which slots may lead to a key, without reading its buckets.
//!
//! A word for each bucket, a byte for each slot: a part of the tag. The thread that claims the slot writes it before
//! the operation that fills the slot is in force. It stays until the slot is claimed again. So the byte of a slot that
//! leads to an item, or has just lost one, is its key's. The byte of any other slot may be anything. A late writer does
//! no harm: its claim is its own until its operation is in force, unless a drainer makes the slot FROZEN, and then it
//! stays so while the writer is pinned.

use super::layout::{Bucket, Level, SLOTS, load};
use index::fingerprint::match_two_words;
use pmem::sync::{Array, AtomicU64, Ordering};
use pmem::{LINE, Medium, Offset, WORD};
use std::io;

/// Fingerprints of all buckets, by the line of the pool in which a bucket is.
#[derive(Debug)]
pub(super) struct Fingerprints(Array<AtomicU64>);

/// The byte for a key of this tag.
#[inline(always)]
pub(super) fn fingerprint_of(tag: u64) -> u8 {
    tag as u8
}

impl Fingerprints {
    /// Memory for levels with this many bytes.
    pub(super) fn bytes(level_bytes: u64) -> u64 {
        level_bytes / LINE * WORD
    }

    /// For a pool of `bytes` bytes that may grow to `limit` bytes.
    pub(super) fn reserve(bytes: u64, limit: u64) -> io::Result<Fingerprints> {
        let lines = |bytes: u64| bytes.div_ceil(LINE) as usize;
        Array::reserve(lines(limit), lines(bytes)).map(Fingerprints)
    }

    /// Whether there is room for a level's.
    pub(super) fn can_hold(&self, level: Level) -> bool {
        level.end().0 / LINE <= self.0.len() as u64
    }

    /// Says that a level is about to be used; touches its memory if `populate`.
    pub(super) fn advise(&self, level: Level, populate: bool) {
        let lines = [level.base(), level.end()].map(|at| Bucket::of(at).0 as usize);
        self.0.advise(lines[0]..lines[1], populate);
    }

    #[inline(always)]
    fn word(&self, bucket: Bucket) -> &AtomicU64 {
        self.0.get(bucket.0 as usize)
    }

    /// Hints that those of a bucket are about to be read.
    #[inline(always)]
    pub(super) fn prefetch(&self, bucket: Bucket) {
        self.0.prefetch(bucket.0 as usize);
    }

    /// A bit for each slot of the two candidates in each of these levels that may lead to a key of this
    /// fingerprint: read in this order, before anything that is read afterwards. Twice for each slot if
    /// the two are one, which costs nothing but a second look.
    ///
    /// Without a branch for each slot: where a key is cannot be predicted, and what waits for a
    /// wrong guess does not fetch the item.
    #[inline(always)]
    pub(super) fn matching<const LEVELS: usize>(
        &self,
        candidates: [[Bucket; 2]; LEVELS],
        fingerprint: u8,
    ) -> u32 {
        let words =
            candidates.map(|pair| pair.map(|bucket| self.word(bucket).load(Ordering::Acquire)));
        let mut matching = 0;
        for (level, words) in words.into_iter().enumerate() {
            matching |= match_two_words(words, fingerprint) << (2 * SLOTS * level);
        }
        matching
    }

    /// Says that a slot may lead to a key of this tag. The caller has claimed it, and nobody else
    /// writes its byte meanwhile.
    pub(super) fn set(&self, slot: Offset, tag: u64) {
        let word = self.word(Bucket::of(slot));
        let shift = slot.0 % LINE / WORD * u64::from(u8::BITS);
        let before = word.load(Ordering::Relaxed) >> shift & u64::from(u8::MAX);
        let after = u64::from(fingerprint_of(tag));
        if before != after {
            // Exact, since nobody else changes this byte: no other one is touched. A search that reads
            // it here in place of the fingerprint of an item that was moved from here finds that one
            // where the item is now: written before, and read after this one (`kernels/tests/clevel/shifts.rs`).
            word.fetch_add(after.wrapping_sub(before) << shift, Ordering::Release);
        }
    }

    /// Whether the byte of a slot is that of this tag.
    pub(super) fn is_set(&self, slot: Offset, tag: u64) -> bool {
        let shift = slot.0 % LINE / WORD * u64::from(u8::BITS);
        (self.word(Bucket::of(slot)).load(Ordering::Acquire) >> shift) as u8 == fingerprint_of(tag)
    }

    /// Writes those of a bucket at rest.
    pub(super) fn rebuild<M: Medium>(&self, medium: &M, bucket: Bucket) {
        let bytes = bucket.slots().map(|slot| match load(medium, slot) {
            word if word.is_item() => fingerprint_of(word.tag()),
            _ => 0,
        });
        let word =
            bytes.zip(0..).fold(0, |word, (byte, slot)| word | u64::from(byte) << (8 * slot));
        if word != 0 {
            self.word(bucket).store(word, Ordering::Relaxed);
        }
    }
}
