//! What is left of a damaged pool.

use super::layout::{CONTROL, Context, LEVELS, SLOTS, Word, tag};
use crate::wreck::{Found, Wreck};
use index::hash::{h1, h2};
use pmem::{LINE, WORD};

/// Shows the items to which slots lead: in the levels that the context names, from back to front, since of an item in
/// two levels look-ups take the one further back; or in all levels, if it names none that could be.
pub(super) fn salvage<K, V>(wreck: &mut Wreck<'_>, visit: &mut dyn FnMut(Found<'_, K, V>)) {
    let control = wreck.extents(CONTROL);
    let word = control.first().and_then(|control| wreck.word(control.start));
    let context = word.map(Context::of_word).filter(|context| context.is_one());
    let extents = wreck.extents(LEVELS);
    let mut levels = match context {
        Some(context) => context
            .levels()
            .filter_map(|level| extents.iter().find(|extent| u32::from(extent.index) == level))
            .copied()
            .collect(),
        None => extents,
    };
    levels.reverse();
    let hasher = wreck.hasher;
    for level in levels {
        let buckets = level.bytes / LINE;
        wreck.for_each_unit(&[level], LINE, |bucket| {
            for slot in 0..SLOTS as u64 {
                let word = Word(bucket.word(slot));
                if !word.is_item() {
                    continue;
                }
                let is_home = |key: &[u8]| {
                    let hash = hasher.second_bytes(key);
                    let choices = [h1(hash), h2(hash)];
                    word.tag() == tag(hash)
                        && (!buckets.is_power_of_two()
                            || choices.iter().any(|h| h & (buckets - 1) == bucket.nth))
                };
                visit(Found::Item(word.at(), &is_home));
            }
        });
    }
}

const _: () = assert!(SLOTS as u64 * WORD == LINE);
