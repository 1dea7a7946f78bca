//! What the slots of a damaged pool lead to.

use crate::Engine;
use engines::wreck::{Found, Wreck};
use index::{Fixed, Lead, lead_of};
use pmem::Offset;
use pmem::heap::salvage::{Remains, read_group, read_item};
use pmem::superblock::Superblock;

pub(super) use pmem::heap::salvage::KeyAndValue;

/// What a slot leads to.
pub(super) enum Led<T> {
    /// A key and its value.
    Pair(T),
    /// A pair or an item whose key does not belong there.
    Misplaced(Offset),
    /// No item or group with a valid checksum.
    Unreadable(Offset),
}

impl<T> Led<T> {
    pub(super) fn is_pair(&self) -> bool {
        matches!(self, Led::Pair(_))
    }
}

/// The item at `at`, if its key is one for which `is_home` holds.
fn led(remains: &dyn Remains, at: Offset, is_home: impl FnOnce(&[u8]) -> bool) -> Led<KeyAndValue> {
    match read_item(remains, at) {
        Some((key, value)) if is_home(&key) => Led::Pair((key, value)),
        Some(_) => Led::Misplaced(at),
        None => Led::Unreadable(at),
    }
}

/// Shows all keys and values to which the slots of a store lead. Returns how many bytes of the index could not be read.
pub(super) fn for_each_record(
    remains: &dyn Remains,
    superblock: &Superblock,
    visit: &mut dyn FnMut(Led<KeyAndValue>),
) -> u64 {
    let Some(engine) = Engine::from_id(superblock.engine) else { return 0 };
    let mut wreck = Wreck::new(remains, superblock);
    let hasher = wreck.hasher;
    engine.salvage::<u64, u64>(&mut wreck, &mut |found| match found {
        Found::Misplaced(at) => visit(Led::Misplaced(at)),
        Found::Item(at, is_home) => visit(led(remains, at, is_home)),
        Found::Pair(hash, slot) => {
            let is_home = |key: &[u8]| hasher.first_bytes(key) == hash;
            match lead_of(slot) {
                Lead::Item(at) => visit(led(remains, at, is_home)),
                Lead::Group(at) => match read_group(remains, at) {
                    Some(items) => {
                        items.into_iter().for_each(|at| visit(led(remains, at, is_home)));
                    }
                    None => visit(Led::Unreadable(at)),
                },
            }
        }
    });
    wreck.unread_bytes()
}

/// The same for a table.
pub(super) fn for_each_pair<K: Fixed, V: Fixed>(
    remains: &dyn Remains,
    superblock: &Superblock,
    visit: &mut dyn FnMut(Led<(K, V)>),
) -> u64 {
    let Some(engine) = Engine::from_id(superblock.engine) else { return 0 };
    let mut wreck = Wreck::new(remains, superblock);
    engine.salvage::<K, V>(&mut wreck, &mut |found| match found {
        Found::Misplaced(at) => visit(Led::Misplaced(at)),
        Found::Pair(key, value) => visit(Led::Pair((key, value))),
        Found::Item(at, is_home) => visit(match led(remains, at, is_home) {
            Led::Pair((key, value))
                if (key.len(), value.len()) == (K::layout_bytes(), V::layout_bytes()) =>
            {
                Led::Pair((of_bytes(&key), of_bytes(&value)))
            }
            Led::Misplaced(at) => Led::Misplaced(at),
            Led::Pair(_) | Led::Unreadable(_) => Led::Unreadable(at),
        }),
    });
    wreck.unread_bytes()
}

/// The value that has these bytes.
fn of_bytes<T: Fixed>(bytes: &[u8]) -> T {
    T::of_words(|index| {
        let mut word = [0; 8];
        let rest = bytes.get(index * word.len()..).unwrap_or_default();
        let len = rest.len().min(word.len());
        word[..len].copy_from_slice(&rest[..len]);
        u64::from_le_bytes(word)
    })
}
