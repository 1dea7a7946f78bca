//! A bucket of the cached table.
//!
//! ```text
//! word 0:  | epoch | version | busy | used | LOCK |
//! word 1:  | fingerprint per slot | referenced |
//! then:    | entry | entry | …      entry = key, value, in whole words
//! ```
//!
//! The lock holder changes the bucket. Whenever readers may miss something, there is a new version. It is stored after
//! the new content is visible, and before the old content is hidden.

use crate::kit::buckets::{LOCK, Locked};
use index::{Fixed, is_same};
use pmem::sync::{AtomicU64, Ordering, fence};
use std::marker::PhantomData;

/// Words of a bucket: two lines.
pub(super) const WORDS: usize = 16;
/// Words of a bucket before its entries.
const HEAD_WORDS: usize = 2;
/// Most entries of a bucket.
const SLOTS_MAX: usize = 7;

const HEAD: usize = 0;
const MARKS: usize = 1;

const SLOTS_MASK: u64 = (1 << SLOTS_MAX) - 1;
const USED_SHIFT: u32 = 1;
const BUSY_SHIFT: u32 = 8;
const VERSION: u64 = 1 << 15;
const EPOCH_SHIFT: u32 = 48;
const VERSION_MASK: u64 = (1 << EPOCH_SHIFT) - VERSION;
/// The last epoch that a bucket can be of.
pub(super) const EPOCH_MAX: u64 = u64::MAX >> EPOCH_SHIFT;

/// A one in the byte of each slot's fingerprint.
const EACH_PRINT: u64 = 0x0101_0101_0101_0100;

/// A bucket's words and what they mean for pairs of these types.
pub(super) struct Bucket<'a, K, V> {
    words: &'a [AtomicU64; WORDS],
    pair: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for Bucket<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Bucket<'_, K, V> {}

/// What a reader has seen of a bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    head: u64,
    marks: u64,
}

const fn words_of(bytes: usize) -> usize {
    bytes.div_ceil(8)
}

/// The slots of a set of bits, lowest first.
pub(super) fn slots_in(bits: u64) -> impl Iterator<Item = usize> {
    crate::kit::hash::slots_in(bits)
}

impl Seen {
    #[inline(always)]
    pub(super) fn epoch(self) -> u64 {
        self.head >> EPOCH_SHIFT
    }

    /// The slots whose fingerprint is this one, as the bytes of a word; perhaps some others.
    #[inline(always)]
    fn matches(self, print: u8) -> u64 {
        let others = self.marks ^ (u64::from(print) * EACH_PRINT);
        others.wrapping_sub(EACH_PRINT) & !others & EACH_PRINT << 7
    }

    pub(super) fn used(self) -> u64 {
        self.head >> USED_SHIFT & SLOTS_MASK
    }

    pub(super) fn busy(self) -> u64 {
        self.head >> BUSY_SHIFT & SLOTS_MASK
    }

    pub(super) fn referenced(self) -> u64 {
        self.marks & SLOTS_MASK
    }
}

impl<'a, K: Fixed, V: Fixed> Bucket<'a, K, V> {
    #[inline(always)]
    fn key_words() -> usize {
        words_of(K::layout_bytes())
    }

    #[inline(always)]
    fn entry_words() -> usize {
        words_of(K::layout_bytes()) + words_of(V::layout_bytes())
    }

    /// Entries of a bucket; 0: pairs are too large to be cached.
    #[inline(always)]
    pub(super) fn slots() -> usize {
        let fitting = (WORDS - HEAD_WORDS) / Self::entry_words();
        if fitting < SLOTS_MAX { fitting } else { SLOTS_MAX }
    }

    /// The slots that there are.
    #[inline(always)]
    pub(super) fn all() -> u64 {
        (1 << Self::slots()) - 1
    }

    pub(super) fn new(words: &'a [AtomicU64; WORDS]) -> Self {
        Bucket { words, pair: PhantomData }
    }

    #[inline(always)]
    pub(super) fn see(self) -> Seen {
        let head = self.words[HEAD].load(Ordering::Acquire);
        Seen { head, marks: self.words[MARKS].load(Ordering::Acquire) }
    }

    /// Whether nothing but the lock has changed since.
    #[inline(always)]
    pub(super) fn is_as_seen(self, seen: Seen) -> bool {
        (self.words[HEAD].load(Ordering::Relaxed) ^ seen.head) & !LOCK == 0
    }

    fn entry(slot: usize) -> usize {
        HEAD_WORDS + slot * Self::entry_words()
    }

    #[inline(always)]
    fn load(self, word: usize) -> u64 {
        // In the bucket for each slot that there is; masked, it need not be looked at.
        self.words[word % WORDS].load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(super) fn key(self, slot: usize) -> K {
        K::of_words(|word| self.load(Self::entry(slot) + word))
    }

    #[inline(always)]
    pub(super) fn value(self, slot: usize) -> V {
        V::of_words(|word| self.load(Self::entry(slot) + Self::key_words() + word))
    }

    /// The slot in which this key seems to be.
    #[inline(always)]
    pub(super) fn slot_of(self, seen: Seen, key: K, print: u8) -> Option<usize> {
        let mut matches = seen.matches(print);
        while matches != 0 {
            let slot = matches.trailing_zeros() as usize / 8 - 1;
            if is_same(self.key(slot), key) {
                return Some(slot);
            }
            matches &= matches - 1;
        }
        None
    }

    /// Whether a slot may hold a key with this fingerprint.
    pub(super) fn may_hold(seen: Seen, print: u8) -> bool {
        seen.matches(print) != 0
    }

    /// Whether what was read of a slot is an entry to be told of.
    #[inline(always)]
    pub(super) fn shows(seen: Seen, slot: usize) -> bool {
        (seen.used() & !seen.busy()) >> slot & 1 != 0
    }

    /// Notes that the entry in a slot was of use.
    #[inline(always)]
    pub(super) fn refer(self, seen: Seen, slot: usize) {
        if seen.marks & 1 << slot == 0 {
            self.words[MARKS].fetch_or(1 << slot, Ordering::Relaxed);
        }
    }

    pub(super) fn lock(self) -> LockedBucket<'a, K, V> {
        LockedBucket { _locked: Locked::wait(&self.words[HEAD]), bucket: self }
    }
}

/// A bucket whose lock is held.
pub(super) struct LockedBucket<'a, K, V> {
    bucket: Bucket<'a, K, V>,
    _locked: Locked<'a>,
}

impl<'a, K: Fixed, V: Fixed> LockedBucket<'a, K, V> {
    pub(super) fn see(&self) -> Seen {
        self.bucket.see()
    }

    pub(super) fn key(&self, slot: usize) -> K {
        self.bucket.key(slot)
    }

    pub(super) fn slot_of(&self, key: K, print: u8) -> Option<usize> {
        self.bucket.slot_of(self.see(), key, print)
    }

    /// A slot that is not in use.
    pub(super) fn free_slot(&self) -> Option<usize> {
        let free = !self.see().used() & Bucket::<K, V>::all();
        (free != 0).then(|| free.trailing_zeros() as usize)
    }

    /// Changes which slots are in use and which are busy: a new version.
    fn set_slots(&self, used: u64, busy: u64, epoch: u64) {
        let head = self.see().head;
        let version = (head & VERSION_MASK).wrapping_add(VERSION) & VERSION_MASK;
        let slots = used << USED_SHIFT | busy << BUSY_SHIFT;
        let head = epoch << EPOCH_SHIFT | version | slots | LOCK;
        self.bucket.words[HEAD].store(head, Ordering::Release);
    }

    /// Changes bytes of the fingerprints' word; readers set bits of it meanwhile.
    fn set_marks(&self, mask: u64, bits: u64) {
        let word = &self.bucket.words[MARKS];
        let _ = word
            .fetch_update(Ordering::Release, Ordering::Relaxed, |marks| Some(marks & !mask | bits));
    }

    /// Empties a bucket of an earlier epoch.
    pub(super) fn begin(&self, epoch: u64) {
        self.set_slots(0, 0, epoch);
        self.set_marks(u64::MAX, 0);
    }

    pub(super) fn set_busy(&self, slot: usize) {
        let seen = self.see();
        self.set_slots(seen.used(), seen.busy() | 1 << slot, seen.epoch());
    }

    /// Makes an entry of a slot that is free; without a value it is busy.
    pub(super) fn put(&self, slot: usize, key: K, print: u8, value: Option<V>) {
        self.fill(slot, Some(key), value);
        let shift = 8 * (slot + 1);
        self.set_marks(0xff << shift | 1 << slot, u64::from(print) << shift);
        let (seen, bit) = (self.see(), 1 << slot);
        let busy = if value.is_none() { bit } else { 0 };
        self.set_slots(seen.used() | bit, seen.busy() | busy, seen.epoch());
    }

    /// Gives a busy entry its value.
    pub(super) fn complete(&self, slot: usize, value: V) {
        self.fill(slot, None, Some(value));
        let seen = self.see();
        self.set_slots(seen.used(), seen.busy() & !(1 << slot), seen.epoch());
    }

    /// Takes an entry out.
    pub(super) fn clear(&self, slot: usize) {
        let (seen, bit) = (self.see(), 1 << slot);
        self.set_slots(seen.used() & !bit, seen.busy() & !bit, seen.epoch());
        self.set_marks(0xff << (8 * (slot + 1)) | bit, 0);
    }

    /// Forgets which entries were of use.
    pub(super) fn forget_referenced(&self) {
        self.bucket.words[MARKS].fetch_and(!SLOTS_MASK, Ordering::Relaxed);
    }

    /// Stores into a slot that is free or busy.
    fn fill(&self, slot: usize, key: Option<K>, value: Option<V>) {
        // A thread that sees these stores also sees the version that made the slot so.
        fence(Ordering::Release);
        let at = Bucket::<K, V>::entry(slot);
        let store = |word: usize, bits| {
            self.bucket.words[(at + word) % WORDS].store(bits, Ordering::Relaxed);
        };
        if let Some(key) = key {
            (0..Bucket::<K, V>::key_words()).for_each(|word| store(word, key.word(word)));
        }
        if let Some(value) = value {
            let first = Bucket::<K, V>::key_words();
            (0..words_of(V::layout_bytes())).for_each(|word| store(first + word, value.word(word)));
        }
    }
}
