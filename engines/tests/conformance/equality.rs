//! Keys and values whose type calls equal what differs in bytes, or different what does not: an
//! engine asks the bytes alone. Of the engines that take such types themselves; IcebergHT takes words.

use crate::harness::{Backing, ClevelHashing, Dram, Engine, LevelTable, PLACE, Setup};
use engines::clevel::ClevelTable;
use engines::level::LevelHashing;
use index::{Fixed, Index, is_same_state};
use pmem::Pool;
use pmem::pool::Spec;
use std::sync::Arc;

/// `N` bytes, equal to any others or, if not `ALIKE`, to none.
#[derive(Debug, Clone, Copy)]
struct Strange<const N: usize, const ALIKE: bool>([u8; N]);

impl<const N: usize, const ALIKE: bool> PartialEq for Strange<N, ALIKE> {
    fn eq(&self, _: &Self) -> bool {
        ALIKE
    }
}

impl<const N: usize, const ALIKE: bool> Fixed for Strange<N, ALIKE> {
    const BYTES: usize = N;

    fn word(self, index: usize) -> u64 {
        self.0.word(index)
    }

    fn of_words(word: impl Fn(usize) -> u64) -> Self {
        Strange(Fixed::of_words(word))
    }
}

/// Enough for keys that share bucket and fingerprint, and for several doublings.
const KEYS: u64 = 2000;

fn nth<T: Fixed>(number: u64) -> T {
    T::of_words(|index| if index == 0 { number } else { !number })
}

fn pool_of<E: Engine>(
    key_bytes: usize,
    value_bytes: usize,
) -> Arc<Pool<<Dram as Backing>::Medium>> {
    let setup = Setup::default();
    let (key_bytes, value_bytes) = (key_bytes as u32, value_bytes as u32);
    let spec = Spec { key_bytes, value_bytes, ..setup.spec::<E>() };
    let (_, medium) = Dram::empty(setup.limit_bytes);
    Arc::new(Pool::create(medium, &spec, PLACE).expect("a pool is made"))
}

fn on_level<K: Fixed, V: Fixed>() {
    let pool = pool_of::<LevelTable>(K::BYTES, V::BYTES);
    let table = LevelHashing::<_, K, V>::open(Arc::clone(&pool), Setup::default().settings());
    bytes_decide(&table.expect("a table is made"), &pool);
}

fn on_clevel<K: Fixed, V: Fixed>() {
    let pool = pool_of::<ClevelHashing>(K::BYTES, V::BYTES);
    let table = ClevelTable::<_, K, V>::open(Arc::clone(&pool), Setup::default().settings());
    bytes_decide(&table.expect("a table is made"), &pool);
}

fn bytes_decide<K: Fixed, V: Fixed>(
    table: &dyn Index<K, V>,
    pool: &Pool<<Dram as Backing>::Medium>,
) {
    let _write = pool.write().expect("the pool may be written");
    let is = |found: Option<V>, number: Option<u64>| is_same_state(found, number.map(nth));
    let holds = |key: u64, number| is(table.get(nth(key)), number);
    for key in 0..KEYS {
        assert!(is(table.insert(nth(key), nth(key)).expect("room"), None), "key {key} was there");
    }
    table.settle();
    assert_eq!(table.len(), KEYS);
    for key in 0..KEYS {
        let exchange = |expected: Option<u64>, new: Option<u64>| {
            let (expected, new) = (expected.map(nth), new.map(nth));
            table.compare_exchange(nth(key), expected, new).expect("room")
        };
        assert!(holds(key, Some(key)), "key {key}");
        let found = exchange(Some(key + 1), None).expect_err("another value");
        assert!(is(found, Some(key)));
        assert!(is(exchange(None, None).expect_err("a value"), Some(key)));
        assert!(exchange(Some(key), Some(key + 2)).is_ok(), "the value of key {key}");
        let removed = |number| table.remove_if(nth(key), nth(number)).expect("no room is needed");
        assert!(is(removed(key).expect_err("another value"), Some(key + 2)));
        match key % 2 {
            0 => assert!(removed(key + 2).is_ok(), "the value of key {key}"),
            _ => assert!(is(table.update(nth(key), nth(key)).expect("room"), Some(key + 2))),
        }
    }

    let changes: Vec<_> = (0..KEYS)
        .map(|key| {
            let wrong = if key % 3 == 0 { 1 } else { 0 };
            let expected = (key % 2 == 1 || wrong == 1).then(|| nth(key + wrong));
            (nth(key), expected, Some(nth(key + 5)))
        })
        .collect();
    let mut found = vec![None; changes.len()];
    table.compare_exchange_many(&changes, &mut found).expect("room");
    for (key, found) in (0..KEYS).zip(found) {
        let before = (key % 2 == 1).then_some(key);
        assert!(is(found, before), "key {key}");
        let after = if key % 3 == 0 { before } else { Some(key + 5) };
        assert!(holds(key, after), "key {key}");
    }

    table.settle();
    let report = table.check();
    assert!(report.is_sound(), "{} faults: {:#?}", report.faults, report.findings);
    let mut visits = 0;
    table.for_each(&mut |key, value| {
        visits += 1;
        assert!(is_same_state(table.get(key), Some(value)));
    });
    assert_eq!(visits, table.len());
    for key in 0..KEYS {
        let there = (key % 3 != 0).then_some(key + 5).or((key % 2 == 1).then_some(key));
        assert!(is(table.remove(nth(key)).expect("no room is needed"), there), "key {key}");
    }
    assert_eq!(table.len(), 0);
}

#[test]
fn equality_finer_than_bytes() {
    on_level::<Strange<8, false>, Strange<8, false>>();
    on_level::<Strange<9, false>, Strange<12, false>>();
    on_clevel::<Strange<8, false>, Strange<8, false>>();
    on_clevel::<Strange<70, false>, Strange<12, false>>();
}

#[test]
fn equality_coarser_than_bytes() {
    on_level::<Strange<8, true>, Strange<8, true>>();
    on_level::<Strange<9, true>, Strange<12, true>>();
    on_clevel::<Strange<8, true>, Strange<8, true>>();
    on_clevel::<Strange<70, true>, Strange<12, true>>();
}
