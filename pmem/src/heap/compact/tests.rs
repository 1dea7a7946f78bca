use super::*;
use crate::heap::SEGMENT_LOG2_DEFAULT;
use crate::heap::tests::{SMALL_SEGMENT_LOG2, heap};
use crate::medium::Dram;
use crate::sync::{AtomicBool, AtomicU64};
use std::sync::Mutex;

/// The simplest possible table: a slot for each number.
pub(super) struct Table {
    pub(super) heap: Heap<Dram>,
    pub(super) epochs: Epochs,
    pub(super) slots: Mutex<Vec<Option<Offset>>>,
    moved: AtomicU64,
}

impl Mover for Table {
    fn relocate(&self, at: Offset) -> bool {
        let guard = self.epochs.pin();
        let item = self.heap.item(at, &guard).unwrap();
        let mut slots = self.slots.lock().unwrap();
        let slot = &mut slots[u64::from_le_bytes(item.key.try_into().unwrap()) as usize];
        if *slot != Some(at) {
            return true;
        }
        let Some(copy) = self.heap.write_copy(&item) else { return false };
        *slot = Some(copy);
        drop(slots);
        self.moved.fetch_add(1, Ordering::Relaxed);
        guard.retire(at.0, 1, |at| self.heap.reclaim_pinned(Offset(at), &guard));
        true
    }

    fn collect(&self) {
        self.epochs.collect(|at| self.heap.reclaim(Offset(at)));
    }
}

impl Table {
    pub(super) fn new(limit: u64, segment_log2: u32) -> Table {
        Table {
            heap: heap(limit, segment_log2),
            epochs: Epochs::new().unwrap(),
            slots: Mutex::default(),
            moved: AtomicU64::new(0),
        }
    }

    /// Adds a value under the next number, and makes room for it if necessary.
    pub(super) fn add(&self, bytes: usize) -> Option<usize> {
        let index = self.slots.lock().unwrap().len();
        let (key, value) = (index.to_le_bytes(), vec![index as u8; bytes]);
        let wanted = self.heap.wanted_for(&key, &value, None);
        let make_room = || self.heap.make_room(&wanted, &self.epochs, self).has_room;
        let at = loop {
            match self.heap.write_item(&key, &value, None) {
                Ok(at) => break at,
                Err(_) if make_room() => {}
                Err(_) => return None,
            }
        };
        self.slots.lock().unwrap().push(Some(at));
        Some(index)
    }

    /// Compacts until nothing is left to move.
    pub(super) fn compact(&self) -> Compacted {
        let mut done = Compacted::default();
        loop {
            let pass = self.heap.compact(&self.epochs, self);
            done.add(pass);
            if pass.freed_bytes == 0 {
                return done;
            }
        }
    }

    pub(super) fn fill(&self, bytes: usize) -> usize {
        (0..).take_while(|_| self.add(bytes).is_some()).count()
    }

    pub(super) fn remove_unless(&self, is_kept: impl Fn(usize) -> bool) {
        let mut slots = self.slots.lock().unwrap();
        for slot in slots.iter_mut().enumerate().filter(|(index, _)| !is_kept(*index)) {
            let guard = self.epochs.pin();
            if let Some(at) = slot.1.take() {
                guard.retire(at.0, 1, |at| self.heap.reclaim_pinned(Offset(at), &guard));
            }
        }
        drop(slots);
        self.collect();
    }

    pub(super) fn assert_sound(&self) {
        self.collect();
        let mut audit = self.heap.audit();
        let guard = self.epochs.pin();
        for (index, at) in self.slots.lock().unwrap().iter().enumerate() {
            let Some(at) = at else { continue };
            let item = self.heap.item(*at, &guard).unwrap();
            assert!(item.is_sound() && item.key == index.to_le_bytes(), "{index}");
            assert!(item.value.iter().all(|&byte| byte == index as u8), "{index}");
            audit.mark(*at, item_bytes_of(item.value.len())).unwrap();
        }
        assert_eq!(audit.finish(&self.epochs.retired()).0, 0);
    }
}

pub(super) fn item_bytes_of(value_bytes: usize) -> u64 {
    24 + value_bytes as u64
}

/// About one in ten, in no order.
pub(super) fn is_kept(index: usize) -> bool {
    (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 1023 < 102
}

#[test]
fn what_was_removed_serves_any_size() {
    let sizes = [40, 100, 700, 1500, 5000, 20_000, 60_000, 150_000];
    for (first, then) in sizes.into_iter().flat_map(|a| sizes.map(|b| (a, b))) {
        let table = Table::new(4 << 20, SMALL_SEGMENT_LOG2);
        table.fill(first);
        table.remove_unless(is_kept);
        let used = table.heap.usage();
        let added = table.fill(then);
        assert!(added > 0, "{then} after {first}");
        let filled = table.heap.usage();
        // Slots of some sizes do not fill a segment.
        let segment = 1 << SMALL_SEGMENT_LOG2;
        let class = table.heap.classes.narrow_class_of(item_bytes_of(then));
        let slot = class.and_then(|class| table.heap.classes.size(class)).unwrap_or(segment);
        let enough = used.pool_bytes * 85 / 100 * (segment / slot * slot) / segment;
        // Updates can use what is set aside for large items.
        let set_aside = table.heap.reserved_run.len() * segment;
        assert!(
            filled.used_bytes + set_aside > enough,
            "{added} of {then} after {first}: {used:?}, {filled:?}"
        );
        table.assert_sound();
    }
}

#[test]
fn small_values_leave_nearly_all_of_the_heap() {
    let table = Table::new(16 << 20, SEGMENT_LOG2_DEFAULT);
    table.fill(100);
    table.remove_unless(is_kept);
    let bytes = table.heap.usage().pool_bytes;
    let added = table.fill(200);
    // A pair with a value of 200 bytes takes a slot of 224.
    assert!(added as u64 * 224 > bytes * 88 / 100, "{added} of 200 in {bytes}");
    table.assert_sound();
}

#[test]
fn a_compaction_leaves_full_segments_and_free_ones() {
    let table = Table::new(4 << 20, SMALL_SEGMENT_LOG2);
    for bytes in [40, 300, 1000, 40, 300] {
        (0..300).for_each(|_| assert!(table.add(bytes).is_some()));
    }
    table.remove_unless(is_kept);
    let used = table.heap.usage().used_bytes;
    let compacted = table.compact();
    assert!(compacted.freed_bytes > 0 && !compacted.is_held, "{compacted:?}");
    assert_eq!(table.heap.usage().used_bytes, used);
    let free = table.heap.segments_free.load(Ordering::Relaxed) << SMALL_SEGMENT_LOG2;
    // A segment of each class may be partly full, and the thread that moves items may have taken one.
    let taken = table.heap.usage().pool_bytes - free;
    assert!(taken < used + (8 << SMALL_SEGMENT_LOG2), "{taken} for {used}");
    assert_eq!(table.compact().freed_bytes, 0);
    table.assert_sound();
}

#[test]
fn what_may_be_looked_at_stays_where_it_is() {
    let table = Table::new(4 << 20, SMALL_SEGMENT_LOG2);
    (0..5000).for_each(|_| assert!(table.add(100).is_some()));
    table.remove_unless(is_kept);
    let guard = table.epochs.pin();
    let compacted = table.compact();
    assert!(compacted.is_held, "{compacted:?}");
    assert_eq!(table.moved.load(Ordering::Relaxed), 0);
    drop(guard);
    assert!(table.compact().freed_bytes > 300_000);
    table.assert_sound();
}

/// The copy keeps its checksum: with a fresh one it would pass for what was stored.
#[test]
fn a_damaged_item_is_as_damaged_elsewhere() {
    let table = Table::new(4 << 20, SMALL_SEGMENT_LOG2);
    (0..5000).for_each(|_| assert!(table.add(100).is_some()));
    table.remove_unless(is_kept);
    let damaged: Vec<usize> = (0..5000).filter(|&index| is_kept(index)).collect();
    for &index in &damaged {
        let at = table.slots.lock().unwrap()[index].unwrap();
        table.heap.medium().store(at.add(32), !table.heap.medium().load(at.add(32)));
    }
    table.compact();
    assert!(table.moved.load(Ordering::Relaxed) > 100);
    let guard = table.epochs.pin();
    for &index in &damaged {
        let at = table.slots.lock().unwrap()[index].unwrap();
        assert!(!table.heap.item(at, &guard).unwrap().is_sound(), "{index}");
    }
}

/// Values are replaced in a heap that is full, while another thread moves them together.
#[test]
fn replacing_goes_on_while_items_move() {
    let table = Table::new(1 << 20, SMALL_SEGMENT_LOG2);
    let count = table.fill(100);
    table.remove_unless(|index| index % 3 != 0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let compactor = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                table.compact();
                std::thread::yield_now();
            }
        });
        let table = &table;
        let replace = move |thread: usize| {
            for index in (0..20 * count).map(|n| n * 7 % count).filter(|n| n % 2 == thread) {
                let guard = table.epochs.pin();
                let Some(before) = table.slots.lock().unwrap()[index] else { continue };
                let value = vec![index as u8; 1 + (index * 31) % 100];
                let written = table.heap.write_item(&index.to_le_bytes(), &value, Some(before));
                let Ok(at) = written else { continue };
                let mut slots = table.slots.lock().unwrap();
                let replaced = slots[index].replace(at).unwrap();
                drop(slots);
                guard.retire(replaced.0, 100, |at| table.heap.reclaim_pinned(Offset(at), &guard));
            }
        };
        let writers = [0, 1].map(|thread| scope.spawn(move || replace(thread)));
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
        compactor.join().unwrap();
    });
    table.assert_sound();
}

/// A mover whose items have no room elsewhere.
struct Stuck<'a>(&'a Table);

impl Mover for Stuck<'_> {
    fn relocate(&self, _at: Offset) -> bool {
        false
    }

    fn collect(&self) {
        self.0.collect();
    }
}

#[test]
fn what_has_no_room_elsewhere_keeps_its_place() {
    let table = Table::new(4 << 20, SMALL_SEGMENT_LOG2);
    (0..5000).for_each(|_| assert!(table.add(100).is_some()));
    table.remove_unless(is_kept);
    let compacted = table.heap.compact(&table.epochs, &Stuck(&table));
    assert_eq!((compacted.freed_bytes, compacted.is_held), (0, false));
    table.assert_sound();
    assert!(table.compact().freed_bytes > 0);
    table.assert_sound();
}
