//! Keys that somebody has chosen who knows the pool's seed: they share blocks and buckets, and their neighbours'.
//!
//! They are stored or refused for what they are. The pool grows no further than its pairs allow, nothing is lost, and
//! keys that nobody has chosen are stored beside them.

use crate::harness::{Backing, Engine, SEED, Setup, Table, spread, within};
use index::hash::{Hasher, h1, h2};
use index::{Error, Index};
use pmem::SpaceError;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Chosen keys of each sort.
const KEYS: usize = 3000;
/// Other keys, before and after them.
const OTHERS: u64 = 5000;
/// What the pool may grow to, far beyond what it should.
const LIMIT_BYTES: u64 = 256 << 20;

type Shares = fn(&Hasher, u64) -> bool;

/// Sorts of chosen keys: how many bits of the hashes they share, and which.
const SORTS: [(&str, Shares); 3] = [
    ("the first output's 12 low bits", |hasher, key| hasher.first_u64(key) & 0xfff == 0x5a5),
    ("8 low bits of both halves of the second", |hasher, key| {
        let second = hasher.second_u64(key);
        h1(second) & 0xff == 0x5a && h2(second) & 0xff == 0xa5
    }),
    ("5 low bits of all three", |hasher, key| {
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
        Err(error) => {
            println!("{error}");
            assert_eq!(table.get(key), None);
        }
    }
}

pub(crate) fn chosen_keys_are_stored_or_refused<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(60);
    for ((sort, _), keys) in SORTS.iter().zip(&*CHOSEN) {
        for others in [0, OTHERS] {
            let table = Table::<B>::new(Setup { limit_bytes: LIMIT_BYTES, ..Setup::of(engine) });
            let mut model = HashMap::new();
            (0..others).for_each(|key| insert(&table, spread(key), &mut model));
            for &key in keys {
                insert(&table, key, &mut model);
            }
            let taken = model.len();
            let end = table.pool().superblock().end;
            let occupancy = table.occupancy();
            println!("{engine:?} {sort} {others}: {taken} pairs, {end} bytes, {occupancy:?}");
            let _ = matches!(
                Err::<(), _>(Error::Space(SpaceError::Full {
                    needed_bytes: 0,
                    reason: String::new()
                })),
                Ok(())
            );
            (others..others + OTHERS).for_each(|key| insert(&table, spread(key), &mut model));
            table.assert_holds(&model);
            table.reopen().assert_holds(&model);
        }
    }
}
