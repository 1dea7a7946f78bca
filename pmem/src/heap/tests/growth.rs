//! Growth: ahead of need, by little, and in need.

use super::super::grow::SMALL_HEAP_BYTES;
use super::super::segment::Descriptor;
use super::*;
use crate::superblock::HEAP_WORDS;

/// Writes items until the heap is short, or full.
fn write_until_short(heap: &Heap<Dram>) -> Result<Vec<Offset>, SpaceError> {
    let mut items = vec![heap.write_item(b"key", &[7; 900], None)?];
    while !heap.is_short() {
        items.push(heap.write_item(b"key", &[7; 900], None)?);
    }
    Ok(items)
}

/// A damaged word where no segment is yet.
#[test]
fn a_segment_begins_free_whatever_its_word_says() {
    let heap = heap(1 << 30, SMALL_SEGMENT_LOG2);
    let mut items = vec![heap.write_item(b"key", &[7; 900], None).unwrap()];
    let next = heap.all_segments().last().unwrap() + 1;
    let word = Descriptor::Large { segments: 3, incarnation: 1 }.encode();
    (next..next + 9).for_each(|at| heap.medium().store(heap.descriptor_at(at).unwrap(), word));
    while heap.all_segments().last().unwrap() < next + 8 {
        items.push(heap.write_item(b"key", &[7; 900], None).unwrap());
    }
    let reopened = Heap::open(Arc::clone(&heap.pool)).unwrap();
    let sweep = reopened.sweep();
    items.iter().for_each(|&at| sweep.mark(at).unwrap());
}

#[test]
fn a_heap_that_is_short_grows_ahead_once() {
    let heap = heap(1 << 30, SMALL_SEGMENT_LOG2);
    let bytes = || heap.usage().pool_bytes;
    assert!(!heap.is_short(), "nobody uses it");
    heap.grow_ahead().unwrap();
    assert_eq!(bytes(), 0);
    let mut items = Vec::new();
    let mut taken = 0;
    for _ in 2..6 {
        items.extend(write_until_short(&heap).unwrap());
        assert!(
            taken == 0 || bytes() == taken,
            "taken ahead, it serves until it is nearly used up"
        );
        taken = bytes();
        let next_bytes = heap.next_growth_bytes();
        for _ in 0..3 {
            heap.grow_ahead().unwrap();
            assert!(!heap.is_short());
        }
        assert_eq!(bytes() - taken, next_bytes);
        taken = bytes();
    }
    assert_eq!(leaks(&heap, &items), 0);
}

#[test]
fn growth_is_asked_for_once() {
    let heap = heap(1 << 30, SMALL_SEGMENT_LOG2);
    for _ in 0..3 {
        write_until_short(&heap).unwrap();
        assert!(!heap.is_growth_asked_for(), "nobody has been told");
        assert!(heap.asks_for_growth() && heap.is_growth_asked_for() && !heap.asks_for_growth());
        // Who cannot do it leaves it to the next one who asks.
        heap.put_growth_off();
        assert!(!heap.is_growth_asked_for());
        assert!(heap.asks_for_growth() && heap.is_growth_asked_for());
        heap.prepare_growth();
        heap.grow_ahead().unwrap();
        assert!(!heap.is_growth_asked_for());
        heap.put_growth_off();
        assert!(!heap.asks_for_growth());
    }
    write_until_short(&heap).unwrap();
    assert!(heap.asks_for_growth());
    heap.do_not_ask();
    heap.put_growth_off();
    write_until_short(&heap).unwrap();
    assert!(!heap.asks_for_growth() && !heap.is_growth_asked_for());
}

/// A helper lets the heap grow, although nobody writes.
#[test]
fn an_audit_beside_growth_finds_no_leaks() {
    let heap = heap(1 << 30, SMALL_SEGMENT_LOG2);
    let mut items = Vec::new();
    for _ in 0..20 {
        items.extend(write_until_short(&heap).unwrap());
        let has_grown = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                heap.grow_ahead().unwrap();
                has_grown.store(true, Ordering::Release);
            });
            while !has_grown.load(Ordering::Acquire) {
                assert_eq!(leaks(&heap, &items), 0);
            }
        });
    }
}

#[test]
fn growth_that_was_refused_is_not_asked_for_before_there_is_space() {
    let heap = heap(256 << 10, SMALL_SEGMENT_LOG2);
    loop {
        write_until_short(&heap).unwrap();
        assert!(heap.asks_for_growth());
        if heap.grow_ahead().is_err() {
            break;
        }
    }
    let bytes = heap.usage().pool_bytes;
    while heap.write_item(b"key", &[7; 900], None).is_ok() && heap.usage().pool_bytes == bytes {
        assert!(!heap.asks_for_growth() && !heap.is_growth_asked_for());
    }
    heap.ask_again();
    heap.look_ahead();
    assert!(heap.asks_for_growth());
}

/// A writer that runs out of space before it comes.
#[test]
fn who_cannot_wait_for_growth_takes_little() {
    let heap = heap(1 << 30, SMALL_SEGMENT_LOG2);
    while heap.usage().pool_bytes < 4 << 20 {
        heap.write_item(b"key", &[7; 900], None).unwrap();
    }
    let grown_by = || {
        let bytes = heap.usage().pool_bytes;
        while heap.usage().pool_bytes == bytes {
            heap.write_item(b"key", &[7; 900], None).unwrap();
        }
        heap.usage().pool_bytes - bytes
    };
    let unasked = grown_by();
    assert!(heap.asks_for_growth());
    let asked = grown_by();
    heap.do_not_ask();
    let alone = grown_by();
    assert!(asked * 8 < unasked && unasked <= alone, "{asked}, {unasked}, {alone}");
}

#[test]
fn a_small_heap_does_not_ask() {
    let heap = heap(1 << 30, SEGMENT_LOG2_SMALL);
    while heap.usage().pool_bytes < SMALL_HEAP_BYTES / 2 {
        heap.write_item(b"key", &[7; 900], None).unwrap();
        assert!(!heap.asks_for_growth());
    }
    while heap.usage().pool_bytes < 2 * SMALL_HEAP_BYTES {
        heap.write_item(b"key", &[7; 900], None).unwrap();
    }
    assert!(heap.asks_for_growth());
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
    let further = (0..).find(|_| heap.write_item(b"key", &[7; 900], None).is_err()).unwrap();
    assert!(further > 0);
}

/// The limit of a pool is raised a little at a time, like a file system that is freed bit by bit.
#[test]
fn growing_by_little_takes_no_extent_each() {
    let file = tempfile::tempfile().unwrap();
    let step = 12 << 10;
    let open = |limit: u64, kept: &[Offset]| {
        let size = file.metadata().unwrap().len();
        let medium = Memory::mapped(file.try_clone().unwrap(), size, limit, true).unwrap();
        let pool = match size {
            0 => Pool::create(medium, &spec(SMALL_SEGMENT_LOG2), Place::default()),
            _ => Pool::open(medium, Place::default()),
        };
        let heap = Heap::open(Arc::new(pool.unwrap())).unwrap();
        let sweep = heap.sweep();
        kept.iter().for_each(|&at| sweep.mark(at).unwrap());
        sweep.finish();
        heap
    };
    let mut items: Vec<Offset> = Vec::new();
    for n in 0..300u64 {
        let heap = open((64 << 10) + n * step, &items);
        let before = items.len();
        while let Ok(at) = heap.write_item(&n.to_le_bytes(), &[n as u8; 900], None) {
            items.push(at);
        }
        assert!(n == 0 || items.len() > before, "{n}: nothing fits in {step} bytes more");
        let epochs = Epochs::new().unwrap();
        assert!(items.iter().all(|&at| heap.item(at, &epochs.pin()).unwrap().is_sound()));
        // Those between which tables lie.
        let [extents, tables] = [HEAP, HEAP_WORDS].map(|owner| heap.pool.extents_of(owner));
        assert!(extents.len() <= tables.len() && tables.len() < 4, "{extents:?}, {tables:?}");
    }
    let heap = open(1 << 30, &items);
    heap.write_item(b"key", &[1; 20_000], None).unwrap();
}

/// Descriptors of more than a thousand segments take more than one segment.
#[test]
fn a_heap_that_grows_by_one_segment_loses_nothing() {
    let heap = heap(1 << 30, SEGMENT_LOG2_SMALL);
    heap.add_segments(1500).unwrap();
    let write = |n: u64| heap.write_item(&n.to_le_bytes(), &vec![n as u8; 20_000], None).unwrap();
    let mut items: Vec<Offset> = (0..400).map(write).collect();
    for n in 400..440 {
        heap.add_segments(1).unwrap();
        items.push(write(n));
    }
    let epochs = Epochs::new().unwrap();
    assert!(items.iter().all(|&at| heap.item(at, &epochs.pin()).unwrap().is_sound()));
    let reopened = Heap::open(Arc::clone(&heap.pool)).unwrap();
    let sweep = reopened.sweep();
    items.iter().for_each(|&at| sweep.mark(at).unwrap());
    sweep.finish();
    assert_eq!(leaks(&reopened, &items), 0);
}

/// More than what is needed would lie behind a table, apart from the free end of the heap.
#[test]
fn growth_joins_the_free_end_where_only_that_fits() {
    let heap = heap(520 << SEGMENT_LOG2_SMALL, SEGMENT_LOG2_SMALL);
    // The first growth takes a table for 512 segments, and the second one no other.
    [1, 501].into_iter().for_each(|count| heap.add_segments(count).unwrap());
    let large = |segments: u64| vec![7; (segments << SEGMENT_LOG2_SMALL) as usize - 100];
    let first = heap.write_item(b"key", &large(477), None).unwrap();
    assert_eq!(heap.free_tail(), 25);
    assert!(heap.write_item(b"key", &large(30), Some(first)).is_ok());
}

/// An engine's extents lie between those of the heap.
#[test]
fn an_extent_that_another_follows_is_left_as_it_is() {
    let heap = heap(1 << 30, SMALL_SEGMENT_LOG2);
    let mut items = Vec::new();
    for n in 1..20 {
        items.extend((0..100 * n).map(|_| heap.write_item(b"key", &[7; 900], None).unwrap()));
        heap.pool.extend(|draft| draft.take_extent(1, n as u8, 4096)).unwrap();
    }
    let engines = heap.pool.extents_of(1);
    assert!(
        engines
            .iter()
            .all(|extent| (0..512).all(|n| heap.medium().load(extent.start.word(n)) == 0))
    );
    let epochs = Epochs::new().unwrap();
    assert!(items.iter().all(|&at| heap.item(at, &epochs.pin()).unwrap().is_sound()));
    assert_eq!(leaks(&heap, &items), 0);
}

/// What a heap takes does not depend on whether a helper has added segments ahead: half of what fits, and then the item
/// fits only with them.
#[test]
fn a_heap_that_grew_ahead_takes_as_large_an_item() {
    let heap = heap(400 << SMALL_SEGMENT_LOG2, SMALL_SEGMENT_LOG2);
    heap.add_segments(200).unwrap();
    assert!(heap.write_item(b"key", &vec![1; 300 << SMALL_SEGMENT_LOG2], None).is_ok());
}
