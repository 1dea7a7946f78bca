//! The boundaries of stores on Level hashing and on Clevel hashing: those of the index that moves,
//! splits or halves, with items of several classes behind it.

use super::clevel::{self, next_insertion_shifts};
use super::level::{self, Choices, hash_of_word};
use crate::history::{Action, Op};
use crate::subject::{HASH_SEED, Setup};
use engines::level::{Design, Shape};
use index::hash::Hasher;

/// Lengths of three classes; a filler has the first one.
const SEVERAL_CLASSES: &[usize] = &[8, 40, 8, 100];
/// Space for the largest table of these setups, and for items.
const LIMIT_BYTES: u64 = 24 << 10;

/// The hash that chooses the buckets of a key's entry in the index: what the index keeps is a hash
/// already.
fn hash_of_entry(key: u64) -> u64 {
    hash_of_word(Hasher::new(HASH_SEED).first_bytes(&key.to_le_bytes()))
}

fn with_items(setup: Setup, value_bytes: &'static [usize]) -> Setup {
    Setup { value_bytes, limit_bytes: LIMIT_BYTES, ..setup }
}

/// The setups of a store on Level hashing.
pub fn level_store() -> Vec<Setup> {
    let slots = |slots| Shape { slots, initial_log2: 1, design: Design::default() };
    let filled = |name, shape, free, fillers: &[Choices], removed: &[usize]| {
        let setup = level::filled_with(hash_of_entry, name, shape, free, fillers, removed);
        with_items(setup, SEVERAL_CLASSES)
    };
    let (same, other) = ((1, 1), (0, 0));
    let log_free = Design { in_place_update: false, ..Design::default() };
    let collide = |name, fillers| Setup {
        hash_bits: 0,
        ..filled(name, slots(4), [(0, 1), (0, 1)], fillers, &[])
    };
    let mut can_shrink = Setup {
        resize_at: 0.8,
        shrinks: true,
        ..filled(
            "a store on level that can shrink",
            slots(2),
            [(1, 3), (0, 2)],
            &[same, same, (1, 3), (1, 3), (0, 2), (0, 2)],
            &[1, 3, 5],
        )
    };
    can_shrink.before.push(Op::Settle);
    vec![
        filled("an empty store on level", slots(4), [(0, 1), (0, 1)], &[], &[]),
        filled(
            "log-free updates of a store on level",
            Shape { design: log_free, ..slots(5) },
            [same, same],
            &[same; 3],
            &[],
        ),
        filled(
            "an entry of the top level can be moved",
            Shape { initial_log2: 2, ..slots(1) },
            [other, other],
            &[(0, 1), (2, 2), (2, 2)],
            &[],
        ),
        Setup {
            resize_at: 0.8,
            ..filled(
                "the next insertion expands a store on level",
                slots(2),
                [(0, 2), (1, 3)],
                &[same; 4],
                &[],
            )
        },
        can_shrink,
        collide("two keys of one hash on level", &[]),
        collide("four keys of one hash on level", &[(0, 1); 2]),
    ]
}

/// The setups of a store on Clevel hashing.
pub fn clevel_store() -> Vec<Setup> {
    let same = (3, 3);
    let filled = |name, value_bytes, free, fillers: &[Choices]| {
        with_items(clevel::filled(name, 1, free, fillers), value_bytes)
    };
    let named = |name, setup: Setup| Setup { name, ..with_items(setup, SEVERAL_CLASSES) };
    vec![
        filled("an empty store on clevel", SEVERAL_CLASSES, [(0, 1), (0, 1)], &[]),
        filled(
            "values on clevel that take segments of their own",
            &[8, 300, 40, 600],
            [(0, 1), (0, 1)],
            &[],
        ),
        filled(
            "the next insertion appends a level to a store",
            SEVERAL_CLASSES,
            [same, (0, 2)],
            &[same; 16],
        ),
        named("a level of a store is being drained", clevel::draining(same, (0, 0))),
        named("the next insertion makes room in a store", next_insertion_shifts()),
        named("a store on clevel that can shrink", clevel::can_shrink()),
    ]
}

/// One item, to be removed, in a store on whichever engine.
pub fn one_item_of_a_store() -> Setup {
    Setup {
        keys: vec![1, 2],
        before: vec![Op::One(0, Action::Insert(super::FILLING))],
        ..with_items(super::one_item(), &[8])
    }
}
