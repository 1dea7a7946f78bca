//! The cached table: whatever its size, look-ups say what the persistent table has.

use crate::harness::{NEVER, Random, Table, WHEN_FULL, cached, extend, key, shape, value};
use crate::table::packed::Bytes;
use engines::rewo::{Cached, Shape};
use index::{Fixed, Index};
use pmem::medium::{Count, Dram, measure};
use std::collections::HashMap;

type Counted = Table<Count<Dram>>;

/// Looks a key up, and tells whether nothing of the pool was read for that.
fn get(table: &Counted, key: u64) -> (Option<u64>, bool) {
    let (found, cost) = measure(|| table.get(key));
    (found, cost.lines_read == 0)
}

/// A table and what it should hold.
struct Modelled {
    table: Counted,
    model: HashMap<u64, u64>,
    random: Random,
    keys: u64,
    /// Look-ups that found a key without reading the pool.
    cached: u64,
}

impl Modelled {
    fn new(shape: Shape, resize_at: f64, keys: u64) -> Modelled {
        let (table, random) = (Table::new(shape, resize_at), Random::new(keys));
        Modelled { table, model: HashMap::new(), random, keys, cached: 0 }
    }

    fn key(&mut self) -> u64 {
        key(self.random.below(self.keys))
    }

    fn look_up(&mut self, key: u64) {
        let (found, is_free) = get(&self.table, key);
        assert_eq!(found, self.model.get(&key).copied(), "key {key:#x}");
        self.cached += u64::from(found.is_some() && is_free);
    }

    fn set(&mut self, key: u64, state: Option<u64>) {
        match state {
            Some(value) => self.model.insert(key, value),
            None => self.model.remove(&key),
        };
    }

    fn change_one(&mut self) {
        let (key, new) = (self.key(), self.random.word());
        let there = self.model.get(&key).copied();
        match self.random.below(6) {
            0 => {
                assert_eq!(self.table.insert(key, new).expect("it grows"), there);
                self.set(key, there.or(Some(new)));
            }
            1 => {
                assert_eq!(self.table.update(key, new), there);
                self.set(key, there.map(|_| new));
            }
            2 => {
                assert_eq!(self.table.upsert(key, new), there);
                self.set(key, Some(new));
            }
            3 => {
                assert_eq!(self.table.remove(key), there);
                self.set(key, None);
            }
            of_four => {
                let expected = if of_four == 4 { there } else { Some(new) };
                let state = if self.random.percent(50) { Some(new) } else { None };
                let result = {
                    let _write = self.table.pool.write().expect("the pool may be written");
                    self.table.index.compare_exchange(key, expected, state)
                };
                let wanted = if expected == there { Ok(()) } else { Err(there) };
                assert_eq!(result.expect("it grows"), wanted);
                if expected == there {
                    self.set(key, state);
                }
            }
        }
        self.look_up(key);
    }

    /// Batches, in which keys come twice now and then.
    fn change_many(&mut self) {
        let keys: Vec<u64> = (0..24).map(|_| self.key()).collect();
        let pairs: Vec<_> = keys.iter().map(|&key| (key, self.random.word())).collect();
        let mut out = vec![None; keys.len()];
        let kind = self.random.below(5);
        let exchanges: Vec<_> = pairs
            .iter()
            .map(|&(key, new)| (key, self.model.get(&key).copied(), Some(new)))
            .collect();
        {
            let _write = self.table.pool.write().expect("the pool may be written");
            let (index, out) = (&self.table.index, &mut out);
            match kind {
                0 => index.insert_many(&pairs, out),
                1 => index.update_many(&pairs, out),
                2 => index.upsert_many(&pairs, out),
                3 => index.remove_many(&keys, out),
                _ => index.compare_exchange_many(&exchanges, out),
            }
            .expect("it grows");
        }
        for (nth, (key, new)) in pairs.into_iter().enumerate() {
            let there = self.model.get(&key).copied();
            assert_eq!(out[nth], there, "operation {nth} of a batch of kind {kind}");
            let state = match kind {
                0 => there.or(Some(new)),
                1 => there.map(|_| new),
                2 => Some(new),
                3 => None,
                _ if exchanges[nth].1 == there => Some(new),
                _ => there,
            };
            self.set(key, state);
        }
        self.table.index.get_many(&keys, &mut out);
        for (key, found) in keys.into_iter().zip(out) {
            assert_eq!(found, self.model.get(&key).copied(), "of a batch");
            self.look_up(key);
        }
    }

    fn refill(&mut self) {
        let is_full_loaded = self.table.index.refill();
        assert_eq!(is_full_loaded, self.table.index.is_full_loaded());
        for _ in 0..20 {
            let key = self.key();
            let (found, is_free) = get(&self.table, key);
            assert_eq!(found, self.model.get(&key).copied());
            assert!(is_free || !is_full_loaded, "a full-loaded table leaves nothing to the pool");
        }
    }

    fn assert_same(&self) {
        for index in 0..self.keys {
            let expected = self.model.get(&key(index)).copied();
            // Cached by the first look-up if not before.
            assert_eq!(
                [get(&self.table, key(index)).0, get(&self.table, key(index)).0],
                [expected; 2]
            );
        }
        self.table.settle();
        self.table.assert_sound(self.model.len() as u64);
    }

    fn shrink(&self) {
        // A table that does not become smaller stays as it is.
        self.table.shrink();
    }

    /// Random operations, with look-ups of any keys in between.
    fn run(&mut self, rounds: u64, resizes: bool) {
        for round in 0..rounds {
            match self.random.below(100) {
                0..60 => self.change_one(),
                60..64 => self.change_many(),
                64 if self.random.percent(30) => self.refill(),
                65 if resizes && self.random.percent(10) => extend(&self.table),
                66 if resizes && self.random.percent(40) => self.shrink(),
                _ => {
                    let key = self.key();
                    self.look_up(key);
                }
            }
            if round % 5000 == 0 {
                self.assert_same();
            }
        }
        self.assert_same();
    }
}

#[test]
fn a_cached_table_of_any_size_never_shows_what_was_replaced() {
    for (smaller_log2, keys) in [(0, 900), (1, 900), (3, 900), (16, 900), (3, 40), (16, 8)] {
        let mut modelled = Modelled::new(cached(15, 1, smaller_log2), 0.85, keys);
        modelled.run(12_000, true);
        assert!(modelled.cached > 50, "1/2^{smaller_log2}: {} look-ups", modelled.cached);
    }
    // A table that stays as large as it is.
    for smaller_log2 in [0, 3, 16] {
        let mut modelled = Modelled::new(cached(8, 7, smaller_log2), NEVER, 600);
        modelled.run(12_000, false);
        assert!(modelled.cached > 50, "1/2^{smaller_log2}: {} look-ups", modelled.cached);
    }
}

#[test]
fn a_table_without_a_cached_one_says_the_same() {
    for cached in [Cached::Nothing, Cached::ByMedium] {
        let mut modelled = Modelled::new(Shape { cached, ..shape(15, 1) }, 0.85, 900);
        modelled.run(6000, true);
        assert_eq!(modelled.cached, 0, "there is nowhere to find it but in the pool");
        assert!(!modelled.table.index.is_full_loaded() && !modelled.table.index.refill());
    }
}

#[test]
fn pairs_too_large_for_a_cached_bucket_are_not_cached() {
    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Wide([u64; 15]);

    impl Fixed for Wide {
        const BYTES: usize = 120;

        fn word(self, index: usize) -> u64 {
            self.0[index]
        }

        fn of_words(word: impl Fn(usize) -> u64) -> Self {
            Wide(std::array::from_fn(word))
        }
    }

    let table = Table::<Dram, u64, Wide>::new(cached(1, 3, 0), WHEN_FULL);
    for index in 0..200 {
        assert_eq!(table.insert(key(index), Wide([index; 15])).expect("it grows"), None);
        assert_eq!(table.get(key(index)), Some(Wide([index; 15])));
    }
    assert!(!table.index.refill(), "nothing is cached");
    assert_eq!(table.get(key(200)), None);
    table.settle();
    table.assert_sound(200);
}

/// A full-loaded table of pairs `0..count`, and it.
fn full_loaded(slots: u32, initial_log2: u32, percent: u64) -> (Counted, u64) {
    let table = Counted::new(cached(slots, initial_log2, 0), NEVER);
    let count = table.capacity() * percent / 100;
    table.fill(0..count);
    let again = table.recovered(&table.image());
    assert!(again.index.refill(), "there is room for {percent} %");
    (again, count)
}

#[test]
fn a_full_loaded_table_knows_what_is_absent_through_all_changes() {
    let (table, count) = full_loaded(8, 7, 40);
    let mut random = Random::new(3);
    let mut model: HashMap<u64, u64> = (0..count).map(|index| (key(index), value(index))).collect();
    for _ in 0..4000 {
        // As many are there as before, more or less.
        let (key, new) = (key(random.below(2 * count)), random.word());
        match random.below(3) {
            0 => assert_eq!(table.upsert(key, new), model.insert(key, new)),
            1 => assert_eq!(table.remove(key), model.remove(&key)),
            _ => {
                let there = model.get(&key).copied();
                assert_eq!(table.update(key, new), there);
                model.entry(key).and_modify(|value| *value = new);
            }
        }
        assert!(table.index.is_full_loaded());
        assert_eq!(get(&table, key), (model.get(&key).copied(), true));
    }
    for index in 0..3 * count {
        assert_eq!(get(&table, key(index)), (model.get(&key(index)).copied(), true));
    }
    table.assert_sound(model.len() as u64);
}

#[test]
fn a_table_that_is_too_full_for_its_cached_one_is_partial_loaded_and_right() {
    let (table, count) = full_loaded(15, 6, 30);
    let most = table.capacity() * 9 / 10;
    let mut partial_from = None;
    for index in count..most {
        table.fill(index..index + 1);
        assert_eq!(table.get(key(index)), Some(value(index)));
        assert_eq!(table.get(key(index + 1)), None);
        if !table.index.is_full_loaded() {
            partial_from.get_or_insert(index);
        }
    }
    println!("partial-loaded from {partial_from:?} of {} pairs on", table.capacity());
    assert!(partial_from.is_some(), "the cached table has not room for {most}");
    assert!(!table.index.refill(), "nor by a refill");
    table.assert_holds(0..most);
    for index in count..most {
        assert_eq!(table.remove(key(index)), Some(value(index)));
    }
    assert!(!table.index.is_full_loaded(), "nobody has looked");
    assert!(table.index.refill());
    assert_eq!(get(&table, key(count)), (None, true));
    table.assert_holds(0..count);
}

#[test]
fn a_resize_makes_a_table_partial_loaded_until_it_is_refilled() {
    let (table, count) = full_loaded(15, 6, 30);
    extend(&table);
    assert!(!table.index.is_full_loaded());
    table.assert_holds(0..count);
    assert!(table.index.refill());
    assert_eq!(get(&table, key(count)), (None, true));
    assert!(table.shrink());
    assert!(!table.index.is_full_loaded());
    assert!(table.index.refill());
    assert_eq!(get(&table, key(0)), (Some(value(0)), true));
    table.assert_holds(0..count);
}

/// How full a table may be, in per cent, for a cached one as large to have room for all.
fn most_with_room<const K: usize, const V: usize>(slots: u32) -> u64 {
    let has_room = |percent: &u64| {
        let table = Table::<Dram, Bytes<K>, Bytes<V>>::new(cached(slots, 10, 0), NEVER);
        for index in 0..table.capacity() * percent / 100 {
            table.insert(Bytes::of(index), Bytes::of(index)).expect("there is room");
        }
        table.index.refill()
    };
    (5..90).step_by(5).take_while(has_room).last().expect("room for something")
}

#[test]
fn a_cached_table_as_large_has_room_for_all_of_a_table_that_is_not_too_full() {
    let most = [most_with_room::<8, 8>(15), most_with_room::<8, 8>(8), most_with_room::<16, 15>(8)];
    println!(
        "a refill has room for {most:?} %: words in 15 and in 8 slots, pairs of the paper's sizes"
    );
    assert!(most[0] >= 35 && most[1] >= 65 && most[2] >= 15, "{most:?}");
}
