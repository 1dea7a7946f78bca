//! The heap of a store grows before a writer waits for it.

use firndex::{Engine, Options, Store};
use std::time::Duration;

const VALUE: [u8; 4000] = [7; 4000];

/// Bytes of the heap, and those of them that are free.
fn heap(store: &Store) -> (u64, u64) {
    let stats = store.stats().unwrap();
    (stats.heap_bytes, stats.heap_bytes - stats.heap_used_bytes)
}

/// Puts pairs until a sixteenth of the heap is free, and waits until it grows although nobody writes. It may also grow
/// during the last of these puts. That was no writer, since one lets it grow only when it finds no room.
fn fill_until_it_grows_ahead(store: &Store, keys: &mut impl Iterator<Item = u32>) {
    loop {
        let (bytes, free_bytes) = heap(store);
        let is_nearly_full = free_bytes <= bytes / 16;
        if is_nearly_full {
            std::thread::sleep(Duration::from_millis(10));
        } else {
            store.put(keys.next().unwrap().to_le_bytes(), VALUE).unwrap();
        }
        if heap(store).0 > bytes {
            return;
        }
    }
}

#[test]
fn a_heap_grows_before_it_is_full() {
    for &engine in Engine::ALL {
        if !engine.description().has_helpers {
            continue;
        }
        let store = Options::new().engine(engine).in_memory_store().unwrap();
        let mut keys = 0u32..;
        while heap(&store).0 < 5 << 20 {
            store.put(keys.next().unwrap().to_le_bytes(), VALUE).unwrap();
        }
        for _ in 0..3 {
            fill_until_it_grows_ahead(&store, &mut keys);
        }
        let report = store.check().unwrap();
        assert!(report.is_sound(), "{engine}: {:?}", report.findings);
    }
}
