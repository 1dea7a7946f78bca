//! A bucket: four lines, of which the first one says what is where.
//!
//! ```text
//!  word 0: version lock (32 bits, odd if taken) | 4 fingerprints of pairs in the stash
//!  word 1: slots in use (14 bits) | whose pairs have their home in the bucket before (14)
//!          | 4 × where a pair of the stash is (2, 0 if nothing is noted) | whose home is the bucket before (4)
//!          | pairs in the stash that are noted nowhere (8)
//!  words 2 and 3: 14 fingerprints
//!  words 4 to 31: 14 × (key, value)
//! ```

use super::Sought;
use pmem::sync::{Ordering, fence, spin};
use pmem::{LINE, Medium, Offset};

/// Bytes of a bucket.
pub(super) const BYTES: u64 = 256;
/// Slots of a bucket.
pub(super) const SLOTS: u32 = 14;
/// Pairs in the stash that a bucket can note.
const NOTES: u32 = 4;

const LOCK: u64 = 0;
const HEADER: u64 = 1;
const PRINTS: u64 = 2;
const FIRST_SLOT: u64 = 4;

const SLOTS_MASK: u64 = (1 << SLOTS) - 1;
const NEIGHBOURS_AT: u32 = SLOTS;
const NOTES_AT: u32 = 2 * SLOTS;
const NOTE_BITS: u32 = 2;
const ASTRAY_AT: u32 = NOTES_AT + NOTES * NOTE_BITS;
const UNNOTED_AT: u32 = ASTRAY_AT + NOTES;
/// What survives a crash of word 1.
const DURABLE_MASK: u64 = (1 << NOTES_AT) - 1;

/// Which pairs of a bucket are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// Those whose home it is.
    Own,
    /// Those whose home is the bucket before.
    Neighbour,
    /// All: it is a stash.
    All,
}

/// Word 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header(u64);

impl Header {
    pub(super) fn used(self) -> u64 {
        self.0 & SLOTS_MASK
    }

    pub(super) fn neighbours(self) -> u64 {
        self.0 >> NEIGHBOURS_AT & SLOTS_MASK
    }

    /// A mask of the slots in use by such pairs.
    pub(super) fn slots(self, whose: Whose) -> u64 {
        match whose {
            Whose::Own => self.used() & !self.neighbours(),
            Whose::Neighbour => self.used() & self.neighbours(),
            Whose::All => self.used(),
        }
    }

    pub(super) fn len(self) -> u32 {
        self.used().count_ones()
    }

    pub(super) fn is_full(self) -> bool {
        self.used() == SLOTS_MASK
    }

    fn with(self, slot: u32, whose: Whose) -> Header {
        let neighbour = u64::from(whose == Whose::Neighbour) << NEIGHBOURS_AT;
        Header(self.0 | (1 | neighbour) << slot)
    }

    /// Without the slots of a mask.
    pub(super) fn without(self, slots: u64) -> Header {
        Header(self.0 & !(slots | slots << NEIGHBOURS_AT))
    }

    /// Without what is said of the stash.
    pub(super) fn without_notes(self) -> Header {
        Header(self.0 & DURABLE_MASK)
    }

    /// In which stash the pair of a note is.
    fn note(self, note: u32) -> Option<u32> {
        let place = self.0 >> (NOTES_AT + note * NOTE_BITS) & ((1 << NOTE_BITS) - 1);
        (place as u32).checked_sub(1)
    }

    fn is_astray(self, note: u32) -> bool {
        self.0 >> (ASTRAY_AT + note) & 1 == 1
    }

    fn noted(self, note: u32, stash: u32, is_astray: bool) -> Header {
        let place = u64::from(stash + 1) << (NOTES_AT + note * NOTE_BITS);
        Header(self.0 | place | u64::from(is_astray) << (ASTRAY_AT + note))
    }

    fn unnoted(self, note: u32) -> Header {
        let place = ((1 << NOTE_BITS) - 1) << (NOTES_AT + note * NOTE_BITS);
        Header(self.0 & !(place | 1 << (ASTRAY_AT + note)))
    }

    /// Pairs of its own in the stash of which there is no note.
    pub(super) fn unnoted_pairs(self) -> u64 {
        self.0 >> UNNOTED_AT
    }
}

/// The slots of a mask.
pub(super) fn each(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let slot = (mask != 0).then(|| mask.trailing_zeros())?;
        mask &= mask - 1;
        Some(slot)
    })
}

/// A bucket on a medium. Whoever changes it holds its lock.
pub(super) struct Bucket<'a, M> {
    pub(super) medium: &'a M,
    pub(super) at: Offset,
}

impl<M: Medium> Bucket<'_, M> {
    pub(super) fn slot(&self, slot: u32) -> Offset {
        self.at.word(FIRST_SLOT + 2 * u64::from(slot))
    }

    #[inline(always)]
    pub(super) fn header(&self) -> Header {
        Header(self.medium.load(self.at.word(HEADER)))
    }

    /// Stores word 1 after what the first line says besides: it survives a crash only with that.
    pub(super) fn set_header(&self, header: Header) {
        self.medium.store_release(self.at.word(HEADER), header.0);
    }

    /// Word 0. It is another one after each change.
    #[inline(always)]
    pub(super) fn lock_word(&self) -> u64 {
        self.medium.load(self.at.word(LOCK))
    }

    /// Word 0, unless the lock is taken.
    #[inline(always)]
    pub(super) fn unlocked(&self) -> Option<u64> {
        let word = self.lock_word();
        word.is_multiple_of(2).then_some(word)
    }

    pub(super) fn try_lock(&self) -> bool {
        let taken = self.unlocked().is_some_and(|word| {
            self.medium.compare_exchange(self.at.word(LOCK), word, word + 1).is_ok()
        });
        if taken {
            // Who sees a change that follows sees the lock taken, too.
            fence(Ordering::Release);
        }
        taken
    }

    pub(super) fn lock(&self) {
        let mut turn = 0;
        while !self.try_lock() {
            spin(&mut turn);
        }
    }

    pub(super) fn unlock(&self) {
        let word = self.lock_word();
        let version = (word as u32).wrapping_add(1);
        let prints = word >> u32::BITS << u32::BITS;
        self.medium.store_release(self.at.word(LOCK), prints | u64::from(version));
    }

    /// Releases the lock, whoever took it, and forgets what is said of the stash.
    pub(super) fn reset(&self) {
        self.medium.store(self.at.word(LOCK), 0);
        self.set_header(self.header().without_notes());
    }

    #[inline(always)]
    fn prints(&self) -> u128 {
        let [low, high] = self.medium.load_two(self.at.word(PRINTS));
        u128::from(high) << u64::BITS | u128::from(low)
    }

    pub(super) fn print(&self, slot: u32) -> u8 {
        (self.prints() >> (u8::BITS * slot)) as u8
    }

    pub(super) fn pair(&self, slot: u32) -> (u64, u64) {
        self.medium.load_pair(self.slot(slot))
    }

    /// Where a key is, with its value.
    #[inline(always)]
    pub(super) fn find(&self, sought: &Sought, whose: Whose) -> Option<(u32, u64)> {
        let mut slots = self.header().slots(whose) & equal(self.prints(), sought.print());
        while slots != 0 {
            let slot = slots.trailing_zeros();
            let (key, value) = self.pair(slot);
            if key == sought.key {
                return Some((slot, value));
            }
            slots &= slots - 1;
        }
        None
    }

    /// Stores a pair in a free slot, without flushing anything.
    pub(super) fn fill(&self, slot: u32, (key, value): (u64, u64)) {
        let at = self.slot(slot);
        self.medium.store(at, key);
        self.medium.store(at.word(1), value);
    }

    /// Says that a slot is in use, without flushing anything.
    pub(super) fn show(&self, slot: u32, print: u8, whose: Whose) {
        let at = self.at.word(PRINTS + u64::from(slot / 8));
        let shift = slot % 8 * u8::BITS;
        let others = self.medium.load(at) & !(0xff << shift);
        self.medium.store(at, others | u64::from(print) << shift);
        self.set_header(self.header().with(slot, whose));
    }

    pub(super) fn free_slot(&self) -> u32 {
        (!self.header().used()).trailing_zeros()
    }

    /// Stores a pair durably. There is a free slot.
    pub(super) fn put(&self, pair: (u64, u64), print: u8, whose: Whose) {
        let slot = self.free_slot();
        self.fill(slot, pair);
        if self.slot(slot).line() != self.at.line() {
            // Before anything says that it is there.
            self.medium.persist(self.slot(slot));
        }
        self.show(slot, print, whose);
        self.medium.persist(self.at);
    }

    /// Replaces a value durably.
    pub(super) fn replace(&self, slot: u32, value: u64) {
        self.medium.store(self.slot(slot).word(1), value);
        self.medium.persist(self.slot(slot));
    }

    /// Frees a slot durably.
    pub(super) fn clear(&self, slot: u32) {
        self.set_header(self.header().without(1 << slot));
        self.medium.persist(self.at);
    }

    /// Notes a pair in a stash, if there is room for a note. What is noted need not be durable.
    pub(super) fn try_note(&self, print: u8, stash: u32, is_astray: bool) -> bool {
        let header = self.header();
        let Some(note) = (0..NOTES).find(|&note| header.note(note).is_none()) else {
            return false;
        };
        let shift = u32::BITS + note * u8::BITS;
        let others = self.lock_word() & !(0xff << shift);
        self.medium.store(self.at.word(LOCK), others | u64::from(print) << shift);
        self.set_volatile(header.noted(note, stash, is_astray));
        true
    }

    /// Takes such a note away, if there is one.
    pub(super) fn try_unnote(&self, print: u8, stash: u32, is_astray: bool) -> bool {
        let is_it = |&(_, noted): &(u32, _)| noted == (print, stash, is_astray);
        let Some((note, _)) = self.notes().find(is_it) else { return false };
        self.set_volatile(self.header().unnoted(note));
        true
    }

    /// Counts a pair in the stash of which there is no note.
    pub(super) fn count_unnoted(&self) {
        self.set_volatile(Header(self.header().0 + (1 << UNNOTED_AT)));
    }

    /// Counts one less.
    pub(super) fn discount_unnoted(&self) {
        self.set_volatile(Header(self.header().0 - (1 << UNNOTED_AT)));
    }

    /// Stores word 1 with another part that need not be durable.
    fn set_volatile(&self, header: Header) {
        self.medium.store(self.at.word(HEADER), header.0);
    }

    /// Notes: number, fingerprint, which stash, whether the home is the bucket before.
    pub(super) fn notes(&self) -> impl Iterator<Item = (u32, (u8, u32, bool))> {
        let (header, prints) = (self.header(), self.lock_word() >> u32::BITS);
        (0..NOTES).filter_map(move |note| {
            let print = (prints >> (note * u8::BITS)) as u8;
            Some((note, (print, header.note(note)?, header.is_astray(note))))
        })
    }

    /// The pairs in it at one moment, all of them durable.
    pub(super) fn pairs(&self) -> Vec<(u64, u64)> {
        let mut turn = 0;
        loop {
            if let Some(word) = self.unlocked() {
                let slots = each(self.header().used());
                let pairs = slots.map(|slot| self.pair(slot)).collect();
                if self.lock_word() == word {
                    return pairs;
                }
            }
            spin(&mut turn);
        }
    }

    /// Flushes its first line.
    pub(super) fn flush_first(&self) {
        self.medium.flush(Offset(self.at.0 / LINE * LINE));
    }
}

/// A mask of the bytes that are `print`.
#[inline(always)]
fn equal(prints: u128, print: u8) -> u64 {
    const LOW: u128 = u128::MAX / 0xff;
    const HIGH: u128 = LOW << 7;
    let differing = prints ^ (LOW * u128::from(print));
    // The high bit of each byte is set if the byte is not zero.
    let zeros = HIGH & !(((differing & !HIGH) + !HIGH) | differing);
    let mut slots = 0;
    let mut rest = zeros;
    while rest != 0 {
        slots |= 1 << (rest.trailing_zeros() / u8::BITS);
        rest &= rest - 1;
    }
    slots
}
