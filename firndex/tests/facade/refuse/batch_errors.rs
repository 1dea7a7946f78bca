//! A batch that fails part-way says exactly which of its entries took effect.

use crate::byte_map::ByteMap;
use crate::engines::goes_on_behind;
use crate::places;
use crate::space::full::on_every_engine;
use firndex::{BatchError, Durability, Engine, Error, Fixed, ItemError, KEY_BYTES_MAX};
use firndex::{Options, Store, Table};
use std::collections::HashSet;

/// Compares what an error says in its several ways with the entries that took effect; how many of them lie behind one
/// that did not.
#[track_caller]
fn assert_says(error: &BatchError, took_effect: &[bool]) -> usize {
    assert!(matches!(error.error(), Error::PoolFull(_)), "{error}");
    let entries = took_effect.len();
    let said: Vec<bool> = (0..entries).map(|index| error.is_done(index)).collect();
    assert_eq!(said, took_effect, "{error}");
    let done = took_effect.iter().filter(|done| **done).count();
    let first_undone = took_effect.iter().position(|done| !done).unwrap();
    assert_eq!(
        (error.done(), error.entries(), error.first_undone()),
        (done, entries, first_undone)
    );
    assert!(error.undone().eq((0..entries).filter(|&index| !took_effect[index])));
    assert!(error.failed().is_some_and(|failed| !took_effect[failed]), "{error:?}");
    let behind = done - first_undone;
    let message = error.to_string();
    let begins = match (first_undone, behind) {
        (0, 0) => format!("none of {entries} entries took effect: "),
        (_, 0) => {
            format!("the first {first_undone} of {entries} entries took effect, and no other: ")
        }
        _ => format!(
            "the first {first_undone} of {entries} entries took effect, and {behind} behind them: "
        ),
    };
    assert!(message.starts_with(&begins) && message.contains("the pool is full"), "{message}");
    behind
}

/// What a full table has never held.
const UNTOUCHED: u32 = u32::MAX;
const BATCH: u32 = 500;

trait Sized8: Fixed + PartialEq + std::fmt::Debug {
    fn of(number: u32) -> Self;
}

impl Sized8 for u64 {
    fn of(number: u32) -> u64 {
        u64::from(number)
    }
}

impl Sized8 for [u8; 8] {
    fn of(number: u32) -> [u8; 8] {
        u64::from(number).to_le_bytes()
    }
}

impl Sized8 for [u8; 24] {
    fn of(number: u32) -> [u8; 24] {
        std::array::from_fn(|index| number.to_le_bytes()[index % 4])
    }
}

type Into<K, V> = fn(&Table<K, V>, &[(K, V)], &mut [Option<V>]) -> Result<(), BatchError>;

/// Batches until ten have failed: of new keys alone, and of new keys among old ones.
fn fill<K: Sized8, V: Sized8>(engine: Engine) {
    let ways: [(Into<K, V>, bool); 3] = [
        (Table::put_many_into, false),
        (Table::insert_many_into, false),
        // Every other pair has a key of the batch before, which needs no space.
        (Table::put_many_into, true),
    ];
    let mut behind = 0;
    for (put, has_updates) in ways {
        let small = Options::new().engine(engine).max_bytes(600_000);
        let table: Table<K, V> = small.in_memory_table_of().unwrap();
        let (mut batch, mut failures) = (0, 0);
        while failures < 10 {
            batch += 1;
            let key = |index: u32| match has_updates && index % 2 == 1 {
                true => (batch - 1) * BATCH + index - 1,
                false => batch * BATCH + index,
            };
            let value = |index: u32| batch * BATCH + index + 1;
            let pairs: Vec<(K, V)> =
                (0..BATCH).map(|index| (K::of(key(index)), V::of(value(index)))).collect();
            let mut found = vec![Some(V::of(UNTOUCHED)); pairs.len()];
            let len = table.len();
            let Err(error) = put(&table, &pairs, &mut found) else { continue };
            failures += 1;
            let is_done = |(key, value): &(K, V)| table.get(*key).unwrap() == Some(*value);
            let took_effect: Vec<bool> = pairs.iter().map(is_done).collect();
            behind += assert_says(&error, &took_effect);
            let is_touched: Vec<bool> =
                found.iter().map(|found| *found != Some(V::of(UNTOUCHED))).collect();
            assert_eq!(is_touched, took_effect, "{engine}");
            let new = found.iter().filter(|found| found.is_none()).count() as u64;
            assert_eq!(table.len(), len + new, "{engine}");
            // The rest can be done elsewhere, and nothing twice.
            let other: Table<K, V> = Table::in_memory().unwrap();
            let rest: Vec<_> = error.undone().map(|index| pairs[index]).collect();
            assert!(other.put_many(&rest).unwrap().iter().all(Option::is_none));
            assert_eq!(other.len() as usize + error.done(), pairs.len());
        }
        assert!(table.check().unwrap().is_sound());
    }
    assert_eq!(
        behind > 0,
        goes_on_behind(engine).0,
        "{engine}: {behind} took effect behind one that did not"
    );
}

#[test]
fn a_table_that_fills_in_mid_batch() {
    on_every_engine(|engine| {
        fill::<u64, u64>(engine);
        // Pairs that are words, but not as numbers.
        fill::<[u8; 8], u64>(engine);
        if Options::new().engine(engine).in_memory_table_of::<[u8; 24], u64>().is_ok() {
            fill::<[u8; 24], [u8; 8]>(engine);
        }
    });
}

#[test]
fn an_extension_counts_from_the_first_pair_on() {
    on_every_engine(|engine| {
        let options = Options::new().engine(engine).max_bytes(600_000);
        let table = options.in_memory_table().unwrap();
        let error = table.extend((0..1_000_000).map(|key| (key, !key))).unwrap_err();
        assert!(error.entries() as u64 <= table.len() + 256 && error.entries() > 1000, "{error}");
        let is_done = |key: u64| table.get(key).unwrap() == Some(!key);
        let took_effect: Vec<bool> = (0..error.entries() as u64).map(is_done).collect();
        assert_says(&error, &took_effect);
        assert_eq!(table.len(), error.done() as u64);

        let store = options.clone().max_bytes(6 << 20).in_memory_store().unwrap();
        let pair = |key: u32| (key.to_le_bytes(), vec![key as u8; 100 + key as usize % 7000]);
        let error = store.extend((0..1_000_000).map(pair)).unwrap_err();
        let contents = store.sound_contents();
        let is_done = |key: u32| contents.contains_key(&key.to_le_bytes()[..]);
        let took_effect: Vec<bool> = (0..error.entries() as u32).map(is_done).collect();
        assert_says(&error, &took_effect);
        assert_eq!(store.len(), error.done() as u64);
        let too_long = vec![0; KEY_BYTES_MAX + 1];
        let keys = (0..1000u32).map(|key| key.to_le_bytes().to_vec()).chain([too_long]);
        let store = options.in_memory_store().unwrap();
        let error = store.extend(keys.map(|key| (key, "value"))).unwrap_err();
        let limit = matches!(error.error(), Error::Limit(ItemError::KeyTooLong { .. }));
        assert!(limit && error.failed() == Some(1000), "{error:?}");
        assert_eq!((store.len(), error.first_undone()), (768, 768), "three batches of 256");
    });
}

fn key_of(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Batches of a hundred until ten have failed. Every third value is large, every third replaces one by another of its
/// length, and some keys come twice. How many took effect behind one that did not.
fn fill_store(engine: Engine, large: usize) -> usize {
    let options = Options::new().engine(engine).max_bytes(6 << 20);
    let store = options.in_memory_store().unwrap();
    for key in 0..30 {
        store.put(key_of(key), [0; 50]).unwrap();
    }
    let (mut batch, mut failures, mut behind) = (0u8, 0, 0);
    while failures < 10 {
        batch += 1;
        let pair = |index: u8| {
            let own = |number: u8| key_of(u64::from(batch) * 1000 + u64::from(number));
            match index % 3 {
                0 => (own(index), vec![batch; large]),
                1 => (key_of(u64::from(index % 30)), [[batch; 25], [index; 25]].concat()),
                _ => (own(index / 12 * 12), vec![batch; 1 + usize::from(index)]),
            }
        };
        let pairs: Vec<([u8; 8], Vec<u8>)> = (0..100).map(pair).collect();
        let Err(error) = store.put_many(&pairs) else { continue };
        failures += 1;
        let contents = store.sound_contents();
        let mut undone_keys = HashSet::new();
        for (index, (key, value)) in pairs.iter().enumerate() {
            let shows = contents.get(&key[..]) == Some(value);
            if !error.is_done(index) {
                assert!(!shows, "{engine}: entry {index} is there: {error}");
                undone_keys.insert(key);
                continue;
            }
            assert!(!undone_keys.contains(key), "{engine}: entry {index} overtook another one");
            let is_replaced = (index + 1..pairs.len())
                .any(|later| pairs[later].0 == *key && error.is_done(later));
            assert!(shows != is_replaced, "{engine}: entry {index}: {error}");
        }
        let said: Vec<bool> = (0..pairs.len()).map(|index| error.is_done(index)).collect();
        behind += assert_says(&error, &said);
    }
    behind
}

#[test]
fn a_store_that_fills_in_mid_batch() {
    on_every_engine(|engine| {
        for large in [3000, 20_000, 200_000] {
            let behind = fill_store(engine, large);
            let (_, goes_on) = goes_on_behind(engine);
            assert_eq!(behind > 0, goes_on, "{engine}, {large}: {behind} behind one that did not");
        }
    });
}

#[test]
fn refused_before_it_began_a_batch_has_done_nothing() {
    let directory = places::in_ram();
    let [table, store] = ["table", "store"].map(|name| directory.path().join(name));
    <Table>::create(&table).unwrap().put(1, 10).unwrap();
    Store::create(&store).unwrap().put("a", "b").unwrap();
    let options = Options::new().read_only(true);
    let table = options.open_table(&table).unwrap();
    let store = options.open_store(&store).unwrap();
    let refused = [
        table.put_many(&[(1, 1), (2, 2)]).unwrap_err(),
        table.remove_many(&[1, 2]).unwrap_err(),
        table.extend([(1, 1), (2, 2)]).unwrap_err(),
        store.put_many(&[("a", "1"), ("b", "2")]).map(drop).unwrap_err(),
        store.remove_many(&["a", "b"]).map(drop).unwrap_err(),
        store.extend([("a", "1"), ("b", "2")]).unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error.error(), Error::ReadOnly), "{error}");
        assert_eq!((error.entries(), error.done(), error.failed()), (2, 0, None), "{error:?}");
        assert!(error.undone().eq([0, 1]));
        assert!(error.to_string().starts_with("none of 2 entries took effect: the pool was"));
        assert!(matches!(Error::from(error), Error::ReadOnly));
    }
}

/// With `Commit` the entries that took effect survive power loss, which leaves log and checkpoint alone.
#[test]
fn what_took_effect_is_committed() {
    on_every_engine(|engine| {
        let directory = places::on_disk();
        let options = Options::new().engine(engine).durability(Durability::Commit);
        let options = options.max_bytes(600_000).helpers(0);
        let table = options.create_table(directory.path().join("pool")).unwrap();
        let pairs: Vec<(u64, u64)> = (0..100_000).map(|key| (key, !key)).collect();
        let error = table.put_many(&pairs).unwrap_err();
        assert!(error.done() > 1000, "{error}");
        let restored = places::on_disk();
        places::copy_companions(&directory.path().join("pool"), restored.path());
        let copy = <Table>::open(restored.path().join("pool")).unwrap();
        for (index, &(key, value)) in pairs.iter().enumerate() {
            let found = copy.get(key).unwrap();
            assert_eq!(found, error.is_done(index).then_some(value), "{engine}: key {key}");
        }
    });
}
