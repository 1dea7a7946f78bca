//! What only the inside of a table shows.

use super::{Clevel, ENGINE_ID, Shape, engine_params};
use crate::Settings;
use index::Records;
use pmem::medium::{Dram, Memory};
use pmem::pool::Spec;
use pmem::superblock::{Place, PoolKind};
use pmem::{Pool, SpaceError};

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

fn store(initial_log2: u32, resize_at: f64) -> Clevel<Dram> {
    let spec = Spec {
        kind: PoolKind::Store,
        engine: ENGINE_ID,
        key_bytes: 0,
        value_bytes: 0,
        hash_id: index::hash::HASH_ID,
        hash_seed: 1,
        uuid: 2,
        segment_log2: pmem::heap::SEGMENT_LOG2_DEFAULT,
        engine_params: engine_params(&Shape { initial_log2 }),
    };
    let medium = Memory::dram(1 << 30).unwrap();
    let pool = Arc::new(Pool::create(medium, &spec, Place::default()).unwrap());
    Clevel::open(pool, Settings { resize_at, helper: false, ..Settings::default() }).unwrap()
}

/// A large level takes long to allocate, or to be emptied.
#[test]
fn insertions_that_find_room_do_not_wait_for_who_takes_a_level() {
    let store = store(4, 0.5);
    let taking = store.core.taking.lock();
    let (done, is_done) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for key in 0..120u64 {
                store.insert(&key.to_le_bytes(), b"value").unwrap();
            }
            done.send(store.occupancy()).unwrap();
        });
        let occupancy = is_done.recv_timeout(Duration::from_secs(20));
        drop(taking);
        let occupancy = occupancy.expect("it waits");
        assert!(occupancy.load_factor() > 0.6 && !occupancy.resizing, "{occupancy:?}");
    });
    store.insert(b"one more", b"").unwrap();
    store.insert(b"another one", b"").unwrap();
    assert!(store.occupancy().resizes > 0, "{:?}", store.occupancy());
}

#[test]
fn threads_in_need_of_a_level_together_take_one() {
    for round in 0..200u64 {
        let store = store(1, 1.0);
        std::thread::scope(|scope| {
            for thread in 0..6u64 {
                let store = &store;
                scope.spawn(move || {
                    for index in 0..300 {
                        let key = (round << 32 | thread << 16 | index).to_le_bytes();
                        store.insert(&key, b"value").unwrap();
                    }
                });
            }
        });
        let sizes: Vec<u64> =
            store.core.pool.extents_of(super::LEVELS).iter().map(|level| level.bytes).collect();
        assert!(sizes.is_sorted_by(|a, b| a < b), "round {round}: {sizes:?}");
    }
}

#[test]
fn no_level_is_taken_that_the_context_has_no_room_for() {
    let store = store(1, 1.0);
    let core = &store.core;
    let guard = core.epochs.pin();
    for _ in 2..super::layout::LEVELS_MAX {
        core.grow(core.context()).unwrap();
    }
    let extents = core.pool.extents_of(super::LEVELS);
    assert_eq!(extents.len(), 10);
    assert!(matches!(core.grow(core.context()), Err(SpaceError::Full { .. })));
    assert_eq!(core.pool.extents_of(super::LEVELS), extents);
    drop(guard);
    store.insert(b"key", b"value").unwrap();
    store.settle();
    assert_eq!(store.check().findings, [""; 0]);
}
