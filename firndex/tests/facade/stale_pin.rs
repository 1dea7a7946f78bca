//! A thread may be held up before any of its instructions, also in the middle of pinning, for as
//! long as the scheduler likes: what others hold must not be reclaimed by it afterwards.

use crate::exactly_once::Random;
use crate::posix;
use pmem::epoch::Epochs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ROUNDS: u64 = 1000;
/// More instructions than pinning takes.
const INSTRUCTIONS: u64 = 60;
/// Enough retirements for several epochs to pass, and for a thread to reclaim what it can.
const RETIREMENTS_PER_ROUND: u64 = 600;
const NONE: u64 = 0;

/// Items are numbers. A writer replaces the current one; a reader holds one.
struct Shared {
    epochs: Epochs,
    current: AtomicU64,
    held: AtomicU64,
    reclaimed_while_held: AtomicU64,
    done: AtomicBool,
}

/// Replaces the current item for ever, as a store replaces items.
fn replace(shared: &Shared) {
    for next in 2.. {
        if shared.done.load(Ordering::SeqCst) {
            break;
        }
        posix::IS_HERE.store(true, Ordering::SeqCst);
        let guard = shared.epochs.pin();
        posix::IS_HERE.store(false, Ordering::SeqCst);
        let replaced = shared.current.swap(next, Ordering::SeqCst);
        guard.retire(replaced, 1, |item| {
            if item == shared.held.load(Ordering::SeqCst) {
                shared.reclaimed_while_held.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
}

#[test]
fn a_writer_held_up_while_pinning_reclaims_nothing_that_is_held() {
    let shared = Arc::new(Shared {
        epochs: Epochs::new().unwrap(),
        current: AtomicU64::new(1),
        held: AtomicU64::new(NONE),
        reclaimed_while_held: AtomicU64::new(0),
        done: AtomicBool::new(false),
    });
    let writer = {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || replace(&shared))
    };
    let current = || shared.current.load(Ordering::SeqCst);
    let mut random = Random(1);
    for _ in 0..ROUNDS {
        let guard = posix::hold_up(&writer, random.below(INSTRUCTIONS), || {
            // Others go on meanwhile: epochs pass, and a reader comes.
            for _ in 0..RETIREMENTS_PER_ROUND {
                shared.epochs.pin().retire(NONE, 1, |_| {});
            }
            let guard = shared.epochs.pin();
            shared.held.store(current(), Ordering::SeqCst);
            guard
        });
        let replaced_until = current() + RETIREMENTS_PER_ROUND;
        while current() < replaced_until {
            std::thread::yield_now();
        }
        shared.held.store(NONE, Ordering::SeqCst);
        drop(guard);
    }
    shared.done.store(true, Ordering::SeqCst);
    writer.join().unwrap();
    let lost = shared.reclaimed_while_held.load(Ordering::SeqCst);
    assert_eq!(lost, 0, "of {ROUNDS} held items so many were reclaimed");
}
