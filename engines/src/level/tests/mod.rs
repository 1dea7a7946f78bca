//! Crashes and look-ups between the steps of other threads, laid out by hand; and a shrink beside
//! writers.

mod scans;

use super::geometry::{Geometry, Resize};
use super::layout::{BucketId, LOCK, next_version};
use super::resize::write_roots;
use super::*;
use crate::kit::buckets::Locked;
use crate::kit::log::Entry;
use crate::kit::operations::{Operations, Placed};
use crate::kit::search::Search;
use crate::kit::unfenced::Unfenced;
use index::Index;
use pmem::medium::{Dram, Memory};
use pmem::pool::Spec;
use pmem::superblock::{Place as At, PoolKind};
use pmem::{Offset, WORD};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

const AT: At = At { boot_id: [11, 13], inode: 17, file_system: 19 };
const LIMIT_BYTES: u64 = 1 << 26;

/// The bits of a bucket's word that are its version.
const LAST_VERSION: u64 = 0xffff_fffc;

type Table = LevelHashing<Dram>;

fn settings(resize_at: f64) -> Settings {
    Settings { resize_at, helpers: 0, recovery_threads: 1, ..Settings::default() }
}

fn table(initial_log2: u32, resize_at: f64) -> Table {
    table_of(Shape { initial_log2, ..Shape::default() }, settings(resize_at))
}

fn table_of(shape: Shape, settings: Settings) -> Table {
    let spec = Spec {
        kind: PoolKind::Table,
        engine: ENGINE_ID,
        key_bytes: 8,
        value_bytes: 8,
        hash_id: index::hash::HASH_ID,
        hash_seed: 0x5eed,
        uuid: 7,
        segment_log2: pmem::heap::SEGMENT_LOG2_DEFAULT,
        engine_params: engine_params(&shape),
    };
    let pool = Pool::create(Memory::dram(LIMIT_BYTES).unwrap(), &spec, AT).unwrap();
    Table::open(Arc::new(pool), settings).unwrap()
}

/// A table that has grown once.
fn grown() -> Table {
    let table = table(3, 0.85);
    table.core.begin_expansion(table.core.geometry()).unwrap();
    table.core.finish_resize();
    assert_eq!(table.core.geometry().resize(), Resize::No);
    table
}

/// What is opened after a crash that kept every store.
fn after_crash(table: &Table) -> Table {
    let before = table.core.medium();
    let medium = Memory::dram(LIMIT_BYTES).unwrap();
    medium.grow(before.size()).unwrap();
    for word in (0..before.size() / WORD).map(|word| Offset(0).word(word)) {
        medium.store(word, before.load(word));
    }
    let pool = Pool::open(medium, AT).unwrap();
    Table::open(Arc::new(pool), settings(0.85)).unwrap()
}

/// A key with two different buckets in a level.
fn key_of_two(table: &Table, level: u32) -> (u64, [BucketId; 2]) {
    (1..)
        .map(|key| (key, table.core.candidates(level, table.core.hash(key))))
        .find(|(_, [first, second])| first != second)
        .unwrap()
}

/// Stores an item into slot 0 of a bucket.
fn store(table: &Table, bucket: BucketId, key: u64) {
    store_in(table, bucket, 0, key);
}

/// Stores an item into an empty slot of a bucket.
fn store_in(table: &Table, bucket: BucketId, slot: usize, key: u64) {
    let core = &table.core;
    core.put_durably(core.at(bucket), slot, (key, 1));
    let word = core.state(bucket).load(Ordering::Relaxed);
    core.set_word(bucket, next_version(core.bucket.with(word, slot, core.print(core.hash(key)))));
}

/// Waits for what another thread is sure to come to.
fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

/// Lets other threads do what they should not be able to. Only a fault is found by waiting longer.
fn give_way() {
    (0..1000).for_each(|_| std::thread::yield_now());
}

/// Asserts that a key that a crash left twice is there once.
fn assert_once(table: &Table, key: u64) {
    assert_eq!((table.len(), table.get(key)), (1, Some(1)));
    let report = table.check();
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!(table.remove(key).unwrap(), Some(1));
    table.settle();
    assert_eq!(table.get(key), None, "a second copy came back");
}

/// A movement within a level, up to its copy; then `geometry` is what another thread begins.
fn moved_within(table: &Table, level: u32, begin: impl Fn(&Table, Geometry)) {
    let geometry = table.core.geometry();
    let (key, [from, to]) = key_of_two(table, level);
    store(table, from, key);
    let _entry = table
        .core
        .shared
        .log
        .write(table.core.medium(), &Entry::<u64>::movement(from.level, from.index(), 0));
    store(table, to, key);
    begin(table, geometry);
    assert_once(&after_crash(table), key);
}

#[test]
fn a_movement_that_an_expansion_overtakes() {
    let table = table(3, 0.85);
    let bottom = table.core.geometry().bottom();
    moved_within(&table, bottom, |table, geometry| table.core.begin_expansion(geometry).unwrap());
}

#[test]
fn a_movement_that_a_shrink_overtakes() {
    let table = grown();
    let top = table.core.geometry().top();
    moved_within(&table, top, |table, geometry| {
        assert!(table.core.begin_shrink(geometry).unwrap());
    });
}

#[test]
fn a_rehash_that_the_turning_of_its_shrink_overtakes() {
    let table = grown();
    let (key, [from, _]) = key_of_two(&table, table.core.geometry().top());
    store(&table, from, key);
    assert!(table.core.begin_shrink(table.core.geometry()).unwrap());
    let geometry = table.core.geometry();
    let to = table.core.candidates(geometry.top(), table.core.hash(key))[0];
    store(&table, to, key);
    let turned = geometry.next(geometry.top() + 1, geometry.bottom(), Resize::Expand);
    let recorded = table.core.pool.extend(|draft| {
        write_roots(draft, turned);
        Ok(())
    });
    recorded.unwrap();
    assert_once(&after_crash(&table), key);
}

#[test]
fn a_rehash_that_another_expansion_overtakes() {
    let table = table(3, 0.85);
    let geometry = table.core.geometry();
    let (key, [from, _]) = key_of_two(&table, geometry.bottom());
    store(&table, from, key);
    table.core.begin_expansion(geometry).unwrap();
    let geometry = table.core.geometry();
    let to = table.core.candidates(geometry.bottom(), table.core.hash(key))[0];
    store(&table, to, key);
    table.core.begin_expansion(geometry).unwrap();
    assert_once(&after_crash(&table), key);
}

/// A shrink becomes an expansion and that is over, while somebody still copies for the shrink.
#[test]
fn a_rehash_that_the_end_of_its_turned_shrink_does_not_overtake() {
    let table = grown();
    let core = &table.core;
    let (key, [from, _]) = key_of_two(&table, core.geometry().top());
    store(&table, from, key);
    assert!(core.begin_shrink(core.geometry()).unwrap());
    let geometry = core.geometry();
    let locked = Locked::attempt(core.state(from)).unwrap();
    let copying = core.copying(geometry);
    let mut copies = Unfenced::<Core<_, _, _>, 8>::from(core, from);
    assert!(matches!(core.insert(&mut copies, geometry, (key, 1), core.hash(key)), Placed::Done));
    copies.end_copy(0, key);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            assert!(core.turn_to_expansion(geometry));
            core.finish_resize();
        });
        // It has turned the shrink and emptied the last bucket: the end is all that is left to it.
        wait_until(|| {
            let geometry = core.geometry();
            geometry.resize() != Resize::Shrink && core.undrained(geometry) == Some(0)
        });
        give_way();
        assert_eq!(core.geometry().resize(), Resize::Expand, "it does not wait");
        assert_once(&after_crash(&table), key);
        drop((copies, copying, locked));
        other.join().unwrap();
    });
    assert_eq!((core.geometry().resize(), table.get(key)), (Resize::No, Some(1)));
    assert_eq!(after_crash(&table).len(), 1);
}

/// Equal words mean an unchanged bucket only to those who know how often versions came around.
#[test]
fn a_search_held_up_while_a_version_comes_around() {
    let table = table(3, 0.85);
    let core = &table.core;
    let hash = core.hash(7);
    let four = core.four(hash).unwrap();
    let before = core.see(&four);
    assert!(core.find_fast(&four, &before, core.slots_with(&before, hash), 7).is_some());
    let bucket = four.bucket_of(0);
    core.state(bucket).store(LAST_VERSION, Ordering::Relaxed);
    core.set_word(bucket, next_version(LAST_VERSION));
    assert_eq!(core.see(&four).words, before.words);
    assert!(core.find_fast(&four, &before, core.slots_with(&before, hash), 7).is_none());
}

#[test]
fn a_version_that_comes_around_in_a_log_free_update() {
    let design = Design { in_place_update: false, ..Design::default() };
    let table = table_of(Shape { initial_log2: 3, design, ..Shape::default() }, settings(0.85));
    let core = &table.core;
    let (key, [bucket, _]) = key_of_two(&table, core.geometry().top());
    store(&table, bucket, key);
    core.state(bucket).fetch_or(LAST_VERSION, Ordering::Relaxed);
    assert_eq!(table.update(key, 2).unwrap(), Some(1));
    assert_eq!((core.published.wraps(), table.get(key)), (1, Some(2)));
}

/// All threads read how often versions came around: who writes it stops them.
#[test]
fn updates_in_place_after_opening_share_no_counter() {
    let table = table(3, 0.85);
    assert_eq!(table.insert(7, 1).unwrap(), None);
    let table = after_crash(&table);
    assert_eq!(table.update(7, 2).unwrap(), Some(1));
    assert_eq!((table.core.published.wraps(), table.get(7)), (0, Some(2)));
}

/// A reader looks for an update's entry while another thread writes over one that was there once.
#[test]
fn an_entry_that_is_half_another_one() {
    let table = table(3, 0.85);
    let (log, medium) = (&table.core.shared.log, table.core.medium());
    let [old, new] = [1, 2].map(|index| BucketId::new(3, index));
    let written = log.write(medium, &Entry::update(old.level, old.index(), 0, 7u64));
    let at = log.read::<Dram, u64>(medium)[0].0;
    let update_of = |bucket: BucketId| {
        let entry =
            log.update_in::<Dram, u64>(medium, bucket.index(), |level| level == bucket.level)?;
        Some((entry.slot, entry.value?))
    };
    assert_eq!(update_of(old), Some((0, 7u64)));
    log.erase(medium, written);
    let _written = log.write(medium, &Entry::update(new.level, new.index(), 0, 9u64));
    assert_eq!(update_of(new), Some((0, 9u64)));
    medium.store(at.word(crate::kit::log::BUCKET), old.index());
    assert_eq!(update_of(old), None);
}

/// A table that may not grow, two keys in it, and one that is not: its buckets are full, and only the
/// second key can make room, by moving to the bucket of the first.
fn table_of_one_movement() -> (Table, BucketId, [u64; 3]) {
    let table = table_of(Shape { slots: 2, initial_log2: 2, ..Shape::default() }, settings(2.0));
    let core = &table.core;
    let (top, bottom) = (core.geometry().top(), core.geometry().bottom());
    let [full, other] = [0, 1].map(|index| BucketId::new(top, index));
    let mut keys = 1..;
    let mut key_in = |candidates: [BucketId; 2]| {
        keys.find(|&key| core.candidates(top, core.hash(key)) == candidates).unwrap()
    };
    let changed = key_in([other, other]);
    store_in(&table, other, 0, changed);
    let movable = key_in([full, other]);
    store_in(&table, full, 0, movable);
    store_in(&table, full, 1, key_in([full, full]));
    (0..2).for_each(|slot| {
        store_in(&table, BucketId::new(bottom, 0), slot, key_in([full, full]));
    });
    let new = key_in([full, full]);
    (table, other, [changed, movable, new])
}

/// A table that may not grow is full when no item can be moved, not when a batch itself holds the
/// bucket to which it would be.
#[test]
fn a_movement_to_a_bucket_that_the_batch_has_changed() {
    let (table, _, [changed, movable, new]) = table_of_one_movement();
    let mut found = [None; 2];
    table.upsert_many(&[(changed, 5), (new, 6)], &mut found).unwrap();
    assert_eq!(found, [Some(1), None]);
    let stored = [changed, new, movable].map(|key| table.get(key));
    assert_eq!(stored, [Some(5), Some(6), Some(1)]);
}

/// Nor when another thread holds it for a moment.
#[test]
fn a_movement_to_a_bucket_that_another_thread_holds() {
    let (table, other, [_, movable, new]) = table_of_one_movement();
    let core = &table.core;
    let locked = Locked::attempt(core.state(other)).unwrap();
    let mut unfenced = Unfenced::<Core<_, _, _>, 2>::new(core);
    let placed = core.insert(&mut unfenced, core.geometry(), (new, 6), core.hash(new));
    assert!(matches!(placed, Placed::Busy), "room, or none at all");
    drop(unfenced);
    std::thread::scope(|scope| {
        let inserting = scope.spawn(|| table.insert(new, 6));
        give_way();
        drop(locked);
        assert_eq!(inserting.join().unwrap().unwrap(), None);
    });
    assert_eq!([new, movable].map(|key| table.get(key)), [Some(6), Some(1)]);
}

/// The load rises and falls around where shrinks find no room and turn.
#[test]
fn shrinks_beside_writers_end_and_lose_nothing() {
    for round in 0..12 {
        let table = table(1, 0.99);
        let steady = |number: u64| number << 20 | round << 40;
        let count = 60 + round % 40;
        (0..count).for_each(|number| assert_eq!(table.insert(steady(number), 1).unwrap(), None));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 1..3u64 {
                let (table, is_over) = (&table, &is_over);
                scope.spawn(move || {
                    let own = |number: u64| 1 << 60 | writer << 56 | number;
                    while !is_over.load(Ordering::Relaxed) {
                        for number in 0..40 {
                            assert_eq!(table.insert(own(number), number).unwrap(), None);
                        }
                        for number in 0..40 {
                            assert_eq!(table.remove(own(number)).unwrap(), Some(number));
                        }
                    }
                });
            }
            for _ in 0..400 {
                table.shrink().unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        (0..count).for_each(|number| assert_eq!(table.get(steady(number)), Some(1)));
        assert_eq!(table.len(), count);
        let report = table.check();
        assert!(report.is_sound(), "{:?}", report.findings);
    }
}

#[test]
fn a_table_that_may_shrink_does_so_by_itself_and_does_not_swing() {
    for shrink_at in [0.25, 1.0] {
        let shape = Shape { initial_log2: 4, ..Shape::default() };
        let table = table_of(shape, Settings { shrink_at, ..settings(0.85) });
        let smallest = table.occupancy().capacity;
        (0..4000).for_each(|key| assert_eq!(table.insert(key, key).unwrap(), None));
        table.settle();
        let (largest, grown) = (table.occupancy().capacity, table.occupancy().resizes);
        assert!(largest >= 32 * smallest && grown < 12, "{grown} resizes on the way up");
        (40..4000).for_each(|key| assert_eq!(table.remove(key).unwrap(), Some(key)));
        table.settle();
        let shrunk = table.occupancy();
        assert!(shrunk.capacity <= 2 * smallest, "{} slots for 40 pairs", shrunk.capacity);
        assert!(shrunk.resizes - grown < 12, "{} resizes on the way down", shrunk.resizes - grown);
        for turn in 0..2000 {
            let key = 5000 + turn % 8;
            assert_eq!(table.insert(key, 1).unwrap(), None);
            assert_eq!(table.remove(key).unwrap(), Some(1));
        }
        let steady = table.occupancy().resizes;
        assert!(steady <= shrunk.resizes + 1, "{} resizes at rest", steady - shrunk.resizes);
        (0..40).for_each(|key| assert_eq!(table.get(key), Some(key)));
        assert!(table.check().is_sound());
    }
}

#[test]
fn pairs_of_other_sizes_are_refused() {
    let narrow = table(3, 0.85);
    let medium = Memory::dram(LIMIT_BYTES).unwrap();
    medium.grow(narrow.core.medium().size()).unwrap();
    for word in (0..medium.size() / WORD).map(|word| Offset(0).word(word)) {
        medium.store(word, narrow.core.medium().load(word));
    }
    let pool = Arc::new(Pool::open(medium, AT).unwrap());
    let refused = LevelHashing::<_, [u8; 16], u64>::open(pool, settings(0.85)).unwrap_err();
    let OpenError::Mismatch { field, found, expected, .. } = refused else { panic!("{refused}") };
    assert_eq!((field, &*found, &*expected), ("key size", "8 bytes", "16 bytes"));
}
