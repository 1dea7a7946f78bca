//! When a retired item's space may be used again.
//!
//! Glossary. A thread *pins* while it holds references to items; its *pin* is the epoch that it read at the beginning.
//! An item is *retired* when no slot leads to it any more. It is then *tagged* with an epoch, and *reclaimed* when the
//! global epoch is two beyond the tag.
//!
//! Protocol. The global epoch advances from *e* to *e* + 1 only when every pin found in a scan is *e*. The retiring
//! thread, while pinned, reads the global epoch; the tag is one more.
//!
//! The global epoch cannot be beyond the tag at that moment. A scan that missed the thread's pin passed its heavy
//! barrier before the pin was stored. So the thread reads at least the epoch with which this scan began, and the scan
//! adds one. A scan that saw the pin passes only at the pin's epoch. (The pin itself cannot be the base: a thread that
//! stalls between reading the epoch and storing its pin pins an epoch long gone.)
//!
//! A reader that may still hold the item pinned before the item was retired. However stale its pin is, once stored it
//! lets at most one scan pass, the one under way. So the epoch reaches tag + 1 and no more until the reader unpins.
//!
//! Guests of the pool pin nothing: they look at a copy of the epoch in the [view](crate::view), which grows first.
//!
//! No operation waits for an epoch: what cannot be reclaimed yet stays in its bag. So a stalled reader holds back
//! space, not progress. If much waits in a bag, whose threads may never retire anything again, all retiring threads
//! empty all bags, and so does a helper or a sync.

mod bytes;

pub use bytes::Bytes;

use crate::sync::{
    Asymmetric, AtomicU64, Line, Mutex, Numbered, Ordering, PerThread, THREADS_MAX, fence,
    heavy_barrier, hold, light_barrier, pause, release, thread_index,
};
use crate::view::View;
use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

/// Bags of retired items, over which threads are spread. Few under loom, where each is a step of a collection.
const BAGS: usize = if cfg!(feature = "loom") { 2 } else { 64 };
/// A bag tries to advance the epoch each time it has taken this many items. A scan with its heavy barrier costs
/// microseconds, so many items share it.
///
/// On the crash lab's machine, whose histories are short, each second one scans.
const RETIRES_PER_SCAN: u64 =
    if cfg!(any(feature = "simulated", feature = "loom")) { 2 } else { 128 };
/// ... or items of this many bytes, so that few large ones do not hold much space back.
const BYTES_PER_SCAN: u64 = 256 << 10;
/// When this many bytes wait in a bag after a scan, all threads empty it: its own threads may retire nothing more.
///
/// On the crash lab's machine, one large item is enough.
const BYTES_OVERDUE: u64 =
    if cfg!(any(feature = "simulated", feature = "loom")) { 1 << 20 } else { 4 << 20 };
/// Most retirements of a thread between two attempts to empty overdue bags, while somebody's pin keeps them.
const PATIENCE_MAX: u32 = 64;

/// Most tries of an operation that finds no space: some 100 ms of them.
const TRIES_MAX: u32 = if cfg!(any(feature = "simulated", feature = "loom")) { 3 } else { 400 };
/// Tries without a sign of more space, after which the operation gives up.
const QUIET_TRIES_MAX: u32 =
    if cfg!(any(feature = "simulated", feature = "loom")) { 1 } else { 10 };

/// How long an operation that found no space tries again. If it needs no more space than it replaces, it must find
/// some, and retries while other threads may have that space: they hold replaced items, or are about to retire them,
/// and may have lost their processors meanwhile.
#[derive(Debug, Default)]
pub struct Retries {
    tries: u32,
    quiet_tries: u32,
    /// Whether more might have come when the last try began.
    was_waiting: bool,
}

impl Retries {
    /// After a try for which there was no space, and an [`Epochs::collect`] after it that said whether
    /// `more_may_come`: whether there is to be another one, which then begins after a pause. The second
    /// one is everybody's, and so is one after what might come has come: perhaps later than the try that it
    /// was wanted for. Further ones need a reason.
    pub fn go_on(&mut self, has_reason: bool, more_may_come: bool) -> bool {
        self.tries += 1;
        self.quiet_tries = if more_may_come { 0 } else { self.quiet_tries + 1 };
        let has_come = self.was_waiting && !more_may_come;
        self.was_waiting = more_may_come;
        if self.tries == 1 {
            return true;
        }
        let goes_on = (has_reason || has_come)
            && self.tries < TRIES_MAX
            && self.quiet_tries <= QUIET_TRIES_MAX;
        if goes_on {
            pause();
        }
        goes_on
    }

    /// Tries so far.
    pub fn tries(&self) -> u32 {
        self.tries
    }
}

// Words of a thread's line.
const DEPTH: usize = 0;
const PIN: usize = 1;

/// Words of the line that threads without a number share: each counts the pins at epochs of one
/// remainder. So a scan passes new pins, and waits for old ones only: were all counted together, some
/// threads could keep a scan from ever passing, each of them pinned for no more than a moment.
const SHARED_COUNTS: usize = 4;

/// A pin is stored as `epoch << 1 | 1`, so that 0 means not pinned.
const fn pin_of(epoch: u64) -> u64 {
    epoch << 1 | 1
}

#[derive(Debug, Clone, Copy)]
struct Retired {
    tag: u64,
    item: u64,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Bag {
    retired: VecDeque<Retired>,
    /// Bytes of these.
    waiting_bytes: u64,
    /// Items and bytes taken since the last scan.
    taken: u64,
    taken_bytes: u64,
    /// Retirements to come before the next one that looks after what is overdue, and how many after that.
    rest: u32,
    patience: u32,
}

impl Bag {
    /// Adds an item. Returns whether a scan is due.
    #[inline]
    fn add(&mut self, retired: Retired) -> bool {
        self.waiting_bytes = self.waiting_bytes.saturating_add(retired.bytes);
        self.taken += 1;
        self.taken_bytes = self.taken_bytes.saturating_add(retired.bytes);
        self.retired.push_back(retired);
        self.is_scan_due()
    }

    fn is_scan_due(&self) -> bool {
        self.taken >= RETIRES_PER_SCAN || self.taken_bytes >= BYTES_PER_SCAN
    }

    fn is_overdue(&self) -> bool {
        self.waiting_bytes >= BYTES_OVERDUE
    }

    /// Whether this retirement looks after what is overdue.
    fn is_its_turn(&mut self) -> bool {
        let is_turn = self.rest == 0;
        self.rest = if is_turn { self.patience } else { self.rest - 1 };
        is_turn
    }

    /// After a look: the next one soon if something came of it.
    fn learn(&mut self, has_advanced: bool) {
        self.patience = if has_advanced { 0 } else { (self.patience * 2).clamp(1, PATIENCE_MAX) };
        self.rest = self.patience;
    }
}

/// The epochs of one pool's items.
#[derive(Debug)]
pub struct Epochs {
    global: Line,
    threads: PerThread,
    bags: Box<[Mutex<Bag>]>,
    /// Word 0: in its lowest bit whether so much waits in some bag that anybody is to look after it; above, how often a
    /// bag said so. Read by every retirement, written hardly ever. Word 1: threads that are collecting.
    overdue: Line,
    /// Where guests see the epoch.
    view: Option<Arc<View>>,
}

/// When somebody looked at what was pinned; see [`Epochs::moment`].
#[derive(Debug, Clone, Copy)]
pub struct Moment(u64);

/// Keeps every item that can be reached now in place until dropped.
#[derive(Debug)]
pub struct Guard<'a> {
    epochs: &'a Epochs,
    /// The thread's number; for one without, `THREADS_MAX` and the word of the shared line.
    place: usize,
    /// The pin is in this thread's line.
    _not_send: PhantomData<*const ()>,
}

impl Epochs {
    /// Epochs without pins or retired items.
    pub fn new() -> io::Result<Self> {
        Epochs::seen_in(None)
    }

    /// The same, of items that guests see by this view.
    pub fn seen_in(view: Option<Arc<View>>) -> io::Result<Self> {
        Ok(Epochs {
            global: Line::default(),
            threads: PerThread::new()?,
            bags: (0..BAGS).map(|_| Mutex::default()).collect(),
            overdue: Line::default(),
            view,
        })
    }

    fn global(&self) -> &AtomicU64 {
        &self.global.0[0]
    }

    /// Pins the calling thread; pins nest.
    #[inline]
    pub fn pin(&self) -> Guard<'_> {
        let thread = thread_index();
        if thread >= THREADS_MAX {
            return self.pin_shared();
        }
        self.pin_own(self.threads.line(thread), thread, light_barrier)
    }

    /// As [`Epochs::pin`], in fewer instructions, for code that is compiled into its callers.
    #[inline(always)]
    pub fn pin_here(&self, thread: Numbered, asymmetric: Asymmetric) -> Guard<'_> {
        let line = self.threads.of(thread);
        self.pin_own(line, thread.index(), || asymmetric.light_barrier())
    }

    #[inline(always)]
    fn pin_own(&self, line: &Line, place: usize, light_barrier: impl FnOnce()) -> Guard<'_> {
        let line = &line.0;
        let depth = line[DEPTH].load(Ordering::Relaxed);
        line[DEPTH].store(depth + 1, Ordering::Relaxed);
        if depth == 0 {
            hold();
            // Acquire: all that the scan behind this epoch knew to be unlinked is not found under this pin, which
            // lets one more scan pass.
            let epoch = self.global().load(Ordering::Acquire);
            // Release: a scan that finds this pin in place of the end of an earlier one comes after that one, too.
            line[PIN].store(pin_of(epoch), Ordering::Release);
            // Either a scan sees this pin, or what follows sees everything unlinked before
            // that scan.
            light_barrier();
        }
        Guard { epochs: self, place, _not_send: PhantomData }
    }

    #[cold]
    fn pin_shared(&self) -> Guard<'_> {
        loop {
            let epoch = self.global().load(Ordering::Relaxed);
            let word = epoch as usize % SHARED_COUNTS;
            let count = &self.threads.line(THREADS_MAX).0[word];
            count.fetch_add(1, Ordering::SeqCst);
            light_barrier();
            // Counted for an epoch long gone, it might pass for a pin at a later one.
            if self.global().load(Ordering::Acquire) == epoch {
                return Guard { epochs: self, place: THREADS_MAX + word, _not_send: PhantomData };
            }
            count.fetch_sub(1, Ordering::Release);
        }
    }

    #[inline]
    fn unpin(&self, place: usize) {
        let Some(line) = self.threads.own_line(place) else {
            return self.unpin_shared(place - THREADS_MAX);
        };
        let line = &line.0;
        let depth = line[DEPTH].load(Ordering::Relaxed) - 1;
        line[DEPTH].store(depth, Ordering::Relaxed);
        if depth == 0 {
            line[PIN].store(0, Ordering::Release);
            // Last: from here on the line may be another thread's.
            release(place);
        }
    }

    #[cold]
    fn unpin_shared(&self, word: usize) {
        self.threads.line(THREADS_MAX).0[word].fetch_sub(1, Ordering::Release);
    }

    /// Advances the epoch if every pin is at it.
    fn try_advance(&self) -> u64 {
        let epoch = self.global().load(Ordering::Acquire);
        heavy_barrier();
        let mut lines = self.threads.used();
        if let Some(shared) = lines.next() {
            let mut counts = shared.0[..SHARED_COUNTS].iter().enumerate();
            let passes = |word| word == epoch as usize % SHARED_COUNTS;
            if counts.any(|(word, count)| !passes(word) && count.load(Ordering::Acquire) != 0) {
                return epoch;
            }
        }
        for line in lines {
            let pin = line.0[PIN].load(Ordering::Acquire);
            if pin != 0 && pin != pin_of(epoch) {
                return epoch;
            }
        }
        if let Some(view) = &self.view {
            view.set_epoch(epoch + 1);
        }
        match self.global().compare_exchange(epoch, epoch + 1, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => epoch + 1,
            Err(newer) => newer,
        }
    }

    fn reclaimable(&self, bag: &mut Bag, into: &mut Vec<u64>) {
        let epoch = self.global().load(Ordering::Acquire);
        // A guest that meets what is stored there next sees the epoch, too. If another thread of the owner stores it,
        // that rests on processors which show a store to all others at once, as x86-64 and AArch64 do.
        fence(Ordering::Release);
        while let Some(&Retired { tag, item, bytes }) = bag.retired.front() {
            if tag + 2 > epoch {
                break;
            }
            bag.retired.pop_front();
            bag.waiting_bytes = bag.waiting_bytes.saturating_sub(bytes);
            into.push(item);
        }
    }

    /// After a retirement: takes out what can be reclaimed, of this bag if a scan is due, and of all bags if it is this
    /// one's turn to look after what is overdue. Also returns whether something has become overdue by this.
    #[inline(never)]
    fn care_for(&self, bag: &Mutex<Bag>, was_overdue: bool) -> (Vec<u64>, bool) {
        let mut ready = Vec::new();
        let mut is_news = false;
        let looks_after_all = {
            let mut bag = bag.lock();
            if bag.is_scan_due() {
                (bag.taken, bag.taken_bytes) = (0, 0);
                self.try_advance();
                self.reclaimable(&mut bag, &mut ready);
                is_news = bag.is_overdue() && self.set_overdue();
            }
            was_overdue && bag.is_its_turn()
        };
        if looks_after_all {
            let before = self.global().load(Ordering::Relaxed);
            let has_advanced = self.try_advance() > before;
            self.empty_bags(&mut ready);
            bag.lock().learn(has_advanced);
        }
        (ready, is_news)
    }

    /// Items retired and not yet reclaimed.
    pub fn retired(&self) -> Vec<u64> {
        let items = |bag: &Mutex<Bag>| {
            let bag = bag.lock();
            bag.retired.iter().map(|retired| retired.item).collect::<Vec<_>>()
        };
        self.bags.iter().flat_map(items).collect()
    }

    /// Reclaims what can be reclaimed now, whoever retired it. Returns whether more may come soon: something
    /// is left that waits for pins to end, or in the hands of others: who is pinned may be about to retire something.
    pub fn collect(&self, mut reclaim: impl FnMut(u64)) -> bool {
        for _ in 0..3 {
            self.try_advance();
        }
        let collecting = &self.overdue.0[1];
        // Before the bags: who is not pinned any more has retired what there was to be retired, and who is
        // not collecting any more has reclaimed what was taken out of them.
        let is_in_hand = collecting.fetch_add(1, Ordering::AcqRel) > 0 || self.is_pinned();
        let mut ready = Vec::new();
        let is_left = self.empty_bags(&mut ready);
        ready.into_iter().for_each(&mut reclaim);
        collecting.fetch_sub(1, Ordering::AcqRel);
        is_left || is_in_hand
    }

    /// A moment, for [`Epochs::has_passed`].
    pub fn moment(&self) -> Moment {
        let _guard = self.pin();
        // As the tag of what is retired.
        Moment(self.global().load(Ordering::Relaxed) + 1)
    }

    /// Whether all pins have ended that there were at this moment.
    pub fn has_passed(&self, moment: Moment) -> bool {
        (0..3).any(|_| self.try_advance() >= moment.0 + 2)
    }

    /// Whether the calling thread is pinned; of one that shares its line, whether any is that does.
    pub fn is_pinned_here(&self) -> bool {
        let is_set = |word: &AtomicU64| word.load(Ordering::Relaxed) != 0;
        match thread_index() {
            THREADS_MAX.. => self.threads.line(THREADS_MAX).0[..SHARED_COUNTS].iter().any(is_set),
            thread => is_set(&self.threads.line(thread).0[DEPTH]),
        }
    }

    /// Bytes of what was retired and not reclaimed.
    pub fn waiting_bytes(&self) -> u64 {
        self.bags.iter().map(|bag| bag.lock().waiting_bytes).sum()
    }

    fn is_pinned(&self) -> bool {
        let mut lines = self.threads.used();
        let is_set = |word: &AtomicU64| word.load(Ordering::Acquire) != 0;
        let shared = lines.next();
        shared.is_some_and(|line| line.0[..SHARED_COUNTS].iter().any(is_set))
            || lines.any(|line| is_set(&line.0[PIN]))
    }

    /// Whether more waits to be reclaimed than should. Somebody who is not pinned, and has nothing better to
    /// do, calls [`Epochs::collect`] then; retirements take it up as well.
    pub fn is_overdue(&self) -> bool {
        self.overdue.0[0].load(Ordering::Relaxed) & 1 != 0
    }

    /// Whether it was not so before. The caller has locked the bag.
    fn set_overdue(&self) -> bool {
        let set = |word: u64| Some((word | 1) + 2);
        let before = self.overdue.0[0].fetch_update(Ordering::AcqRel, Ordering::Relaxed, set);
        before.is_ok_and(|word| word & 1 == 0)
    }

    /// Takes what can be reclaimed out of all bags; whether something is left.
    fn empty_bags(&self, ready: &mut Vec<u64>) -> bool {
        let overdue = &self.overdue.0[0];
        let before = overdue.load(Ordering::Acquire);
        let (mut is_left, mut is_overdue) = (false, false);
        for bag in &self.bags {
            let mut bag = bag.lock();
            self.reclaimable(&mut bag, ready);
            is_left |= !bag.retired.is_empty();
            is_overdue |= bag.is_overdue();
        }
        if !is_overdue && before & 1 != 0 {
            // Refused if a bag that was looked at has been filled since. Cleared before the look, and set again after
            // it, the bit would send a helper to sleep that looks in between, and nobody would wake it.
            let _ =
                overdue.compare_exchange(before, before & !1, Ordering::AcqRel, Ordering::Acquire);
        }
        is_left
    }
}

impl Guard<'_> {
    /// Retires `item` of `bytes` bytes, to which no slot leads any more, durably so. Call it once
    /// per item. `reclaim` is called for items, this one or earlier ones, that nobody can hold any
    /// more. Returns whether by this more waits than should: [`Epochs::is_overdue`] from now on. Whoever sleeps while
    /// nothing is overdue is to be woken then.
    pub fn retire(&self, item: u64, bytes: u64, reclaim: impl FnMut(u64)) -> bool {
        self.retire_and(item, bytes, |ready| ready.into_iter().for_each(reclaim))
    }

    /// As [`Guard::retire`]. `reclaim` is called once, with all of those items, if there are any.
    #[inline]
    pub fn retire_and(&self, item: u64, bytes: u64, reclaim: impl FnOnce(Vec<u64>)) -> bool {
        let epochs = self.epochs;
        let tag = epochs.global().load(Ordering::Relaxed) + 1;
        let was_overdue = epochs.is_overdue();
        let bag = &epochs.bags[self.place % BAGS];
        let is_scan_due = bag.lock().add(Retired { tag, item, bytes });
        if !is_scan_due && !was_overdue {
            return false;
        }
        let (ready, is_news) = epochs.care_for(bag, was_overdue);
        if !ready.is_empty() {
            reclaim(ready);
        }
        is_news
    }
}

impl Clone for Guard<'_> {
    fn clone(&self) -> Self {
        self.epochs.pin()
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.epochs.unpin(self.place);
    }
}

#[cfg(test)]
mod tests;
