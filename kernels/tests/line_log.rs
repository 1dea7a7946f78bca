//! The line log: the code of `pmem/src/line_log` itself.
//!
//! Property: a cut shows nothing without what it rests on; it shows everything that was appended before it; and of two
//! records of a word the newer one counts.

use pmem::line_log::{Cut, Flushed, LineLog};
use pmem::sync::loom::{begin, end, explore, spawn};
use pmem::sync::{AtomicU64, Ordering, THREADS_MAX};
use pmem::{LINE, Offset, WORD};
use std::sync::Arc;

/// Words of a line, and as many of the next one.
const WORDS: usize = 16;
/// Where an observer stores what it has seen; pairs are words 0 and 1.
const SEEN: usize = BEYOND + 2;
/// Room for as many records as a thread appends here.
const RING_WORDS: usize = 64;
/// A word on another line than word 0.
const BEYOND: usize = (LINE / WORD) as usize;

struct Model {
    log: LineLog,
    words: [AtomicU64; WORDS],
}

impl Model {
    fn new() -> Arc<Model> {
        let words = std::array::from_fn(|_| AtomicU64::new(0));
        let log = LineLog::with_rings(RING_WORDS).unwrap();
        log.start();
        Arc::new(Model { log, words })
    }

    /// Stores as engines do before a flush, and fences.
    fn store(&self, word: usize, value: u64) {
        self.words[word].store(value, Ordering::Relaxed);
        self.append(word, 1);
    }

    fn load(&self, at: Offset) -> u64 {
        self.words[(at.0 / WORD) as usize].load(Ordering::Acquire)
    }

    /// Adds one to words 0 and 1 under their lock, if that is free. The number is drawn before the stores.
    fn add_locked(&self) -> bool {
        let lock = &self.words[BEYOND];
        if lock.fetch_or(1, Ordering::Acquire) != 0 {
            return false;
        }
        let sequence = self.log.sequence(Offset(0));
        let before = self.words[0].load(Ordering::Relaxed);
        self.words[1].store(before + 1, Ordering::Release);
        self.words[0].store(before + 1, Ordering::Release);
        self.log.note_pair(Offset(0), sequence, |at| self.load(at));
        self.log.fence(|at| self.load(at));
        lock.store(0, Ordering::Release);
        true
    }

    /// Does for the lock's holder what it has not done yet, and stores what it has seen.
    fn observe(&self) {
        let seen = self.words[0].load(Ordering::Acquire);
        if self.words[BEYOND].load(Ordering::Acquire) != 0 {
            let pair = [Flushed { at: Offset(0), words: 2 }];
            self.log.append_observed(&pair, |at| self.load(at));
        }
        self.store(SEEN, seen);
    }

    fn append(&self, word: usize, words: u64) {
        let load = |at: Offset| self.load(at);
        self.log.append(&[Flushed { at: Offset(word as u64 * WORD), words }], load);
    }
}

fn replay(cuts: &[Cut]) -> [u64; WORDS] {
    let mut image = [0; WORDS];
    for cut in cuts {
        cut.replay(|at, value| image[(at.0 / WORD) as usize] = value);
    }
    image
}

/// Two threads with these numbers, and a flusher that closes one epoch while they run and one after them. `judge` sees
/// what the first cut leaves, and then what both leave.
fn model(
    numbers: [usize; 2],
    threads: [fn(&Model); 2],
    judge: fn(first: [u64; WORDS], last: [u64; WORDS]),
) -> impl Fn() + Send + Sync + 'static {
    move || {
        let model = Model::new();
        begin();
        let spawned = numbers.into_iter().zip(threads).map(|(number, thread)| {
            let shared = Arc::clone(&model);
            spawn(number, move || thread(&shared))
        });
        let spawned: Vec<_> = spawned.collect();
        let mut cuts = vec![model.log.seal()];
        spawned.into_iter().for_each(|thread| thread.join().unwrap());
        cuts.push(model.log.seal());
        end();
        judge(replay(&cuts[..1]), replay(&cuts));
    }
}

fn idle(_: &Model) {}

#[test]
fn a_thread_s_own_order_is_kept() {
    let stores: fn(&Model) = |model| {
        model.store(0, 1);
        model.store(BEYOND, 1);
    };
    let judge = |first: [u64; WORDS], last: [u64; WORDS]| {
        assert!(first[0] >= first[BEYOND], "{first:?}");
        assert_eq!((last[0], last[BEYOND]), (1, 1));
    };
    explore(Some(4), model([1, 2], [stores, idle], judge));
}

#[test]
fn what_was_seen_of_another_thread_is_in_the_cut() {
    let threads: [fn(&Model); 2] = [
        |model| {
            model.store(0, 1);
            // Plain, as engines' stores are.
            model.words[1].store(1, Ordering::Relaxed);
        },
        |model| {
            if model.words[1].load(Ordering::Acquire) == 1 {
                model.store(BEYOND, 1);
            }
        },
    ];
    let judge = |first: [u64; WORDS], last: [u64; WORDS]| {
        assert!(first[0] >= first[BEYOND], "{first:?}");
        assert_eq!(last[0], 1);
    };
    explore(Some(3), model([0, 1], threads, judge));
    // The ring of threads without a number is sealed last, and always.
    explore(Some(2), model([THREADS_MAX, 1], threads, judge));
    explore(Some(3), model([1, THREADS_MAX], threads, judge));
}

/// A thread helps: it logs another thread's store, which that thread made after its fence.
#[test]
fn what_a_helper_logs_is_not_in_an_earlier_cut_than_what_it_rests_on() {
    let threads: [fn(&Model); 2] = [
        |model| {
            model.store(0, 1);
            model.words[BEYOND].store(1, Ordering::Relaxed);
        },
        |model| model.append(BEYOND, 1),
    ];
    let judge = |first: [u64; WORDS], last: [u64; WORDS]| {
        assert!(first[0] >= first[BEYOND], "{first:?}");
        assert!(last[0] >= last[BEYOND], "{last:?}");
    };
    explore(Some(2), model([0, 1], threads, judge));
    explore(Some(2), model([1, THREADS_MAX], threads, judge));
}

/// A thread flushes a line of which another thread has changed a word.
#[test]
fn the_newer_one_of_two_records_counts() {
    let threads: [fn(&Model); 2] = [|model| model.store(0, 1), |model| model.append(0, 2)];
    let judge = |_, last: [u64; WORDS]| assert_eq!(last[0], 1);
    explore(Some(2), model([0, 1], threads, judge));
}

/// The second word of a line is stored after the first one, so no cut has it without the first one.
#[test]
fn a_line_is_as_it_was_at_one_moment() {
    let threads: [fn(&Model); 2] = [
        |model| {
            model.words[0].store(1, Ordering::Relaxed);
            model.words[1].store(1, Ordering::Release);
        },
        |model| model.append(0, 2),
    ];
    let judge = |first: [u64; WORDS], last: [u64; WORDS]| {
        assert!(first[0] >= first[1] && last[0] >= last[1], "{first:?} {last:?}");
    };
    explore(Some(3), model([0, 1], threads, judge));
}

/// Each thread draws its number as soon as it has the lock.
#[test]
fn holders_of_a_lock_are_ordered_as_they_held_it() {
    let threads: [fn(&Model); 2] = [
        |model| {
            if model.add_locked() {
                model.store(SEEN, model.words[0].load(Ordering::Acquire));
            }
        },
        |model| _ = model.add_locked(),
    ];
    // A thread that has had the lock has seen what the other one did under it before, and perhaps what the other one is
    // doing: at most one store, to word 1.
    let judge = |first: [u64; WORDS], last: [u64; WORDS]| {
        assert!(first[0] >= first[SEEN] && last[0] >= last[SEEN], "{first:?} {last:?}");
        assert!(last[0] >= 1 && last[0] == last[1], "{last:?}");
    };
    explore(Some(3), model([0, 1], threads, judge));
}

/// A reader, while another thread holds the lock and has already drawn its number.
#[test]
fn what_an_observer_logs_is_no_newer_than_the_holder_s_own() {
    let judge = |first: [u64; WORDS], last: [u64; WORDS]| {
        assert!(first[0] >= first[SEEN] && last[0] == 1, "{first:?} {last:?}");
    };
    explore(Some(2), model([0, 1], [|model| _ = model.add_locked(), Model::observe], judge));
}
