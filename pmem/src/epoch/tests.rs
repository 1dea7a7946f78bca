//! Epochs on threads of the machine; their orderings are explored in `kernels/tests/epoch.rs`.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicUsize};

fn collected(epochs: &Epochs) -> Vec<u64> {
    let mut items = Vec::new();
    epochs.collect(|item| items.push(item));
    items
}

#[test]
fn nothing_is_reclaimed_under_a_pin() {
    let epochs = Epochs::new().unwrap();
    let reader = epochs.pin();
    std::thread::scope(|scope| {
        scope.spawn(|| epochs.pin().retire(7, 1, |_| panic!("reclaimed at once")));
    });
    for _ in 0..10 {
        assert!(collected(&epochs).is_empty());
    }
    assert_eq!(epochs.retired(), [7]);
    drop(reader);
    assert_eq!(collected(&epochs), [7]);
    assert!(epochs.retired().is_empty());
}

/// The steps of `pin` and `retire`, with the thread held up between reading the epoch and
/// storing its pin.
#[test]
fn a_stale_pin_does_not_tag_items_with_an_epoch_long_gone() {
    let epochs = Epochs::new().unwrap();
    let stale = epochs.global().load(Ordering::Relaxed);
    epochs.collect(drop);
    assert!(epochs.global().load(Ordering::Relaxed) >= stale + 3);
    let guard = epochs.pin();
    epochs.threads.line(guard.place).0[PIN].store(pin_of(stale), Ordering::Relaxed);
    guard.retire(7, 1, |_| panic!("reclaimed under the retiring thread's own pin"));
    assert!(collected(&epochs).is_empty());
    drop(guard);
    assert_eq!(collected(&epochs), [7]);
}

#[test]
fn only_who_has_a_reason_goes_on_and_only_while_something_may_come() {
    let tries = |has_reason, more_may_come: fn(u32) -> bool| {
        let mut retries = Retries::default();
        (1..).find(|&tried| !retries.go_on(has_reason, more_may_come(tried))).unwrap()
    };
    assert_eq!(tries(false, |_| false), 2);
    assert_eq!(tries(false, |_| true), 2);
    assert_eq!(tries(false, |tried| tried == 1), 3, "what came after the second is for a third");
    assert_eq!(tries(true, |_| true), TRIES_MAX);
    assert_eq!(tries(true, |_| false), QUIET_TRIES_MAX + 1);
    assert_eq!(tries(true, |tried| tried % 3 == 0), TRIES_MAX);
}

#[test]
fn who_is_pinned_may_be_about_to_retire_something() {
    let epochs = Epochs::new().unwrap();
    assert!(!epochs.collect(drop));
    let guard = epochs.pin();
    assert!(epochs.collect(drop));
    drop(guard);
    assert!(!epochs.collect(drop));
    let without_number = || {
        crate::sync::give_up_number();
        let _guard = epochs.pin();
        epochs.collect(drop)
    };
    assert!(std::thread::scope(|scope| scope.spawn(without_number).join().unwrap()));
}

#[test]
fn pins_nest() {
    let epochs = Epochs::new().unwrap();
    let outer = epochs.pin();
    drop(epochs.pin());
    outer.retire(1, 1, drop);
    let inner = outer.clone();
    drop(outer);
    assert!(collected(&epochs).is_empty());
    drop(inner);
    assert_eq!(collected(&epochs), [1]);
}

/// What more threads than there are numbers do: at every moment one of them is pinned.
#[test]
fn pins_that_overlap_without_end_hold_nothing_back_for_ever() {
    let epochs = Epochs::new().unwrap();
    let without_number = || {
        crate::sync::give_up_number();
        let mut pinned = epochs.pin();
        pinned.retire(7, 1, drop);
        for _ in 0..4 {
            assert!(pinned.place >= THREADS_MAX);
            let next = epochs.pin();
            drop(std::mem::replace(&mut pinned, next));
            epochs.collect(drop);
        }
        epochs.retired()
    };
    let retired = std::thread::scope(|scope| scope.spawn(without_number).join().unwrap());
    assert_eq!(retired, []);
}

#[test]
fn a_thread_without_a_number_holds_items_as_others_do() {
    let epochs = Epochs::new().unwrap();
    let without_number = || {
        crate::sync::give_up_number();
        let outer = epochs.pin();
        drop(epochs.pin());
        std::thread::scope(|scope| {
            scope.spawn(|| epochs.pin().retire(7, 1, |_| panic!("reclaimed at once")));
        });
        for _ in 0..10 {
            assert!(collected(&epochs).is_empty());
        }
        drop(outer);
        collected(&epochs)
    };
    assert_eq!(std::thread::scope(|scope| scope.spawn(without_number).join().unwrap()), [7]);
}

/// Large values replaced by a thread that then ends, and small ones by another.
#[test]
fn what_a_thread_left_behind_is_taken_up_by_others() {
    let epochs = Epochs::new().unwrap();
    // This thread's number, and so its bag, is another one.
    crate::sync::thread_index();
    let mut left = Vec::new();
    std::thread::scope(|scope| {
        let replaces_three = || {
            for item in 1..=3 {
                epochs.pin().retire(item, 64 << 20, |item| left.push(item));
            }
        };
        scope.spawn(replaces_three);
    });
    assert!(left.len() < 3 && epochs.is_overdue());
    for item in 10..14 {
        epochs.pin().retire(item, 1, |item| left.push(item));
    }
    assert!(!epochs.is_overdue());
    assert!([1, 2, 3].iter().all(|large| left.contains(large)), "{left:?}");
}

/// Under a pin that stays, only few retirements look at all bags.
#[test]
fn what_cannot_be_reclaimed_is_not_looked_at_each_time() {
    let epochs = Epochs::new().unwrap();
    let reader = epochs.pin();
    std::thread::scope(|scope| {
        let replaces = || {
            epochs.pin().retire(1, BYTES_OVERDUE, drop);
            let looks = |bag: &Mutex<Bag>| bag.lock().patience;
            for item in 2..1000 {
                epochs.pin().retire(item, 1, |_| panic!("reclaimed under a pin"));
            }
            epochs.bags.iter().map(looks).max()
        };
        assert_eq!(scope.spawn(replaces).join().unwrap(), Some(PATIENCE_MAX));
    });
    assert!(epochs.is_overdue());
    drop(reader);
    assert_eq!(collected(&epochs).len(), 999);
    assert!(!epochs.is_overdue());
}

#[test]
fn steady_retiring_reclaims_by_itself() {
    let epochs = Epochs::new().unwrap();
    let mut reclaimed = 0;
    for item in 0..10 * RETIRES_PER_SCAN {
        epochs.pin().retire(item, 1, |_| reclaimed += 1);
    }
    assert!(reclaimed > 5 * RETIRES_PER_SCAN, "{reclaimed}");
}

/// Readers follow a shared index to a cell; a cell is poisoned when reclaimed.
#[test]
fn readers_never_meet_a_reclaimed_item() {
    const CELLS: usize = 4096;
    let epochs = Epochs::new().unwrap();
    let poisoned: Vec<AtomicBool> = (0..CELLS).map(|_| AtomicBool::new(true)).collect();
    let current = AtomicUsize::new(0);
    poisoned[0].store(false, Ordering::Relaxed);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let _guard = epochs.pin();
                    let cell = current.load(Ordering::Acquire);
                    for _ in 0..20 {
                        assert!(!poisoned[cell].load(Ordering::Acquire));
                    }
                }
            });
        }
        let mut free: VecDeque<usize> = (1..CELLS).collect();
        for _ in 0..400_000 {
            let Some(next) = free.pop_front() else {
                epochs.collect(|item| {
                    poisoned[item as usize].store(true, Ordering::Release);
                    free.push_back(item as usize);
                });
                continue;
            };
            let guard = epochs.pin();
            poisoned[next].store(false, Ordering::Release);
            let old = current.swap(next, Ordering::AcqRel);
            guard.retire(old as u64, 1, |item| {
                poisoned[item as usize].store(true, Ordering::Release);
                free.push_back(item as usize);
            });
        }
        done.store(true, Ordering::Relaxed);
    });
}
