//! A thread's ring of words, between its appends and the flusher.

use super::{Flushed, PIECE_HEADER_WORDS, cut};
use crate::offset::{LINE, Offset, WORD};
use crate::sync::{AtomicU64, Line, Ordering, spin};

/// Bits of a position.
const POSITION_BITS: u32 = 22;
const POSITION_MASK: u64 = (1 << POSITION_BITS) - 1;
/// Half of all positions, so that a full ring differs from an empty one.
pub(super) const RING_WORDS_MAX: usize = 1 << (POSITION_BITS - 1);

/// In a ring's word: its thread is appending.
const APPENDING: u64 = 1;
/// Where a ring's word has the position. Above it is the epoch: at 10,000 a second, its bits last for seven years.
const HEAD_SHIFT: u32 = 1;
const EPOCH_SHIFT: u32 = HEAD_SHIFT + POSITION_BITS;

/// Words of a line.
const LINE_WORDS: u64 = LINE / WORD;

/// A place in a ring, counted on beyond its end; wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position(u64);

impl Position {
    pub(super) fn after(self, words: usize) -> Position {
        Position((self.0 + words as u64) & POSITION_MASK)
    }

    /// The word at this place in a ring with this many words.
    pub(super) fn index(self, ring_words: usize) -> usize {
        self.0 as usize & (ring_words - 1)
    }

    /// Words from here to a later position.
    pub(super) fn words_to(self, later: Position) -> usize {
        (later.0.wrapping_sub(self.0) & POSITION_MASK) as usize
    }
}

/// A ring's word: the end of what is published, the epoch of the last piece before it, and whether more is on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Published(u64);

impl Published {
    pub(super) fn new(epoch: u64, head: Position) -> Published {
        Published(epoch << EPOCH_SHIFT | head.0 << HEAD_SHIFT)
    }

    pub(super) fn of(word: u64) -> Published {
        Published(word)
    }

    pub(super) fn word(self) -> u64 {
        self.0
    }

    /// The word that also says that more is on its way.
    pub(super) fn announced(self) -> u64 {
        self.0 | APPENDING
    }

    pub(super) fn head(self) -> Position {
        Position(self.0 >> HEAD_SHIFT & POSITION_MASK)
    }

    fn epoch(self) -> u64 {
        self.0 >> EPOCH_SHIFT
    }

    fn is_appending(self) -> bool {
        self.0 & APPENDING != 0
    }
}

/// Whether copies of the words from `at` on are as these are now; if not, copies them again.
#[inline(always)]
pub(super) fn is_still<'a>(
    copies: impl IntoIterator<Item = &'a AtomicU64>,
    at: Offset,
    load: &impl Fn(Offset) -> u64,
) -> bool {
    let mut is_still = true;
    for (word, copy) in (0..).zip(copies) {
        let now = load(at.word(word));
        if copy.load(Ordering::Relaxed) != now {
            copy.store(now, Ordering::Relaxed);
            is_still = false;
        }
    }
    is_still
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
        Published(self.published.load(Ordering::Acquire))
    }

    fn word(&self, at: Position) -> &AtomicU64 {
        &self.words[at.index(self.words.len())]
    }

    /// Words that may be written from `head` on. Its acquire load lets the thread write over what was taken.
    pub(super) fn room(&self, head: Position) -> usize {
        self.words.len() - Position(self.tail.load(Ordering::Acquire)).words_to(head)
    }

    /// Writes what comes before a piece's content.
    #[inline(always)]
    pub(super) fn begin_piece(&self, at: Position, sequence: u64, place: u64) {
        self.word(at).store(sequence, Ordering::Relaxed);
        self.word(at.after(1)).store(place, Ordering::Relaxed);
    }

    /// Copies a piece to the words from `to` on, each line as it was at one moment.
    #[inline(always)]
    pub(super) fn copy(&self, to: Position, piece: Flushed, load: &impl Fn(Offset) -> u64) {
        let mut done = 0;
        while done < piece.words {
            let at = piece.at.word(done);
            let line = done..(done + LINE_WORDS - at.0 / WORD % LINE_WORDS).min(piece.words);
            for word in line.clone() {
                let value = load(piece.at.word(word));
                self.word(to.after(word as usize)).store(value, Ordering::Relaxed);
            }
            let copies = || line.clone().map(|word| self.word(to.after(word as usize)));
            while !is_still(copies(), at, load) {}
            done = line.end;
        }
    }

    /// Says that more is on its way. A light barrier has to follow, and then the look at the open epoch.
    #[inline(always)]
    pub(super) fn announce(&self, before: Published) {
        self.published.store(before.announced(), Ordering::Relaxed);
    }

    /// Says that no more is on its way after all.
    pub(super) fn withdraw(&self, before: Published) {
        self.published.store(before.0, Ordering::Release);
    }

    /// Publishes what was written up to `end`, of an epoch.
    #[inline(always)]
    pub(super) fn publish(&self, epoch: u64, end: Position) {
        self.published.store(Published::new(epoch, end).word(), Ordering::Release);
    }

    /// Waits for what is on its way. What the thread announces afterwards is of a later epoch than the one that the
    /// caller has closed.
    fn settled(&self) -> Published {
        let seen = self.published();
        let (mut now, mut turn) = (seen, 0);
        while now.is_appending() && now.0 == seen.0 {
            spin(&mut turn);
            now = self.published();
        }
        now
    }

    /// Moves the pieces of `epoch`, which was closed before a heavy barrier, to `taken`.
    pub(super) fn take(&self, epoch: u64, taken: &mut impl Extend<u64>) {
        let published = self.settled();
        let tail = Position(self.tail.load(Ordering::Relaxed));
        let head = published.head();
        let end = if published.epoch() <= epoch { head } else { self.end_of(epoch, tail, head) };
        let (from, words) = (tail.index(self.words.len()), tail.words_to(end));
        let before_end = words.min(self.words.len() - from);
        for run in [&self.words[from..from + before_end], &self.words[..words - before_end]] {
            taken.extend(run.iter().map(|word| word.load(Ordering::Relaxed)));
        }
        self.tail.store(end.0, Ordering::Release);
    }

    /// Where the pieces of `epoch` end, between `tail` and `head`: what follows is of the next one.
    fn end_of(&self, epoch: u64, tail: Position, head: Position) -> Position {
        let mut end = tail;
        while end != head {
            let place = self.word(end.after(1)).load(Ordering::Relaxed);
            if !cut::is_of(place, epoch) {
                break;
            }
            end = end.after(PIECE_HEADER_WORDS + cut::extent(place).words as usize);
        }
        end
    }
}
