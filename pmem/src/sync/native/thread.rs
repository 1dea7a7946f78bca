//! Small numbers for threads, and whether this process is a forked child.

use crate::sync::Line;
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Threads with a line of their own; further ones share one line and pay for it.
pub const THREADS_MAX: usize = 1024;

struct Numbers {
    free: BinaryHeap<Reverse<usize>>,
    /// Of threads that have ended, or nearly so, and still hold something under their number.
    lingering: Vec<usize>,
    next: usize,
    /// Where threads say what they hold, by address.
    holds: BTreeMap<usize, Holds>,
}

static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers {
    free: BinaryHeap::new(),
    lingering: Vec::new(),
    next: 0,
    holds: BTreeMap::new(),
});
/// One more than the largest number given so far.
static NUMBERS_END: AtomicUsize = AtomicUsize::new(0);

fn numbers() -> MutexGuard<'static, Numbers> {
    NUMBERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lines by thread, in whose word `word` a thread counts what it holds.
struct Holds {
    first: *const Line,
    word: usize,
}

// SAFETY: the lines are atomics, and whoever registered them keeps them in place until they are
// forgotten again.
unsafe impl Send for Holds {}

impl Holds {
    fn is_held_by(&self, thread: usize) -> bool {
        // SAFETY: `watch_holds` is told of at least `THREADS_MAX` lines, which are in place while
        // the lock on the numbers is held: `forget_holds` takes it.
        let line = unsafe { &*self.first.add(thread) };
        // The last release of what is held, and all that came before it, happens before whatever the
        // next owner of the number does.
        line.0[self.word].load(Ordering::Acquire) != 0
    }
}

impl Numbers {
    fn is_held(&self, index: usize) -> bool {
        index < THREADS_MAX && self.holds.values().any(|holds| holds.is_held_by(index))
    }

    /// Makes numbers available under which nothing is held any more.
    fn free_unheld(&mut self) {
        for index in std::mem::take(&mut self.lingering) {
            match self.is_held(index) {
                true => self.lingering.push(index),
                false => self.free.push(Reverse(index)),
            }
        }
    }
}

/// No thread's number is given to another one while word `word` of its line is not 0. What a thread
/// holds may outlive its number: thread-locals made before the number are destroyed after it.
///
/// # Safety
///
/// `first` is the first of `THREADS_MAX` lines or more, which stay in place until
/// [`forget_holds`] has returned.
pub(in crate::sync) unsafe fn watch_holds(first: *const Line, word: usize) {
    numbers().holds.insert(first as usize, Holds { first, word });
}

/// The lines will be gone.
pub(in crate::sync) fn forget_holds(first: *const Line) {
    numbers().holds.remove(&(first as usize));
}

struct Number(usize);

impl Number {
    fn take() -> Number {
        let mut numbers = numbers();
        numbers.free_unheld();
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
        // The lock orders everything this thread did before the next owner of the number. What it still
        // holds, in a thread-local that is destroyed after this one, it will release under this number.
        let mut numbers = numbers();
        numbers.lingering.push(self.0);
        numbers.free_unheld();
    }
}

/// Leaves the calling thread without a number, as when it is about to end or when there are too many.
#[cfg(test)]
pub(crate) fn give_up_number() {
    drop(Number::take());
}

/// One more than the largest number given so far.
pub(crate) fn thread_indices_end() -> usize {
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
/// threads that ended, and hold nothing any more, are given out again. `THREADS_MAX` if there are more threads than that,
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
            give_up_number();
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
