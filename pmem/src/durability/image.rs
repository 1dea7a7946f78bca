//! What log and checkpoints ask of their pool.

use std::io;

/// The pool of which checkpoints are made.
pub trait Image: Send + Sync {
    /// Bytes, a multiple of a word.
    fn bytes(&self) -> u64;
    /// Bytes that it may have before its memory has to grow.
    fn bytes_at_hand(&self) -> u64 {
        self.bytes()
    }
    /// Copies words from offset `at` on, each as it is at some moment.
    fn copy(&self, at: u64, words: &mut [u64]);
    /// The word at this offset.
    fn load(&self, at: u64) -> u64 {
        let mut word = [0];
        self.copy(at, &mut word);
        word[0]
    }
    /// Whether the line at this offset has no space: it reads as zeros, and nothing in it counts.
    fn is_given_back(&self, _at: u64) -> bool {
        false
    }
    /// Returns when every mutation has ended that is in flight now.
    fn wait_for_operations(&self);
    /// Records in the pool, down to the device, which checkpoint there is and which one may be there soon, by the
    /// generations of their logs.
    fn name_checkpoints(&self, current: Option<u128>, next: Option<u128>) -> io::Result<()>;
    /// Whether a part of it has vanished. What was copied or appended before the call is right if not.
    fn has_failed(&self) -> bool {
        false
    }
}
