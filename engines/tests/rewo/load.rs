//! How full a table gets that may not grow, and what it says then.

use crate::harness::{NEVER, Table, key, shape, value};
use crate::table::packed::Bytes;
use engines::rewo::{Design, Shape};
use index::{Error, Index};
use pmem::SpaceError;
use pmem::medium::Dram;

/// Whether an insertion was refused for want of room in the table.
fn is_full<V>(result: &Result<Option<V>, Error>) -> bool {
    matches!(result, Err(Error::Space(SpaceError::Full { .. })))
}

fn with_evictions(slots: u32, initial_log2: u32, evictions: u32) -> Shape {
    Shape { design: Design { evictions, ..Design::default() }, ..shape(slots, initial_log2) }
}

/// The load factor when an insertion is first refused. All that was accepted is there then.
fn load_when_full(slots: u32, evictions: u32, seed: u64) -> f64 {
    let table = Table::<Dram>::new(with_evictions(slots, 11, evictions), NEVER);
    let first = seed << 32;
    let full = (first..).find(|&index| match table.insert(key(index), value(index)) {
        Ok(found) => {
            assert_eq!(found, None);
            false
        }
        refused => {
            assert!(is_full(&refused), "{refused:?}");
            true
        }
    });
    let full = full.expect("it fills up");
    assert_eq!(table.get(key(full)), None, "it was refused");
    table.assert_holds(first..full);
    (full - first) as f64 / table.capacity() as f64
}

#[test]
fn each_eviction_lets_the_table_get_fuller() {
    for (slots, bar) in [(8, 0.80), (15, 0.88)] {
        let seeds = 4;
        let loads = [0, 1, 2].map(|evictions| {
            (0..seeds).map(|seed| load_when_full(slots, evictions, seed)).sum::<f64>()
                / seeds as f64
        });
        println!("{slots} slots, 0, 1, 2 evictions: {loads:.3?}");
        let is_rising = loads.array_windows().all(|[less, more]| more - less > 0.01);
        assert!(is_rising && loads[2] >= bar, "{slots} slots: {loads:?}");
    }
}

#[test]
fn a_refusal_changes_nothing_and_removals_make_room() {
    for evictions in [0, 1, 2] {
        let table = Table::<Dram>::new(with_evictions(8, 6, evictions), NEVER);
        let full = |index: &u64| table.insert(key(*index), value(*index)).is_err();
        let count = (0..).find(full).expect("it fills up");
        // Some of these would find room in buckets that are not full.
        let refused: Vec<u64> = (count..count + 200)
            .filter(|&index| {
                let result = table.insert(key(index), value(index));
                if result.is_ok() {
                    assert_eq!(table.remove(key(index)), Some(value(index)));
                }
                assert!(result.is_ok() || is_full(&result), "{result:?}");
                result.is_err()
            })
            .collect();
        assert!(refused.contains(&count));
        let image = table.image();
        let result = table.insert(key(count), value(count));
        assert!(is_full(&result), "{result:?}");
        assert!(is_full(&try_upsert(&table, count)), "of an upsert");
        assert!(table.image() == image, "a refused insertion wrote into the pool");
        for index in 0..count {
            assert_eq!(table.get(key(index)), Some(value(index)));
            assert_eq!(table.update(key(index), value(index)), Some(value(index)));
        }
        table.assert_holds(0..count);
        for index in 0..count / 2 {
            assert_eq!(table.remove(key(index)), Some(value(index)));
        }
        table.fill(count..count + count / 4);
        table.assert_holds(count / 2..count + count / 4);
        let again = table.recovered(&table.image());
        again.assert_holds(count / 2..count + count / 4);
    }
}

fn try_upsert(table: &Table<Dram>, index: u64) -> Result<Option<u64>, Error> {
    let _write = table.pool.write().expect("the pool may be written");
    table.index.upsert(key(index), value(index))
}

#[test]
fn a_full_table_updates_long_values() {
    for evictions in [0, 2] {
        let table =
            Table::<Dram, Bytes<16>, Bytes<15>>::new(with_evictions(8, 6, evictions), NEVER);
        let full = |index: &u64| table.insert(Bytes::of(*index), Bytes::of(!*index)).is_err();
        let count = (0..).find(full).expect("it fills up");
        for round in 1..4 {
            for index in 0..count {
                let old = Bytes::of(if round == 1 { !index } else { index + round - 1 });
                assert_eq!(table.update(Bytes::of(index), Bytes::of(index + round)), Some(old));
            }
            assert_eq!(table.update(Bytes::of(count), Bytes::of(0)), None);
        }
        for index in 0..count {
            assert_eq!(table.get(Bytes::of(index)), Some(Bytes::of(index + 3)));
        }
        table.assert_sound(count);
        table.recovered(&table.image()).assert_sound(count);
    }
}
