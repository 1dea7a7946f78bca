//! Look-ups in the middle of changes and of refills, at all moments there are.

use crate::common::{Watched, Watcher};
use crate::harness::{NEVER, Random, Rewo, cached};
use crate::table::packed::Bytes;
use crate::table::{self, Fresh};
use engines::rewo::{Design, Shape};
use pmem::Offset;
use pmem::medium::{Dram, MediumKind};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use workload::effort;

type Key = Bytes<16>;
type Value = Bytes<15>;
type Table = table::Table<Rewo, Watched<Moments>, Key, Value>;

thread_local! {
    /// What happens before each access to the medium but its own.
    static MEDDLE: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
    static IS_MEDDLING: Cell<bool> = const { Cell::new(false) };
}

fn meddle() {
    if !IS_MEDDLING.replace(true) {
        MEDDLE.with_borrow_mut(|meddle| meddle.as_mut().map(|meddle| meddle()));
        IS_MEDDLING.set(false);
    }
}

/// Runs `operation`, and `meddle` in the middle of it, again and again.
fn amid<R>(meddle: impl FnMut() + 'static, operation: impl FnOnce() -> R) -> R {
    MEDDLE.set(Some(Box::new(meddle)));
    let result = operation();
    MEDDLE.set(None);
    result
}

/// Lets others in before each access.
struct Moments;

impl Watcher for Moments {
    const KIND: MediumKind = MediumKind::Dram;

    fn before_load(&self) {
        meddle();
    }

    fn store<E>(
        &self,
        _at: Offset,
        _value: u64,
        store: impl FnOnce() -> Result<u64, E>,
    ) -> Result<u64, E> {
        meddle();
        store()
    }

    fn before_flush(&self, _at: Offset) {
        meddle();
    }

    fn before_fence(&self) {
        meddle();
    }
}

impl Fresh for Watched<Moments> {
    fn fresh() -> Self {
        Watched::new(Dram::fresh(), Moments)
    }
}

fn filled(shape: Shape, percent: u64) -> (Arc<Table>, u64) {
    let table = Table::new(shape, NEVER);
    let count = table.capacity() * percent / 100;
    for index in 0..count {
        assert_eq!(table.insert(Bytes::of(index), Bytes::of(!index)).expect("room"), None);
    }
    (Arc::new(table), count)
}

/// Does `change`, and looks `key` up all the while: it is as `before`, then as `after`, and never again as before.
fn change_amid_look_ups(
    table: &Arc<Table>,
    key: Key,
    [before, after]: [Option<Value>; 2],
    change: impl FnOnce(&Table) -> Option<Value>,
) {
    let (looking, mut is_over) = (Arc::clone(table), false);
    let look_up = move || {
        let found = looking.get(key);
        assert!(found == after || !is_over && found == before, "{found:?} amid a change");
        is_over = is_over || before != after && found == after;
    };
    assert_eq!(amid(look_up, || change(table)), before);
    assert_eq!(table.get(key), after);
}

#[test]
fn a_look_up_amid_a_change_finds_what_was_or_what_will_be() {
    let in_full_buckets = Design { evictions: 0, ..Design::default() };
    for (smaller_log2, percent, design) in [
        (0, 15, Design::default()),
        (3, 15, Design::default()),
        (0, 80, Design::default()),
        (16, 75, in_full_buckets),
        (0, 75, Design { sidecar_prints: false, ..in_full_buckets }),
    ] {
        let (table, count) = filled(Shape { design, ..cached(8, 4, smaller_log2) }, percent);
        let mut random = Random::new(percent);
        for _ in 0..effort::of(200, 50) {
            let index = random.below(count);
            let (key, value) = (Bytes::of(index), Bytes::of(random.word()));
            let there = table.get(key);
            change_amid_look_ups(&table, key, [there, Some(value)], |table| {
                table.upsert(key, value)
            });
            change_amid_look_ups(&table, key, [Some(value), None], |table| table.remove(key));
            change_amid_look_ups(&table, key, [None, Some(value)], |table| {
                table.insert(key, value).expect("there was room")
            });
        }
        table.assert_sound(count);
    }
}

#[test]
fn a_refill_beside_which_entries_are_replaced_claims_nothing_wrong() {
    let (mut full_loaded, mut partial_loaded) = (0, 0);
    // From where all have room to where many have not.
    for percent in [15, 25, 35, 40, 45, 50, 55, 60] {
        let (first, count) = filled(cached(8, 5, 0), percent);
        let image = first.image();
        for seed in 0..effort::of(40, 10) {
            let table = Arc::new(first.recovered(&image));
            let (looking, mut random) = (Arc::clone(&table), Random::new(seed));
            let look_up = move || {
                let index = random.below(count);
                assert_eq!(looking.get(Bytes::of(index)), Some(Bytes::of(!index)), "amid a refill");
                assert_eq!(looking.get(Bytes::of(index + count)), None, "amid a refill");
            };
            if amid(look_up, || table.index.refill()) {
                full_loaded += 1;
            } else {
                partial_loaded += 1;
            }
            for index in 0..count {
                assert_eq!(table.get(Bytes::of(index)), Some(Bytes::of(!index)), "{percent} %");
            }
            table.assert_sound(count);
        }
    }
    let least = effort::of(40, 10);
    println!("{full_loaded} times full-loaded, {partial_loaded} times not");
    assert!(full_loaded > least && partial_loaded > least, "{full_loaded}, {partial_loaded}");
}
