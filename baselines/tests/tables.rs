//! One suite for all tables: against a model, to the last slot, opened again, and what they write.

use baselines::{Full, Kind, Shape, Table, create, create_unlogged, open};
use pmem::medium::{Count, Dram, Memory, measure};
use std::collections::HashMap;
use std::sync::Arc;
use workload::Random;

fn dram() -> Arc<Dram> {
    Arc::new(Memory::dram(1 << 30).unwrap())
}

/// A table with a small stash, in separate memory.
fn small(kind: Kind, slots: u64) -> (Arc<Dram>, Box<dyn Table>) {
    let medium = dram();
    let shape = Shape { stash: slots / 8, ..Shape::new(kind, slots, slots) };
    let table = create(Arc::clone(&medium), &shape).unwrap();
    (medium, table)
}

/// Fails unless the table holds exactly what the model does.
fn compare(kind: Kind, table: &dyn Table, model: &HashMap<u64, u64>) {
    table.check().unwrap_or_else(|what| panic!("{kind:?}: {what}"));
    let mut found = HashMap::new();
    table.for_each(&mut |key, value| assert_eq!(found.insert(key, value), None, "{kind:?}"));
    assert_eq!((&found, table.len()), (model, model.len() as u64), "{kind:?}");
    assert_eq!(table.is_empty(), model.is_empty());
}

/// One of a few keys, so that operations meet; the ends of the range are among them.
fn some_key(random: &mut Random, keys: u64) -> u64 {
    match random.below(keys) {
        key if key < keys / 2 => key,
        key => u64::MAX - (key - keys / 2),
    }
}

#[test]
fn tables_do_as_a_map_does() {
    for kind in Kind::ALL {
        let mut refused = 0;
        for (slots, keys) in [(1, 4), (8, 20), (64, 90), (64, 200), (300, 1000)] {
            let (medium, mut table) = small(kind, slots);
            let (mut random, mut model) = (Random::new(slots + keys), HashMap::new());
            for step in 0..20_000 {
                let (key, value) = (some_key(&mut random, keys), random.word());
                // The table fills up, and empties a little.
                match random.below(10) {
                    0..4 => match table.insert(key, value) {
                        Ok(found) => {
                            assert_eq!(found, model.get(&key).copied(), "{kind:?} {step}");
                            model.entry(key).or_insert(value);
                        }
                        Err(Full) => {
                            refused += 1;
                            assert!(!model.contains_key(&key), "{kind:?} {step}");
                        }
                    },
                    4..6 => {
                        let found = model.get_mut(&key).map(|old| std::mem::replace(old, value));
                        assert_eq!(table.update(key, value), found, "{kind:?} {step}");
                    }
                    6..8 => assert_eq!(table.remove(key), model.remove(&key), "{kind:?} {step}"),
                    _ => assert_eq!(table.get(key), model.get(&key).copied(), "{kind:?} {step}"),
                }
                if step % 1000 == 999 {
                    compare(kind, &*table, &model);
                    // From the memory alone, as after a crash.
                    table = open(Arc::clone(&medium)).unwrap();
                    compare(kind, &*table, &model);
                }
            }
        }
        assert!(refused > 0, "{kind:?}");
    }
}

#[test]
fn a_full_table_refuses_and_is_as_it_was() {
    for kind in Kind::ALL {
        let (_, mut table) = small(kind, 1000);
        let (mut random, mut model) = (Random::new(7), HashMap::new());
        let mut refusals = 0;
        while refusals < 100 {
            let (key, value) = (random.word(), random.word());
            let before = table.changes();
            match table.insert(key, value) {
                Ok(found) => assert_eq!((found, model.insert(key, value)), (None, None)),
                Err(Full) => {
                    refusals += 1;
                    assert_eq!(table.changes(), before);
                    assert_eq!(table.get(key), None);
                }
            }
        }
        compare(kind, &*table, &model);
        let full = model.len() as f64 / table.capacity() as f64;
        let least = match kind {
            Kind::Probing | Kind::ProbingShift | Kind::Chained => 1.0,
            Kind::Path => 0.85,
            _ => 0.9,
        };
        assert!(full >= least, "{kind:?}: {full}");
        for (&key, &value) in &model {
            assert_eq!(table.remove(key), Some(value), "{kind:?}");
        }
        compare(kind, &*table, &HashMap::new());
        // All of its room is available again.
        for key in 1..=table.capacity() / 2 {
            assert_eq!(table.insert(key, key), Ok(None), "{kind:?}");
        }
    }
}

/// Inserts up to a load factor; returns the writes of an insertion, by the rule and by the counted flushes.
fn writes_per_insertion(kind: Kind, slots: u64, load_percent: u64) -> f64 {
    let medium = Arc::new(Count::new(Memory::dram(1 << 30).unwrap()));
    let mut table = create(medium, &Shape::new(kind, slots, 3)).unwrap();
    let mut random = Random::new(5);
    let pairs = table.capacity() * load_percent / 100;
    let mut flushes = 0;
    for _ in 0..pairs {
        let (inserted, cost) = measure(|| table.insert(random.word(), 1));
        assert_eq!(inserted, Ok(None), "{kind:?}");
        flushes += cost.flushes;
    }
    let inserts = table.changes().inserts;
    assert_eq!((inserts.transactions, inserts.count()), (pairs, flushes), "{kind:?}");
    inserts.per_transaction()
}

#[test]
fn insertions_write_what_the_rule_says() {
    let slots = 20_000;
    for (kind, writes) in [
        (Kind::Probing, 4.0),
        (Kind::ProbingShift, 4.0),
        // Node, its next, head, allocator.
        (Kind::Chained, 10.0),
        (Kind::Path, 4.0),
    ] {
        assert_eq!(writes_per_insertion(kind, slots, 85), writes, "{kind:?}");
    }
    // Slot and bitmap, until pairs move.
    assert_eq!(writes_per_insertion(Kind::Hopscotch, slots, 50), 6.0);
    let moving = writes_per_insertion(Kind::Hopscotch, slots, 90);
    assert!((6.0..7.5).contains(&moving), "{moving}");
    // One slot, and a second one if a pair moves.
    let moving = writes_per_insertion(Kind::Pfht, slots, 92);
    assert!((4.0..4.2).contains(&moving), "{moving}");
    // One slot, until pairs are displaced.
    for kind in [Kind::Cuckoo24, Kind::Cuckoo28, Kind::Cuckoo34] {
        let [emptier, fuller] = [50, 90].map(|load| writes_per_insertion(kind, slots, load));
        assert!((4.0..4.2).contains(&emptier) && (4.1..5.5).contains(&fuller), "{kind:?}");
    }
    // Slot and directory, and everything that is copied.
    assert!(writes_per_insertion(Kind::Array, slots, 90) > 8.0);
}

#[test]
fn removals_and_updates_write_what_the_rule_says() {
    for (kind, removal) in [
        (Kind::Probing, 4.0),
        (Kind::Chained, 8.0),
        (Kind::Hopscotch, 6.0),
        (Kind::Cuckoo24, 4.0),
        (Kind::Cuckoo28, 4.0),
        (Kind::Cuckoo34, 4.0),
        (Kind::Path, 4.0),
        (Kind::Pfht, 4.0),
    ] {
        let (_, mut table) = small(kind, 1000);
        (0..600).for_each(|key| assert_eq!(table.insert(key, key), Ok(None)));
        (0..600).for_each(|key| assert_eq!(table.update(key, !key), Some(key)));
        (0..600).for_each(|key| assert_eq!(table.remove(key), Some(!key)));
        let changes = table.changes();
        assert_eq!(changes.updates.per_transaction(), 4.0, "{kind:?}");
        // Keys that are marks lie in separate cells.
        let writes = changes.removes.per_transaction();
        assert!((writes - removal).abs() < 0.02, "{kind:?}: {writes}");
    }
    let (_, mut table) = small(Kind::ProbingShift, 1000);
    (1..900).for_each(|key| assert_eq!(table.insert(key, key), Ok(None)));
    (1..900).for_each(|key| assert_eq!(table.remove(key), Some(key)));
    assert!(table.changes().removes.per_transaction() > 4.5);
}

/// Marks are reused and end no search; pairs that shift back leave no marks.
#[test]
fn marks_make_unsuccessful_searches_long() {
    let lines_of_a_miss = |kind| {
        let medium = Arc::new(Count::new(Memory::dram(1 << 30).unwrap()));
        let mut table = create(medium, &Shape::new(kind, 4000, 3)).unwrap();
        (1..=2000).for_each(|key| assert_eq!(table.insert(key, key), Ok(None)));
        for key in 1..=40_000 {
            assert_eq!(table.remove(key), Some(key));
            assert_eq!(table.insert(key + 2000, key + 2000), Ok(None));
        }
        table.check().unwrap();
        measure(|| assert_eq!(table.get(1), None)).1.lines_read
    };
    assert_eq!(lines_of_a_miss(Kind::Probing), 1000, "every slot");
    assert!(lines_of_a_miss(Kind::ProbingShift) < 10);
}

#[test]
fn memory_without_a_table_is_refused() {
    let medium = dram();
    assert!(open(Arc::clone(&medium)).is_err());
    create(Arc::clone(&medium), &Shape::new(Kind::Cuckoo28, 100, 1)).unwrap();
    assert_eq!(open(medium).unwrap().capacity(), 104);
}

#[test]
fn bytes_per_slot_are_those_of_the_papers() {
    for (kind, least, most) in [
        (Kind::Probing, 16.0, 16.0),
        (Kind::Hopscotch, 24.0, 24.5),
        (Kind::Cuckoo24, 16.0, 16.0),
        (Kind::Cuckoo28, 16.0, 16.0),
        (Kind::Cuckoo34, 16.0, 16.0),
        (Kind::Path, 16.0, 16.0),
        (Kind::Pfht, 16.0, 16.4),
        (Kind::Chained, 40.0, 40.1),
        (Kind::Array, 36.0, 36.1),
    ] {
        let table = create(dram(), &Shape::new(kind, 1_000_000, 1)).unwrap();
        let bytes = table.bytes() as f64 / table.capacity() as f64;
        assert!((least..=most).contains(&bytes), "{kind:?}: {bytes}");
    }
}

/// What is compared without a log costs a flush and a fence for each cell, and one of each for a slot that is left.
#[test]
fn without_a_log_a_change_writes_each_cell_once() {
    for kind in [Kind::Cuckoo24, Kind::Cuckoo34, Kind::Path, Kind::Pfht] {
        let medium = Arc::new(Count::new(Memory::dram(1 << 30).unwrap()));
        let shape = Shape { stash: 500, ..Shape::new(kind, 4000, 3) };
        let mut table = create_unlogged(medium, &shape).unwrap();
        let mut model = HashMap::new();
        let (mut cells, mut moved) = (0, 0);
        for key in 1..=3400 {
            let (inserted, cost) = measure(|| table.insert(key, !key));
            assert_eq!((inserted, model.insert(key, !key)), (Ok(None), None), "{kind:?}");
            let now = table.changes().inserts.cells;
            let written = now - cells;
            assert_eq!(cost.flushes, cost.fences, "{kind:?}");
            assert!(
                (written..2 * written).contains(&cost.flushes),
                "{kind:?}: {written}, {cost:?}"
            );
            moved += cost.flushes - written;
            cells = now;
        }
        let displaces = matches!(kind, Kind::Cuckoo24 | Kind::Cuckoo34 | Kind::Pfht);
        assert_eq!(moved > 0, displaces, "{kind:?}: {moved} slots were left");
        for key in 1..=1000 {
            let (removed, cost) = measure(|| table.remove(key));
            assert_eq!(removed, model.remove(&key), "{kind:?}");
            // A pair in a stash takes some cells more.
            assert!(cost.flushes == 1 || kind == Kind::Pfht, "{kind:?}: {cost:?}");
            assert_eq!(table.update(key + 1000, key), model.insert(key + 1000, key), "{kind:?}");
        }
        compare(kind, &*table, &model);
    }
}

/// A stash changes several words at a time, one of which may be 0.
#[test]
fn without_a_log_a_stash_keeps_its_pairs() {
    let shape = Shape { stash: 500, width: 2, ..Shape::new(Kind::Pfht, 4000, 3) };
    let mut table = create_unlogged(dram(), &shape).unwrap();
    let mut model = HashMap::new();
    for key in 1..=3900 {
        assert_eq!((table.insert(key, !key), model.insert(key, !key)), (Ok(None), None));
        if key % 3 == 0 {
            assert_eq!(table.remove(key / 3), model.remove(&(key / 3)));
        }
        assert_eq!(table.get(key), Some(!key));
    }
    assert!(table.stashed() > 0);
    compare(Kind::Pfht, &*table, &model);
}
