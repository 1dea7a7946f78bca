//! What only the inside of a table shows.

use super::layout::{Bucket, Context, Word, load};
use super::resize::Appender;
use super::scan::TagScan;
use super::{Clevel, ENGINE_ID, Shape, engine_params};
use crate::Settings;
use index::{Records, Shrunk};
use pmem::medium::{Dram, Memory};
use pmem::pool::Spec;
use pmem::superblock::{Place, PoolKind};
use pmem::{Medium, Offset, OpenError, Pool, SpaceError, WORD};

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

const PLACE: Place = Place { boot_id: [1, 2], inode: 3, file_system: 4 };

/// What a process killed now would leave, some words changed, opened again.
fn reopened(
    store: &Clevel<Dram>,
    changes: &[(Offset, u64)],
    is_read_only: bool,
) -> Result<Clevel<Dram>, OpenError> {
    let (old, medium) = (store.core.medium(), Memory::dram(1 << 30).unwrap());
    medium.grow(old.size()).unwrap();
    for word in 0..old.size() / WORD {
        let at = Offset(0).word(word);
        medium.store(at, old.load(at));
    }
    for &(at, word) in changes {
        medium.store(at, word);
    }
    let pool = if is_read_only {
        Pool::open_read_only(medium, PLACE)?
    } else {
        Pool::open(medium, PLACE)?
    };
    Clevel::open(Arc::new(pool), store.core.settings)
}

/// The first slot that holds an item, or none, in the larger of the first two levels.
fn first_slot(store: &Clevel<Dram>, is_taken: bool) -> (Offset, Word) {
    let level = store.core.levels.get(2);
    let slots = level.slots();
    let mut slots = slots.map(|slot| (slot, load(store.core.medium(), slot)));
    slots.find(|(_, word)| word.is_item() == is_taken).unwrap()
}

fn store(initial_log2: u32, resize_at: f64) -> Clevel<Dram> {
    let spec = Spec {
        kind: PoolKind::Store,
        engine: ENGINE_ID,
        key_bytes: 0,
        value_bytes: 0,
        hash_id: index::hash::HASH_ID,
        hash_seed: 1,
        uuid: 2,
        segment_log2: pmem::heap::SEGMENT_LOG2_DEFAULT,
        engine_params: engine_params(&Shape { initial_log2 }),
    };
    let medium = Memory::dram(1 << 30).unwrap();
    let pool = Arc::new(Pool::create(medium, &spec, PLACE).unwrap());
    Clevel::open(pool, Settings { resize_at, helpers: 0, ..Settings::default() }).unwrap()
}

/// A large level takes long to allocate, or to be emptied.
#[test]
fn insertions_that_find_room_do_not_wait_for_who_takes_a_level() {
    let store = store(4, 0.5);
    let taking = store.core.taking.lock();
    let (done, is_done) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for key in 0..120u64 {
                store.insert(&key.to_le_bytes(), b"value").unwrap();
            }
            done.send(store.occupancy()).unwrap();
        });
        // Against hanging only: it ends, or waits for what is held here.
        let occupancy = is_done.recv_timeout(Duration::from_secs(600));
        drop(taking);
        let occupancy = occupancy.expect("it waits");
        assert!(occupancy.load_factor() > 0.6 && !occupancy.resizing, "{occupancy:?}");
    });
    store.insert(b"one more", b"").unwrap();
    store.insert(b"another one", b"").unwrap();
    assert!(store.occupancy().resizes > 0, "{:?}", store.occupancy());
}

#[test]
fn threads_in_need_of_a_level_together_take_one() {
    for round in 0..200u64 {
        let store = store(1, 1.0);
        std::thread::scope(|scope| {
            for thread in 0..6u64 {
                let store = &store;
                scope.spawn(move || {
                    for index in 0..300 {
                        let key = (round << 32 | thread << 16 | index).to_le_bytes();
                        store.insert(&key, b"value").unwrap();
                    }
                });
            }
        });
        let sizes: Vec<u64> =
            store.core.pool.extents_of(super::LEVELS).iter().map(|level| level.bytes).collect();
        assert!(sizes.is_sorted_by(|a, b| a < b), "round {round}: {sizes:?}");
    }
}

#[test]
fn no_level_is_taken_that_the_context_has_no_room_for() {
    let store = store(1, 1.0);
    let core = &store.core;
    let guard = core.epochs.pin();
    for _ in 2..super::layout::LEVELS_MAX {
        core.grow(core.context()).unwrap();
    }
    let extents = core.pool.extents_of(super::LEVELS);
    assert_eq!(extents.len(), 10);
    assert!(matches!(core.grow(core.context()), Err(SpaceError::Crowded { .. })));
    assert_eq!(core.pool.extents_of(super::LEVELS), extents);
    drop(guard);
    store.insert(b"key", b"value").unwrap();
    store.settle();
    assert_eq!(store.check().findings, [""; 0]);
}

/// Sixty keys in two levels of 8 and 16 buckets.
fn sixty() -> Clevel<Dram> {
    let store = store(4, 1.0);
    for key in 0..120u64 {
        store.insert(&key.to_le_bytes(), b"value").unwrap();
    }
    for key in 60..120u64 {
        store.remove(&key.to_le_bytes()).unwrap();
    }
    store
}

#[test]
fn a_check_finds_bits_without_use() {
    let store = sixty();
    let (slot, word) = first_slot(&store, true);
    let damaged = reopened(&store, &[(slot, word.0 | 1 << 45)], false).unwrap();
    assert!(damaged.check().findings[0].contains("bits without use"));
}

#[test]
fn a_check_finds_items_of_levels_that_a_damaged_context_does_not_name() {
    let store = sixty();
    let core = &store.core;
    {
        let _guard = core.epochs.pin();
        core.append(core.context(), &[3, 4], Appender::InNeed).unwrap();
    }
    let others = Context(3 | 4 << 6).word();
    let damaged = reopened(&store, &[(core.control, others)], false).unwrap();
    assert_eq!(damaged.len(), 0);
    let report = damaged.check();
    assert_eq!(report.faults, 60, "{:?}", report.findings);
    assert!(report.findings[0].contains("an item in a level not in use"));
}

/// Words that are left to be cleared up need not have been cleared in a pool that was closed.
#[test]
fn a_closed_pool_is_sound_whatever_words_without_items_say() {
    let store = sixty();
    store.core.pool.close().unwrap();
    let (slot, _) = first_slot(&store, false);
    for word in [Word::EMPTY, Word::FROZEN, Word(2 << 38 | 7), Word(3 << 38 | 7)] {
        let closed = reopened(&store, &[(slot, word.0)], true).unwrap();
        assert_eq!(closed.check().findings, [""; 0]);
        assert_eq!(closed.get(b"absent").unwrap().map(|_| ()), None);
    }
}

/// A reader stores nothing after a sync, which has said that the pool is clean.
#[test]
fn recovery_leaves_no_context_to_be_marked_durable() {
    let store = sixty();
    let core = &store.core;
    let dirty = Context::FIRST.dirty_word();
    let recovered = reopened(&store, &[(core.control, dirty)], false).unwrap();
    assert_eq!(recovered.core.medium().load(core.control), Context::FIRST.word());
}

/// How often each part of a scan visits each key, and the last value. `interfere` is called with the
/// number of each visit.
fn met(
    store: &Clevel<Dram>,
    parts: usize,
    mut interfere: impl FnMut(usize),
) -> HashMap<u64, (usize, Vec<u8>)> {
    let (mut met, mut visits) = (HashMap::new(), 0);
    for part in 0..parts {
        let mut scan = TagScan::new(&store.core, part, parts);
        while let Some(item) = scan.next_item().unwrap() {
            let key = u64::from_le_bytes(item.key.try_into().unwrap());
            let (times, value): &mut (usize, Vec<u8>) = met.entry(key).or_default();
            *times += 1;
            *value = item.value.to_vec();
            interfere(visits);
            visits += 1;
        }
    }
    met
}

type Interference = fn(&Clevel<Dram>);

const INTERFERENCES: [(&str, &[Interference]); 7] = [
    ("expansion", &[expand]),
    ("expansion and updates", &[expand, update_all]),
    ("updates and expansion", &[update_all, expand]),
    ("expansion and shrink", &[expand, shrink]),
    ("two expansions", &[expand, expand]),
    ("expansions, shrinks and updates", &[expand, update_all, shrink, expand, update_all, shrink]),
    ("half an expansion", &[half_expand, update_all]),
];

fn expand(store: &Clevel<Dram>) {
    store.expand().unwrap();
}

fn half_expand(store: &Clevel<Dram>) {
    let guard = store.core.epochs.pin();
    store.core.grow(store.core.context()).unwrap();
    store.core.drain_some(4, &guard).unwrap();
}

fn shrink(store: &Clevel<Dram>) {
    assert_eq!(store.shrink().unwrap(), Shrunk::Halved);
}

fn update_all(store: &Clevel<Dram>) {
    for key in 0..60u64 {
        assert!(store.update(&key.to_le_bytes(), b"another").unwrap().is_some());
    }
}

#[test]
fn a_scan_meets_once_what_is_moved_and_changed_meanwhile() {
    for (name, interferences) in INTERFERENCES {
        for at in 0..60 {
            for parts in [1, 3] {
                let store = sixty();
                let visits = met(&store, parts, |visit| {
                    if visit == at {
                        interferences.iter().for_each(|interfere| interfere(&store));
                    }
                });
                assert_eq!(visits.len(), 60, "{name} after {at} visits: {visits:?}");
                assert!(visits.values().all(|(times, _)| *times == 1), "{name}: {visits:?}");
                assert_eq!(store.check().findings, [""; 0]);
            }
        }
    }
}

/// Inserts further keys until there is no room for one; how many.
fn fill_up(store: &Clevel<Dram>) -> u64 {
    (1000..).find(|key: &u64| store.insert(&key.to_le_bytes(), b"value").is_err()).unwrap() - 1000
}

/// Items of the front level make room by moving to the back one.
#[test]
fn a_table_that_may_not_grow_is_nearly_full_when_it_refuses_a_key() {
    for initial_log2 in [4, 6, 9] {
        let store = store(initial_log2, 2.0);
        let stored = fill_up(&store);
        let load_factor = store.occupancy().load_factor();
        assert!(load_factor > 0.93, "{initial_log2}: {load_factor}");
        assert_eq!(store.check().findings, [""; 0]);
        for key in 1000..1000 + stored {
            assert_eq!(store.get(&key.to_le_bytes()).unwrap().unwrap().bytes(), b"value");
        }
        let recovered = reopened(&store, &[], false).unwrap();
        assert_eq!((recovered.len(), recovered.check().findings), (stored, vec![]));
    }
}

/// Items that were written ahead are given back by a batch that ends early.
#[test]
fn a_batch_that_finds_no_room_leaves_nothing() {
    let store = store(4, 2.0);
    let stored = fill_up(&store);
    let keys: Vec<[u8; 8]> = (0..40u64).map(u64::to_le_bytes).collect();
    let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &b"value"[..])).collect();
    assert!(store.upsert_many(&pairs).is_err());
    assert!(store.len() < stored + 40);
    assert_eq!(store.check().findings, [""; 0]);
}

#[test]
fn a_scan_meets_once_what_makes_room_meanwhile() {
    for at in 0..60 {
        let store = store(4, 2.0);
        for key in 0..60u64 {
            store.insert(&key.to_le_bytes(), b"value").unwrap();
        }
        let visits = met(&store, 1, |visit| {
            if visit == at {
                fill_up(&store);
            }
        });
        assert!((0..60).all(|key| visits.contains_key(&key)), "after {at} visits: {visits:?}");
        assert!(visits.values().all(|(times, _)| *times == 1), "after {at} visits: {visits:?}");
    }
}

/// A move that was cut after the copy was durable leaves an item in two places.
#[test]
fn recovery_takes_one_of_two_copies() {
    let store = store(4, 2.0);
    let stored = fill_up(&store);
    for key in 1000..1080u64 {
        store.remove(&key.to_le_bytes()).unwrap();
    }
    let core = &store.core;
    let [back, _] = core.context().open();
    let front = core.levels.get(core.context().front());
    let slots = front.slots();
    let mut words = slots.map(|slot| load(core.medium(), slot));
    let word = words.find(|word| word.is_item()).expect("an item in the front level");
    let key = core.heap.item(word.at(), &core.epochs.pin()).unwrap().key.to_vec();
    let buckets = core.levels.get(back).candidates(core.hash(&key));
    let mut slots = buckets.into_iter().flat_map(Bucket::slots);
    let copy = slots.find(|&slot| load(core.medium(), slot) == Word::EMPTY).unwrap();
    let recovered = reopened(&store, &[(copy, word.dirty().0)], false).unwrap();
    assert_eq!((recovered.len(), recovered.check().findings), (stored - 80, vec![]));
    assert_eq!(load(recovered.core.medium(), copy), Word::EMPTY);
}

/// What is met later is as it is then.
#[test]
fn a_scan_meets_what_its_visitor_left() {
    let store = sixty();
    let visits = met(&store, 1, |visit| {
        if visit == 0 {
            update_all(&store);
        }
    });
    let others = visits.values().filter(|(_, value)| value == b"another").count();
    assert_eq!(others, 59);
    let visits = met(&store, 1, |visit| {
        if visit == 0 {
            (0..60u64).for_each(|key| drop(store.remove(&key.to_le_bytes()).unwrap()));
        }
    });
    assert_eq!(visits.len(), 1);
}

/// A scan that never ends stops nobody: it runs out of memory only who needs what it holds.
#[test]
fn a_table_grows_and_shrinks_beside_a_scan_that_stands() {
    let store = sixty();
    let visits = met(&store, 1, |visit| {
        if visit != 20 {
            return;
        }
        let mut shrinks = 0;
        for round in 0..40u64 {
            (100..2000u64).for_each(|key| {
                let value = (round << 32 | key).to_le_bytes();
                assert!(store.insert(&key.to_le_bytes(), &value).unwrap().is_none());
            });
            (100..2000u64).for_each(|key| {
                assert!(store.remove(&key.to_le_bytes()).unwrap().is_some());
            });
            while let Ok(Shrunk::Halved) = store.shrink() {
                shrinks += 1;
            }
        }
        assert!(shrinks > 2, "{shrinks} shrinks");
    });
    assert!((0..60).all(|key| visits.get(&key).is_some_and(|(times, _)| *times == 1)));
    store.settle();
    assert_eq!(store.check().findings, [""; 0]);
}
