//! A small store takes little space.

use crate::places;
use firndex::{Engine, Options};
use std::thread;

const ITEMS: u64 = 5_000;
/// Size classes of the heap that they can be in, with what it adds to each, and bytes of a segment.
const CLASSES: u64 = 4;
const SEGMENT_BYTES: u64 = 8 << 10;

/// Key and value of item `number`: 20 to 60 bytes together.
fn item(number: u64) -> (Vec<u8>, Vec<u8>) {
    let key = format!("{number:08}").into_bytes();
    (key, vec![number as u8; 12 + (number * 7 % 41) as usize])
}

/// Puts all items by so many threads and closes the store. Its file may have twice the bytes of the items, and
/// `besides_bytes`.
fn fill(options: &Options, threads: u64, besides_bytes: u64) {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    let store = options.create_store(&path).unwrap();
    thread::scope(|scope| {
        for first in 0..threads {
            let store = &store;
            scope.spawn(move || {
                for (key, value) in (first..ITEMS).step_by(threads as usize).map(item) {
                    store.put(&key, &value).unwrap();
                }
            });
        }
    });
    store.close().unwrap();
    let stored_bytes: usize =
        (0..ITEMS).map(item).map(|(key, value)| key.len() + value.len()).sum();
    let file_bytes = std::fs::metadata(&path).unwrap().len();
    let store = options.open_store(&path).unwrap();
    let engine = store.stats().unwrap().engine;
    println!("{engine}, {threads} threads: {file_bytes} bytes for {stored_bytes}");
    assert!(file_bytes <= 2 * stored_bytes as u64 + besides_bytes, "{engine}: {file_bytes}");
    assert_eq!(store.check().unwrap().pairs, ITEMS, "{engine}");
    for (key, value) in (0..ITEMS).map(item) {
        assert_eq!(store.get(&key).unwrap().as_deref(), Some(&value[..]), "{engine}");
    }
}

#[test]
fn a_small_store_has_a_small_file() {
    for threads in [1, 4] {
        // Each further thread may have a partly empty segment of each size class in hand.
        let in_hand_bytes = (threads - 1) * CLASSES * SEGMENT_BYTES;
        fill(&Options::new(), threads, (128 << 10) + in_hand_bytes);
        for &engine in Engine::ALL {
            // Some engines have indexes with twice as many slots.
            fill(&Options::new().engine(engine), threads, (256 << 10) + in_hand_bytes);
        }
    }
}

/// What a pool had taken ahead goes back to the file system, and comes again when it is needed.
#[test]
fn a_closed_file_ends_with_the_pool() {
    for &engine in Engine::ALL {
        let directory = places::in_ram();
        let path = directory.path().join("pool");
        let options = Options::new().engine(engine);
        let bytes = || std::fs::metadata(&path).unwrap().len();
        let store = options.create_store(&path).unwrap();
        store.put("key", "value").unwrap();
        let open_bytes = bytes();
        store.close().unwrap();
        let closed_bytes = bytes();
        assert!(closed_bytes < open_bytes, "{engine}: {closed_bytes} of {open_bytes}");
        assert!(closed_bytes < 64 << 10, "{engine}: {closed_bytes}");
        for round in 1..4 {
            let store = options.open_store(&path).unwrap();
            for (key, value) in (0..round * 1000).map(item) {
                store.put(&key, &value).unwrap();
            }
            // Dropped instead of closed: that is an end like any other.
            drop(store);
            let store = options.open_store(&path).unwrap();
            assert_eq!(store.check().unwrap().pairs, round * 1000 + 1, "{engine}");
            assert_eq!(store.get("key").unwrap().as_deref(), Some(&b"value"[..]), "{engine}");
        }
    }
}
