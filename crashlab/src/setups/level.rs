//! The boundaries of Level hashing, with one or two buckets in a level.

use super::FILLING;
use crate::history::{Action, Key, Op};
use crate::subject::{HASH_SEED, LongKey, Setup, lengthened};
use engines::level::{Design, Shape};
use index::hash::{Hasher, h1, h2};

/// The low bits of the hashes that choose a key's buckets: h1, h2.
pub(super) type Choices = (u64, u64);

/// Bits of each choice that a key is chosen by: as many as levels that a setup can grow to.
const CHOICE_MASK: u64 = 15;

/// The hash that chooses the buckets of what stands for a number.
type Hash = fn(u64) -> u64;

pub(super) fn hash_of_word(key: u64) -> u64 {
    Hasher::new(HASH_SEED).second_u64(key)
}

fn hash_of_long(key: u64) -> u64 {
    Hasher::new(HASH_SEED).second_bytes(&lengthened::<LongKey>(key))
}

/// So many keys, each with the choices asked for.
pub(super) fn keys_with(hash: Hash, choices: &[Choices]) -> Vec<u64> {
    let mut candidates = (1..).filter_map(|key| {
        let hash = hash(key);
        let found = (h1(hash) & CHOICE_MASK, h2(hash) & CHOICE_MASK);
        choices.contains(&found).then_some((key, found))
    });
    let mut met: Vec<(u64, Choices)> = Vec::new();
    let mut next = |wanted: Choices| {
        if let Some(index) = met.iter().position(|&(_, found)| found == wanted) {
            return met.remove(index).0;
        }
        loop {
            match candidates.next() {
                Some((key, found)) if found == wanted => return key,
                Some(other) => met.push(other),
                None => return 0,
            }
        }
    };
    choices.iter().map(|&wanted| next(wanted)).collect()
}

/// A setup of words with two free keys; `fillers` are stored in this order, then those of the numbers
/// in `removed` are taken out again.
fn filled(
    name: &'static str,
    level_shape: Shape,
    free: [Choices; 2],
    fillers: &[Choices],
    removed: &[usize],
) -> Setup {
    filled_with(hash_of_word, name, level_shape, free, fillers, removed)
}

/// As [`filled`], with keys of another kind.
pub(super) fn filled_with(
    hash: Hash,
    name: &'static str,
    level_shape: Shape,
    free: [Choices; 2],
    fillers: &[Choices],
    removed: &[usize],
) -> Setup {
    let free_keys = free.len();
    let choices: Vec<Choices> = free.iter().chain(fillers).copied().collect();
    let filler = |index: usize| (free_keys + index) as Key;
    let stores = (0..fillers.len()).map(|index| Op::One(filler(index), Action::Insert(FILLING)));
    let removals = removed.iter().map(|&index| Op::One(filler(index), Action::Remove));
    Setup {
        name,
        keys: keys_with(hash, &choices),
        free_keys,
        before: stores.chain(removals).collect(),
        level_shape,
        resize_at: 1.0,
        limit_bytes: 16 << 10,
        ..Setup::default()
    }
}

/// The setups of a table of words on Level hashing.
pub fn level() -> Vec<Setup> {
    let slots = |slots| Shape { slots, initial_log2: 1, design: Design::default() };
    let more_buckets = |number| Shape { initial_log2: 2, ..slots(number) };
    let log_free = Design { in_place_update: false, ..Design::default() };
    let recorded = Design { log_free_update: false, ..log_free };
    // Both choices of such a key are one bucket in every level.
    let (same, other) = ((1, 1), (0, 0));
    let free = [same, same];
    let into_another_line: Vec<Choices> =
        [vec![(0, 1)], vec![other; 3], vec![same; 3], vec![(2, 2); 8]].concat();
    let no_room = filled("movements do not help", slots(1), [other, other], &[same, same], &[]);
    vec![
        filled("an empty table", slots(4), [(0, 1), (0, 1)], &[], &[]),
        filled("the last free slot of a bucket is in two lines", slots(4), free, &[same; 3], &[]),
        filled("the last free slot is in another line", slots(5), free, &[same; 4], &[]),
        filled("the top bucket is full", slots(2), free, &[same; 2], &[]),
        filled(
            "an item of the top level can be moved",
            more_buckets(1),
            [other, other],
            &[(0, 1), (2, 2), (2, 2)],
            &[],
        ),
        filled(
            "an item of the top level can be moved into another line",
            more_buckets(4),
            [other, other],
            &into_another_line,
            &[],
        ),
        filled(
            "an item of the bottom level can be moved",
            more_buckets(1),
            [other, other],
            &[other, (2, 2), same, (2, 1)],
            &[],
        ),
        filled(
            "an item can be moved from the bottom level to the top level",
            more_buckets(1),
            [other, other],
            &[other, (2, 2), (2, 2)],
            &[1],
        ),
        Setup { resize_at: 2.0, is_tight: true, ..no_room },
        filled(
            "log-free updates into another line",
            Shape { design: log_free, ..slots(5) },
            free,
            &[same; 3],
            &[],
        ),
        filled("recorded updates", Shape { design: recorded, ..slots(4) }, free, &[same; 3], &[]),
        filled("updates of full buckets", Shape { design: log_free, ..slots(1) }, free, &[], &[]),
        Setup {
            resize_at: 0.8,
            ..filled("the next insertion expands", slots(2), [(0, 2), (1, 3)], &[same; 4], &[])
        },
        Setup {
            resize_at: 0.8,
            ..filled(
                "an expansion is under way",
                slots(2),
                [(0, 2), (1, 3)],
                &[same, same, same, same, other],
                &[],
            )
        },
        Setup {
            resize_at: 0.6,
            ..filled(
                "an expansion of several buckets is under way",
                more_buckets(1),
                [(0, 2), (1, 3)],
                &[same, (2, 2), same, (2, 2)],
                &[],
            )
        },
        // The second filler finds no room until the top level has 16 buckets, or 8 and none of the
        // free keys.
        filled(
            "an expansion cannot end before the next",
            slots(1),
            free,
            &[(5, 5), (9, 9), (5, 5)],
            &[],
        ),
        can_shrink(),
        shrinks_in_vain(),
        two_buckets(),
    ]
}

/// An empty table, and keys that share no bucket: a batch changes both before it fences.
pub fn two_buckets() -> Setup {
    let shape = Shape { slots: 4, initial_log2: 1, design: Design::default() };
    // In each level one bucket is both choices of a key; the bottom level has one bucket.
    filled("keys in buckets of their own", shape, [(0, 0), (1, 1)], &[], &[])
}

/// An insertion of the first free key moves an item from the second bucket of the bottom level to the
/// first one; an insertion of the second one expands the table, which empties both.
pub fn moved_into_interim() -> Setup {
    let shape = Shape { slots: 1, initial_log2: 2, design: Design::default() };
    Setup {
        resize_at: 0.8,
        ..filled(
            "an item can be moved into what becomes interim",
            shape,
            [(1, 1), (2, 2)],
            &[(1, 1), (3, 3), (0, 0), (3, 0)],
            &[],
        )
    }
}

/// The setups of a table with keys of two words and values of three on Level hashing: of two slots
/// the second lies across two lines, of three the third in another line. Such a value is never
/// overwritten in place.
pub fn level_long() -> Vec<Setup> {
    let slots = |slots| Shape { slots, initial_log2: 1, design: Design::default() };
    let recorded = Design { log_free_update: false, ..Design::default() };
    let long = |name, shape, free, fillers: &[Choices]| {
        filled_with(hash_of_long, name, shape, free, fillers, &[])
    };
    let (same, other) = ((1, 1), (0, 0));
    let free = [same, same];
    let mut can_shrink = Setup {
        resize_at: 0.8,
        shrinks: true,
        ..filled_with(
            hash_of_long,
            "a table of long pairs that can shrink",
            slots(2),
            [(1, 3), (0, 2)],
            &[same, same, (1, 3), (1, 3), (0, 2), (0, 2)],
            &[1, 3, 5],
        )
    };
    can_shrink.before.push(Op::Settle);
    vec![
        long("an empty table of long pairs", slots(2), [(0, 1), (0, 1)], &[]),
        long("the last free slot of a long pair is in another line", slots(3), free, &[same; 2]),
        long("log-free updates of long pairs into another line", slots(3), free, &[same]),
        long("the top bucket of long pairs is full", slots(2), free, &[same; 2]),
        long("recorded updates of long pairs", Shape { design: recorded, ..slots(2) }, free, &[]),
        long("updates of full buckets of long pairs", slots(1), free, &[]),
        long(
            "a long pair of the top level can be moved",
            Shape { initial_log2: 2, ..slots(1) },
            [other, other],
            &[(0, 1), (2, 2), (2, 2)],
        ),
        Setup {
            resize_at: 0.8,
            ..long(
                "the next insertion of a long pair expands",
                slots(2),
                [(0, 2), (1, 3)],
                &[same; 4],
            )
        },
        can_shrink,
    ]
}

/// A table that has doubled and is nearly empty again, with items in both levels.
fn can_shrink() -> Setup {
    let shape = Shape { slots: 2, initial_log2: 1, design: Design::default() };
    let same = (1, 1);
    let fillers = [same, same, (1, 3), (1, 3), (0, 2), (0, 2)];
    let mut setup = Setup {
        resize_at: 0.8,
        shrinks: true,
        ..filled("a table that can shrink", shape, [(1, 3), (0, 2)], &fillers, &[1, 3, 5])
    };
    setup.before.push(Op::Settle);
    setup
}

/// A table whose items find no room in half of it: three keys of one bucket in each level that
/// would be left.
fn shrinks_in_vain() -> Setup {
    let shape = Shape { slots: 1, initial_log2: 2, design: Design::default() };
    let mut setup = Setup {
        shrinks: true,
        ..filled("a table that grows back", shape, [(0, 2), (1, 5)], &[(1, 5); 3], &[])
    };
    setup.before.push(Op::Settle);
    setup
}
