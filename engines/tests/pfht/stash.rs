//! The stash: what goes there, and what comes back.

use crate::harness::{
    NEVER, SLOTS, Table, WHEN_FULL, extend, key, shape, stashed, stashing, value, words_in,
};
use crate::table::packed::Bytes;
use engines::pfht::{Design, Shape};
use index::Index;
use pmem::medium::Dram;

#[test]
fn growth_empties_the_stash() {
    for percent in [1, 3, 5] {
        let table = Table::<Dram>::new(stashing(SLOTS, 8, percent), NEVER);
        let full = |index: &u64| table.insert(key(*index), value(*index)).is_err();
        let count = (0..).find(full).expect("it fills up");
        let before = stashed(&table);
        assert!(before > 0);
        let nodes = table.occupancy().levels[1].slots;
        extend(&table);
        // A bucket of which no item moves has no room for them.
        let left = stashed(&table);
        assert!(left <= before / 10, "{percent} %: {left} of {before}");
        // Half of what there was at first, besides the two of the key 0.
        assert_eq!(table.occupancy().levels[1].slots, 2 * nodes - 2);
        table.assert_holds(0..count);
        table.fill(count..count + count / 2);
        table.assert_holds(0..count + count / 2);
    }
}

/// Keys that share both buckets, however often the table doubles: they stay in the stash, which moves with them.
#[test]
fn what_shares_its_buckets_stays_in_the_stash() {
    const LOG2: u32 = 6;

    let table = Table::<Dram>::new(stashing(2, 2, 5), NEVER);
    let keys: Vec<u64> = words_in([63, 63], LOG2).take(3).collect();
    for &key in &keys {
        assert_eq!(table.insert(key, !key).expect("there is room"), None);
    }
    assert_eq!(table.insert(0, 9).expect("there is room"), None);
    for doublings in 3..=LOG2 {
        extend(&table);
        assert_eq!(stashed(&table), 2, "among 2^{doublings} buckets");
        for &key in &keys {
            assert_eq!(table.get(key), Some(!key), "among 2^{doublings} buckets");
        }
        table.assert_sound(4);
        let again = table.recovered(&table.image());
        assert_eq!((again.get(0), again.get(keys[2])), (Some(9), Some(!keys[2])));
        again.assert_sound(4);
    }
    for doublings in (2..LOG2).rev() {
        assert!(table.shrink(), "to 2^{doublings} buckets");
        table.assert_sound(4);
        for &key in &keys {
            assert_eq!(table.get(key), Some(!key), "among 2^{doublings} buckets");
        }
    }
    // The one in a slot goes first; then another one finds room there.
    for &key in &keys {
        assert_eq!(table.remove(key), Some(!key));
    }
    assert_eq!(table.remove(0), Some(9));
    assert_eq!(stashed(&table), 0);
    table.assert_sound(0);
}

#[test]
fn a_shrink_puts_into_the_stash_what_finds_no_room() {
    // Two keys of one bucket in half of the table, with one slot each.
    let table = Table::<Dram>::new(stashing(1, 2, 5), NEVER);
    extend(&table);
    let keys = [[1, 1], [5, 5]].map(|choice| words_in(choice, 3).next().unwrap());
    for key in keys {
        assert_eq!(table.insert(key, !key).expect("each has its own bucket"), None);
    }
    assert_eq!(stashed(&table), 0);
    let nodes = table.occupancy().levels[1].slots;
    assert!(table.shrink());
    assert_eq!(stashed(&table), 1);
    assert_eq!(table.occupancy().levels[1].slots, nodes, "the stash does not become smaller");
    for key in keys {
        assert_eq!(table.get(key), Some(!key));
    }
    table.assert_sound(2);
    table.recovered(&table.image()).assert_sound(2);
    // Without a stash the shrink turns back.
    let table = Table::<Dram>::new(stashing(1, 2, 0), NEVER);
    extend(&table);
    for key in keys {
        assert_eq!(table.insert(key, !key).expect("each has its own bucket"), None);
    }
    assert!(!table.shrink());
    for key in keys {
        assert_eq!(table.get(key), Some(!key));
    }
    table.assert_sound(2);
}

#[test]
fn nodes_are_used_again() {
    let table = Table::<Dram>::new(stashing(1, 1, 5), NEVER);
    let keys: Vec<u64> = words_in([1, 1], 1).take(40).collect();
    assert_eq!(table.insert(keys[0], 0).expect("the slot is empty"), None);
    let bytes = table.image().bytes();
    for &key in &keys[1..] {
        assert_eq!(table.insert(key, 0).expect("the node is free"), None);
        assert_eq!(table.insert(0, 0).expect("it has its own"), None);
        assert_eq!(stashed(&table), 2);
        assert_eq!((table.get(key), table.get(0)), (Some(0), Some(0)));
        assert_eq!((table.remove(key), table.remove(0)), (Some(0), Some(0)));
        assert_eq!((table.get(key), table.get(0)), (None, None));
    }
    assert_eq!(table.image().bytes(), bytes);
    assert_eq!(table.get(keys[0]), Some(0), "a value that is 0");
}

/// Pairs whose nodes lie across lines, and whose values an update takes through the log.
#[test]
fn long_pairs_in_the_stash_are_updated() {
    for design in [Design::default(), Design::PAPER] {
        let shape = Shape { design, ..stashing(1, 3, 5) };
        let table = Table::<Dram, Bytes<40>, Bytes<60>>::new(shape, WHEN_FULL);
        for index in 0..400 {
            assert_eq!(table.insert(Bytes::of(index), Bytes::of(!index)).expect("it grows"), None);
            let there = stashed(&table);
            for other in [index, index / 2] {
                let before = table.get(Bytes::of(other)).expect("it is there");
                assert_eq!(table.update(Bytes::of(other), Bytes::of(index + 3)), Some(before));
                assert_eq!(table.get(Bytes::of(other)), Some(Bytes::of(index + 3)));
            }
            assert_eq!(stashed(&table), there);
        }
        table.settle();
        table.assert_sound(400);
        table.recovered(&table.image()).assert_sound(400);
    }
}

#[test]
fn a_table_without_a_stash_keeps_the_key_0() {
    let table = Table::<Dram>::new(stashing(SLOTS, 0, 0), 0.85);
    for index in 0..3000 {
        table.fill(index..index + 1);
        assert_eq!(table.upsert(0, index), index.checked_sub(1), "key 0 beside {index} others");
        assert_eq!(table.get(0), Some(index));
    }
    table.settle();
    assert_eq!(table.index.len(), 3001);
    let again = table.recovered(&table.image());
    assert_eq!(again.remove(0), Some(2999));
    assert_eq!((again.remove(0), again.get(0)), (None, None));
    again.assert_holds(0..3000);
}

#[test]
fn a_scan_meets_what_is_in_the_stash() {
    let table = Table::<Dram>::new(shape(SLOTS, 6), NEVER);
    let full = |index: &u64| table.insert(key(*index), value(*index)).is_err();
    let count = (0..).find(full).expect("it fills up");
    assert!(stashed(&table) > 0);
    let mut found = Vec::new();
    table.index.for_each(&mut |key, value| found.push((key, value))).unwrap();
    let mut expected: Vec<_> = (0..count).map(|index| (key(index), value(index))).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}
