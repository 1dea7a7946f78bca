//! What is lent to readers until it is taken back, and freed when none of them reads it any more.

use super::lease::{GONE, Holding, Slot};
use super::{
    AtomicU64, Line, Mutex, Numbered, PerThread, THREADS_MAX, forks, heavy_barrier, light_barrier,
    spin, thread_index,
};
use std::io;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A reference that the next event takes away, to one target after the other. What is taken back is freed when nobody
/// reads it any more.
///
/// A reader announces itself with a store in its thread's line, passes a light barrier and reads the word. Who takes
/// back sets the word, passes a heavy barrier and waits until each reader that it finds has left. So either a reader
/// finds nothing, or it is waited for.
#[derive(Debug)]
pub struct Loan<T> {
    /// `GONE` if nothing is lent, more after an event, or the address of the target.
    holding: Holding,
    /// What is lent, unless an event takes it away.
    target: Mutex<Option<Box<T>>>,
    /// By thread: how often it has begun and ended to read. In the line that threads share: how many read.
    readers: PerThread,
    forks_at_start: u32,
    /// It lends to several threads at once.
    _shared: PhantomData<Arc<T>>,
}

/// A thread that reads what is lent, until dropped.
struct Reading<'a> {
    word: &'a AtomicU64,
    is_shared: bool,
}

impl Drop for Reading<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_shared {
            self.word.fetch_sub(1, Ordering::Release);
        } else {
            self.word.store(self.word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        }
    }
}

impl<T> Loan<T> {
    /// Nothing is lent so far.
    pub fn none() -> io::Result<Loan<T>> {
        const { assert!(align_of::<T>() > GONE, "the lowest bit of an address must be free") };
        Ok(Loan {
            holding: Holding(Slot::take()),
            target: Mutex::new(None),
            readers: PerThread::new()?,
            forks_at_start: forks(),
            _shared: PhantomData,
        })
    }

    /// Reads what is lent, unless an event has taken it away. `None` also if the thread does so already.
    #[inline(always)]
    pub fn with<R>(&self, read: impl FnOnce(&T) -> R) -> Option<R> {
        let _reading = match Numbered::this_thread() {
            Some(thread) => self.begin(&self.readers.of(thread).0[0])?,
            None => self.begin_unnumbered()?,
        };
        light_barrier();
        let word = self.holding.0.word.load(Ordering::Acquire);
        if word & GONE != 0 {
            return None;
        }
        // SAFETY: only `give` sets the word to an address, that of the target. Who takes that back sets the word again,
        // and then waits for this reader.
        Some(read(unsafe { &*ptr::with_exposed_provenance::<T>(word) }))
    }

    #[inline(always)]
    fn begin<'a>(&self, word: &'a AtomicU64) -> Option<Reading<'a>> {
        let before = word.load(Ordering::Relaxed);
        if !before.is_multiple_of(2) {
            return None;
        }
        // Release: who waits for an earlier reader may find this one in its place.
        word.store(before.wrapping_add(1), Ordering::Release);
        Some(Reading { word, is_shared: false })
    }

    #[cold]
    #[inline(never)]
    fn begin_unnumbered(&self) -> Option<Reading<'_>> {
        if let Some(line) = self.readers.own_line(thread_index()) {
            return self.begin(&line.0[0]);
        }
        let word = &self.readers.line(THREADS_MAX).0[0];
        word.fetch_add(1, Ordering::Relaxed);
        Some(Reading { word, is_shared: true })
    }

    /// Lends this from now on, in place of what was lent.
    pub fn lend(&self, target: T) {
        self.take_back();
        let mut lent = self.target.lock();
        *lent = Some(Box::new(target));
        self.give(&lent, self.holding.0.word.load(Ordering::Acquire));
    }

    /// Lends the target, unless there was another event since the word was read.
    fn give(&self, target: &Option<Box<T>>, word: usize) {
        if let Some(target) = target {
            let address = ptr::from_ref(&**target).expose_provenance();
            let exchange = &self.holding.0.word;
            let _ = exchange.compare_exchange(word, address, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Lends nothing from now on. Returns when nobody reads what was lent, which is freed.
    pub fn take_back(&self) {
        let mut lent = self.target.lock();
        self.holding.0.word.swap(GONE, Ordering::AcqRel);
        let Some(target) = lent.take() else { return };
        drop(lent);
        if forks() != self.forks_at_start {
            // Of threads that the child does not have nobody knows whether they were reading.
            std::mem::forget(target);
            return;
        }
        heavy_barrier();
        let mut lines = self.readers.used();
        let wait = |line: &Line, is_inside: &dyn Fn(u64, u64) -> bool| {
            let before = line.0[0].load(Ordering::Acquire);
            let mut turn = 0;
            while is_inside(before, line.0[0].load(Ordering::Acquire)) {
                spin(&mut turn);
            }
        };
        // In the line that many share all have to be out for a moment.
        lines.by_ref().take(1).for_each(|shared| wait(shared, &|_, now| now != 0));
        lines.for_each(|line| wait(line, &|before, now| !now.is_multiple_of(2) && now == before));
    }

    /// Lends once more what an event has taken away. The caller knows that it does not concern this.
    pub fn renew(&self) {
        let word = self.holding.0.word.load(Ordering::Acquire);
        // Where nothing is lent, nobody is to meet others at a lock for that.
        if word & GONE != 0 && word != GONE {
            self.give(&self.target.lock(), word);
        }
    }
}

#[cfg(all(test, not(any(feature = "simulated", feature = "loom"))))]
mod tests {
    use super::*;
    use crate::sync::lease::take_away;

    #[test]
    fn a_loan_leads_to_its_last_target_until_it_is_taken() {
        let loan: Loan<Arc<u64>> = Loan::none().unwrap();
        // Other tests of this process may take it away at any moment.
        let found = || {
            (0..100).find_map(|_| {
                loan.renew();
                loan.with(|target| **target)
            })
        };
        assert_eq!(found(), None);
        let first = Arc::new(1);
        loan.lend(Arc::clone(&first));
        assert_eq!((found(), Arc::strong_count(&first)), (Some(1), 2));
        assert_eq!(loan.with(|_| found()).flatten(), None, "not while it reads");
        loan.lend(Arc::new(2));
        assert_eq!((found(), Arc::strong_count(&first)), (Some(2), 1));
        take_away();
        assert_eq!(found(), Some(2));
        loan.take_back();
        assert_eq!(found(), None);
        loan.lend(Arc::new(3));
        assert_eq!(found(), Some(3));
    }

    #[test]
    fn what_is_lent_is_not_freed_while_somebody_reads_it() {
        let loan: Loan<Arc<u64>> = Loan::none().unwrap();
        for is_numbered in [true, false] {
            let target = Arc::new(1);
            loan.lend(Arc::clone(&target));
            std::thread::scope(|scope| {
                let (loan, target) = (&loan, &target);
                let (begun, begins) = std::sync::mpsc::channel();
                let (ends, end) = std::sync::mpsc::channel::<()>();
                scope.spawn(move || {
                    if !is_numbered {
                        crate::sync::give_up_number();
                    }
                    let read = || {
                        loan.renew();
                        loan.with(|read| {
                            begun.send(()).unwrap();
                            end.recv().unwrap();
                            (**read, Arc::strong_count(target))
                        })
                    };
                    assert_eq!((0..100).find_map(|_| read()), Some((1, 2)));
                });
                begins.recv().unwrap();
                scope.spawn(|| loan.take_back());
                while loan.with(|_| ()).is_some() {}
                ends.send(()).unwrap();
            });
            assert_eq!(Arc::strong_count(&target), 1);
        }
    }
}
