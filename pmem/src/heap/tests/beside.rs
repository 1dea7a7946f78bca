//! Heaps that are used before they are swept, and free slots on record.

use super::*;
use crate::offset::Offset;

const PLACE: Place = Place { boot_id: [1, 1], inode: 0, file_system: 0 };

fn copy_of(heap: &Heap<Dram>) -> Dram {
    let (from, size) = (heap.medium(), heap.medium().size());
    let copy = Memory::dram(1 << 30).unwrap();
    copy.grow(size).unwrap();
    for at in (0..size).step_by(8).map(Offset) {
        copy.store(at, from.load(at));
    }
    copy
}

/// The heap as the next process finds it.
fn opened(medium: Dram) -> Heap<Dram> {
    Heap::open(Arc::new(Pool::open(medium, PLACE).unwrap())).unwrap()
}

/// A heap with these items, of one class unless they are large.
fn filled(sizes: &[usize]) -> (Heap<Dram>, Vec<Offset>) {
    let medium = Memory::dram(1 << 30).unwrap();
    let pool = Pool::create(medium, &spec(SMALL_SEGMENT_LOG2), PLACE).unwrap();
    let heap = Heap::open(Arc::new(pool)).unwrap();
    heap.sweep().finish();
    let items = sizes.iter().map(|&size| heap.write_item(b"key", &vec![7; size], None).unwrap());
    let items = items.collect();
    (heap, items)
}

fn assert_whole(heap: &Heap<Dram>, reachable: &[Offset]) {
    assert_eq!(leaks(heap, reachable), 0, "reachable: {reachable:x?}");
}

#[test]
fn what_is_unlinked_beside_the_walk_is_freed_once() {
    let sizes = [100, 100, 100, 9000, 9000, 9000];
    // What the walk meets, in order, before and after the change; and when the change gives its item back.
    for item in 0..sizes.len() {
        for is_met in [false, true] {
            for is_released_before in [false, true] {
                let (before, items) = filled(&sizes);
                let heap = opened(copy_of(&before));
                let sweep = heap.sweep();
                for (other, &at) in items.iter().enumerate() {
                    if other != item || is_met {
                        sweep.mark(at).unwrap();
                    }
                }
                heap.note_unlinking(items[item]);
                if is_released_before {
                    heap.reclaim(items[item]);
                }
                sweep.finish();
                let mut left = items.clone();
                if is_released_before {
                    left.remove(item);
                    assert_whole(&heap, &left);
                } else {
                    assert_whole(&heap, &items);
                    left.remove(item);
                    heap.reclaim(items[item]);
                    assert_whole(&heap, &left);
                }
                // Each slot is handed out once.
                let fresh: Vec<Offset> =
                    (0..60).map(|_| heap.write_item(b"new", &[8; 100], None).unwrap()).collect();
                let all: HashSet<Offset> = left.iter().chain(&fresh).copied().collect();
                assert_eq!(all.len(), left.len() + fresh.len());
            }
        }
    }
}

#[test]
fn what_nobody_met_and_nobody_announced_is_free() {
    let (before, items) = filled(&[100, 100, 9000]);
    let heap = opened(copy_of(&before));
    let sweep = heap.sweep();
    sweep.mark(items[0]).unwrap();
    sweep.finish();
    assert_whole(&heap, &items[..1]);
}

/// A thread keeps what it frees for its next items; but not what lies in a sealed segment, which the walk may meet.
#[test]
fn nobody_keeps_slots_of_a_sealed_segment() {
    let (before, mut items) = filled(&[100; 20]);
    let heap = opened(copy_of(&before));
    let epochs = Epochs::new().unwrap();
    let guard = epochs.pin();
    // So that none is missing of what is set aside.
    let mut left: Vec<Offset> =
        (0..10).map(|_| heap.write_item(b"new", &[8; 100], None).unwrap()).collect();
    for at in items.drain(..10) {
        heap.note_unlinking(at);
        heap.reclaim_pinned(at, &guard);
        let fresh = heap.write_item(b"new", &[8; 100], None).unwrap();
        assert_ne!(fresh, at);
        left.push(fresh);
    }
    left.append(&mut items);
    let sweep = heap.sweep();
    left.iter().for_each(|&at| sweep.mark(at).unwrap());
    sweep.finish();
    assert_whole(&heap, &left);
}

#[test]
fn a_heap_that_is_not_swept_uses_fresh_segments_and_does_not_grow() {
    let (before, items) = filled(&[100; 50]);
    let heap = opened(copy_of(&before));
    let segments: HashSet<u64> = items.iter().map(|&at| heap.slab_of(at)).collect();
    let size = heap.medium().size();
    let fresh: Vec<Offset> =
        std::iter::from_fn(|| heap.write_item(b"new", &[8; 100], None).ok()).collect();
    assert!(!fresh.is_empty() && heap.medium().size() == size);
    assert!(fresh.iter().all(|&at| !segments.contains(&heap.slab_of(at))));
    // Given back, what came since is used again.
    heap.reclaim(fresh[0]);
    assert_eq!(heap.write_item(b"new", &[9; 100], None).unwrap(), fresh[0]);
    let sweep = heap.sweep();
    items.iter().chain(&fresh).for_each(|&at| sweep.mark(at).unwrap());
    sweep.finish();
    heap.write_item(b"new", &[8; 100], None).unwrap();
    for _ in 0..99 {
        heap.write_item(b"new", &[8; 9000], None).unwrap();
    }
    assert!(heap.medium().size() > size);
}

/// A heap with items of two classes, closed, and what its slots are.
fn closed() -> (Heap<Dram>, Vec<Offset>) {
    let (heap, mut items) = filled(&[100, 300, 100, 300, 100, 9000]);
    for item in [items.remove(2), items.remove(2)] {
        heap.reclaim(item);
    }
    heap.record_free_slots();
    heap.pool().close().unwrap();
    (heap, items)
}

#[test]
fn a_close_records_free_slots_and_the_next_opening_uses_them() {
    let (before, items) = closed();
    let heap = opened(copy_of(&before));
    heap.adopt_free_slots();
    let segments: Vec<u64> = items.iter().map(|&at| heap.slab_of(at)).collect();
    let fresh = [100, 300, 100].map(|size| heap.write_item(b"new", &vec![8; size], None).unwrap());
    for at in fresh {
        assert!(segments.contains(&heap.slab_of(at)), "{at} lies in a fresh segment");
        assert!(!items.contains(&at));
    }
    let sweep = heap.sweep();
    items.iter().chain(&fresh).for_each(|&at| sweep.mark(at).unwrap());
    sweep.finish();
    let all: Vec<Offset> = items.iter().chain(&fresh).copied().collect();
    assert_whole(&heap, &all);
    let epochs = Epochs::new().unwrap();
    assert!(items.iter().all(|&at| heap.item(at, &epochs.pin()).unwrap().is_sound()));
}

/// Closed and opened again and again, and never swept.
#[test]
fn openings_that_put_little_need_no_segment_each() {
    let (mut heap, items) = closed();
    let mut fresh = Vec::new();
    let free = |heap: &Heap<Dram>| heap.segments_free.load(Ordering::Relaxed);
    let mut free_before = 0;
    for round in 0..20 {
        heap = opened(copy_of(&heap));
        heap.adopt_free_slots();
        fresh.push(heap.write_item(b"new", &[8; 100], None).unwrap());
        if round > 0 {
            assert_eq!(free(&heap), free_before, "round {round}");
        }
        free_before = free(&heap);
        heap.record_free_slots();
        heap.pool().close().unwrap();
    }
    let heap = opened(copy_of(&heap));
    let sweep = heap.sweep();
    items.iter().chain(&fresh).for_each(|&at| sweep.mark(at).unwrap());
    sweep.finish();
    let all: Vec<Offset> = items.iter().chain(&fresh).copied().collect();
    assert_whole(&heap, &all);
}

#[test]
fn a_record_that_is_damaged_or_of_another_close_is_left_alone() {
    let (before, _) = closed();
    let first = before.pool().superblock().free_slots().unwrap();
    let sealed = |heap: &Heap<Dram>| heap.all_segments().all(|segment| heap.is_sealed(segment));
    let listed = |change: &dyn Fn(&Dram)| {
        let medium = copy_of(&before);
        change(&medium);
        let heap = opened(medium);
        heap.adopt_free_slots();
        !sealed(&heap)
    };
    assert!(listed(&|_| {}));
    for word in 0..5 {
        assert!(!listed(
            &|medium| medium.store(first.word(word), medium.load(first.word(word)) ^ 2)
        ));
    }
    // Of a page that the system has lost: the record of an earlier close, which fits its checksum.
    let again = opened(copy_of(&before));
    again.adopt_free_slots();
    again.record_free_slots();
    again.pool().close().unwrap();
    let at = again.pool().superblock().free_slots().unwrap();
    let medium = copy_of(&again);
    assert_eq!(at, first);
    (0..16).for_each(|word| medium.store(at.word(word), before.medium().load(at.word(word))));
    let stale = opened(medium);
    stale.adopt_free_slots();
    assert!(sealed(&stale));
    // After a change that was not closed.
    drop(Pool::open(copy_of(&before), PLACE).unwrap());
    let medium = copy_of(&before);
    let pool = Pool::open(medium, PLACE).unwrap();
    let killed = opened(copy_of(&Heap::open(Arc::new(pool)).unwrap()));
    killed.adopt_free_slots();
    assert!(sealed(&killed));
}

fn is_set_up(heap: &Heap<Dram>, at: Offset) -> bool {
    let segment = at.0 >> heap.segment_log2;
    heap.state(segment).usage.load(Ordering::Relaxed) != usage::NONE
}

/// What was free at the opening, and is in use when the segments around it are asked for, stays as it is.
#[test]
fn states_of_segments_in_use_are_set_up_when_somebody_asks() {
    // An item that takes several segments, and slabs before and behind it.
    let (before, items) = filled(&[100, 9000, 5000, 900, 40_000, 900]);
    before.reclaim(items[1]);
    let heap = opened(copy_of(&before));
    let kept: Vec<Offset> = items.iter().copied().filter(|&at| at != items[1]).collect();
    assert!(kept.iter().all(|&at| !is_set_up(&heap, at)));
    let fresh: Vec<Offset> =
        (0..4).map(|_| heap.write_item(b"new", &[8; 700], None).unwrap()).collect();
    assert!(fresh.iter().all(|&at| is_set_up(&heap, at)));
    assert!(kept.iter().all(|&at| !is_set_up(&heap, at)));
    let sweep = heap.sweep();
    kept.iter().for_each(|&at| sweep.mark(at).unwrap());
    assert!(kept.iter().all(|&at| is_set_up(&heap, at)));
    sweep.finish();
    assert_whole(&heap, &[kept, fresh].concat());
}

/// Once a slot is found that leads there, what else the words say is free is not believed either.
#[test]
fn a_word_that_says_free_of_a_slab_in_use_costs_nothing_more_once_it_is_known() {
    let (before, items) = filled(&[100; 20]);
    let medium = copy_of(&before);
    medium
        .store(before.descriptor_at(before.slab_of(items[0])).unwrap(), Descriptor::Free.encode());
    let heap = opened(medium);
    let sweep = heap.sweep();
    assert!(items.iter().any(|&at| sweep.mark(at).is_err()));
    sweep.finish();
    for _ in 0..200 {
        heap.write_item(b"new", &[8; 100], None).unwrap();
    }
    let words = |heap: &Heap<Dram>, at: Offset| heap.medium().load_two(at);
    assert!(items.iter().all(|&at| words(&heap, at) == words(&before, at)));
}

/// All bits set, as memory reads that was never written to, among them.
#[test]
fn a_word_that_is_no_descriptor_is_refused_where_slabs_and_items_begin() {
    let (before, _) = filled(&[100, 9000, 900]);
    let too_long = Descriptor::Large { segments: 1 << 20, incarnation: 1 }.encode();
    let usage = |segment| before.usage_of(segment);
    let firsts = before
        .all_segments()
        .filter(|&segment| usage(segment) != usage::PART && usage(segment) != usage::TAIL);
    for segment in firsts {
        for word in [u64::MAX, u64::MAX >> 1, 1 << 63, too_long] {
            let medium = copy_of(&before);
            medium.store(before.descriptor_at(segment).unwrap(), word);
            let opened = Heap::open(Arc::new(Pool::open(medium, PLACE).unwrap()));
            assert!(matches!(opened, Err(OpenError::Corrupt { .. })), "{segment}: {word:x}");
        }
    }
}
