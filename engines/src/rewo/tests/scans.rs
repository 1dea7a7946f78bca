//! Scans on several threads, items where they do not belong, and helpers that can do nothing.

use super::*;
use crate::kit::buckets::Buckets;
use crate::kit::helper::Background;
use crate::kit::scan::Scanned;
use index::Index;
use pmem::sync::Mutex;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicUsize;

const KEYS: u64 = 400;

/// A table whose buckets have one slot, so that each eviction can move any item.
fn table() -> RewoHash<Dram> {
    table_with(1)
}

fn table_with(evictions: u32) -> RewoHash<Dram> {
    let shape = Shape {
        slots: 1,
        initial_log2: 10,
        cached: Cached::Nothing,
        design: Design { evictions, ..Design::default() },
    };
    let settings = Settings { resize_at: 1.0, helpers: 0, ..Settings::default() };
    let table = table_of(shape, settings);
    for key in 0..KEYS {
        assert!(table.insert(key, !key).unwrap().is_none());
    }
    table
}

/// Moves items that have room elsewhere, of every `step`-th bucket.
fn move_some(core: &Core<Dram, u64, u64>, step: usize) {
    for bucket in (0..core.geometry().buckets()).step_by(step) {
        if let Some(_locked) = crate::kit::buckets::Locked::attempt(core.state(bucket))
            && core.bucket.bitmap(core.medium().load(core.at(bucket))) != 0
        {
            core.evict(core.geometry(), bucket, None, &mut false);
        }
    }
}

/// Items move within and between the parts of two threads, and to buckets that no thread goes through.
#[test]
fn scans_of_parts_meet_each_key_once_together() {
    for every in [1, 7, 50] {
        let table = table();
        let core = &table.core;
        let met = Mutex::new(HashMap::new());
        let visits = AtomicUsize::new(0);
        core.for_each_on(2, &|key: u64, value: u64| {
            assert_eq!(value, !key);
            *met.lock().entry(key).or_insert(0) += 1;
            let visit = visits.fetch_add(1, Ordering::Relaxed);
            if visit.is_multiple_of(every) {
                move_some(core, 1 + visit % 5);
            }
            if visit == 100 {
                table.extend().unwrap();
            }
            ControlFlow::Continue(())
        });
        let met = met.lock();
        assert!((0..KEYS).all(|key| met.get(&key) == Some(&1)), "every {every}: {met:?}");
    }
}

/// Who has seen enough is not shown more by the thread that showed it.
#[test]
fn scans_end_early() {
    let table = table();
    let visits = AtomicUsize::new(0);
    table.core.for_each_on(2, &|_: u64, _: u64| {
        visits.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Break(())
    });
    assert_eq!(visits.load(Ordering::Relaxed), 2);
    assert_eq!(table.core.shared.scans.open(), 0);
}

/// Damage is not spread: and who moved it could wait for a bucket that another thread empties, which waits for this
/// one.
#[test]
fn an_item_that_never_belonged_to_a_bucket_is_not_moved() {
    let table = table();
    let core = &table.core;
    core.begin_extension(core.geometry()).unwrap();
    let geometry = core.geometry();
    let stranger = KEYS + 1;
    let hash = core.hash(stranger);
    let is_strange = |bucket: &u64| {
        core.empty(*bucket) != 0
            && !geometry.places().any(|log2| core.pair_among(log2, hash).contains(bucket))
    };
    let bucket = geometry.sources().find(is_strange).unwrap();
    let locked = crate::kit::buckets::Locked::attempt(core.state(bucket)).unwrap();
    core.put_locked(bucket, 0, (stranger, 1), hash.print());
    drop(locked);
    core.finish_resize();
    assert!(!core.geometry().is_resizing());
    assert_eq!(core.bucket.key(core.medium(), core.at(bucket), 0), stranger);
    assert_eq!(core.bucket.bitmap(core.medium().load(core.at(bucket))), 1);
    assert!(!table.check().is_sound());
}

/// An item has no room where it must move. A helper that goes round for ever would keep a processor busy.
#[test]
fn a_helper_rests_when_nothing_can_be_moved() {
    let table = table_with(0);
    let core = &table.core;
    core.begin_extension(core.geometry()).unwrap();
    let geometry = core.geometry();
    let source = geometry.sources().find(|&bucket| core.misplaced(geometry, bucket) != 0).unwrap();
    let key = core.bucket.key(core.medium(), core.at(source), 0);
    for (full, other) in core.pair_among(geometry.log2(), core.hash(key)).into_iter().zip(KEYS..) {
        if core.empty(full) != 0 {
            let _locked = crate::kit::buckets::Locked::attempt(core.state(full)).unwrap();
            core.put_locked(full, 0, (other, 1), core.hash(other).print());
        }
    }
    let turns_max = 3 * geometry.sources().count();
    let refused = (0..turns_max).find(|_| Background::take_turn(&**core).is_err());
    assert!(refused.is_some() && core.geometry() == geometry, "{turns_max} turns");
    assert!(core.misplaced(geometry, source) != 0);
}
