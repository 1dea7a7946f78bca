//! The cached table beside several threads: nobody finds what somebody else knows to be replaced.

use crate::harness::{NEVER, Random, Table, cached, extend, key, value, within};
use engines::rewo::Shape;
use index::Index;
use pmem::medium::Dram;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Keys whose state changes, step by step. At step `n` a key is absent if `n` is a multiple of 4, and has the
/// value `n` else.
const KEYS: u64 = 48;
/// Few enough that one is often looked up while it is written.
const FEW: u64 = 4;
/// Pairs that stay, among which the others are cached or not.
const STAYING: u64 = 400;
const FIRST_STAYING: u64 = 1 << 40;

/// Steps of a key: those begun, and those that have returned or were seen.
#[derive(Default)]
struct Steps {
    begun: AtomicU64,
    known: AtomicU64,
}

fn state_at(step: u64) -> Option<u64> {
    (!step.is_multiple_of(4)).then_some(step)
}

/// Goes on with a key, of which the caller is the only writer.
fn advance(table: &Table<Dram>, steps: &Steps, key: u64, random: &mut Random) {
    let step = steps.begun.load(Ordering::SeqCst) + 1;
    let (before, after) = (state_at(step - 1), state_at(step));
    steps.begun.store(step, Ordering::SeqCst);
    match after {
        None => assert_eq!(table.remove(key), before),
        Some(value) => match random.below(3) {
            0 => assert_eq!(table.upsert(key, value), before),
            1 => {
                let _write = table.pool.write().expect("the pool may be written");
                let found = table.index.compare_exchange(key, before, after).expect("room");
                assert_eq!(found, Ok(()));
            }
            _ if before.is_none() => assert_eq!(table.insert(key, value).expect("room"), None),
            _ => assert_eq!(table.update(key, value), before),
        },
    }
    steps.known.fetch_max(step, Ordering::SeqCst);
}

/// Looks a key up: the answer is the state at a step that was not over when the look-up began, and had begun when it
/// returned.
fn look_up(table: &Table<Dram>, steps: &Steps, key: u64) {
    let known = steps.known.load(Ordering::SeqCst);
    let found = table.get(key);
    let begun = steps.begun.load(Ordering::SeqCst);
    match found {
        Some(step) => {
            assert_eq!(state_at(step), Some(step));
            assert!(step >= known, "{step} is found after {known} was known");
            assert!(step <= begun, "{step} is found before it is written");
            steps.known.fetch_max(step, Ordering::SeqCst);
        }
        None => {
            let absent = known.next_multiple_of(4);
            assert!(
                absent <= begun,
                "it is absent, though {known} was known and {begun} has not ended"
            );
            steps.known.fetch_max(absent, Ordering::SeqCst);
        }
    }
}

/// Looks up pairs that stay, in whose favour the others may be dropped.
fn look_up_staying(table: &Table<Dram>, count: u64, random: &mut Random) {
    for _ in 0..count {
        let index = FIRST_STAYING + random.below(STAYING);
        assert_eq!(table.get(key(index)), Some(value(index)));
    }
}

/// Two writers and two readers beside what `besides` does again and again.
fn run(
    shape: Shape,
    resize_at: f64,
    (keys, rounds): (u64, u64),
    besides: impl Fn(&Table<Dram>, &mut Random) + Sync,
) {
    let _watchdog = within(60);
    let table = &Table::<Dram>::new(shape, resize_at);
    table.fill(FIRST_STAYING..FIRST_STAYING + STAYING);
    let steps: &[Steps] = &std::array::from_fn::<_, { KEYS as usize }, _>(|_| Steps::default());
    let writing = &AtomicU64::new(2);
    let failed = &AtomicBool::new(false);
    let is_over = move || writing.load(Ordering::Relaxed) == 0 || failed.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || {
                let _end = FailOnUnwind(failed);
                let mut random = Random::new(thread);
                for _ in 0..rounds {
                    if failed.load(Ordering::Relaxed) {
                        break;
                    }
                    let number = random.below(keys / 2) * 2 + thread;
                    let of_key = &steps[number as usize];
                    advance(table, of_key, key(number), &mut random);
                    look_up(table, of_key, key(number));
                }
                writing.fetch_sub(1, Ordering::Relaxed);
            });
            scope.spawn(move || {
                let _end = FailOnUnwind(failed);
                let mut random = Random::new(10 + thread);
                while !is_over() {
                    // One key for a while, so that what one reader caches others find.
                    let number = random.below(keys);
                    for _ in 0..if keys == FEW { 2 } else { 8 } {
                        look_up(table, &steps[number as usize], key(number));
                    }
                    look_up_staying(table, 8, &mut random);
                    let absent = FIRST_STAYING + STAYING + random.below(STAYING);
                    assert_eq!(table.get(key(absent)), None, "nobody stored it");
                }
            });
        }
        let besides = &besides;
        scope.spawn(move || {
            let _end = FailOnUnwind(failed);
            let mut random = Random::new(20);
            while !is_over() {
                besides(table, &mut random);
            }
        });
    });
    for (steps, number) in steps.iter().zip(0..) {
        assert_eq!(table.get(key(number)), state_at(steps.begun.load(Ordering::SeqCst)));
    }
    table.settle();
    table.assert_sound(table.index.len());
}

/// So that the others do not go on for ever.
struct FailOnUnwind<'a>(&'a AtomicBool);

impl Drop for FailOnUnwind<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn no_look_up_goes_back_behind_another_one() {
    for smaller_log2 in [0, 2, 16] {
        run(cached(15, 6, smaller_log2), NEVER, (KEYS, 20_000), |table, random| {
            look_up_staying(table, 1, random);
        });
    }
}

#[test]
fn no_look_up_caches_what_has_been_replaced_meanwhile() {
    // Most look-ups cache what they find. That somebody is held up between the two is what it takes.
    run(cached(15, 6, 16), NEVER, (FEW, 60_000), |_, _| std::thread::yield_now());
}

#[test]
fn no_look_up_goes_back_beside_refills() {
    for smaller_log2 in [0, 2] {
        run(cached(15, 6, smaller_log2), NEVER, (KEYS, 20_000), |table, _| {
            table.index.refill();
        });
    }
}

#[test]
fn no_look_up_goes_back_beside_resizes() {
    for smaller_log2 in [0, 2, 16] {
        run(cached(8, 4, smaller_log2), 0.85, (KEYS, 15_000), |table, random| {
            match random.below(3) {
                0 if table.capacity() < 1 << 13 => extend(table),
                1 => drop(table.index.refill()),
                _ => drop(table.shrink()),
            }
        });
    }
}
