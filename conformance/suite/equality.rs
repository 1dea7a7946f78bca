//! Keys and values whose type calls equal what differs in bytes, or different what does not. An engine must decide by
//! the bytes alone. Tested on every engine that keeps such types itself, and not only words.

use crate::common::assert_sound;
use crate::engines::ALL;
use crate::harness::{Backing, Dram, PLACE, Setup};
use engines::engine::{PairSizes, Parameters, Wanted};
use index::{Fixed, Index, is_same_state};
use pmem::Pool;
use pmem::pool::Spec;
use std::sync::Arc;

/// Set in the number of a value that is equal to any bytes. A value without it is equal to none.
const IS_ALIKE: u64 = 1 << 62;

/// `N` bytes.
#[derive(Debug, Clone, Copy)]
struct Strange<const N: usize>([u8; N]);

impl<const N: usize> PartialEq for Strange<N> {
    fn eq(&self, _: &Self) -> bool {
        self.word(0) & IS_ALIKE != 0
    }
}

impl<const N: usize> Fixed for Strange<N> {
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

/// Not a pair of words: an engine that takes these keeps whatever it is given.
const NO_WORDS: PairSizes = PairSizes { key_bytes: 9, value_bytes: 12 };

fn nth<T: Fixed>(number: u64) -> T {
    T::of_words(|index| if index == 0 { number } else { !number })
}

/// Tries pairs of these types, from number `first` on, on every engine that takes them.
fn bytes_decide_on_all<K: Fixed, V: Fixed>(first: u64) {
    let sizes = PairSizes { key_bytes: K::BYTES as u32, value_bytes: V::BYTES as u32 };
    let mut engines = 0;
    for engine in ALL {
        let parameters = Parameters::default();
        let takes = |sizes| engine.listed.takes(sizes, &parameters);
        if !takes(sizes) || !takes(NO_WORDS) {
            continue;
        }
        let PairSizes { key_bytes, value_bytes } = sizes;
        let setup = Setup::of(engine);
        let wanted = Wanted { sizes, pairs: 0, resize_at: 0.85, parameters: &parameters };
        let engine_params = engine.listed.engine_params(&wanted);
        let spec = Spec { key_bytes, value_bytes, engine_params, ..setup.spec() };
        let (_, medium) = Dram::empty(setup.limit_bytes);
        let pool = Arc::new(Pool::create(medium, &spec, PLACE).expect("a pool is made"));
        let table = engine.listed.open_pairs::<_, K, V>(Arc::clone(&pool), setup.settings());
        bytes_decide(&*table.expect("a table is made"), &pool, first);
        engines += 1;
    }
    assert!(engines > 0, "no engine takes {sizes:?}");
}

fn bytes_decide<K: Fixed, V: Fixed>(
    table: &dyn Index<K, V>,
    pool: &Pool<<Dram as Backing>::Medium>,
    first: u64,
) {
    let _write = pool.write().expect("the pool may be written");
    let is = |found: Option<V>, number: Option<u64>| is_same_state(found, number.map(nth));
    let holds = |key: u64, number| is(table.get(nth(key)), number);
    for key in first..first + KEYS {
        assert!(is(table.insert(nth(key), nth(key)).expect("room"), None), "key {key} was there");
    }
    table.settle();
    assert_eq!(table.len(), KEYS);
    for key in first..first + KEYS {
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

    let changes: Vec<_> = (first..first + KEYS)
        .map(|key| {
            let wrong = if key % 3 == 0 { 1 } else { 0 };
            let expected = (key % 2 == 1 || wrong == 1).then(|| nth(key + wrong));
            (nth(key), expected, Some(nth(key + 5)))
        })
        .collect();
    let mut found = vec![None; changes.len()];
    table.compare_exchange_many(&changes, &mut found).expect("room");
    for (key, found) in (first..first + KEYS).zip(found) {
        let before = (key % 2 == 1).then_some(key);
        assert!(is(found, before), "key {key}");
        let after = if key % 3 == 0 { before } else { Some(key + 5) };
        assert!(holds(key, after), "key {key}");
    }

    table.settle();
    assert_sound(&table.check(), table.len());
    let mut visits = 0;
    table
        .for_each(&mut |key, value| {
            visits += 1;
            assert!(is_same_state(table.get(key), Some(value)));
        })
        .unwrap();
    assert_eq!(visits, table.len());
    for key in first..first + KEYS {
        let there = (key % 3 != 0).then_some(key + 5).or((key % 2 == 1).then_some(key));
        assert!(is(table.remove(nth(key)).expect("no room is needed"), there), "key {key}");
    }
    assert_eq!(table.len(), 0);
}

fn bytes_decide_for(first: u64) {
    bytes_decide_on_all::<Strange<8>, Strange<8>>(first);
    bytes_decide_on_all::<Strange<9>, Strange<12>>(first);
    bytes_decide_on_all::<Strange<70>, Strange<12>>(first);
}

#[test]
fn equality_finer_than_bytes() {
    bytes_decide_for(0);
}

#[test]
fn equality_coarser_than_bytes() {
    bytes_decide_for(IS_ALIKE);
}
