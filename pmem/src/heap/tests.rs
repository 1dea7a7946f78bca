use super::*;
use crate::epoch::Epochs;
use crate::error::SpaceError;
use crate::medium::{Dram, Memory};
use crate::pool::Spec;
use crate::superblock::{Place, PoolKind};
use crate::sync::AtomicBool;
use std::collections::{HashSet, VecDeque};

mod beside;
mod growth;

pub(in crate::heap) const SMALL_SEGMENT_LOG2: u32 = 12;

pub(in crate::heap) fn spec(segment_log2: u32) -> Spec {
    Spec {
        kind: PoolKind::Store,
        engine: 1,
        key_bytes: 0,
        value_bytes: 0,
        hash_id: 1,
        hash_seed: 2,
        uuid: 3,
        segment_log2,
        engine_params: Default::default(),
    }
}

pub(super) fn heap(limit: u64, segment_log2: u32) -> Heap<Dram> {
    let medium = Memory::dram(limit).unwrap();
    let pool = Pool::create(medium, &spec(segment_log2), Place::default()).unwrap();
    let heap = Heap::open(Arc::new(pool)).unwrap();
    heap.sweep().finish();
    heap
}

fn leaks(heap: &Heap<Dram>, reachable: &[Offset]) -> u64 {
    let mut audit = heap.audit();
    for &at in reachable {
        audit.mark(at, 1).unwrap();
    }
    audit.finish(&[]).0
}

#[test]
fn items_keep_their_bytes_and_do_not_overlap() {
    let heap = heap(1 << 30, SMALL_SEGMENT_LOG2);
    let epochs = Epochs::new().unwrap();
    let value = |n: usize| vec![n as u8; n * 37 % 9000];
    let items: Vec<Offset> = (0..500)
        .map(|n: usize| heap.write_item(&n.to_le_bytes(), &value(n), None).unwrap())
        .collect();
    let guard = epochs.pin();
    for (n, &at) in items.iter().enumerate() {
        let item = heap.item(at, &guard).unwrap();
        assert_eq!((item.key, item.value), (&n.to_le_bytes()[..], &value(n)[..]));
        assert!(item.is_sound());
        assert_eq!(at.0 % 16, 0);
    }
    assert_eq!(leaks(&heap, &items), 0);
    assert_eq!(leaks(&heap, &items[1..]), 1);
}

#[test]
fn groups_keep_their_offsets() {
    let heap = heap(1 << 30, SMALL_SEGMENT_LOG2);
    let epochs = Epochs::new().unwrap();
    let offsets: Vec<Offset> = (0..300).map(|n| Offset(n * 16)).collect();
    let at = heap.write_group(&offsets, None).unwrap();
    assert_eq!(heap.group(at, &epochs.pin()).unwrap(), offsets);
    let item = heap.write_item(b"key", b"value", None).unwrap();
    assert!(heap.group(item, &epochs.pin()).is_err());
    assert!(heap.item(at, &epochs.pin()).is_err());
}

#[test]
fn freed_space_is_used_again_across_classes() {
    let heap = heap(1 << 20, SMALL_SEGMENT_LOG2);
    let fill = |bytes: usize| {
        let mut items = Vec::new();
        while let Ok(at) = heap.write_item(b"k", &vec![1; bytes], None) {
            items.push(at);
        }
        items
    };
    for bytes in [10, 3000, 100, 20_000, 500] {
        let items = fill(bytes);
        let taken = items.len() * (bytes + 24);
        assert!(taken > 600_000, "{taken} of 2^20 bytes in items of {bytes}");
        assert_eq!(items.iter().collect::<HashSet<_>>().len(), items.len());
        items.into_iter().for_each(|at| heap.reclaim(at));
        assert_eq!(leaks(&heap, &[]), 0);
    }
}

#[test]
fn a_full_heap_says_so_and_works_on() {
    let heap = heap(1 << 18, SMALL_SEGMENT_LOG2);
    let mut items = Vec::new();
    let error = loop {
        match heap.write_item(b"k", &[7; 200], None) {
            Ok(at) => items.push(at),
            Err(error) => break error,
        }
    };
    let large = heap.write_item(b"k", &[7; 1 << 20], None).unwrap_err();
    for error in [error, large] {
        assert!(matches!(error, SpaceError::Full { .. }), "{error}");
        let cause = "its limit is 262144 bytes: raise `Options::max_bytes`";
        assert!(error.to_string().contains(cause), "{error}");
    }
    heap.reclaim(items.pop().unwrap());
    heap.write_item(b"k", &[7; 200], None).unwrap();
}

#[test]
fn a_thread_fills_what_it_freed_last() {
    let heap = heap(1 << 20, SMALL_SEGMENT_LOG2);
    let epochs = Epochs::new().unwrap();
    let guard = epochs.pin();
    let put = || heap.write_item(b"key", &[1; 50], None).unwrap();
    let items: Vec<Offset> = (0..10).map(|_| put()).collect();
    let used_bytes = heap.usage().used_bytes;
    heap.reclaim_many(items[2..6].iter().copied(), &guard);
    heap.reclaim_pinned(items[8], &guard);
    assert_eq!(heap.usage().used_bytes, used_bytes / 2);
    let left: Vec<Offset> = [0, 1, 6, 7, 9].map(|index| items[index]).into();
    assert_eq!(leaks(&heap, &left), 0);
    let filled = (0..5).map(|_| put()).collect::<Vec<_>>();
    assert_eq!(filled, [8, 5, 4, 3, 2].map(|index| items[index]));
    assert_eq!(heap.usage().used_bytes, used_bytes);
    assert_eq!(leaks(&heap, &items), 0);
}

#[test]
fn what_a_thread_keeps_another_one_in_need_gets() {
    let heap = heap(1 << 20, SMALL_SEGMENT_LOG2);
    let fill = |bytes: usize| {
        let put = |_: usize| heap.write_item(b"key", &vec![1; bytes], None).ok();
        (0..).map_while(put).collect::<Vec<Offset>>()
    };
    let fresh = std::thread::scope(|scope| scope.spawn(|| fill(900)).join().unwrap());
    fresh.into_iter().for_each(|at| heap.reclaim(at));
    let epochs = Epochs::new().unwrap();
    for bytes in [20, 50, 100, 200, 400, 900] {
        let guard = epochs.pin();
        heap.reclaim_many(fill(bytes).into_iter(), &guard);
    }
    let again = std::thread::scope(|scope| scope.spawn(|| fill(900)).join().unwrap());
    assert!(again.len() * 900 > 700_000, "{} items", again.len());
    assert_eq!(leaks(&heap, &again), 0);
}

#[test]
fn threads_never_share_a_slot() {
    let heap = heap(1 << 30, SMALL_SEGMENT_LOG2);
    let epochs = Epochs::new().unwrap();
    let kept: Vec<Vec<Offset>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread: usize| {
                let (heap, epochs) = (&heap, &epochs);
                scope.spawn(move || {
                    let mut kept = Vec::new();
                    for n in 0..20_000 {
                        let at = heap.write_item(b"key", &vec![0; n * 7 % 90], None).unwrap();
                        match (n % 3 == thread % 3, n % 2) {
                            (true, _) => kept.push(at),
                            (_, 0) => heap.reclaim(at),
                            (_, _) => heap.reclaim_pinned(at, &epochs.pin()),
                        }
                        if n % 1000 == 0 {
                            heap.recall_caches();
                        }
                    }
                    kept
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let all: Vec<Offset> = kept.into_iter().flatten().collect();
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    assert_eq!(leaks(&heap, &all), 0);
}

#[test]
fn a_sweep_frees_exactly_what_is_not_reached() {
    let file = tempfile::tempfile().unwrap();
    let medium = |file: &std::fs::File| {
        let size = file.metadata().unwrap().len();
        Memory::mapped(file.try_clone().unwrap(), size, 1 << 30, true).unwrap()
    };
    let place = Place { boot_id: [1, 1], ..Place::default() };
    let pool = Pool::create(medium(&file), &spec(SMALL_SEGMENT_LOG2), place).unwrap();
    let first = Heap::open(Arc::new(pool)).unwrap();
    first.sweep().finish();
    let sizes = [10, 900, 5000, 40_000];
    let items: Vec<Offset> = (0..400)
        .map(|n: usize| {
            first.write_item(&n.to_le_bytes(), &vec![n as u8; sizes[n % 4]], None).unwrap()
        })
        .collect();
    drop(first);

    let heap = Heap::open(Arc::new(Pool::open(medium(&file), place).unwrap())).unwrap();
    let kept: Vec<Offset> = items.iter().copied().step_by(3).collect();
    let sweep = heap.sweep();
    kept.iter().for_each(|&at| sweep.mark(at).unwrap());
    sweep.finish();
    let mut audit = heap.audit();
    kept.iter().for_each(|&at| audit.mark(at, 1).unwrap());
    assert_eq!(audit.finish(&[]).0, 0);

    let size_before = heap.pool().medium().size();
    let epochs = Epochs::new().unwrap();
    for n in 0..200usize {
        heap.write_item(b"new", &vec![0xee; sizes[n % 4]], None).unwrap();
    }
    assert_eq!(heap.pool().medium().size(), size_before, "freed space was not used");
    for (n, &at) in items.iter().enumerate().step_by(3) {
        let item = heap.item(at, &epochs.pin()).unwrap();
        assert!(item.is_sound() && item.key == n.to_le_bytes());
    }
}

#[test]
fn a_damaged_heap_hands_out_nothing_of_what_was_there() {
    let heap = heap(1 << 30, SMALL_SEGMENT_LOG2);
    let items: Vec<Offset> =
        (0..100).map(|_| heap.write_item(b"key", &[7; 100], None).unwrap()).collect();
    let epochs = Epochs::new().unwrap();
    for bad in [items[0], Offset(24), items[1].add(16)] {
        let again = Heap::open(Arc::clone(&heap.pool)).unwrap();
        let sweep = again.sweep();
        sweep.mark(items[0]).unwrap();
        assert!(sweep.mark(bad).is_err());
        sweep.finish();
        for _ in 0..200 {
            again.reclaim(items[2]);
            let fresh = again.write_item(b"new", &[8; 100], None).unwrap();
            assert!(!items.contains(&fresh));
        }
        for &at in &items {
            assert!(heap.item(at, &epochs.pin()).unwrap().is_sound());
        }
    }
}

#[test]
fn values_up_to_the_limit_fit_and_damaged_offsets_do_not() {
    let heap = heap(1 << 32, SEGMENT_LOG2_DEFAULT);
    let epochs = Epochs::new().unwrap();
    let value = vec![5; VALUE_BYTES_MAX];
    let at = heap.write_item(&[1; KEY_BYTES_MAX], &value, None).unwrap();
    let guard = epochs.pin();
    assert!(heap.item(at, &guard).unwrap().value == value);
    for bad in [1, 16, u64::MAX, u64::MAX - 15, 1 << 39] {
        let found = heap.item(Offset(bad), &guard);
        assert!(found.is_err() || found.unwrap().value.is_empty(), "{bad:#x}");
        heap.reclaim(Offset(bad));
    }
    heap.reclaim(at);
    assert_eq!(leaks(&heap, &[]), 0);
}

/// Writes items until there is no more room; at least one.
fn fill(heap: &Heap<Dram>, value_bytes: usize) -> Vec<Offset> {
    let mut items = Vec::new();
    while let Ok(at) = heap.write_item(b"key", &vec![5; value_bytes], None) {
        items.push(at);
    }
    assert!(!items.is_empty());
    items
}

#[test]
fn what_was_refused_takes_no_room_from_what_is_smaller() {
    let taken_by = |refused_bytes: Option<usize>| {
        let heap = heap(2 << 20, SEGMENT_LOG2_SMALL);
        let write = |bytes: usize| heap.write_item(b"key", &vec![5; bytes], None).ok();
        let before: Vec<_> = (0..20).map(|_| write(20_000).unwrap()).collect();
        if let Some(bytes) = refused_bytes {
            assert_eq!(write(bytes), None, "there is room for it, and not for its replacement");
        }
        before.len() + std::iter::from_fn(|| write(20_000)).count()
    };
    assert_eq!(taken_by(Some(900_000)), taken_by(None));
}

/// Sixty-four threads live at the same time, each with a segment of each class in its cache.
#[test]
fn what_threads_have_cached_serves_others() {
    const LIMIT: u64 = 16 << 20;
    let heap = heap(LIMIT, SEGMENT_LOG2_DEFAULT);
    let all_have_written = std::sync::Barrier::new(64);
    let items: Vec<Offset> = std::thread::scope(|scope| {
        let write = |thread: usize| {
            let sizes = (0..4).map(|n| 100 + (thread * 4 + n) * 37 % 700);
            let written = sizes.map(|bytes| heap.write_item(b"key", &vec![5; bytes], None));
            let written: Vec<_> = written.collect();
            all_have_written.wait();
            written.into_iter().map(Result::unwrap).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..64).map(|thread| scope.spawn(move || write(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(leaks(&heap, &items), 0);
    items.into_iter().for_each(|at| heap.reclaim(at));
    assert_eq!(heap.usage().used_bytes, 0);
    for value_bytes in [300, 12 << 20, 50, 7000] {
        let items = fill(&heap, value_bytes);
        let filled = (items.len() * value_bytes) as u64;
        assert!(filled > LIMIT / 5 * 3, "{filled} bytes in values of {value_bytes}");
        assert_eq!(leaks(&heap, &items), 0);
        items.into_iter().for_each(|at| heap.reclaim(at));
    }
}

/// Every slot belongs to one thread at a time, although threads in need take what others have cached.
#[test]
fn taking_from_caches_never_shares_a_slot() {
    let heap = heap(96 << 10, SMALL_SEGMENT_LOG2);
    let taken: Vec<AtomicBool> =
        (0..heap.pool.medium().limit() / 16).map(|_| AtomicBool::new(false)).collect();
    let recalls = |thread: usize| {
        let mut kept: VecDeque<Offset> = VecDeque::new();
        let mut refused = 0;
        for n in 0..30_000usize {
            match heap.write_item(b"key", &vec![1; (n + thread) * 7 % 300], None) {
                Ok(at) => {
                    let before = taken[at.0 as usize / 16].swap(true, Ordering::AcqRel);
                    assert!(!before, "{at} is in use twice");
                    kept.push_back(at);
                }
                Err(_) => refused += 1,
            }
            if kept.len() > 60 || refused % 8 == 7 {
                for at in kept.drain(..kept.len().min(30)) {
                    taken[at.0 as usize / 16].store(false, Ordering::Release);
                    heap.reclaim(at);
                }
            }
        }
        kept
    };
    let recalls = &recalls;
    let kept: Vec<Offset> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || recalls(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(leaks(&heap, &kept), 0);
}

#[test]
fn a_full_heap_replaces_items_for_ever() {
    for value_bytes in [20, 900, 1500, 3000, 9000, 60_000] {
        let heap = heap(1 << 20, SMALL_SEGMENT_LOG2);
        let mut items = fill(&heap, value_bytes);
        while heap.write_item(b"key", &[1], None).is_ok() {}
        for n in 0..3 * items.len() {
            let index = n * 7 % items.len();
            // As many bytes, or fewer.
            let bytes = value_bytes / (1 + n % 3);
            let replaced = items[index];
            let at = heap.write_item(b"key", &vec![6; bytes], Some(replaced));
            items[index] = at.unwrap_or_else(|error| panic!("{n} of {value_bytes}: {error}"));
            heap.reclaim(replaced);
            assert!(items[index] != replaced);
        }
    }
}

#[test]
fn what_is_set_aside_is_no_room_for_more() {
    let heap = heap(1 << 20, SMALL_SEGMENT_LOG2);
    let mut items = fill(&heap, 900);
    for _ in 0..50 {
        let replaced = items.swap_remove(0);
        items.push(heap.write_item(b"key", &[6; 900], Some(replaced)).unwrap());
        heap.reclaim(replaced);
        assert!(heap.write_item(b"key", &[6; 900], None).is_err());
    }
    heap.reclaim(items.swap_remove(7));
    items.push(heap.write_item(b"key", &[6; 900], None).unwrap());
    assert_eq!(leaks(&heap, &items), 0);
}

/// A thread takes the slot that is set aside, after another one has seen it there and before that one gives the slab to
/// other classes.
#[test]
fn a_slab_is_not_released_while_a_slot_of_it_is_taken() {
    let heap = heap(1 << 20, SMALL_SEGMENT_LOG2);
    let at = heap.write_item(b"key", &[1; 900], None).unwrap();
    heap.reclaim(at);
    heap.recall_caches();
    let class = heap.class_of(item::item_bytes(b"key", &[1; 900])).unwrap();
    let reserve = &heap.reserves[class];
    let seen = reserve.slots();
    let taken = reserve.take().unwrap();
    let mut list = heap.partial[class].lock();
    assert_eq!(list.len(), 1);
    assert_eq!(heap.take_empty_slabs(reserve, &mut list, &seen), []);
    assert_eq!(list.len(), 1);
    drop(list);
    heap.reclaim(taken);
    let mut list = heap.partial[class].lock();
    assert_eq!(heap.take_empty_slabs(reserve, &mut list, &reserve.slots()).len(), 1);
    assert!(list.is_empty() && reserve.slots().is_empty());
}

/// Two items lie side by side where one of the wanted length does.
#[test]
fn what_is_set_aside_joins_its_neighbours() {
    let heap = heap(1 << 20, SMALL_SEGMENT_LOG2);
    let segments = |count: usize| vec![1; (count << SMALL_SEGMENT_LOG2) - 30];
    let long = heap.write_item(b"key", &segments(16), None).unwrap();
    let short = [8, 8].map(|count| heap.write_item(b"key", &segments(count), None).unwrap());
    assert_eq!(short[1].0 - short[0].0, 8 << SMALL_SEGMENT_LOG2);
    while heap.write_item(b"key", &[1; 3000], None).is_ok() {}
    let again = heap.write_item(b"key", &segments(16), Some(long)).unwrap();
    assert_eq!(heap.reserved_run.len(), 0);
    for at in short {
        heap.reclaim(at);
    }
    assert_eq!(heap.reserved_run.len(), 16);
    assert!(heap.write_item(b"key", &segments(16), Some(again)).is_ok());
}
