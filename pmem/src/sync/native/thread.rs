//! Small numbers for threads, and whether this process is a forked child.

use crate::sync::lease;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Threads with a line of their own; further ones share one line and pay for it.
pub const THREADS_MAX: usize = 1024;

const WORD_BITS: usize = u64::BITS as usize;

/// A bit for each number, set while a thread has it. Not behind a lock: a forked child would inherit that as
/// it is, held by a thread that it does not have. Numbers of such threads stay taken in the child.
struct Numbers {
    taken: [AtomicU64; THREADS_MAX / WORD_BITS],
    /// One more than the largest number given so far.
    end: AtomicUsize,
}

impl Numbers {
    const fn new() -> Numbers {
        Numbers {
            taken: [const { AtomicU64::new(0) }; THREADS_MAX / WORD_BITS],
            end: AtomicUsize::new(0),
        }
    }

    /// The smallest that is free; `THREADS_MAX` if none is.
    fn take(&self) -> usize {
        for (index, word) in self.taken.iter().enumerate() {
            let with_first_zero = |taken: u64| (taken != u64::MAX).then(|| taken | (taken + 1));
            // Acquire: what the number's last owner did is done.
            let before = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, with_first_zero);
            if let Ok(before) = before {
                let number = index * WORD_BITS + before.trailing_ones() as usize;
                self.end.fetch_max(number + 1, Ordering::AcqRel);
                return number;
            }
        }
        THREADS_MAX
    }

    fn give_back(&self, number: usize) {
        if let Some(word) = self.taken.get(number / WORD_BITS) {
            // Release: all that this thread did is before what the number's next owner does.
            word.fetch_and(!(1 << (number % WORD_BITS)), Ordering::Release);
        }
    }
}

static NUMBERS: Numbers = Numbers::new();

struct Number(usize);

impl Number {
    fn take() -> Number {
        Number(NUMBERS.take())
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        // What runs later in this thread's end must not use a number that is another's by then.
        INDEX.set(THREADS_MAX);
        // What the thread still holds, in thread-locals that are destroyed after this one, it releases
        // under this number.
        match HOLDS.get() {
            0 => NUMBERS.give_back(self.0),
            held => HOLDS.set(held | ENDED),
        }
    }
}

/// In [`HOLDS`]: the number was to be given back, and is once nothing is held any more.
const ENDED: usize = 1 << (usize::BITS - 1);

/// Counts something that the calling thread holds under its number, in lines that belong to it. Until it
/// is released nobody else gets the number, although the thread may be about to end: it may hold guards
/// in thread-locals made before the number, and those are destroyed after it.
#[inline(always)]
pub(crate) fn hold() {
    HOLDS.set(HOLDS.get() + 1);
}

/// Releases what was counted by [`hold`] under this number.
#[inline(always)]
pub(crate) fn release(number: usize) {
    let held = HOLDS.get() - 1;
    HOLDS.set(held);
    if held == ENDED {
        NUMBERS.give_back(number);
    }
}

/// Leaves the calling thread without a number, as when it is about to end or when there are too many.
#[cfg(test)]
pub(crate) fn give_up_number() {
    drop(Number::take());
}

/// One more than the largest number given so far.
pub(crate) fn thread_indices_end() -> usize {
    NUMBERS.end.load(Ordering::Acquire)
}

/// What [`INDEX`] is before a thread has asked for its number.
const UNNUMBERED: usize = usize::MAX;

thread_local! {
    static NUMBER: Number = Number::take();
    /// The thread's number, or what stands for it. Every mutation reads it: this one is a plain
    /// word, whereas [`NUMBER`], having a destructor, is asked each time whether it is alive.
    static INDEX: Cell<usize> = const { Cell::new(UNNUMBERED) };
    /// How many things the thread holds under its number.
    static HOLDS: Cell<usize> = const { Cell::new(0) };
}

/// The number of the calling thread: unique among live threads and small, since the numbers of
/// threads that ended, and hold nothing any more, are given out again. `THREADS_MAX` if there are more threads than
/// that, or if the thread is ending.
#[inline(always)]
pub fn thread_index() -> usize {
    match INDEX.get() {
        UNNUMBERED => take_index(),
        index => index,
    }
}

/// The number of the calling thread if it has asked for it before, and what [`thread_index`] returns if it gets none;
/// otherwise something larger than both.
#[inline(always)]
pub(crate) fn known_index() -> usize {
    INDEX.get()
}

#[cold]
fn take_index() -> usize {
    let index = NUMBER.try_with(|number| number.0).unwrap_or(THREADS_MAX);
    INDEX.set(index);
    index
}

/// Forks in the upper half, bus errors in the lower one: one look at it shows whether there was either.
static UPHEAVALS: AtomicU64 = AtomicU64::new(0);
const FORK: u64 = 1 << 32;

extern "C" fn count_fork() {
    count_upheaval(FORK);
}

/// Counts a pool that has lost a page. Safe in a signal's handler.
pub(crate) fn count_bus_error() {
    count_upheaval(1);
}

fn count_upheaval(of_its_kind: u64) {
    // First: a handle that has counted an upheaval, and looked into it, has found its lease taken away by it.
    lease::take_away();
    UPHEAVALS.fetch_add(of_its_kind, Ordering::SeqCst);
}

/// Another number after each fork, in the child, and after each bus error that a pool has survived. A handle that finds
/// the same one as before needs to look for neither.
#[inline]
pub fn upheavals() -> u64 {
    UPHEAVALS.load(Ordering::Relaxed)
}

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> i32;
}

/// How often this process is a forked child, counted from the first call. A handle opened at
/// another count was inherited, with a stale copy of its sidecar, and must not be used.
#[inline]
pub fn forks() -> u32 {
    (UPHEAVALS.load(Ordering::Relaxed) / FORK) as u32
}

/// Makes the C library count forks.
pub(super) fn watch_forks() {
    // Not a `OnceLock`, which a forked child could inherit amid its initialisation by another thread. Two
    // threads at once may both register the handler: a fork then counts twice, which is as good.
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.load(Ordering::Acquire) {
        // SAFETY: the handler only adds to an atomic, which is safe in a forked child.
        unsafe { pthread_atfork(None, None, Some(count_fork)) };
        WATCHED.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What runs while a thread ends, after its number was given back.
    #[test]
    fn a_number_given_back_is_not_used_any_more() {
        let after = std::thread::spawn(|| {
            let own = thread_index();
            give_up_number();
            (own, thread_index())
        });
        let (own, after) = after.join().unwrap();
        assert!(own < THREADS_MAX);
        assert_eq!(after, THREADS_MAX);
    }

    #[test]
    fn the_smallest_free_number_is_given_until_there_are_no_more() {
        let numbers = Numbers::new();
        for number in 0..THREADS_MAX {
            assert_eq!(numbers.take(), number);
        }
        assert_eq!((numbers.take(), numbers.take()), (THREADS_MAX, THREADS_MAX));
        numbers.give_back(THREADS_MAX);
        for number in [1023, 64, 63, 0] {
            numbers.give_back(number);
        }
        let given: Vec<usize> = (0..5).map(|_| numbers.take()).collect();
        assert_eq!(given, [0, 63, 64, 1023, THREADS_MAX]);
        assert_eq!(numbers.end.load(Ordering::Relaxed), THREADS_MAX);
    }

    #[test]
    fn no_number_is_given_twice_at_once() {
        let numbers = Numbers::new();
        let owners: Vec<AtomicBool> = (0..THREADS_MAX).map(|_| AtomicBool::new(false)).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let number = numbers.take();
                        assert!(number < 4, "four threads need no more than four numbers");
                        assert!(!owners[number].swap(true, Ordering::Relaxed));
                        owners[number].store(false, Ordering::Relaxed);
                        numbers.give_back(number);
                    }
                });
            }
        });
    }

    #[test]
    fn live_threads_have_different_numbers_and_ended_ones_give_theirs_back() {
        let mine = thread_index();
        assert_eq!(mine, thread_index());
        let other = std::thread::spawn(thread_index).join().unwrap();
        assert_ne!(mine, other);
        let seen: Vec<usize> =
            (0..100).map(|_| std::thread::spawn(thread_index).join().unwrap()).collect();
        // Other tests' threads take numbers too, but never a hundred new ones.
        assert!(seen.iter().max() < Some(&(mine.max(other) + 60)), "{seen:?}");
    }
}
