//! Every map does what the trait says, alone and under two threads, single and in batches.

use peers::{Batched, CONTENDERS, Map, WithMap, statically};
use std::collections::HashMap;

/// A run of mixed operations beside a map that is known to be right.
fn agrees_with_a_model<M: Map + ?Sized>(map: &M) {
    let mut model: HashMap<u64, u64> = HashMap::new();
    let mut random = 1u64;
    for step in 0..200_000 {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        // Few keys, the extreme ones among them, so that each is met present and absent.
        let key = match random >> 40 & 0x3ff {
            0 => u64::MAX,
            1 => 1 << 63,
            key => key - 2,
        };
        let value = step ^ random >> 20;
        match random >> 60 {
            0..4 => assert_eq!(map.get(key), model.get(&key).copied(), "get"),
            4..7 => {
                let absent = !model.contains_key(&key);
                assert_eq!(map.insert(key, value), absent, "insert");
                model.entry(key).or_insert(value);
            }
            7..10 => {
                let present = model.get_mut(&key).map(|found| *found = value).is_some();
                assert_eq!(map.update(key, value), present, "update");
            }
            10..12 => {
                assert_eq!(map.upsert(key, value), model.insert(key, value).is_some(), "upsert");
            }
            _ => assert_eq!(map.remove(key), model.remove(&key).is_some(), "remove"),
        }
    }
    for key in (0..1024).chain([u64::MAX, 1 << 63]) {
        assert_eq!(map.get(key), model.get(&key).copied(), "afterwards");
    }
}

/// Batches longer than any map's inner chunk, with absent and repeated keys among them.
fn answers_batches_in_order<M: Map + ?Sized>(map: &M) {
    let pairs: Vec<(u64, u64)> = (0..150).map(|number| (number * 2, number ^ 0xff)).collect();
    let mut present = vec![true; pairs.len()];
    map.upsert_many(&pairs, &mut present);
    assert!(present.iter().all(|present| !present));
    map.upsert_many(&pairs, &mut present);
    assert!(present.iter().all(|present| *present));

    let keys: Vec<u64> = (0..300).map(|place| place * 7 % 200).collect();
    let expected: Vec<Option<u64>> =
        keys.iter().map(|key| (key % 2 == 0).then(|| (key / 2) ^ 0xff)).collect();
    let mut found = vec![Some(1); keys.len()];
    map.get_many(&keys, &mut found);
    assert_eq!(found, expected);

    let repeated = [8, 8, 9, 8, 10, 10];
    let mut found = [Some(1); 6];
    map.get_many(&repeated, &mut found);
    let (four, five) = (Some(4 ^ 0xff), Some(5 ^ 0xff));
    assert_eq!(found, [four, four, None, four, five, five]);

    let mut removed = vec![false; 100];
    map.remove_many(&(0..100).collect::<Vec<u64>>(), &mut removed);
    assert!((0..100).all(|key| removed[key] == (key % 2 == 0)));
    assert_eq!((map.get(98), map.get(100)), (None, Some(50 ^ 0xff)));
}

/// Of several threads that insert the same keys each key has one winner, and its value stays.
fn has_one_winner_per_key<M: Map + ?Sized>(map: &M, threads: u64) {
    const KEYS: u64 = 20_000;
    let won: Vec<Vec<bool>> = std::thread::scope(|scope| {
        let race =
            |thread| move || (0..KEYS).map(|key| map.insert(key, key << 8 | thread)).collect();
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(race(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for key in 0..KEYS {
        let winners: Vec<u64> =
            (0..threads).filter(|thread| won[*thread as usize][key as usize]).collect();
        assert_eq!(winners.len(), 1, "key {key}");
        assert_eq!(map.get(key), Some(key << 8 | winners[0]), "key {key}");
    }
    let removed: u64 = std::thread::scope(|scope| {
        let race = || (0..KEYS).map(|key| map.remove(key) as u64).sum::<u64>();
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(race)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(removed, KEYS);
}

struct Conformance {
    name: &'static str,
    threads_max: usize,
}

impl WithMap for Conformance {
    type Output = ();

    fn with<M: Map>(self, open: impl Fn(u64, usize) -> M) {
        let map = open(1000, 1);
        assert_eq!(map.name(), self.name);
        agrees_with_a_model(&map);
        drop(map);
        answers_batches_in_order(&open(100, 1));
        if self.threads_max >= 2 {
            has_one_winner_per_key(&open(20_000, 2), 2);
        }
    }
}

#[test]
fn maps_conform_when_their_type_is_known() {
    for contender in CONTENDERS {
        println!("{}", contender.name);
        let conformance = Conformance { name: contender.name, threads_max: contender.threads_max };
        assert_eq!(statically(contender.name, conformance), Some(()));
    }
}

#[test]
fn maps_conform_behind_a_virtual_call() {
    for contender in CONTENDERS {
        println!("{}", contender.name);
        agrees_with_a_model(&*(contender.open)(1000, 1));
        answers_batches_in_order(&*(contender.open)(10, 1));
    }
}

#[test]
fn firndex_alone_has_every_batch() {
    for contender in CONTENDERS {
        let batched = (contender.open)(10, 1).batched();
        assert_eq!(batched == Batched::Everything, contender.name == "firndex");
    }
}

#[test]
fn the_unlocked_map_refuses_another_thread() {
    let contender = CONTENDERS.iter().find(|contender| contender.threads_max == 1).unwrap();
    let map = (contender.open)(10, 1);
    assert!(map.insert(1, 2));
    let elsewhere = std::thread::scope(|scope| scope.spawn(|| map.get(1)).join());
    assert!(elsewhere.is_err());
    assert_eq!(map.get(1), Some(2));
}

#[test]
fn rust_and_cpp_hash_alike() {
    unsafe extern "C" {
        fn shim_hash(key: u64, seed: u64, secret: u64) -> u64;
    }
    let (seed, secret) = peers::hash::twin_numbers();
    for number in 0..100_000 {
        let key = peers::stream::Keys::new(3, 1).key(number) >> (number % 64);
        // SAFETY: a pure function of numbers, which cannot unwind.
        let there = unsafe { shim_hash(key, seed, secret) };
        assert_eq!(there, peers::hash::hash(key), "key {key:#x}");
    }
}
