//! Every map does what the trait says, alone and under two threads, single and in batches.

use bench::{Batched, Map};
use peers::maps::Unlocked;
use peers::{ForEach, Peer, for_each};
use std::collections::HashMap;

/// A run of mixed operations beside a map that is known to be right.
fn agrees_with_a_model<M: Map>(map: &M) {
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
fn answers_batches_in_order<M: Map>(map: &M) {
    let value = |key: u64| key.is_multiple_of(2).then_some((key / 2) ^ 0xff);
    let pairs: Vec<(u64, u64)> = (0..150).map(|number| (number * 2, number ^ 0xff)).collect();
    let mut before = vec![Some(1); pairs.len()];
    map.insert_many(&pairs, &mut before);
    assert!(before.iter().all(Option::is_none));
    map.update_many(&pairs, &mut before);
    assert!(pairs.iter().zip(&before).all(|((_, value), before)| *before == Some(*value)));

    let keys: Vec<u64> = (0..300).map(|place| place * 7 % 200).collect();
    let expected: Vec<Option<u64>> = keys.iter().map(|key| value(*key)).collect();
    let mut found = vec![Some(1); keys.len()];
    map.get_many(&keys, &mut found);
    assert_eq!(found, expected);

    let repeated = [8, 8, 9, 8, 10, 10];
    let mut found = [Some(1); 6];
    map.get_many(&repeated, &mut found);
    assert_eq!(found, repeated.map(value));

    let keys: Vec<u64> = (0..100).collect();
    let mut removed = vec![Some(1); keys.len()];
    map.remove_many(&keys, &mut removed);
    assert!(keys.iter().zip(&removed).all(|(key, removed)| *removed == value(*key)));
    assert_eq!((map.get(98), map.get(100)), (None, value(100)));
}

/// Made for fewer pairs than come, a map grows and keeps them all.
fn grows<M: Map>(map: &M) {
    const KEYS: u64 = 300_000;
    assert!((0..KEYS).all(|key| map.insert(key, !key)));
    assert!((0..KEYS).all(|key| map.get(key) == Some(!key)));
}

/// Of several threads that insert the same keys each key has one winner, and its value stays.
fn has_one_winner_per_key<M: Map>(map: &M, threads: u64) {
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

struct Conformance;

impl ForEach for Conformance {
    fn with<P: Peer>(&mut self) {
        println!("{}", P::NAME);
        agrees_with_a_model(&P::open(1000).unwrap());
        answers_batches_in_order(&P::open(100).unwrap());
        if P::GROWS {
            grows(&P::open(0).unwrap());
        }
        if P::THREADS_MAX >= 2 {
            has_one_winner_per_key(&P::open(20_000).unwrap(), 2);
            has_one_winner_per_key(&P::open(if P::GROWS { 0 } else { 20_000 }).unwrap(), 4);
        }
        assert_ne!(P::VERSION, "unknown");
        let batched = P::open(10).unwrap().batched();
        assert_eq!(batched == Batched::Gets, ["papaya", "boost"].contains(&P::NAME));
    }
}

#[test]
fn every_peer_conforms() {
    for_each(&mut Conformance);
}

#[test]
fn the_unlocked_map_refuses_another_thread() {
    let map = Unlocked::open(10).unwrap();
    assert!(Unlocked::open(10).is_err(), "a thread has one at a time");
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
        let key = bench::keys::Keys::new(3, 1).key(number) >> (number % 64);
        // SAFETY: a pure function of numbers, which cannot unwind.
        let there = unsafe { shim_hash(key, seed, secret) };
        assert_eq!(there, peers::hash::hash(key), "key {key:#x}");
    }
}
