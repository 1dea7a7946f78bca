//! Keys and values of sizes that are known at run time.
//!
//! A Rust type for each pair of sizes would compile the engines again and again. Pairs of 8 and 8 bytes are words,
//! which have a layout and code of their own. For all others there are a few *places*: types whose sizes are set before
//! a table is opened, and stay so until the last table of the place is closed. Tables of the same sizes share a place.

use firndex::Fixed;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Most bytes of a key, and of a value: what the command `firndex` shows, too.
pub const BYTES_MAX: usize = 256;
const WORDS: usize = BYTES_MAX / 8;

/// How many pairs of other sizes than 8 and 8 bytes a process can have open at a time. Each costs half a minute of a
/// processor to compile, and a third of a megabyte.
pub const PLACES: usize = 2;

const KEY: usize = 0;
const VALUE: usize = 1;

/// Sizes of the keys and values of each place, while somebody uses it.
static SIZES: [[AtomicUsize; 2]; PLACES] = [const { [const { AtomicUsize::new(0) }; 2] }; PLACES];
/// How many tables use each place.
static USERS: Mutex<[usize; PLACES]> = Mutex::new([0; PLACES]);

/// A key of as many bytes as those of this place have.
pub(crate) type Key<const PLACE: usize> = Sized<PLACE, KEY>;
/// The same of values.
pub(crate) type Value<const PLACE: usize> = Sized<PLACE, VALUE>;

/// As many bytes as those of this place and side have, in words, with zeros behind them.
#[derive(Clone, Copy)]
pub(crate) struct Sized<const PLACE: usize, const SIDE: usize>([u64; WORDS]);

impl<const PLACE: usize, const SIDE: usize> Fixed for Sized<PLACE, SIDE> {
    /// Chooses code at compile time: that for sizes in general, and not that for words.
    const BYTES: usize = 1;

    #[inline(always)]
    fn layout_bytes() -> usize {
        SIZES[PLACE][SIDE].load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn word(self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }

    #[inline(always)]
    fn of_words(word: impl Fn(usize) -> u64) -> Self {
        let bytes = Self::layout_bytes().min(BYTES_MAX);
        let mut words = [0; WORDS];
        for (index, of) in words.iter_mut().enumerate().take(bytes.div_ceil(8)) {
            *of = word(index);
        }
        // What `word` has beyond the end is not the value's.
        if !bytes.is_multiple_of(8) {
            words[bytes / 8] &= (1 << (bytes % 8 * 8)) - 1;
        }
        Sized(words)
    }
}

/// A key or a value as the bytes that an array has of it.
pub(crate) trait Bytes: Fixed {
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
}

impl Bytes for u64 {
    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
    }

    #[inline(always)]
    fn write(self, bytes: &mut [u8]) {
        if let Some(word) = bytes.first_chunk_mut() {
            *word = self.to_le_bytes();
        }
    }
}

impl<const PLACE: usize, const SIDE: usize> Bytes for Sized<PLACE, SIDE> {
    fn read(bytes: &[u8]) -> Self {
        let mut words = [0; WORDS];
        for (of, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            *of = u64::from_le_bytes(word);
        }
        Sized(words)
    }

    fn write(self, bytes: &mut [u8]) {
        for (word, bytes) in self.0.iter().zip(bytes.chunks_mut(8)) {
            bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
        }
    }
}

/// A place whose sizes stay as they are until this is dropped.
pub struct Place(usize);

impl Place {
    /// A place for these sizes. `None` if all are taken by tables of other sizes.
    pub fn take(key_bytes: usize, value_bytes: usize) -> Option<Place> {
        let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        let has = |place: usize| {
            let [key, value] = &SIZES[place];
            (key.load(Ordering::Relaxed), value.load(Ordering::Relaxed)) == (key_bytes, value_bytes)
        };
        let shared = (0..PLACES).find(|&place| users[place] > 0 && has(place));
        let place = shared.or_else(|| (0..PLACES).find(|&place| users[place] == 0))?;
        // The threads that open the table begin later, and see this.
        SIZES[place][KEY].store(key_bytes, Ordering::Relaxed);
        SIZES[place][VALUE].store(value_bytes, Ordering::Relaxed);
        users[place] += 1;
        Some(Place(place))
    }

    pub(crate) fn number(&self) -> usize {
        self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        USERS.lock().unwrap_or_else(PoisonError::into_inner)[self.0] -= 1;
    }
}
