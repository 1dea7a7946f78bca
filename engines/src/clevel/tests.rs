//! What only the inside of a table shows.

use super::{Clevel, ENGINE_ID, Shape, engine_params};
use crate::Settings;
use index::Records;
use pmem::Pool;
use pmem::medium::{Dram, Memory};
use pmem::pool::Spec;
use pmem::superblock::{Place, PoolKind};

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
