//! One suite for all tables for several threads: against a model, opened again, in threads, and where room ends.

use baselines::threaded::{Kind, Shape, Threaded, create, open};
use pmem::medium::{Count, Dram, Memory, measure};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use workload::Random;

fn dram(bytes: u64) -> Arc<Dram> {
    Arc::new(Memory::dram(bytes).unwrap())
}

/// A table that grows often: its segments are small, too.
fn small(kind: Kind) -> (Arc<Dram>, Box<dyn Threaded>) {
    let medium = dram(1 << 30);
    let shape = Shape::new(kind, 0, 7);
    let shape = Shape { part_log2: shape.part_log2.min(4), ..shape };
    let table = create(Arc::clone(&medium), &shape).unwrap();
    (medium, table)
}

/// Fails unless the table holds exactly what the model does.
fn compare(kind: Kind, table: &dyn Threaded, model: &HashMap<u64, u64>) {
    table.check().unwrap_or_else(|what| panic!("{kind:?}: {what}"));
    let mut found = HashMap::new();
    table.for_each(&mut |key, value| assert_eq!(found.insert(key, value), None, "{kind:?}"));
    assert_eq!((&found, table.count()), (model, model.len() as u64), "{kind:?}");
}

/// The ends of the range are among them: some schemes have marks there.
fn some_key(random: &mut Random, keys: u64) -> u64 {
    match random.below(keys) {
        key if key < keys / 2 => key,
        key => u64::MAX - (key - keys / 2),
    }
}

#[test]
fn tables_do_as_a_map_does_while_they_grow() {
    for kind in Kind::ALL {
        for keys in [4, 40, 1000, 20_000] {
            let (medium, mut table) = small(kind);
            let (mut random, mut model) = (Random::new(keys), HashMap::new());
            let mut resizes = 0;
            for step in 0..40_000 {
                let (key, value) = (some_key(&mut random, keys), random.word());
                let before = model.get(&key).copied();
                let found = match random.below(12) {
                    0..4 => {
                        model.entry(key).or_insert(value);
                        table.insert(key, value).unwrap()
                    }
                    4 => {
                        model.entry(key).and_modify(|old| *old = value);
                        table.update(key, value)
                    }
                    5..7 => {
                        model.insert(key, value);
                        table.upsert(key, value).unwrap()
                    }
                    7 => {
                        let expected = if value % 2 == 0 { before } else { Some(value) };
                        if before == expected && value % 4 == 0 {
                            model.remove(&key);
                        } else if before == expected {
                            model.insert(key, value);
                        }
                        table.exchange(key, expected, (value % 4 != 0).then_some(value)).unwrap()
                    }
                    8 => {
                        model.remove(&key);
                        table.remove(key)
                    }
                    _ => table.get(key),
                };
                assert_eq!(found, before, "{kind:?} {step}");
                if step % 4000 == 3999 {
                    compare(kind, &*table, &model);
                    resizes += table.resizes();
                    // From the memory alone, as after a crash.
                    table = open(Arc::clone(&medium)).unwrap();
                    compare(kind, &*table, &model);
                }
            }
            // A segment takes nearly a thousand pairs.
            let resizes_min = [0, 1, 3][usize::from(keys >= 1000) + usize::from(keys >= 20_000)];
            assert!(resizes >= resizes_min, "{kind:?}: {resizes} resizes");
        }
    }
}

/// Each thread has keys of its own, and keys that all share; what it has put there is found again, resizes or not.
#[test]
fn threads_find_what_they_put_while_the_table_grows() {
    const THREADS: u64 = 4;
    const KEYS: u64 = 30_000;
    for kind in Kind::ALL {
        let (medium, table) = small(kind);
        let is_over = AtomicBool::new(false);
        let own = |thread: u64, number: u64| number * THREADS + thread + 1000;
        std::thread::scope(|scope| {
            let table = &*table;
            // Who only reads meets pairs as they were put, or none.
            scope.spawn(|| {
                let mut random = Random::new(99);
                while !is_over.load(Ordering::Relaxed) {
                    let key = own(random.below(THREADS), random.below(KEYS));
                    let found = table.get(key);
                    assert!(found.is_none_or(|value| value == !key || value == key), "{kind:?}");
                }
            });
            let writers: Vec<_> = (0..THREADS)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut random = Random::new(thread);
                        for number in 0..KEYS {
                            let key = own(thread, number);
                            assert_eq!(table.insert(key, key).unwrap(), None, "{kind:?}");
                            let earlier = own(thread, random.below(number + 1));
                            assert!(table.get(earlier).is_some(), "{kind:?}: {earlier} is lost");
                            assert_eq!(table.update(key, !key), Some(key), "{kind:?}");
                            // A key of all: inserted as often as it is removed.
                            let shared = random.below(100);
                            if table.insert(shared, shared).unwrap().is_none() {
                                assert_eq!(table.remove(shared), Some(shared), "{kind:?}");
                            }
                        }
                    })
                })
                .collect();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            is_over.store(true, Ordering::Relaxed);
        });
        let all = (0..THREADS).flat_map(|thread| (0..KEYS).map(move |number| own(thread, number)));
        let model: HashMap<u64, u64> = all.map(|key| (key, !key)).collect();
        compare(kind, &*table, &model);
        assert!(table.resizes() > 3, "{kind:?}");
        drop(table);
        compare(kind, &*open(medium).unwrap(), &model);
    }
}

#[test]
fn a_table_without_room_refuses_and_is_as_it_was() {
    for kind in Kind::ALL {
        let medium = dram(4 << 20);
        let table = create(Arc::clone(&medium), &Shape::new(kind, 0, 7)).unwrap();
        let (mut random, mut model) = (Random::new(3), HashMap::new());
        let mut refusals = 0;
        while refusals < 1000 {
            let (key, value) = (random.word(), random.word());
            match table.insert(key, value) {
                Ok(found) => assert_eq!((found, model.insert(key, value)), (None, None)),
                Err(_) => {
                    refusals += 1;
                    assert_eq!(table.get(key), None, "{kind:?}");
                }
            }
        }
        compare(kind, &*table, &model);
        assert!(model.len() > 40_000, "{kind:?}: {}", model.len());
        // What needs no more room is done.
        for (&key, value) in &mut model {
            assert_eq!(table.update(key, !*value), Some(*value), "{kind:?}");
            *value = !*value;
        }
        let table = open(Arc::clone(&medium)).unwrap();
        compare(kind, &*table, &model);
        model.iter().for_each(|(&key, &value)| assert_eq!(table.remove(key), Some(value)));
        compare(kind, &*table, &HashMap::new());
    }
}

/// A number that an opening has must not be taken for that of an earlier one.
#[test]
fn tables_are_opened_again_and_again() {
    for kind in Kind::ALL {
        let (medium, _) = small(kind);
        let mut model = HashMap::new();
        for opening in 0..600 {
            let table = open(Arc::clone(&medium)).unwrap();
            assert_eq!(table.insert(opening, !opening).unwrap(), None, "{kind:?}");
            model.insert(opening, !opening);
            if opening % 50 == 0 {
                compare(kind, &*table, &model);
            }
        }
        compare(kind, &*open(medium).unwrap(), &model);
    }
}

/// What the papers count: lines that a look-up reads, and lines that an insertion flushes, below the load at which the
/// table grows.
#[test]
fn operations_cost_the_lines_that_the_papers_say() {
    for kind in Kind::ALL {
        const PAIRS: u64 = 50_000;
        let medium = Arc::new(Count::new(Memory::dram(1 << 30).unwrap()));
        let table = create(medium, &Shape::new(kind, 2 * PAIRS, 7)).unwrap();
        let mut random = Random::new(5);
        let keys: Vec<u64> = (0..PAIRS).map(|_| random.word()).collect();
        let (mut flushes, mut lines) = (0, 0);
        for &key in &keys {
            flushes += measure(|| table.insert(key, 1).unwrap()).1.flushes;
        }
        for &key in &keys {
            lines += measure(|| table.get(key)).1.lines_read;
        }
        let [flushes, lines] = [flushes, lines].map(|sum| sum as f64 / PAIRS as f64);
        let (most_flushes, most_lines) = match kind {
            Kind::Clht => (1.2, 1.3),
            // An entry, a header, and a bucket.
            Kind::Cceh => (1.1, 3.2),
            // The bucket and the node, and a chunk for every 127 nodes.
            Kind::Cmap => (2.05, 2.25),
            Kind::Dash => (2.0, 3.0),
        };
        assert!((1.0..=most_flushes).contains(&flushes), "{kind:?}: {flushes} flushes");
        assert!((1.0..=most_lines).contains(&lines), "{kind:?}: {lines} lines");
        assert_eq!(table.resizes(), 0, "{kind:?}");
    }
}

#[test]
fn memory_without_a_table_is_refused() {
    let medium = dram(1 << 20);
    assert!(open(Arc::clone(&medium)).is_err());
    for kind in Kind::ALL {
        let (medium, _) = small(kind);
        assert_eq!(Shape::on(&*medium).unwrap().kind, kind);
    }
}
