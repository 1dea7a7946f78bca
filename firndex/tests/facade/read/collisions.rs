//! Stores whose keys share hashes, and whose items are moved together.

use engines::engine::{PairSizes, Parameters, Wanted};
use engines::{Engine, Settings};
use index::Records;
use index::hash::{HASH_ID, Hasher};
use pmem::Pool;
use pmem::heap::SEGMENT_LOG2_SMALL;
use pmem::medium::Memory;
use pmem::pool::Spec;
use pmem::superblock::{Place, PoolKind};
use std::sync::Arc;

const SEED: u64 = 3;
const KEYS: u32 = 1200;
/// Of so many keys one stays.
const STAYS: u32 = 8;

fn pool(engine: Engine) -> Arc<Pool<Memory>> {
    let spec = Spec {
        kind: PoolKind::Store,
        engine: engine.description().id,
        key_bytes: 0,
        value_bytes: 0,
        hash_id: HASH_ID,
        hash_seed: SEED,
        uuid: 1,
        segment_log2: SEGMENT_LOG2_SMALL,
        engine_params: engine.engine_params(&Wanted {
            sizes: PairSizes::WORDS,
            pairs: 0,
            resize_at: Settings::default().resize_at,
            parameters: &Parameters::default(),
        }),
    };
    Arc::new(Pool::create(Memory::dram(1 << 30).unwrap(), &spec, Place::default()).unwrap())
}

/// Of several size classes.
fn value_of(key: u32) -> Vec<u8> {
    key.to_le_bytes().into_iter().cycle().take(8 + 40 * (key as usize % 5)).collect()
}

fn compact(store: &dyn Records) -> u64 {
    let mut freed = 0;
    loop {
        match store.compact().freed_bytes {
            0 => return freed,
            bytes => freed += bytes,
        }
    }
}

fn assert_holds(store: &dyn Records, engine: Engine, keys: impl Iterator<Item = u32>) {
    let keys: Vec<u32> = keys.collect();
    for &key in &keys {
        let found = store.get(&key.to_le_bytes()).unwrap();
        assert_eq!(
            found.as_ref().map(|found| found.bytes()),
            Some(&value_of(key)[..]),
            "{engine}: key {key}"
        );
    }
    assert_eq!(store.len(), keys.len() as u64, "{engine}");
    // That nothing is taken to which nothing leads, too.
    let report = store.check();
    assert!(report.is_sound(), "{engine}: {:?}", report.findings);
}

/// The items of a group are moved like others, each with a new array of the group.
#[test]
fn items_of_colliding_keys_are_moved_and_nothing_is_left() {
    for &engine in Engine::ALL {
        let mut freed = 0;
        for hash_bits in [0, 4, 8] {
            // One group of all keys is written anew with each.
            let keys = if hash_bits == 0 { KEYS / 4 } else { KEYS };
            let pool = pool(engine);
            let hasher = Hasher::with_bits(SEED, hash_bits);
            let settings = Settings { helpers: 0, ..Settings::default() };
            let store = engine.open_bytes(Arc::clone(&pool), hasher, settings).unwrap().engine;
            let store = &*store;
            let write = pool.write().unwrap();
            for key in 0..keys {
                store.insert(&key.to_le_bytes(), &value_of(key)).unwrap();
            }
            for key in (0..keys).filter(|key| key % STAYS != 0) {
                store.remove(&key.to_le_bytes()).unwrap();
            }
            let stay = || (0..keys).filter(|key| key % STAYS == 0);
            assert_holds(store, engine, stay());
            freed += compact(store);
            drop(write);
            assert_holds(store, engine, stay());
        }
        assert!(freed > 0, "{engine}: nothing was moved");
    }
}
