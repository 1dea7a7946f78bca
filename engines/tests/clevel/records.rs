//! Byte strings of any length against a map.

use crate::harness::{Random, Store, WHEN_FULL};
use index::{ItemError, Records};
use pmem::heap::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use std::collections::HashMap;

type Model = HashMap<Vec<u8>, Vec<u8>>;

fn some_key(random: &mut Random) -> Vec<u8> {
    let number = random.below(400);
    let len = [0, 1, 7, 8, 9, 200, 5000][number as usize % 7];
    number.to_le_bytes().into_iter().cycle().take(len).collect()
}

fn some_value(random: &mut Random) -> Vec<u8> {
    let len = [0, 3, 8, 100, 3000, 70_000][random.below(6) as usize];
    random.word().to_le_bytes().into_iter().cycle().take(len).collect()
}

fn assert_is(store: &Store, model: &Model) {
    let mut scanned = Model::new();
    let visited = store.table.for_each(&mut |key, value| {
        assert_eq!(scanned.insert(key.to_vec(), value.to_vec()), None, "{key:?} comes twice");
    });
    visited.expect("sound items");
    assert!(&scanned == model, "a scan shows something else than was stored");
    for (key, value) in model {
        assert_eq!(store.get(key).as_ref(), Some(value));
    }
    store.assert_sound(model.len() as u64);
}

#[test]
fn random_operations_agree_with_a_map() {
    let store = Store::new(1, WHEN_FULL, 1);
    let (mut random, mut model) = (Random::new(5), Model::new());
    for round in 0..6_000 {
        let (key, value) = (some_key(&mut random), some_value(&mut random));
        let before = model.get(&key).cloned();
        match random.below(6) {
            0 => {
                assert_eq!(store.insert(&key, &value), before);
                model.entry(key).or_insert(value);
            }
            1 => {
                assert_eq!(store.update(&key, &value), before);
                if before.is_some() {
                    model.insert(key, value);
                }
            }
            2 => {
                assert_eq!(store.upsert(&key, &value), before);
                model.insert(key, value);
            }
            3 => {
                assert_eq!(store.remove(&key), before);
                model.remove(&key);
            }
            4 => {
                let _write = store.pool.write().expect("the pool may be written");
                let expected = if random.percent(33) { None } else { before.as_deref() };
                let new = random.percent(50).then_some(&value[..]);
                let exchanged = store.table.compare_exchange(&key, expected, new).expect("room");
                match exchanged {
                    Ok(()) => {
                        assert_eq!(expected, before.as_deref());
                        match new {
                            Some(new) => drop(model.insert(key, new.to_vec())),
                            None => drop(model.remove(&key)),
                        }
                    }
                    Err(found) => {
                        assert_eq!(found.map(|record| record.bytes().to_vec()), before);
                        assert_ne!(expected, before.as_deref());
                    }
                }
            }
            _ => assert_eq!(store.get(&key), before),
        }
        if round % 1_500 == 0 {
            assert_is(&store, &model);
        }
    }
    assert_is(&store, &model);
    assert_is(&store.recovered(), &model);
}

#[test]
fn batches_are_their_operations_in_order() {
    let store = Store::new(1, WHEN_FULL, 0);
    let (mut random, mut model) = (Random::new(6), Model::new());
    for _ in 0..60 {
        let pairs: Vec<_> =
            (0..50).map(|_| (some_key(&mut random), some_value(&mut random))).collect();
        let refs: Vec<(&[u8], &[u8])> = pairs.iter().map(|(k, v)| (&k[..], &v[..])).collect();
        let keys: Vec<&[u8]> = refs.iter().map(|&(key, _)| key).collect();
        let write = store.pool.write().expect("the pool may be written");
        let replaced = store.table.upsert_many(&refs).expect("room");
        for ((key, value), replaced) in pairs.iter().zip(replaced) {
            let before = model.insert(key.clone(), value.clone());
            assert_eq!(replaced.map(|record| record.bytes().to_vec()), before);
        }
        let found = store.table.get_many(&keys).expect("sound items");
        for (key, found) in keys.iter().zip(found) {
            assert_eq!(found.map(|record| record.bytes().to_vec()), model.get(*key).cloned());
        }
        let removed = store.table.remove_many(&keys[..20]).expect("no room is needed");
        for (key, removed) in keys.iter().zip(removed) {
            assert_eq!(removed.map(|record| record.bytes().to_vec()), model.remove(*key));
        }
        drop(write);
        assert_is(&store, &model);
    }
}

#[test]
fn what_is_too_long_is_refused() {
    let store = Store::new(1, WHEN_FULL, 0);
    let _write = store.pool.write().expect("the pool may be written");
    let long_key = vec![1; KEY_BYTES_MAX + 1];
    let refused = store.table.insert(&long_key, b"");
    assert!(matches!(refused, Err(ItemError::KeyTooLong { .. })));
    let long_value = vec![1; VALUE_BYTES_MAX + 1];
    assert!(matches!(store.table.upsert(b"", &long_value), Err(ItemError::ValueTooLong { .. })));
    assert!(store.table.upsert(&long_key[1..], b"value").expect("room").is_none());
    assert_eq!(store.get(&long_key[1..]).as_deref(), Some(&b"value"[..]));
    assert_eq!(store.get(&long_key), None);
}
