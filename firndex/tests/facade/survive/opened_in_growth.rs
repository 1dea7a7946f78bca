//! A store that was killed while it grew: helpers move its slots while opening looks for what the heap still holds.

use crate::{effort, places};
use firndex::{Engine, Options, Store};

fn value_of(key: u64) -> [u8; 20] {
    let mut value = [0x5a; 20];
    value[..8].copy_from_slice(&key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    value
}

/// Puts before it is asked again whether the store grows: to count what it holds takes longer than they do.
const PUTS_BETWEEN: u64 = 100;

/// Puts keys from 0 on until the store grows, and there are so many.
fn grow(store: &Store, keys_min: u64) -> u64 {
    let mut keys = 0;
    while keys < keys_min || !store.stats().unwrap().resizing {
        for key in keys..keys + PUTS_BETWEEN {
            store.put(key.to_le_bytes(), value_of(key)).unwrap();
        }
        keys += PUTS_BETWEEN;
    }
    keys
}

/// What opening frees by mistake is overwritten by the puts that follow.
#[test]
fn what_a_helper_moves_while_a_store_is_opened_stays() {
    let directory = places::in_ram();
    for &engine in Engine::ALL {
        let path = directory.path().join(engine.name());
        let store = Options::new().engine(engine).helpers(0).create_store(&path).unwrap();
        let keys = grow(&store, 20_000);
        // As a kill leaves the pool: nobody writes while it is read.
        let killed = std::fs::read(&path).unwrap();
        drop(store);
        for _ in 0..effort::of(3, 1) {
            std::fs::write(&path, &killed).unwrap();
            let opened = Options::new().helpers(2).open_store(&path).unwrap();
            for key in keys..keys + 2_000 {
                opened.put(key.to_le_bytes(), value_of(key)).unwrap();
            }
            for key in 0..keys + 2_000 {
                let found = opened.get(key.to_le_bytes()).unwrap();
                assert_eq!(found.as_deref(), Some(&value_of(key)[..]), "{engine}, key {key}");
            }
            let report = opened.check().unwrap();
            assert!(report.is_sound(), "{engine}: {report:?}");
        }
    }
}
