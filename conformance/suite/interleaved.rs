//! Interleavings made on purpose: a whole operation inside another one, at each of its accesses.
//!
//! Readers take no lock, so they can run in the middle of a writer, and any writer in the middle of a reader, all in
//! one thread. What otherwise needs the right moment happens here each time.

use crate::harness::{Access, Backing, Engine, Journal, Random, Setup, Slow, Table, within};
use index::Index;
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use workload::effort;

fn setup(engine: &'static Engine, variant: usize, resize_at: f64) -> Setup {
    Setup { variant, resize_at, helpers: 0, limit_bytes: 64 << 20, ..Setup::of(engine) }
}

/// A table in one of the setups, filled with this many pairs.
fn filled<B: Backing>(setup: Setup, pairs: usize) -> (Rc<Table<B>>, HashMap<u64, u64>) {
    let table = Table::<B>::new(setup);
    let keys = [0, u64::MAX]
        .into_iter()
        .chain(setup.engine.colliding_keys().iter().copied())
        .chain(1000..);
    let model: HashMap<u64, u64> = keys.take(pairs).map(|key| (key, !key)).collect();
    let mut keys: Vec<_> = model.keys().copied().collect();
    keys.sort();
    keys.iter().for_each(|&key| assert_eq!(table.insert(key, !key).unwrap(), None));
    (Rc::new(table), model)
}

/// Calls `look` before each store, flush and fence of `operation`; returns the number of calls.
fn at_each_step(look: impl Fn() + 'static, operation: impl FnOnce()) -> u64 {
    let steps = Rc::new(Cell::new(0));
    let counted = Rc::clone(&steps);
    let hook = move |access| {
        if access != Access::Load {
            counted.set(counted.get() + 1);
            look();
        }
    };
    Journal::stopping(hook, operation);
    steps.get()
}

pub(crate) fn readers_at_each_step_of_a_writer<B: Backing<Medium = Slow>>(engine: &'static Engine) {
    let _watchdog = within(60);
    for variant in effort::each(0..engine.variants, 3) {
        // From few pairs to so many that every level is in use.
        for pairs in [3, 60, 200] {
            let (table, model) =
                filled::<B>(setup(engine, variant, engine.as_late_as_possible), pairs);
            let mut others: Vec<u64> = model.keys().copied().collect();
            others.sort();
            for key in others.into_iter().step_by(7).chain([5, 6, 0]) {
                readers_beside_mutations_of(&table, &model, key);
            }
        }
    }
}

/// Takes one key through its states. At each step a reader must see the state before or after. Once it has seen the
/// state after, it must not see the one before again.
fn readers_beside_mutations_of<B: Backing<Medium = Slow>>(
    table: &Rc<Table<B>>,
    model: &HashMap<u64, u64>,
    key: u64,
) {
    let first = model.get(&key).copied();
    let mut state = first;
    for next in [Some(1), Some(2), None, Some(3), None, first] {
        let reader = Rc::clone(table);
        let neighbours: Vec<(u64, u64)> =
            model.iter().filter(|pair| *pair.0 != key).take(5).map(|(&k, &v)| (k, v)).collect();
        let seen_after = Cell::new(false);
        let look = move || {
            let found = reader.get(key);
            let mut found_many = [None];
            reader.get_many(&[key], &mut found_many);
            for found in [found, found_many[0]] {
                assert!(
                    found == state || found == next,
                    "key {key:#x}: {state:?} -> {next:?} shows {found:?}"
                );
                assert!(!seen_after.get() || found == next, "key {key:#x}: {state:?} came back");
                seen_after.set(found == next);
            }
            for &(key, value) in &neighbours {
                assert_eq!(reader.get(key), Some(value), "a neighbour");
            }
        };
        let steps = at_each_step(look, || {
            assert_eq!(table.compare_exchange(key, state, next).unwrap(), Ok(()));
        });
        assert!(steps >= 3 || state == next, "only {steps} steps");
        assert_eq!(table.get(key), next);
        state = next;
    }
}

pub(crate) fn readers_at_each_step_of_a_resize<B: Backing<Medium = Slow>>(engine: &'static Engine) {
    let _watchdog = within(60);
    for variant in effort::each(0..engine.variants, 3) {
        for (resize_at, pairs) in [(0.85, 140), (1.0, 300)] {
            let (table, model) = filled::<B>(setup(engine, variant, resize_at), pairs);
            let reader = Rc::clone(&table);
            let mut inserted = 1 << 20;
            let shown = model.clone();
            let random = Cell::new(1);
            let look = move || {
                // All of them would be too many; the choice changes from step to step.
                random.set(random.get() + 1);
                let mut random = Random::new(random.get());
                for (&key, &value) in shown.iter().skip(random.below(100) as usize).step_by(11) {
                    assert_eq!(reader.get(key), Some(value), "key {key:#x}");
                    assert_eq!(reader.get(key ^ 1 << 50), None);
                }
            };
            let steps = at_each_step(look, || {
                let resizes = table.occupancy().resizes;
                while table.occupancy().resizes < resizes + 2 {
                    inserted += 1;
                    assert_eq!(table.insert(inserted, 0).unwrap(), None);
                }
                table.settle();
            });
            assert!(steps > 1000, "only {steps} steps");
            table.assert_sound();
        }
    }
}

/// Runs `write` at the `at`-th load of `read`, if `read` makes that many; returns whether it did.
fn at_load<R>(at: u64, write: impl Fn() + 'static, read: impl FnOnce() -> R) -> (R, bool) {
    let loads = Rc::new(Cell::new(0));
    let counted = Rc::clone(&loads);
    let hook = move |access| {
        if access == Access::Load {
            counted.set(counted.get() + 1);
            if counted.get() == at {
                write();
            }
        }
    };
    let result = Journal::stopping(hook, read);
    (result, loads.get() >= at)
}

pub(crate) fn writers_at_each_load_of_a_reader<B: Backing<Medium = Slow>>(engine: &'static Engine) {
    let _watchdog = within(60);
    for variant in effort::each(0..engine.variants, 3) {
        for pairs in [3, 60, 200] {
            let (table, model) =
                filled::<B>(setup(engine, variant, engine.as_late_as_possible), pairs);
            let keys: Vec<u64> = model.keys().copied().step_by(9).chain([0, 5]).collect();
            for key in keys {
                let before = table.get(key);
                for (at, second) in (1..40).flat_map(|at| [(at, None), (at, Some(9))]) {
                    table.upsert(key, 8).unwrap();
                    // The key goes, and may come back, perhaps elsewhere. Another key takes its place.
                    let writer = Rc::clone(&table);
                    let write = move || {
                        writer.remove(key).unwrap();
                        writer.insert(1 << 60, 77).unwrap();
                        if let Some(value) = second {
                            writer.insert(key, value).unwrap();
                        }
                    };
                    let (found, reached) = at_load(at, write, || table.get(key));
                    let states = [Some(8), None, second];
                    assert!(states.contains(&found), "key {key:#x}: {found:?} at load {at}");
                    table.remove(1 << 60).unwrap();
                    if !reached {
                        assert_eq!(found, Some(8));
                        break;
                    }
                    assert_eq!(table.get(key), second);
                }
                match before {
                    Some(value) => table.upsert(key, value).unwrap(),
                    None => table.remove(key).unwrap(),
                };
            }
            table.assert_holds(&model);
        }
    }
}

pub(crate) fn neighbours_come_and_go_beside_a_reader<B: Backing<Medium = Slow>>(
    engine: &'static Engine,
) {
    let _watchdog = within(60);
    for variant in effort::each(0..engine.variants, 3) {
        for room in [0, 100] {
            let setup = Setup { pairs: room, ..setup(engine, variant, engine.as_late_as_possible) };
            let (table, model) = filled::<B>(setup, 300);
            let mut random = Random::new(variant as u64);
            let mut there: Vec<u64> = model.keys().copied().collect();
            there.sort();
            let mut gone: Vec<u64> = (1 << 30..(1 << 30) + 40).collect();
            for _ in 0..4000 {
                let key = *random.of(&there);
                // One key goes and another one comes, in its place or elsewhere.
                let leaving = random.below(there.len() as u64) as usize;
                let coming = random.below(gone.len() as u64) as usize;
                let (leaver, comer) = (there[leaving], gone[coming]);
                if leaver == key {
                    continue;
                }
                let writer = Rc::clone(&table);
                let write = move || {
                    assert_eq!(writer.remove(leaver).unwrap(), Some(!leaver));
                    assert_eq!(writer.insert(comer, !comer).unwrap(), None);
                };
                let within_loads = *random.of(&[6, 60]);
                let at = 1 + random.below(within_loads);
                let (found, reached) = at_load(at, write, || table.get(key));
                assert_eq!(found, Some(!key), "key {key:#x} beside {leaver:#x} and {comer:#x}");
                if reached {
                    there[leaving] = comer;
                    gone[coming] = leaver;
                }
            }
            table.assert_holds(&there.into_iter().map(|key| (key, !key)).collect());
        }
    }
}

pub(crate) fn a_resize_at_each_load_of_a_reader<B: Backing<Medium = Slow>>(
    engine: &'static Engine,
) {
    let _watchdog = within(120);
    for variant in effort::each(0..engine.variants, 3) {
        for batch in [false, true] {
            let mut at = 1;
            let mut reached = true;
            while reached && at < 20 {
                reached = a_resize_at_load::<B>(engine, variant, at, batch);
                at += 1;
            }
            assert!(at > 2, "no reader had a load");
        }
    }
}

/// Reads every key of a table. A resize begins, goes on or ends at the `at`-th load of each search. Returns whether any
/// search had that many loads.
fn a_resize_at_load<B: Backing<Medium = Slow>>(
    engine: &'static Engine,
    variant: usize,
    at: u64,
    batch: bool,
) -> bool {
    let (table, mut model) = filled::<B>(setup(engine, variant, 0.85), 60);
    let mut keys: Vec<u64> = model.keys().copied().collect();
    keys.sort();
    let next = Rc::new(Cell::new(1 << 20));
    let mut any_reached = false;
    for key in keys {
        let writer = Rc::clone(&table);
        let inserted = Rc::clone(&next);
        let from = next.get();
        let write = move || {
            // On to the next resize, or to the end of this one.
            let resizing = writer.occupancy().resizing;
            if resizing {
                writer.settle();
            }
            while !resizing && !writer.occupancy().resizing {
                inserted.set(inserted.get() + 1);
                writer.insert(inserted.get(), 0).unwrap();
            }
        };
        let (found, reached) = at_load(at, write, || {
            if batch {
                let mut found = [None; 3];
                table.get_many(&[key; 3], &mut found);
                assert!(found[0] == found[1] && found[1] == found[2], "{found:?}");
                found[0]
            } else {
                table.get(key)
            }
        });
        assert_eq!(found, Some(!key), "key {key:#x} at load {at}");
        any_reached |= reached;
        model.extend((from + 1..=next.get()).map(|key| (key, 0)));
        if model.len() > 1500 {
            break;
        }
    }
    table.assert_holds(&model);
    any_reached
}
