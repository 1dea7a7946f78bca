//! Pairs of words that are changed under a lock: records whose numbers are drawn early, in few instructions.

use super::cut;
use super::ring::{self, Published, Ring};
use super::{
    DOZING, Flushed, LIMIT_WORD, LineLog, ON, PIECE_HEADER_WORDS, PREFETCH_WORDS, STAGED_WORD,
    STRIPE_BYTES,
};
use crate::offset::Offset;
use crate::sync::{AtomicU64, Ordering, fence, light_barrier, thread_index};

/// Words of a pair in a ring.
const PAIR_WORDS: usize = PIECE_HEADER_WORDS + 2;

/// A number that orders the flushes of one stripe; see [`LineLog::sequence`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence {
    stripe: u64,
    number: u64,
}

impl Sequence {
    /// None yet: it is drawn at the fence.
    pub const NONE: Sequence = Sequence { stripe: u64::MAX, number: 0 };
}

impl LineLog {
    /// A number for the pair that the calling thread is about to change in the stripe at `at`, and to flush by
    /// [`LineLog::note_pair`]. Until its fence nobody else may change that pair: the thread holds a lock. Others make
    /// it durable by [`LineLog::append_observed`].
    #[inline(always)]
    pub fn sequence(&self, at: Offset) -> Sequence {
        let stripe = at.0 / STRIPE_BYTES;
        Sequence { stripe, number: self.draw(stripe) }
    }

    /// As [`LineLog::note`], of the two words at `at`, aligned to 16; `sequence` was drawn for them, or is none.
    #[inline(always)]
    pub fn note_pair(&self, at: Offset, sequence: Sequence, load: impl Fn(Offset) -> u64) {
        if !self.stage(at, sequence, &load) {
            self.note(at, 2, load);
        }
    }

    /// [`LineLog::note_pair`] and then [`LineLog::fence`], in as few instructions as possible. A processor overlaps the
    /// misses of operations that fit its reorder window together, and this is a part of most of them.
    #[inline(always)]
    pub fn append_pair(&self, at: Offset, sequence: Sequence, load: impl Fn(Offset) -> [u64; 2]) {
        if !self.append_quickly(at, sequence, &load) {
            self.append_pair_slowly(at, sequence, |word| load(at)[usize::from(word != at)]);
        }
    }

    #[cold]
    #[inline(never)]
    fn append_pair_slowly(&self, at: Offset, sequence: Sequence, load: impl Fn(Offset) -> u64) {
        self.note_pair(at, sequence, &load);
        self.fence(load);
    }

    /// Appends the pair if nothing is in the way; else nothing has happened.
    #[inline(always)]
    fn append_quickly(
        &self,
        at: Offset,
        sequence: Sequence,
        load: &impl Fn(Offset) -> [u64; 2],
    ) -> bool {
        let thread = thread_index();
        let control = &self.controls.line(thread).0;
        let published = &control[0];
        let before = Published::of(published.load(Ordering::Relaxed));
        let first = before.head().index(self.ring_words);
        // Behind what is staged.
        let limit = control[LIMIT_WORD].load(Ordering::Relaxed) as usize;
        let is_usual = first + PAIR_WORDS <= limit
            && control[STAGED_WORD].load(Ordering::Relaxed) == 0
            && at.0 / STRIPE_BYTES == sequence.stripe;
        if !is_usual {
            return false;
        }
        published.store(before.announced(), Ordering::Relaxed);
        light_barrier();
        let epoch = self.epoch.load(Ordering::Acquire);
        let is_last = self.is_last(sequence);
        let state = self.state.load(Ordering::Relaxed);
        let place = cut::marked(cut::place(Flushed { at, words: 2 }), epoch);
        let [low, high] = load(at);
        let words = self.ring_words_from(thread, first, PAIR_WORDS);
        for (word, value) in words.iter().zip([sequence.number, place, low, high]) {
            word.store(value, Ordering::Relaxed);
        }
        if !(is_last && state == ON && self.epoch.load(Ordering::Acquire) == epoch) {
            published.store(before.word(), Ordering::Release);
            return false;
        }
        let after = Published::new(epoch, before.head().after(PAIR_WORDS));
        published.store(after.word(), Ordering::Release);
        self.rings.prefetch_write(thread * self.ring_words + first + PREFETCH_WORDS);
        // As in `append_pieces`.
        fence(Ordering::Release);
        true
    }

    /// Whether no other number of its stripe was drawn since.
    #[inline(always)]
    fn is_last(&self, sequence: Sequence) -> bool {
        let last = self.counter(sequence.stripe).load(Ordering::Relaxed);
        last == sequence.number.wrapping_add(1)
    }

    /// Copies a pair into the thread's ring, to be published at its fence; whether that could be done.
    #[inline(always)]
    fn stage(&self, at: Offset, sequence: Sequence, load: &impl Fn(Offset) -> u64) -> bool {
        let thread = thread_index();
        let control = &self.controls.line(thread).0;
        let head = Published::of(control[0].load(Ordering::Relaxed)).head();
        let staged = control[STAGED_WORD].load(Ordering::Relaxed) as usize;
        let first = head.index(self.ring_words) + staged;
        let limit = control[LIMIT_WORD].load(Ordering::Relaxed) as usize;
        if first + PAIR_WORDS > limit || at.0 / STRIPE_BYTES != sequence.stripe {
            return false;
        }
        let words = self.ring_words_from(thread, first, PAIR_WORDS);
        // Word by word: a load of both would wait until a store of one of them has left the store buffer.
        let values =
            [sequence.number, cut::place(Flushed { at, words: 2 }), load(at), load(at.word(1))];
        for (word, value) in words.iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
        control[STAGED_WORD].store((staged + PAIR_WORDS) as u64, Ordering::Relaxed);
        true
    }

    /// Publishes what is staged.
    #[inline(never)]
    pub(super) fn publish_staged(&self, thread: usize, load: &impl Fn(Offset) -> u64) {
        let ring = self.ring(thread);
        let before = ring.published();
        let staged = &self.controls.line(thread).0[STAGED_WORD];
        let count = staged.load(Ordering::Relaxed) as usize;
        let first = before.head().index(self.ring_words);
        let words = self.ring_words_from(thread, first, count);
        let end = before.head().after(count);
        let state = loop {
            ring.announce(before);
            light_barrier();
            let (state, epoch) =
                (self.state.load(Ordering::Relaxed), self.epoch.load(Ordering::Acquire));
            for pair in words.chunks_exact(PAIR_WORDS) {
                self.finish_pair(pair, epoch, load);
            }
            if state & ON == 0 {
                ring.withdraw(before);
                break state;
            }
            if self.epoch.load(Ordering::Acquire) == epoch {
                ring.publish(epoch, end);
                break state;
            }
            ring.withdraw(before);
        };
        staged.store(0, Ordering::Relaxed);
        self.rings.prefetch_write(thread * self.ring_words + first + count + PREFETCH_WORDS);
        if state & DOZING != 0 {
            self.wake();
        }
        // As in `append_pieces`.
        fence(Ordering::Release);
    }

    /// Makes a staged pair one of an epoch. If another number of its stripe was drawn since its own, it gets a new one.
    #[inline(always)]
    fn finish_pair(&self, pair: &[AtomicU64], epoch: u64, load: &impl Fn(Offset) -> u64) {
        let place = pair[1].load(Ordering::Relaxed);
        let piece = cut::extent(place);
        let stripe = piece.at.0 / STRIPE_BYTES;
        if !self.is_last(Sequence { stripe, number: pair[0].load(Ordering::Relaxed) }) {
            pair[0].store(self.draw(stripe), Ordering::Relaxed);
            // Whoever left it behind unfenced, if anybody did, is alone with it no longer.
            while !ring::is_still(&pair[PIECE_HEADER_WORDS..], piece.at, load) {}
        }
        pair[1].store(cut::marked(cut::place(piece), epoch), Ordering::Relaxed);
    }

    /// Lets the thread stage pairs as long as it stays in the row of words that it is in, and fills no more than a
    /// quarter of its ring.
    pub(super) fn allow_staging(&self, thread: usize, ring: &Ring<'_>) {
        let head = ring.published().head();
        let room = ring.room(head).saturating_sub(self.ring_words / 4 * 3);
        // Not up to the end: behind that the row is another one.
        let limit = (head.index(self.ring_words) + room).min(self.ring_words - 1);
        self.controls.line(thread).0[LIMIT_WORD].store(limit as u64, Ordering::Relaxed);
    }

    #[inline(always)]
    fn ring_words_from(&self, thread: usize, first: usize, count: usize) -> &[AtomicU64] {
        let first = thread * self.ring_words + first;
        &self.rings.as_slice()[first..first + count]
    }
}
