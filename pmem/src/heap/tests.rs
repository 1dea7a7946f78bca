use super::*;
use crate::epoch::Epochs;
use crate::medium::{Dram, Memory};
use crate::pool::Spec;
use crate::superblock::{Place, PoolKind};
use std::collections::HashSet;

const SMALL_SEGMENT_LOG2: u32 = 12;

fn spec(segment_log2: u32) -> Spec {
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

fn heap(limit: u64, segment_log2: u32) -> Heap<Dram> {
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
    let items: Vec<Offset> =
        (0..500).map(|n: usize| heap.write_item(&n.to_le_bytes(), &value(n)).unwrap()).collect();
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
    let at = heap.write_group(&offsets).unwrap();
    assert_eq!(heap.group(at, &epochs.pin()).unwrap(), offsets);
    let item = heap.write_item(b"key", b"value").unwrap();
    assert!(heap.group(item, &epochs.pin()).is_err());
    assert!(heap.item(at, &epochs.pin()).is_err());
}

#[test]
fn freed_space_is_used_again_across_classes() {
    let heap = heap(1 << 20, SMALL_SEGMENT_LOG2);
    let fill = |bytes: usize| {
        let mut items = Vec::new();
        while let Ok(at) = heap.write_item(b"k", &vec![1; bytes]) {
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
        match heap.write_item(b"k", &[7; 200]) {
            Ok(at) => items.push(at),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SpaceError::Full { .. }), "{error}");
    heap.reclaim(items.pop().unwrap());
    heap.write_item(b"k", &[7; 200]).unwrap();
}

#[test]
fn threads_never_share_a_slot() {
    let heap = heap(1 << 30, SMALL_SEGMENT_LOG2);
    let kept: Vec<Vec<Offset>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread: usize| {
                let heap = &heap;
                scope.spawn(move || {
                    let mut kept = Vec::new();
                    for n in 0..20_000 {
                        let at = heap.write_item(b"key", &vec![0; n * 7 % 90]).unwrap();
                        if n % 3 == thread % 3 { kept.push(at) } else { heap.reclaim(at) }
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
        .map(|n: usize| first.write_item(&n.to_le_bytes(), &vec![n as u8; sizes[n % 4]]).unwrap())
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
        heap.write_item(b"new", &vec![0xee; sizes[n % 4]]).unwrap();
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
        (0..100).map(|_| heap.write_item(b"key", &[7; 100]).unwrap()).collect();
    let epochs = Epochs::new().unwrap();
    for bad in [items[0], Offset(24), items[1].add(16)] {
        let again = Heap::open(Arc::clone(&heap.pool)).unwrap();
        let sweep = again.sweep();
        sweep.mark(items[0]).unwrap();
        assert!(sweep.mark(bad).is_err());
        sweep.finish();
        for _ in 0..200 {
            again.reclaim(items[2]);
            let fresh = again.write_item(b"new", &[8; 100]).unwrap();
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
    let at = heap.write_item(&[1; KEY_BYTES_MAX], &value).unwrap();
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

/// Writes items until the heap is short, or full.
fn write_until_short(heap: &Heap<Dram>) -> Result<Vec<Offset>, SpaceError> {
    let mut items = vec![heap.write_item(b"key", &[7; 900])?];
    while !heap.is_short() {
        items.push(heap.write_item(b"key", &[7; 900])?);
    }
    Ok(items)
}

#[test]
fn a_heap_that_is_short_takes_one_extent_ahead() {
    let heap = heap(1 << 30, SMALL_SEGMENT_LOG2);
    let extents = || heap.pool.extents_of(HEAP);
    assert!(!heap.is_short(), "nobody uses it");
    heap.grow_ahead().unwrap();
    assert_eq!(extents(), []);
    let mut items = Vec::new();
    for taken in 2..6 {
        items.extend(write_until_short(&heap).unwrap());
        assert_eq!(extents().len(), taken - 1, "taken ahead, it serves until it is nearly used up");
        let next_bytes = heap.next_extent_bytes();
        for _ in 0..3 {
            heap.grow_ahead().unwrap();
            assert!(!heap.is_short());
        }
        let all = extents();
        assert_eq!(all.len(), taken);
        assert!((next_bytes..next_bytes * 2).contains(&all[taken - 1].bytes), "{all:?}");
    }
    assert_eq!(leaks(&heap, &items), 0);
}

#[test]
fn a_heap_without_room_ahead_goes_on_with_what_is_left() {
    let heap = heap(256 << 10, SMALL_SEGMENT_LOG2);
    let refused = loop {
        write_until_short(&heap).unwrap();
        if let Err(refused) = heap.grow_ahead() {
            break refused;
        }
    };
    assert!(matches!(refused, SpaceError::Full { .. }), "{refused:?}");
    let further = (0..).find(|_| heap.write_item(b"key", &[7; 900]).is_err()).unwrap();
    assert!(further > 0);
}
