//! How full the table is when it grows.

use crate::harness::{Store, WHEN_FULL, key};

#[test]
fn expansions_come_when_the_table_is_full() {
    let store = Store::new(6, WHEN_FULL, 0);
    let (mut capacity, mut extents) = (store.capacity(), store.level_extents());
    let (mut loads, mut index) = (Vec::new(), 0u64);
    // From 96 buckets to half a million slots.
    while loads.len() < 10 {
        store.fill(index..index + 1);
        index += 1;
        if store.level_extents() != extents {
            loads.push((index - 1) as f64 / capacity as f64);
            extents = store.level_extents();
            store.settle();
            capacity = store.capacity();
        }
    }
    let of_six = &loads[4..];
    let mean = of_six.iter().sum::<f64>() / of_six.len() as f64;
    println!("load factors at expansions: {loads:.3?}, mean of the last six {mean:.3}");
    assert!(mean >= 0.93, "{loads:?}");
    store.assert_holds(0..index);
    assert_eq!(store.get(&key(index)), None);
}
