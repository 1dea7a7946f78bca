//! The boundaries of Clevel hashing, with one or a few buckets in a level.

use super::FILLING;
use super::level::{Choices, hash_of_word, keys_with};
use crate::history::{Action, Key, Op};
use crate::subject::Setup;
use engines::clevel::Shape;

/// A setup with two free keys; `fillers` are stored in this order.
pub(super) fn filled(
    name: &'static str,
    initial_log2: u32,
    free: [Choices; 2],
    fillers: &[Choices],
) -> Setup {
    let choices: Vec<Choices> = free.iter().chain(fillers).copied().collect();
    let stores = (0..fillers.len()).map(|filler| store((free.len() + filler) as Key));
    Setup {
        name,
        keys: keys_with(hash_of_word, &choices),
        free_keys: free.len(),
        before: stores.collect(),
        clevel_shape: Shape { initial_log2 },
        resize_at: 1.0,
        limit_bytes: 16 << 10,
        ..Setup::default()
    }
}

fn store(key: Key) -> Op {
    Op::One(key, Action::Insert(FILLING))
}

/// The setups of a table of words on Clevel hashing.
pub fn clevel() -> Vec<Setup> {
    // Both choices of such a key are one bucket in every level.
    let (same, other) = ((3, 3), (0, 0));
    let no_room = filled("no empty slot and no growth", 1, [same, same], &[same; 16]);
    vec![
        filled("an empty table", 1, [(0, 1), (0, 1)], &[]),
        filled("one empty slot", 1, [same, same], &[same; 15]),
        filled("the next insertion appends a level", 1, [same, (0, 2)], &[same; 16]),
        Setup { resize_at: 2.0, is_tight: true, ..no_room },
        Setup {
            resize_at: 0.8,
            ..filled("the second insertion is one too many", 1, [(0, 1), (1, 2)], &[(0, 1); 18])
        },
        Setup {
            limit_bytes: 10_400,
            is_tight: true,
            ..filled("no space for a level", 1, [same, other], &[same; 16])
        },
        draining(same, other),
        next_insertion_shifts(),
        can_shrink(),
    ]
}

/// A level is being drained: of its four buckets the last two are left, with the first free key in
/// one of them. The next insertion drains them.
pub(super) fn draining(same: Choices, other: Choices) -> Setup {
    let fillers: Vec<Choices> = [vec![same; 8], vec![other; 17]].concat();
    let mut setup = filled("a level is being drained", 3, [same, (3, 4)], &fillers);
    setup.before.insert(8, store(0));
    setup
}

/// A full table with the first free key in the front level: the next insertion of the other one
/// appends a level and moves the first one there.
pub fn next_insertion_moves() -> Setup {
    let same = (3, 3);
    let mut setup = filled("the next insertion moves a key", 1, [same, same], &[same; 15]);
    setup.before.insert(8, store(0));
    setup
}

/// Neither bucket of the second free key has an empty slot. But the first one is in a bucket of both, in the
/// front level, and has room in the back one: an insertion of the second one moves it there.
pub fn next_insertion_shifts() -> Setup {
    let (same, other) = ((3, 3), (1, 1));
    let fillers: Vec<Choices> = [vec![same; 8], vec![other; 8], vec![same; 7]].concat();
    let mut setup = filled("the next insertion makes room", 2, [other, same], &fillers);
    setup.before.insert(16, store(0));
    setup.before.push(Op::One(2 + 8, Action::Remove));
    setup
}

/// A table that has doubled and is nearly empty again, with items in both levels.
pub(super) fn can_shrink() -> Setup {
    let fillers: Vec<Choices> = [vec![(3, 3); 17], vec![(0, 2)]].concat();
    let mut setup =
        Setup { shrinks: true, ..filled("a table that can shrink", 1, [(3, 3), (0, 2)], &fillers) };
    setup.before.push(Op::Settle);
    setup.before.extend((4..18).map(|filler| Op::One(filler, Action::Remove)));
    setup
}
