//! How full a table gets that may not grow (section 4.2), and what it says then.

use crate::harness::{NEVER, SLOTS, Table, is_full, key, shape, stashed, stashing, value};
use crate::table::packed::Bytes;
use engines::pfht::{Design, Shape};
use index::Index;
use pmem::medium::Dram;

/// The load factor, of slots and stash, when an insertion is first refused. All that was accepted is there then.
fn load_when_full(shape: Shape, seed: u64) -> f64 {
    let table = Table::<Dram>::new(shape, NEVER);
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

fn mean_load(shape: Shape) -> f64 {
    const SEEDS: u64 = 3;
    (0..SEEDS).map(|seed| load_when_full(shape, seed)).sum::<f64>() / SEEDS as f64
}

#[test]
fn a_table_with_the_papers_stash_fills_up() {
    for (slots, bar) in [(1, 0.35), (2, 0.65), (4, 0.85), (6, 0.92), (SLOTS, 0.95)] {
        let load = mean_load(shape(slots, 11));
        println!("{slots} slots: {load:.3}");
        assert!(load >= bar, "{slots} slots: {load}");
    }
}

#[test]
fn a_larger_stash_fills_the_table_further() {
    let loads = [0, 1, 3, 5].map(|percent| mean_load(stashing(SLOTS, 11, percent)));
    println!("stash of 0, 1, 3 and 5 %: {loads:.3?}");
    assert!(loads.array_windows().all(|[less, more]| more > less), "{loads:?}");
}

#[test]
fn displacements_fill_the_table_further() {
    let design = Design { displaces: false, ..Design::default() };
    let without = mean_load(Shape { design, ..shape(SLOTS, 11) });
    let with = mean_load(shape(SLOTS, 11));
    println!("without displacements {without:.3}, with them {with:.3}");
    assert!(with - without > 0.03, "{without}, {with}");
}

/// What searches go by in the sidecar does not change what goes where.
#[test]
fn the_papers_search_fills_the_table_alike() {
    let paper = Shape { design: Design::PAPER, ..shape(SLOTS, 8) };
    assert_eq!(load_when_full(paper, 1).to_bits(), load_when_full(shape(SLOTS, 8), 1).to_bits());
}

#[test]
fn the_stash_is_what_it_is_said_to_be() {
    for (slots, percent) in [(8, 0), (8, 1), (8, 3), (8, 5), (3, 5), (1, 1)] {
        let table = Table::<Dram>::new(stashing(slots, 9, percent), NEVER);
        let slots = u64::from(slots) << 9;
        let nodes = (slots * u64::from(percent)).div_ceil(100 - u64::from(percent));
        assert_eq!(table.capacity(), slots + nodes);
        // What is left when it is full are slots, and no node.
        let full = |index: &u64| table.insert(key(*index), value(*index)).is_err();
        let count = (0..).find(full).expect("it fills up");
        assert_eq!(stashed(&table), nodes, "{percent} %");
        // The key 0 needs none of them.
        assert_eq!(table.insert(0, 7).expect("it has a node of its own"), None);
        assert_eq!(stashed(&table), nodes + 1);
        assert_eq!((table.get(0), table.remove(0)), (Some(7), Some(7)));
        table.assert_holds(0..count);
    }
}

#[test]
fn a_refusal_changes_nothing_and_removals_make_room() {
    let no_displacement = Design { displaces: false, ..Design::default() };
    for shape in [
        shape(SLOTS, 6),
        stashing(SLOTS, 6, 0),
        Shape { design: Design::PAPER, ..shape(SLOTS, 6) },
        Shape { design: no_displacement, ..shape(SLOTS, 6) },
    ] {
        let table = Table::<Dram>::new(shape, NEVER);
        let full = |index: &u64| table.insert(key(*index), value(*index)).is_err();
        let count = (0..).find(full).expect("it fills up");
        let image = table.image();
        let result = table.insert(key(count), value(count));
        assert!(is_full(&result), "{result:?}");
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

#[test]
fn a_full_table_updates_long_values() {
    let table = Table::<Dram, Bytes<16>, Bytes<15>>::new(shape(3, 6), NEVER);
    let full = |index: &u64| table.insert(Bytes::of(*index), Bytes::of(!*index)).is_err();
    let count = (0..).find(full).expect("it fills up");
    assert!(stashed(&table) > 0, "some are in the stash");
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
    assert_eq!(table.index.len(), count);
}
