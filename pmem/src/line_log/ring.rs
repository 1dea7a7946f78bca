//! A thread's ring of words between its appends and the flusher.

use super::Flushed;
use crate::offset::{LINE, Offset, WORD};
use crate::sync::{AtomicU64, Line, Ordering};
use std::ops::Range;

/// Bits of a position. The rest of a ring's word is its epoch: at 10,000 a second, those last for ten years.
const POSITION_BITS: u32 = 22;
const POSITION_MASK: u64 = (1 << POSITION_BITS) - 1;
/// Half of all positions, so that a full ring differs from an empty one.
pub(super) const RING_WORDS_MAX: usize = 1 << (POSITION_BITS - 1);

/// Words of a line.
const LINE_WORDS: u64 = LINE / WORD;

/// A place in a ring, counted on beyond its end; wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position(u64);

impl Position {
    pub(super) fn after(self, words: usize) -> Position {
        Position((self.0 + words as u64) & POSITION_MASK)
    }

    /// Words from here to a later position.
    pub(super) fn words_to(self, later: Position) -> usize {
        (later.0.wrapping_sub(self.0) & POSITION_MASK) as usize
    }
}

/// A ring's word: nothing of an epoch before this one will be published, and the end of what is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Published {
    epoch: u64,
    pub(super) head: Position,
}

impl Published {
    fn of(word: u64) -> Published {
        Published { epoch: word >> POSITION_BITS, head: Position(word & POSITION_MASK) }
    }

    fn word(self) -> u64 {
        self.epoch << POSITION_BITS | self.head.0
    }

    /// Whether nobody has used the ring yet.
    pub(super) fn is_first(self) -> bool {
        self.epoch == 0
    }
}

/// The first word of a group of pieces: its epoch, and the words that follow.
pub(super) fn header(epoch: u64, words: usize) -> u64 {
    epoch << POSITION_BITS | words as u64
}

/// The ring of a thread, which alone appends, and from which the flusher alone takes.
pub(super) struct Ring<'a> {
    words: &'a [AtomicU64],
    published: &'a AtomicU64,
    /// Where the flusher goes on; written by it alone.
    tail: &'a AtomicU64,
}

impl<'a> Ring<'a> {
    pub(super) fn new(words: &'a [AtomicU64], control: &'a Line) -> Ring<'a> {
        Ring { words, published: &control.0[0], tail: &control.0[1] }
    }

    pub(super) fn published(&self) -> Published {
        Published::of(self.published.load(Ordering::Acquire))
    }

    fn word(&self, at: Position) -> &AtomicU64 {
        &self.words[at.0 as usize & (self.words.len() - 1)]
    }

    pub(super) fn set(&self, at: Position, value: u64) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    /// Words that may be written from `head` on. Its acquire load lets the thread write over what was taken.
    pub(super) fn room(&self, head: Position) -> usize {
        self.words.len() - Position(self.tail.load(Ordering::Acquire)).words_to(head)
    }

    /// Copies a piece to the words from `to` on, each line as it was at one moment.
    #[inline(always)]
    pub(super) fn copy(&self, to: Position, piece: Flushed, load: &impl Fn(Offset) -> u64) {
        let mut done = 0;
        while done < piece.words {
            let at = piece.at.word(done);
            let line = done..(done + LINE_WORDS - at.0 / WORD % LINE_WORDS).min(piece.words);
            for word in line.clone() {
                self.set(to.after(word as usize), load(piece.at.word(word)));
            }
            while !self.is_still(to, piece, line.clone(), load) {}
            done = line.end;
        }
    }

    /// Whether words that were copied are as they were then; if not, copies them again.
    #[inline(always)]
    fn is_still(
        &self,
        to: Position,
        piece: Flushed,
        words: Range<u64>,
        load: &impl Fn(Offset) -> u64,
    ) -> bool {
        let mut is_still = true;
        for word in words {
            let (copy, now) = (self.word(to.after(word as usize)), load(piece.at.word(word)));
            if copy.load(Ordering::Relaxed) != now {
                copy.store(now, Ordering::Relaxed);
                is_still = false;
            }
        }
        is_still
    }

    /// Publishes what was written up to `end`; not if the ring was sealed since `before` was read.
    pub(super) fn publish(&self, before: Published, epoch: u64, end: Position) -> bool {
        let after = Published { epoch, head: end };
        self.published
            .compare_exchange(before.word(), after.word(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Lets nothing more be published under `epoch`, which is closed; the end of what is published.
    pub(super) fn seal(&self, epoch: u64) -> Position {
        let mut found = self.published();
        while found.epoch <= epoch {
            let sealed = Published { epoch: epoch + 1, ..found };
            if self.publish(found, sealed.epoch, sealed.head) {
                break;
            }
            found = self.published();
        }
        found.head
    }

    /// Moves the pieces of epochs up to `epoch` that lie before `head` to `taken`.
    pub(super) fn take(&self, epoch: u64, head: Position, taken: &mut impl Extend<u64>) {
        let mut tail = Position(self.tail.load(Ordering::Relaxed));
        while tail != head {
            let header = self.word(tail).load(Ordering::Relaxed);
            if header >> POSITION_BITS > epoch {
                break;
            }
            let words = (header & POSITION_MASK) as usize;
            let word = |index| self.word(tail.after(1 + index)).load(Ordering::Relaxed);
            taken.extend((0..words).map(word));
            tail = tail.after(1 + words);
        }
        self.tail.store(tail.0, Ordering::Release);
    }
}
