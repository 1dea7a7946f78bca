//! What operations write and read, with keys and values of eight bytes.

use crate::harness::{NEVER, Random, Store, items_read, key};
use index::Records;
use pmem::medium::{Cost, measure};

/// A table without growth, filled to some load, and the number of its keys.
fn filled(percent: u64) -> (Store, u64) {
    let store = Store::new(12, NEVER, 0);
    let count = store.capacity() * percent / 100;
    store.fill(0..count);
    (store, count)
}

/// Lines, flushes and fences of one write.
fn writes(cost: Cost) -> (u64, u64, u64) {
    (cost.lines_written, cost.flushes, cost.fences)
}

#[test]
fn an_insertion_flushes_its_item_and_one_slot() {
    let (store, count) = filled(50);
    let mut with_new_segment = 0;
    for index in count..count + 5_000 {
        let (found, cost) = measure(|| store.insert(&key(index), &index.to_le_bytes()));
        assert_eq!(found, None);
        // The heap says once in 2048 items which segment it takes them from.
        match writes(cost) {
            (2, 2, 2) => {}
            _ => with_new_segment += 1,
        }
    }
    assert!(with_new_segment <= 4, "{with_new_segment} of 5000 insertions wrote more");
}

#[test]
fn updates_and_removals_flush_one_slot_besides_a_new_item() {
    let (store, count) = filled(70);
    let mut others = 0;
    for index in 0..2_000 {
        let (found, cost) = measure(|| store.update(&key(index), b"a value!"));
        assert_eq!(found, Some(index.to_le_bytes().to_vec()));
        others += u64::from(writes(cost) != (2, 2, 2));
    }
    assert!(others <= 4, "{others} of 2000 updates wrote more");
    for index in 0..count.min(2_000) {
        let (found, cost) = measure(|| store.remove(&key(index)));
        assert_eq!(found.as_deref(), Some(&b"a value!"[..]));
        assert_eq!(writes(cost), (1, 1, 1));
    }
}

#[test]
fn searches_write_nothing_and_look_at_their_own_item_only() {
    let (store, count) = filled(75);
    let mut random = Random::new(1);
    let (mut of_hits, mut of_misses) = ((0, 0), (0, 0));
    let searches = 50_000;
    for _ in 0..searches {
        let index = random.below(count);
        for (index, sums) in [(index, &mut of_hits), (index + (1 << 40), &mut of_misses)] {
            let ((found, items), cost) = measure(|| items_read(|| store.get(&key(index))));
            assert_eq!(found.is_some(), index < count);
            assert_eq!((cost.lines_written, cost.flushes, cost.fences), (0, 0, 0));
            sums.0 += items;
            sums.1 += cost.lines_read;
        }
    }
    let mean = |sum: u64| sum as f64 / f64::from(searches);
    println!("items looked at: {} per hit, {} per miss", mean(of_hits.0), mean(of_misses.0));
    println!("lines read: {} per hit, {} per miss", mean(of_hits.1), mean(of_misses.1));
    assert!((1.0..=1.05).contains(&mean(of_hits.0)) && mean(of_misses.0) <= 0.05);
    // The context, the slot's line, the item; a miss looks where a fingerprint happens to match.
    assert!(mean(of_hits.1) <= 3.1 && mean(of_misses.1) <= 1.15);
}

#[test]
fn batches_share_the_fence_of_their_items() {
    let (store, count) = filled(50);
    let keys: Vec<_> = (count - 256..count + 256).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|&key| (key, &b"a value!"[..])).collect();
    let write = store.pool.write().expect("the pool may be written");
    let (replaced, cost) = measure(|| store.table.upsert_many(&pairs).expect("room").len());
    assert_eq!(replaced, 512);
    // Half insertions, half updates. The heap may begin a segment.
    assert!((1024..1032).contains(&cost.flushes), "{cost:?}");
    assert!((512 + 32..512 + 32 + 8).contains(&cost.fences), "{cost:?}");
    let (removed, cost) = measure(|| store.table.remove_many(&keys).expect("sound items").len());
    assert_eq!((removed, cost.flushes, cost.fences), (512, 512, 512));
    drop(write);
    store.assert_sound(count - 256);
}
