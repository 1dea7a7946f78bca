//! Mutants of a pool's file.

use crate::choices::Choices;
use crate::seeds::{self, Seed};
use crate::superblock::{self, EXTENTS, FIRST_EXTENT};
use crate::words::{WORD, another, load, store, strike_anywhere};
use pmem::superblock::{EXTENTS_MAX, Place, SUPERBLOCK_BYTES};

/// Most blows that fall on one pool.
const BLOWS_MAX: usize = 6;
/// Where items have their checksum, and the length of their value; their header's bytes.
const ITEM_CRC: usize = 4;
const ITEM_VALUE_BYTES: usize = 8;
const ITEM_HEADER: usize = 16;
/// Owner, index and offset of an extent share a word.
const OFFSET_BITS: u32 = 48;

/// A mutated pool.
pub(crate) struct Mutant {
    pub(crate) seed: &'static Seed,
    pub(crate) bytes: Vec<u8>,
    /// Whether checksums of items were made to fit what the items became: then nobody can tell them from others.
    pub(crate) is_forged: bool,
    /// Whether words of the engine were copied over others of it, or one has other bits of the same number: a bitmap
    /// may say of another slot that it is in use. A pair that was removed, or an item that was replaced, may be back
    /// then, if what it leads to is still there.
    pub(crate) is_revived: bool,
    /// Whether the superblock says that the pool was closed, and with how many pairs.
    pub(crate) is_counted: bool,
}

/// Places of 8-byte words.
#[derive(Clone, Copy)]
struct Words<'a>(&'a [usize]);

impl Words<'_> {
    fn one(self, choices: &mut Choices<'_>) -> Option<usize> {
        choices.of(self.0)
    }
}

impl Mutant {
    /// A mutant, which will be a file at this place.
    pub(crate) fn of(choices: &mut Choices<'_>, place: &Place) -> Mutant {
        let all = seeds::all();
        let seed = &all[choices.below(all.len())];
        let mut mutant = Mutant {
            seed,
            bytes: seed.bytes.clone(),
            is_forged: false,
            is_revived: false,
            is_counted: false,
        };
        if !seed.is_clean {
            superblock::set_place(&mut mutant.bytes, place, false);
        }
        for _ in 0..=choices.below(BLOWS_MAX) {
            mutant.strike(choices, place);
        }
        // Some are refused for what they are: others come further.
        if !choices.one_in(16) {
            superblock::mend(&mut mutant.bytes);
        }
        let said = superblock::decode(&mutant.bytes);
        mutant.is_counted = said.is_some_and(|said| said.pairs().is_some());
        mutant
    }

    fn strike(&mut self, choices: &mut Choices<'_>, place: &Place) {
        let bytes = &mut self.bytes;
        match choices.below(20) {
            0..3 => strike_superblock(bytes, choices),
            3..5 => strike_extents(bytes, choices),
            5 => {
                // A size, as most roots and parameters are.
                let word = 38 + choices.below(26);
                superblock::set(bytes, word, choices.below(70) as u64);
            }
            6 => superblock::set_place(bytes, place, choices.one_in(3)),
            7..11 => {
                let as_many = strike_word(bytes, Words(&self.seed.engine_words), choices);
                self.is_revived |= as_many;
            }
            11 => {
                copy_run(bytes, Words(&self.seed.engine_words), choices);
                self.is_revived = true;
            }
            12..14 => {
                strike_word(bytes, Words(&self.seed.descriptors), choices);
            }
            14..16 => strike_item(bytes, Words(&self.seed.items), choices),
            16 => {
                self.is_forged |= forge_item(bytes, Words(&self.seed.items), choices);
            }
            17 => copy_run(bytes, Words(&self.seed.items), choices),
            18 => strike_anywhere(bytes, SUPERBLOCK_BYTES as usize, choices),
            _ => strike_anywhere(bytes, 0, choices),
        }
    }
}

/// Any word that a superblock gives a meaning to, in both copies or in one.
fn strike_superblock(bytes: &mut [u8], choices: &mut Choices<'_>) {
    let extents = superblock::word(bytes, EXTENTS) as u32 as usize;
    let words = FIRST_EXTENT + 2 * extents.min(EXTENTS_MAX);
    let word = choices.below(words);
    let value = another(superblock::word(bytes, word), bytes, choices);
    match choices.below(8) {
        copy @ 0..2 => superblock::set_in(bytes, copy, word, value),
        _ => superblock::set(bytes, word, value),
    }
}

fn strike_extents(bytes: &mut [u8], choices: &mut Choices<'_>) {
    let count = superblock::word(bytes, EXTENTS) as u32 as usize;
    let one = FIRST_EXTENT + 2 * choices.below(count.min(EXTENTS_MAX));
    let other = FIRST_EXTENT + 2 * choices.below(count.min(EXTENTS_MAX));
    let [owned, len] = [one, one + 1].map(|word| superblock::word(bytes, word));
    let offset = owned & ((1 << OFFSET_BITS) - 1);
    let counted = |bytes: &mut [u8], count: usize| {
        let halves = superblock::word(bytes, EXTENTS) >> 32 << 32;
        superblock::set(bytes, EXTENTS, halves | count as u64);
    };
    match choices.below(8) {
        0 => {
            // They change places.
            for word in 0..2 {
                let [a, b] = [one, other].map(|at| superblock::word(bytes, at + word));
                superblock::set(bytes, one + word, b);
                superblock::set(bytes, other + word, a);
            }
        }
        1 => {
            // They change their owners.
            let theirs = superblock::word(bytes, other);
            let mask = (1 << OFFSET_BITS) - 1;
            superblock::set(bytes, one, theirs & !mask | offset);
            superblock::set(bytes, other, owned & !mask | theirs & mask);
        }
        2 => {
            let (owner, index) = (choices.below(5) as u64, choices.below(6) as u64);
            superblock::set(bytes, one, owner << 56 | index << OFFSET_BITS | offset);
        }
        3 => superblock::set(bytes, one + 1, len / 128 * 64),
        4 => superblock::set(bytes, one + 1, len.wrapping_mul(2)),
        5 => counted(bytes, count.saturating_sub(1)),
        6 => counted(bytes, count + 1),
        _ => {
            let lines = i64::from(choices.byte() as i8) * 64;
            superblock::set(bytes, one, owned.wrapping_add_signed(lines));
        }
    }
}

/// Whether the word has as many bits set as before.
fn strike_word(bytes: &mut [u8], words: Words<'_>, choices: &mut Choices<'_>) -> bool {
    let Some(at) = words.one(choices) else { return false };
    let before = load(bytes, at);
    let word = another(before, bytes, choices);
    store(bytes, at, word);
    word.count_ones() == before.count_ones()
}

/// What is at one place is at another one as well: a pair, a line, a bucket.
fn copy_run(bytes: &mut [u8], words: Words<'_>, choices: &mut Choices<'_>) {
    let (Some(from), Some(to)) = (words.one(choices), words.one(choices)) else { return };
    let count = WORD << choices.below(7);
    let to = to & !(count - 1) | from & (count - 1);
    if from.max(to) + count <= bytes.len() {
        bytes.copy_within(from..from + count, to);
    }
}

/// The key's length, the checksum, the value's length, or the first words behind them.
fn strike_item(bytes: &mut [u8], items: Words<'_>, choices: &mut Choices<'_>) {
    let Some(at) = items.one(choices) else { return };
    let at = at + WORD * choices.below(4);
    let word = another(load(bytes, at), bytes, choices);
    store(bytes, at, word);
}

/// An item that is another one, and fits its checksum; whether there is one.
fn forge_item(bytes: &mut [u8], items: Words<'_>, choices: &mut Choices<'_>) -> bool {
    let Some(at) = items.one(choices) else { return false };
    let mut key_bytes = load(bytes, at) as u32 as usize;
    let mut value_bytes = load(bytes, at + ITEM_VALUE_BYTES) as usize;
    match choices.below(3) {
        0 => key_bytes = choices.below(40),
        1 => value_bytes = choices.below(300),
        _ => {
            let inside = at + ITEM_HEADER + choices.below(key_bytes.saturating_add(value_bytes));
            if let Some(byte) = bytes.get_mut(inside) {
                *byte = choices.byte();
            }
        }
    }
    let key_at = at + ITEM_HEADER;
    let value_at = key_at.saturating_add(key_bytes.next_multiple_of(WORD));
    let key = bytes.get(key_at..key_at.saturating_add(key_bytes));
    let value = bytes.get(value_at..value_at.saturating_add(value_bytes));
    let (Some(key), Some(value)) = (key, value) else { return false };
    let crc = crc32c::crc32c_append(crc32c::crc32c(key), value);
    store(bytes, at, key_bytes as u64);
    bytes[at + ITEM_CRC..][..4].copy_from_slice(&crc.to_le_bytes());
    store(bytes, at + ITEM_VALUE_BYTES, value_bytes as u64);
    true
}
