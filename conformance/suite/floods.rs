//! Keys chosen by somebody who knows the pool's seed: they share blocks and buckets.
//!
//! They are stored, or refused for what they are. The pool grows no further than its pairs allow, nothing is lost, and
//! keys that nobody has chosen are stored beside them.

use crate::harness::{Backing, Engine, SEED, Setup, Table, spread, within};
use index::hash::{Hasher, h1, h2};
use index::{Error, Index, Level};
use pmem::SpaceError;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Number of chosen keys of each sort.
const KEYS: usize = 3000;
/// Other keys, before and after them.
const OTHERS: u64 = 5000;
/// One in this many other keys may be refused beside the chosen ones.
const REFUSED_OF: u64 = 50;
/// Most pairs that share one chain, if an engine has chains.
const CHAIN_MAX: u64 = 512;
/// A table doubles for a key without room if it has at most 16 slots for each pair, or at most 4096 slots; then it has
/// twice as many.
const SLOTS_PER_PAIR: u64 = 2 * 16;
const SLOTS_MIN: u64 = 2 * 4096;
/// Bytes of the pool for each of these slots, including levels that are being emptied and space allocated ahead.
const BYTES_PER_SLOT: u64 = 64;

type Shares = fn(&Hasher, u64) -> bool;

/// Sorts of chosen keys, by what they share.
const SORTS: [(&str, Shares); 3] = [
    ("the 12 low bits of the first output", |hasher, key| hasher.first_u64(key) & 0xfff == 0x5a5),
    ("the 8 low bits of each half of the second", |hasher, key| {
        let second = hasher.second_u64(key);
        h1(second) & 0xff == 0x5a && h2(second) & 0xff == 0xa5
    }),
    ("the 5 low bits of all three", |hasher, key| {
        let second = hasher.second_u64(key);
        hasher.first_u64(key) & 31 == 5 && h1(second) & 31 == 6 && h2(second) & 31 == 7
    }),
];

static CHOSEN: LazyLock<Vec<Vec<u64>>> = LazyLock::new(|| {
    let hasher = Hasher::new(SEED);
    let of_sort = |(_, shares): &(&str, Shares)| {
        (1..).filter(|&key| shares(&hasher, key)).take(KEYS).collect()
    };
    SORTS.iter().map(of_sort).collect()
});

fn value_of(key: u64) -> u64 {
    key.rotate_left(11) ^ 0x77
}

/// Inserts a key that may be refused for what it is.
fn insert<B: Backing>(table: &Table<B>, key: u64, model: &mut HashMap<u64, u64>) {
    match table.insert(key, value_of(key)) {
        Ok(found) => {
            assert_eq!(found, None);
            model.insert(key, value_of(key));
        }
        Err(Error::Space(SpaceError::Crowded { .. })) => assert_eq!(table.get(key), None),
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn chosen_keys_are_stored_or_refused<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(60);
    for ((sort, _), keys) in SORTS.iter().zip(&*CHOSEN) {
        for others in [0, OTHERS] {
            let table = Table::<B>::new(Setup::of(engine));
            let mut model = HashMap::new();
            (0..others).for_each(|key| insert(&table, spread(key), &mut model));
            assert_eq!(model.len() as u64, others, "nobody has chosen these");
            keys.iter().for_each(|&key| insert(&table, key, &mut model));
            let taken = model.len() as u64;
            let end = table.pool().superblock().end;
            let of_engine =
                format!("{engine:?}, {sort}, {others} others: {taken} pairs, {end} bytes");
            let occupancy = table.occupancy();
            let slots = SLOTS_MIN.max(SLOTS_PER_PAIR * taken);
            assert!(occupancy.capacity <= slots, "{of_engine}");
            assert!(end <= slots * BYTES_PER_SLOT, "{of_engine}");
            // As many chains are full as the shared bits tell apart.
            let is_of_chains = |level: &&Level| ["level 3", "stash"].contains(&level.name);
            let in_chains = occupancy.levels.iter().filter(is_of_chains).map(|level| level.pairs);
            assert!(in_chains.sum::<u64>() <= 8 * CHAIN_MAX, "{of_engine}");
            let before = model.len() as u64;
            (others..others + OTHERS).for_each(|key| insert(&table, spread(key), &mut model));
            // Few of the other keys belong to the same block as the chosen ones.
            let refused = OTHERS - (model.len() as u64 - before);
            assert!(refused <= OTHERS / REFUSED_OF, "{of_engine}: {refused} others are refused");
            table.assert_holds(&model);
            table.reopen().assert_holds(&model);
        }
    }
}
