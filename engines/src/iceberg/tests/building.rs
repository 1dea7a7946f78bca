//! Openings that build the sidecar afterwards.

use super::{PLACE, copy_of, new_table, settings, spec};
use crate::Settings;
use crate::engine::Describe;
use crate::iceberg::block::Locked;
use crate::iceberg::hash::h0;
use crate::iceberg::layout::{LOCK, SPILLED, SPILLED_WORD};
use crate::iceberg::{Engine, Iceberg, Shape};
use index::fingerprint::lanes;
use index::hash::Hasher;
use index::{Found, Index, Items, Records, Shrunk};
use pmem::medium::{Dram, Memory};
use pmem::pool::Spec;
use pmem::superblock::PoolKind;
use pmem::sync::{AtomicBool, Ordering};
use pmem::{Damage, Medium, Offset, OpenError, Pool};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

/// Small blocks, so that keys are in each level.
const SHAPE: Shape =
    Shape { level_1_slots: 32, level_2_slots: 4, initial_log2: 3, initial_nodes_log2: 5 };

/// What is known when a table is opened and nothing is built. No thread builds it.
fn opened_later(table: &Iceberg<Dram>, change: impl FnOnce(&Dram)) -> Iceberg<Dram> {
    let medium = copy_of(table.core.medium());
    change(&medium);
    let pool = Arc::new(Pool::open(medium, PLACE).unwrap());
    later(pool).unwrap()
}

fn later(pool: Arc<Pool<Dram>>) -> Result<Iceberg<Dram>, OpenError> {
    let settings = Settings { built_at_once_max: 0, ..settings(1.0) };
    let core = super::super::Core::open(pool, settings)?;
    core.recover()?;
    Ok(Iceberg {
        core: Arc::new(core),
        helpers: None,
        builders: None,
        scan_time: Default::default(),
    })
}

fn keys() -> std::ops::Range<u64> {
    0..300
}

/// A table with keys in each level, key 0 among them.
fn table() -> Iceberg<Dram> {
    let table = new_table(&SHAPE, 1 << 26, 2.0);
    keys().for_each(|key| assert_eq!(table.insert(key, !key).unwrap(), None));
    let levels = table.occupancy().levels;
    assert!(levels.iter().all(|level| level.pairs > 0), "{levels:?}");
    table
}

fn assert_whole(table: &Iceberg<Dram>) {
    let report = table.check();
    assert_eq!((report.faults, report.pairs), (0, keys().end), "{report:?}");
}

#[test]
fn every_key_is_found_before_anything_is_built() {
    let table = opened_later(&table(), |_| {});
    keys().for_each(|key| assert_eq!(table.get(key), Some(!key)));
    assert_eq!(table.get(keys().end), None);
    let asked: Vec<u64> = (0..keys().end + 5).collect();
    let mut found = vec![None; asked.len()];
    table.get_many(&asked, &mut found);
    assert!(
        asked.iter().zip(found).all(|(&key, found)| found == keys().contains(&key).then_some(!key))
    );
    // Queries build nothing.
    let is_built = |block| table.core.line_1(block)[SPILLED_WORD].load(Ordering::Relaxed) != 0;
    assert!(!(0..table.core.geometry().blocks_1()).any(is_built));
    assert!(!table.is_built());
    assert_whole(&table);
    assert!(table.is_built());
}

#[test]
fn changes_build_what_they_use() {
    let table = opened_later(&table(), |_| {});
    for key in keys() {
        match key % 4 {
            0 => assert_eq!(table.remove(key).unwrap(), Some(!key)),
            1 => assert_eq!(table.upsert(key, key).unwrap(), Some(!key)),
            2 => assert_eq!(table.insert(key, 1).unwrap(), Some(!key)),
            _ => {}
        }
    }
    assert_eq!(table.insert(1000, 5).unwrap(), None);
    for key in keys() {
        let expected = [None, Some(key), Some(!key), Some(!key)][(key % 4) as usize];
        assert_eq!(table.get(key), expected, "{key}");
    }
    assert_eq!(table.len(), 300 - 75 + 1);
    assert_eq!(table.check().faults, 0);
}

/// A scan meets each key once, and visits blocks that nobody has built.
#[test]
fn a_scan_of_an_unbuilt_table_meets_every_key() {
    let table = opened_later(&table(), |_| {});
    let found = Mutex::new(Vec::new());
    table.for_each_on(2, &|key, value| {
        found.lock().unwrap().push((key, value));
        ControlFlow::Continue(())
    });
    let mut found = found.into_inner().unwrap();
    found.sort_unstable();
    assert_eq!(found, keys().map(|key| (key, !key)).collect::<Vec<_>>());
}

/// As recovery leaves them.
#[test]
fn what_is_built_is_what_recovery_builds() {
    let before = table();
    // Its bits of SPILLED are those of keys that were there once.
    keys().filter(|key| key % 3 == 0).for_each(|key| {
        before.remove(key).unwrap();
    });
    let whole = super::after_crash(&before);
    let built = opened_later(&before, |_| {});
    built.settle();
    let geometry = whole.core.geometry();
    for block in 0..geometry.blocks_1() {
        let words = |table: &Iceberg<Dram>| {
            table.core.line_1(block).each_ref().map(|word| word.load(Ordering::Relaxed))
        };
        assert_eq!(words(&built), words(&whole), "block {block}");
    }
    for block in 0..geometry.blocks_2() {
        let word = |table: &Iceberg<Dram>| table.core.word_2(block).load(Ordering::Relaxed);
        assert_eq!(word(&built), word(&whole), "block {block} of level 2");
    }
    assert_eq!(built.len(), whole.len());
}

/// A query waits for no lock: a thread that builds may be put aside, or may not exist in a forked child.
#[test]
fn queries_do_not_wait_for_who_builds() {
    let table = opened_later(&table(), |_| {});
    let core = &table.core;
    let geometry = core.geometry();
    let locked: Vec<Locked<'_>> =
        (0..geometry.blocks_1()).map(|block| Locked::wait(core.flags_1(block))).collect();
    let locked_2: Vec<Locked<'_>> =
        (0..geometry.blocks_2()).map(|block| Locked::wait(core.word_2(block))).collect();
    assert_eq!(core.flags_1(0).load(Ordering::Relaxed), LOCK);
    keys().for_each(|key| assert_eq!(table.get(key), Some(!key)));
    drop((locked, locked_2));
    assert_whole(&table);
}

/// Growth waits for the building, and completes it.
#[test]
fn a_table_that_is_full_while_it_builds_grows() {
    let table = opened_later(&table(), |_| {});
    let more = 1000..4000;
    for key in more.clone() {
        assert_eq!(table.insert(key, key).unwrap(), None);
    }
    table.settle();
    more.for_each(|key| assert_eq!(table.get(key), Some(key)));
    keys().for_each(|key| assert_eq!(table.get(key), Some(!key)));
    assert_eq!(table.check().faults, 0);
    assert!(table.core.pool.superblock().is_at_rest());
}

/// Without a helper, insertions and removals build the rest in small steps.
#[test]
fn changes_alone_complete_the_building() {
    let table = opened_later(&table(), |_| {});
    let mut changes = 0;
    while table.core.geometry().is_resizing() {
        table.upsert(5000, 1).unwrap();
        table.remove(5000).unwrap();
        changes += 1;
        assert!(changes < 100_000);
    }
    let bits = |block| table.core.line_1(block)[SPILLED_WORD].load(Ordering::Relaxed) & SPILLED;
    assert!((0..table.core.geometry().blocks_1()).any(|block| bits(block) != SPILLED));
    assert_whole(&table);
}

/// A resize that a crash interrupts leaves pairs in two places. Only a whole recovery tells.
#[test]
fn a_table_that_was_being_resized_is_recovered_whole() {
    let before = table();
    assert!(before.core.begin_resize(before.core.geometry(), true).is_ok());
    assert!(!before.core.pool.superblock().is_at_rest());
    let after = opened_later(&before, |_| {});
    assert!(after.is_built());
    assert!(after.core.pool.superblock().is_at_rest());
    assert_whole(&after);
    before.settle();
    assert!(before.core.pool.superblock().is_at_rest());
    let after = opened_later(&before, |_| {});
    assert!(!after.is_built());
    assert_whole(&after);
}

#[test]
fn a_shrink_says_that_pairs_are_on_their_way() {
    let table = new_table(&SHAPE, 1 << 26, 0.85);
    (1..2000).for_each(|key| assert_eq!(table.insert(key, key).unwrap(), None));
    (50..2000).for_each(|key| assert_eq!(table.remove(key).unwrap(), Some(key)));
    table.settle();
    assert!(table.core.pool.superblock().is_at_rest());
    assert!(table.core.begin_shrink(table.core.geometry()).unwrap());
    assert!(!table.core.pool.superblock().is_at_rest());
    table.settle();
    assert!(table.core.pool.superblock().is_at_rest());
}

/// The slots of a pair in level 1 and of one in level 2.
fn slots(table: &Iceberg<Dram>) -> [Offset; 2] {
    let core = &table.core;
    let geometry = core.geometry();
    let in_level_1 = |block| Some((block, lanes(core.taken_1(block)).next()?));
    let in_level_2 = |block| Some((block, core.used_2(block).next()?));
    let (block_1, lane_1) = (0..geometry.blocks_1()).find_map(in_level_1).unwrap();
    let (block_2, lane_2) = (0..geometry.blocks_2()).find_map(in_level_2).unwrap();
    [core.slot_1(block_1, lane_1), core.slot_2(block_2, lane_2)]
}

#[test]
fn a_pair_that_belongs_elsewhere_is_damage_when_it_is_met() {
    let before = table();
    let core = &before.core;
    let places = |key| {
        let first = core.hasher.first_u64(key);
        let [a, b] = core.choices(core.geometry(), key, first).blocks;
        [core.geometry().home(h0(first)), a, b]
    };
    for slot in slots(&before) {
        let there = places(core.medium().load(slot));
        let is_elsewhere = |&key: &u64| places(key).iter().all(|place| !there.contains(place));
        let other = (1_000_000..).find(is_elsewhere).unwrap();
        let table = opened_later(&before, |medium| medium.store(slot, other));
        assert_eq!(table.core.pool.damage(), None);
        table.core.finish_building();
        let damage = table.core.pool.damage();
        assert!(
            matches!(&damage, Some(Damage::Corrupt(found)) if found.contains("does not belong")),
            "{damage:?}"
        );
        // Its slot is not taken for an empty one.
        assert_eq!(table.occupancy().pairs(), keys().end);
    }
}

/// Until all is built the number on record stands for it; then what was found, whatever the record says.
#[test]
fn a_wrong_number_on_record_does_not_outlast_the_building() {
    let before = table();
    before.core.pool.record_pairs(Some(keys().end + 9));
    before.core.pool.close().unwrap();
    let table = opened_later(&before, |_| {});
    assert_eq!(table.len(), keys().end + 9);
    table.core.finish_building();
    assert_eq!(table.len(), keys().end);
}

fn store_later(pool: Arc<Pool<Dram>>, hasher: Hasher) -> Items<Iceberg<Dram>, Dram> {
    let settings = Settings { built_at_once_max: 0, ..settings(1.0) };
    Engine::open_bytes::<Dram>(pool, hasher, settings).unwrap()
}

/// Changes of a store whose free space somebody is about to look for: none waits for that.
#[test]
fn a_store_changes_before_it_is_swept_and_beside() {
    let spec = Spec { kind: PoolKind::Store, key_bytes: 0, value_bytes: 0, ..spec(&SHAPE) };
    for is_closed in [false, true] {
        let pool = Arc::new(Pool::create(Memory::dram(1 << 26).unwrap(), &spec, PLACE).unwrap());
        // So few bits that some keys share a hash.
        let hasher = Hasher::with_bits(7, 9);
        let store = store_later(Arc::clone(&pool), hasher);
        let key = |number: u64| number.to_le_bytes();
        let value = |number: u64, round: u8| vec![round; 20 + 300 * (number % 7) as usize];
        let put = |store: &dyn Records, number: u64, round: u8| {
            store.upsert(&key(number), &value(number, round)).unwrap().is_some()
        };
        (0..200).for_each(|number| assert!(!put(&store, number, 1)));
        // Some space is free.
        (150..200).for_each(|number| assert!(store.remove(&key(number)).unwrap().is_some()));
        if is_closed {
            store.prepare_close();
            pool.record_pairs(Some(store.len()));
        }
        drop(store);
        if is_closed {
            pool.close().unwrap();
        }
        let pool = Arc::new(Pool::open(copy_of(pool.medium()), PLACE).unwrap());
        let store = store_later(Arc::clone(&pool), hasher);
        assert!(store.take_sweep_over());
        let mut expected: Vec<Option<u8>> = (0..300).map(|n| (n < 150).then_some(1)).collect();
        let mut change = |numbers: std::ops::Range<u64>, round: u8| {
            for number in numbers {
                let before = expected[number as usize];
                expected[number as usize] = if number % 3 == 0 {
                    let removed = store.remove(&key(number)).unwrap();
                    assert_eq!(removed.is_some(), before.is_some());
                    None
                } else {
                    assert_eq!(put(&store, number, round), before.is_some());
                    Some(round)
                };
            }
            let many: Vec<_> = (250..253).map(|n| (key(n), value(n, round))).collect();
            let many: Vec<_> = many.iter().map(|(key, value)| (&key[..], &value[..])).collect();
            store.upsert_many(&many).unwrap();
            (250..253).for_each(|number| expected[number] = Some(round));
            for (number, round) in (0..).zip(&expected) {
                let found = store.get(&key(number)).unwrap().map(|found| found.bytes().to_vec());
                assert_eq!(found, round.map(|round| value(number, round)), "{number}");
            }
            let pairs = expected.iter().flatten().count() as u64;
            if is_closed {
                assert_eq!(store.len(), pairs);
            }
            pairs
        };
        change(100..160, 2);
        store.sweep(&AtomicBool::new(false));
        let pairs = change(120..240, 3);
        assert_eq!(store.len(), pairs);
        let report = store.check();
        assert!(report.is_sound() && report.pairs == pairs, "{report:?}");
    }
}

/// What is free of a pool that says that it is clean waits for the next change.
#[test]
fn a_sweep_changes_nothing_in_a_clean_pool() {
    let spec = Spec { kind: PoolKind::Store, key_bytes: 0, value_bytes: 0, ..spec(&SHAPE) };
    let hasher = Hasher::new(7);
    let pool = Arc::new(Pool::create(Memory::dram(1 << 26).unwrap(), &spec, PLACE).unwrap());
    let store = store_later(Arc::clone(&pool), hasher);
    for round in 0..2u64 {
        // Of which nothing is left: slabs and segments of large items.
        for number in 0..200 {
            let put = store.upsert(&u64::to_le_bytes(number), &vec![7; 9000 * round as usize]);
            assert_eq!(put.unwrap().is_some(), round == 1);
        }
    }
    for number in 3..200 {
        assert!(store.remove(&u64::to_le_bytes(number)).unwrap().is_some());
    }
    drop(store);
    let pool = Arc::new(Pool::open(copy_of(pool.medium()), PLACE).unwrap());
    let store = store_later(Arc::clone(&pool), hasher);
    assert!(store.take_sweep_over());
    pool.close().unwrap();
    let words = |pool: &Pool<Dram>| {
        let words = (0..pool.medium().size() / 8).map(|word| pool.medium().load(Offset(8 * word)));
        words.collect::<Vec<u64>>()
    };
    let before = words(&pool);
    store.sweep(&AtomicBool::new(false));
    assert!(words(&pool) == before && pool.superblock().clean);
    let write = pool.write().unwrap();
    assert!(store.upsert(&u64::to_le_bytes(7), &[7; 9000]).unwrap().is_none());
    drop(write);
    let report = store.check();
    assert!(report.is_sound() && report.pairs == 4, "{report:?}");
}

/// A sweep that is cut short leaves a store that can be closed, and has not had the index built for it.
#[test]
fn a_sweep_that_is_stopped_leaves_the_count() {
    let spec = Spec { kind: PoolKind::Store, key_bytes: 0, value_bytes: 0, ..spec(&SHAPE) };
    let hasher = Hasher::new(7);
    let mut pool = Arc::new(Pool::create(Memory::dram(1 << 26).unwrap(), &spec, PLACE).unwrap());
    for round in 0..5u64 {
        let store = store_later(Arc::clone(&pool), hasher);
        assert_eq!(store.len(), 10 * round);
        if store.take_sweep_over() {
            store.sweep(&AtomicBool::new(true));
            assert!(round == 0 || !store.index().is_built());
        }
        for number in 0..10 {
            let key = (10 * round + number).to_le_bytes();
            assert!(store.upsert(&key, &[round as u8; 50]).unwrap().is_none());
        }
        store.prepare_close();
        pool.record_pairs(Some(store.len()));
        drop(store);
        pool.close().unwrap();
        pool = Arc::new(Pool::open(copy_of(pool.medium()), PLACE).unwrap());
    }
    let store = store_later(pool, hasher);
    let report = store.check();
    assert!(report.is_sound() && report.pairs == 50, "{report:?}");
}

/// A store that is not swept does not know how many keys it has, even if its index is built.
#[test]
fn a_store_is_not_built_before_it_is_swept() {
    let spec = Spec { kind: PoolKind::Store, key_bytes: 0, value_bytes: 0, ..spec(&SHAPE) };
    let pool = Arc::new(Pool::create(Memory::dram(1 << 26).unwrap(), &spec, PLACE).unwrap());
    let hasher = Hasher::new(7);
    let open = |pool| {
        let settings = Settings { built_at_once_max: 0, ..settings(1.0) };
        Engine::open_bytes::<Dram>(pool, hasher, settings).unwrap()
    };
    let store = open(Arc::clone(&pool));
    store.upsert(b"key", b"value").unwrap();
    drop(store);
    pool.record_pairs(Some(1));
    pool.close().unwrap();
    let again = Arc::new(Pool::open(copy_of(pool.medium()), PLACE).unwrap());
    let store = open(again);
    assert!(!store.is_built());
    store.index().settle();
    assert!(store.index().is_built() && !store.is_built());
    assert_eq!(store.get(b"key").unwrap().unwrap().bytes(), b"value");
    assert_eq!(store.len(), 1);
    store.upsert(b"other", b"value").unwrap();
    assert!(store.is_built());
    assert_eq!(store.len(), 2);
    assert!(store.check().is_sound());
}

#[test]
fn what_was_found_is_told_once() {
    let table = opened_later(&table(), |_| {});
    let told = Arc::new(Mutex::new(Vec::new()));
    let teller = |told: &Arc<Mutex<Vec<Found>>>| {
        let told = Arc::clone(told);
        Box::new(move |found| told.lock().unwrap().push(found))
    };
    table.when_built(teller(&told));
    table.remove(7).unwrap();
    assert_eq!(*told.lock().unwrap(), []);
    table.settle();
    let found = Found { slots: keys().end, groups: 0 };
    assert_eq!(*told.lock().unwrap(), [found]);
    // Late, it is told at once.
    table.when_built(teller(&told));
    assert_eq!(*told.lock().unwrap(), [found; 2]);
    assert_eq!(table.len(), keys().end - 1);
}

/// Beside builders and sweepers, which hold locks of blocks, a check of a sound store finds nothing.
#[test]
fn a_check_waits_for_who_completes_the_opening() {
    let table = opened_later(&table(), |_| {});
    assert_whole(&table);
    let geometry = table.core.geometry();
    assert!(!geometry.is_building() && !geometry.is_clearing(), "builders go on");
    for _ in 0..60 {
        let store = unswept(3000);
        assert!(store.take_sweep_over());
        std::thread::scope(|scope| {
            scope.spawn(|| store.sweep(&AtomicBool::new(false)));
            let report = store.check();
            assert!(report.is_sound(), "{report:?}");
        });
    }
}

/// The sweep is no scan of a user's, for which a shrink would give way.
#[test]
fn a_store_shrinks_beside_its_sweep() {
    for _ in 0..60 {
        let store = unswept(3000);
        for number in 10..3000u64 {
            assert!(store.remove(&number.to_le_bytes()).unwrap().is_some());
        }
        store.index().settle();
        let pool = Arc::clone(store.index().pool());
        let store =
            store_later(Arc::new(Pool::open(copy_of(pool.medium()), PLACE).unwrap()), HASHER);
        assert!(store.take_sweep_over());
        std::thread::scope(|scope| {
            scope.spawn(|| store.sweep(&AtomicBool::new(false)));
            assert_eq!(store.shrink().unwrap(), Shrunk::Halved);
        });
    }
}

/// Keys of one hash are counted once, whenever somebody asks.
#[test]
fn the_number_of_keys_is_right_when_the_building_ends() {
    let store = Arc::new(unswept_with(300, Hasher::with_bits(7, 9)));
    store.sweep(&AtomicBool::new(false));
    assert!(!store.index().is_built());
    let (asked, counted) = (Arc::clone(&store), Arc::new(Mutex::new(None)));
    let told = Arc::clone(&counted);
    store.index().when_built(Box::new(move |_| *told.lock().unwrap() = Some(asked.len())));
    store.index().settle();
    assert_eq!(*counted.lock().unwrap(), Some(300));
    assert_eq!(store.len(), 300);
}

const HASHER: Hasher = Hasher::new(7);

fn unswept(keys: u64) -> Items<Iceberg<Dram>, Dram> {
    unswept_with(keys, HASHER)
}

/// A store as the next opening finds it, with keys that count from 0, whose blocks are not built.
fn unswept_with(keys: u64, hasher: Hasher) -> Items<Iceberg<Dram>, Dram> {
    let spec = Spec { kind: PoolKind::Store, key_bytes: 0, value_bytes: 0, ..spec(&SHAPE) };
    let pool = Arc::new(Pool::create(Memory::dram(1 << 26).unwrap(), &spec, PLACE).unwrap());
    let store = store_later(Arc::clone(&pool), hasher);
    for number in 0..keys {
        assert!(store.upsert(&number.to_le_bytes(), &[7; 20]).unwrap().is_none());
    }
    store.index().settle();
    drop(store);
    store_later(Arc::new(Pool::open(copy_of(pool.medium()), PLACE).unwrap()), hasher)
}
