//! Small numbers for threads, and whether this process is a forked child.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Threads with a line of their own; further ones share one line and pay for it.
pub const THREADS_MAX: usize = 1024;

struct Numbers {
    free: BinaryHeap<Reverse<usize>>,
    next: usize,
}

static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers { free: BinaryHeap::new(), next: 0 });
/// One more than the largest number given so far.
static NUMBERS_END: AtomicUsize = AtomicUsize::new(0);

struct Number(usize);

impl Number {
    fn take() -> Number {
        let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match numbers.free.pop() {
            Some(Reverse(index)) => index,
            None => {
                numbers.next += 1;
                NUMBERS_END.store(numbers.next, Ordering::Release);
                numbers.next - 1
            }
        };
        Number(index)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        // What runs later in this thread's end must not use a number that is another's by then.
        INDEX.set(THREADS_MAX);
        // The lock orders everything this thread did before the next owner of the number.
        NUMBERS.lock().unwrap_or_else(PoisonError::into_inner).free.push(Reverse(self.0));
    }
}

/// One more than the largest number given so far.
pub(in crate::sync) fn thread_indices_end() -> usize {
    NUMBERS_END.load(Ordering::Acquire)
}

/// What [`INDEX`] is before a thread has asked for its number.
const UNNUMBERED: usize = usize::MAX;

thread_local! {
    static NUMBER: Number = Number::take();
    /// The thread's number, or what stands for it. Every mutation reads it: this one is a plain
    /// word, whereas [`NUMBER`], having a destructor, is asked each time whether it is alive.
    static INDEX: Cell<usize> = const { Cell::new(UNNUMBERED) };
}

/// The number of the calling thread: unique among live threads and small, since the numbers of
/// threads that ended are given out again. `THREADS_MAX` if there are more threads than that,
/// or if the thread is ending.
#[inline(always)]
pub fn thread_index() -> usize {
    match INDEX.get() {
        UNNUMBERED => take_index(),
        index => index,
    }
}

#[cold]
fn take_index() -> usize {
    let index = NUMBER.try_with(|number| number.0.min(THREADS_MAX)).unwrap_or(THREADS_MAX);
    INDEX.set(index);
    index
}

static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
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
    FORKS.load(Ordering::Relaxed)
}

/// Makes the C library count forks.
pub(super) fn watch_forks() {
    static WATCHED: OnceLock<()> = OnceLock::new();
    WATCHED.get_or_init(|| {
        // SAFETY: the handler only adds to an atomic, which is safe in a forked child.
        unsafe { pthread_atfork(None, None, Some(count_fork)) };
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What runs while a thread ends, after its number was given back.
    #[test]
    fn a_number_given_back_is_not_used_any_more() {
        let after = std::thread::spawn(|| {
            let own = thread_index();
            drop(Number::take());
            (own, thread_index())
        });
        let (own, after) = after.join().unwrap();
        assert!(own < THREADS_MAX);
        assert_eq!(after, THREADS_MAX);
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
