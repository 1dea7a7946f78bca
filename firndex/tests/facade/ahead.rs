//! The heap of a store grows before a writer waits for it.

use firndex::{Engine, Options, Store};
use std::time::Duration;

const VALUE: [u8; 4000] = [7; 4000];

/// Bytes of the heap, and those of them that are free.
fn heap(store: &Store) -> (u64, u64) {
    let stats = store.stats().unwrap();
    (stats.heap_bytes, stats.heap_bytes - stats.heap_used_bytes)
}

/// Puts pairs until the heap has grown between two of them. Waits for long only if it does not.
fn fill_until_it_grows_by_itself(store: &Store, keys: &mut impl Iterator<Item = u32>) {
    let (mut bytes, mut free_bytes) = heap(store);
    let first_bytes = bytes;
    while bytes < 2 * first_bytes {
        // Nearly full, it is to grow although nobody writes.
        let is_nearly_full = free_bytes <= bytes / 16;
        for _ in 0..if is_nearly_full { 6000 } else { 1 } {
            if heap(store).0 > bytes {
                return;
            }
            if is_nearly_full {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        assert!(!is_nearly_full, "{free_bytes} of {bytes} bytes are free, for a minute");
        store.put(keys.next().unwrap().to_le_bytes(), VALUE).unwrap();
        (bytes, free_bytes) = heap(store);
    }
    panic!("only writers let it grow from {first_bytes} bytes");
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
            fill_until_it_grows_by_itself(&store, &mut keys);
        }
        let report = store.check().unwrap();
        assert!(report.is_sound(), "{engine}: {:?}", report.findings);
    }
}
