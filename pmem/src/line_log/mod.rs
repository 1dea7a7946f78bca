//! The line log: what threads flush, collected at their fences and cut at epochs.
//!
//! A pool on a disk survives power loss by a log of everything that was made durable. Engines already say what that
//! is, and in which order: they flush extents and fence. So a fence appends the content of what was flushed to a ring
//! of its thread, and a flusher takes all rings together, epoch by epoch, and writes them to a file.
//!
//! # What a cut promises
//!
//! [`LineLog::seal`] closes an epoch and returns the records of it, its *cut*. All cuts so far, replayed in order
//! onto an empty image, give one that a crash of durable memory could have left at the moment when the epoch was
//! closed: whatever was fenced before is there, and nothing is there without what it rests on.
//!
//! # The protocol
//!
//! | a thread that fences | the flusher |
//! |---|---|
//! | 1 reads the open epoch e | 1 opens epoch e + 1 |
//! | 2 for each extent: adds one to the sequence number of its stripe, then copies it into its ring | 2 seals each ring by a compare-and-swap of its word (epoch, head): from then on nothing of epoch e is published there |
//! | 3 looks whether e is still open; if not, starts again | 3 takes what is published there under epochs up to e |
//! | 4 publishes by a compare-and-swap of the ring's word, to (e, new head); if the ring was sealed, starts again | |
//!
//! *A cut rests on nothing that it lacks.* What a record of epoch e shows was stored before step 3 found e open. If it
//! rests on another record, that one was published before what it shows was stored, under an epoch that was open then:
//! e or an earlier one. Without step 3 that other record could belong to e + 1.
//!
//! *Of two records of a word the one with the larger (epoch, sequence number) is the newer one.* The add of step 2 comes
//! after the stores that the thread flushed, and before the copy. Of two records of a stripe the second to add
//! sees what was stored before the first one's add. It also sees the first one's epoch, in step 3 at the latest,
//! so it does not bear an older one. What was stored later is in the later record of whoever stored it.
//!
//! *A thread that sleeps holds nobody up.* The flusher seals its ring without it; its compare-and-swap then fails.
//!
//! An extent is words that nobody but its caller changes, or whole lines. These are read until two readings in a row
//! agree, line by line: a copy with the value before and the key after a change would break the order of the stores
//! to a line.
//!
//! # Flushes and fences
//!
//! [`LineLog::note`] is a flush: it remembers what to append. [`LineLog::fence`] appends what the thread has noted. A
//! medium calls these two; nothing else has to know. Until [`LineLog::start`] and after [`LineLog::stop`] nothing is
//! appended, and nobody waits.

mod cut;
mod ring;

pub use cut::{Cut, Record, records};

use crate::offset::{Offset, WORD};
use crate::sync::{
    Array, AtomicBool, AtomicU64, Line, Mutex, Ordering, PerThread, THREADS_MAX, fence, spin,
    thread_index,
};
use ring::{RING_WORDS_MAX, Ring};
use std::io;
use std::sync::OnceLock;
use std::thread::Thread;

/// Bytes of the pool that share a sequence number; extents are logged in pieces of at most as much.
const STRIPE_BYTES: u64 = 4096;
/// Words of one.
const STRIPE_WORDS: u64 = STRIPE_BYTES / WORD;
/// Stripes: far more than threads, so that two seldom add to one at once.
const STRIPES: usize = 4096;
/// Words that a piece takes in a ring beside its content: its sequence number and its place.
const PIECE_HEADER_WORDS: usize = 2;
/// Extents that a thread notes before it appends them without waiting for its fence.
const NOTES_MAX: usize = 64;
/// Of a thread's line in `controls`: the first two words are its ring's.
const NOTES_WORD: usize = 2;
/// The largest piece, its group's header included, must fit into a ring several times.
const RING_WORDS_MIN: usize = 4 * (STRIPE_WORDS as usize + PIECE_HEADER_WORDS + 1);

/// A run of words of the pool that was flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flushed {
    /// Its first word.
    pub at: Offset,
    /// How many there are.
    pub words: u64,
}

/// Collects what threads flush; see the [module](self).
#[derive(Debug)]
pub struct LineLog {
    /// The open epoch; the first one is 1.
    epoch: AtomicU64,
    /// Rings of numbers below this one may have been written to.
    used: AtomicU64,
    /// By stripe: records so far.
    sequences: Array<AtomicU64>,
    rings: Array<AtomicU64>,
    ring_words: usize,
    /// By ring: what is published, what is taken, and how many notes there are.
    controls: PerThread,
    /// By thread: what it has flushed since its last fence.
    notes: Array<AtomicU64>,
    is_on: AtomicBool,
    /// Whoever calls [`LineLog::seal`], and whether it has been woken.
    flusher: OnceLock<Thread>,
    is_woken: AtomicBool,
    /// Whether the flusher sleeps until something is appended.
    wakes_on_append: AtomicBool,
    /// Threads without a number share a ring.
    sharing: Mutex<()>,
    sealing: Mutex<()>,
}

impl LineLog {
    /// An empty log. Each thread may have `ring_words` words, a power of two, under way; memory is taken when they are
    /// first used. Fails if the system does not grant the addresses.
    pub fn new(ring_words: usize) -> io::Result<LineLog> {
        let ring_words = ring_words.next_power_of_two();
        let ring_words = ring_words.clamp(RING_WORDS_MIN.next_power_of_two(), RING_WORDS_MAX);
        Self::with_rings(ring_words)
    }

    /// As [`LineLog::new`], with rings of any size: for models that append less than a stripe.
    pub fn with_rings(ring_words: usize) -> io::Result<LineLog> {
        let all = (THREADS_MAX + 1) * ring_words;
        Ok(LineLog {
            epoch: AtomicU64::new(1),
            used: AtomicU64::new(0),
            sequences: Array::reserve(STRIPES, 1)?,
            rings: Array::reserve(all, all)?,
            ring_words,
            controls: PerThread::new()?,
            notes: Array::reserve(THREADS_MAX * NOTES_MAX, THREADS_MAX * NOTES_MAX)?,
            is_on: AtomicBool::new(false),
            flusher: OnceLock::new(),
            is_woken: AtomicBool::new(false),
            wakes_on_append: AtomicBool::new(false),
            sharing: Mutex::new(()),
            sealing: Mutex::new(()),
        })
    }

    /// The open epoch. What was appended before this call is in the cut of this epoch or of an earlier one.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// From now on fences append. What was fenced before has to be in the image that the cuts are replayed onto.
    pub fn start(&self) {
        self.is_on.store(true, Ordering::SeqCst);
    }

    /// Nothing is appended any more, and nobody waits for a flusher. What was not sealed is lost.
    pub fn stop(&self) {
        self.is_on.store(false, Ordering::SeqCst);
    }

    /// Whether fences append.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// The thread that seals: woken, by [`Thread::unpark`], when a ring has filled by a quarter.
    pub fn wake_when_full(&self, flusher: Thread) {
        // One log has one flusher.
        let _ = self.flusher.set(flusher);
    }

    /// Whether the next append wakes the flusher, too. It has to seal once more after it has said so: what was appended
    /// before does not wake it.
    pub fn wake_on_append(&self, wakes: bool) {
        self.wakes_on_append.store(wakes, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.is_woken.store(false, Ordering::Release);
    }

    /// Whether the ring of the calling thread is more than half full: time to wait where nobody is waiting for it.
    pub fn is_crowded(&self) -> bool {
        let thread = thread_index().min(THREADS_MAX);
        let ring = self.ring(thread);
        ring.room(ring.published().head) < self.ring_words / 2 && self.is_on()
    }

    /// Notes that `words` words from `at` on were flushed, to be appended at this thread's next fence or before. They
    /// are read then, by `load`.
    pub fn note(&self, at: Offset, words: u64, load: impl Fn(Offset) -> u64) {
        if !self.is_on() {
            return;
        }
        let thread = thread_index();
        let flushed = Flushed { at, words };
        // A note says how long it is in few bits, and who has no number has no notes.
        if thread >= THREADS_MAX || words > STRIPE_WORDS {
            return self.append(&[flushed], load);
        }
        let count = &self.controls.line(thread).0[NOTES_WORD];
        let mut noted = count.load(Ordering::Relaxed) as usize;
        if noted == NOTES_MAX {
            self.append_noted(thread, noted, &load);
            noted = 0;
        }
        self.notes.get(thread * NOTES_MAX + noted).store(cut::place(flushed), Ordering::Relaxed);
        count.store(noted as u64 + 1, Ordering::Relaxed);
    }

    /// Appends what this thread has noted.
    pub fn fence(&self, load: impl Fn(Offset) -> u64) {
        let thread = thread_index();
        if thread < THREADS_MAX {
            let noted = self.controls.line(thread).0[NOTES_WORD].load(Ordering::Relaxed);
            if noted > 0 {
                self.append_noted(thread, noted as usize, &load);
            }
        }
    }

    fn append_noted(&self, thread: usize, noted: usize, load: &impl Fn(Offset) -> u64) {
        let notes = &self.notes.as_slice()[thread * NOTES_MAX..][..noted];
        let flushed = notes.iter().map(|note| cut::extent(note.load(Ordering::Relaxed)));
        self.append_all(flushed, load);
        self.controls.line(thread).0[NOTES_WORD].store(0, Ordering::Relaxed);
    }

    /// Appends what `flushed` says, as `load` reads it, with acquire ordering. When this has returned, what it has
    /// read is in the cut of the epoch that is open now, or of an earlier one. Waits for [`LineLog::seal`] where the
    /// thread's ring is full.
    pub fn append(&self, flushed: &[Flushed], load: impl Fn(Offset) -> u64) {
        self.append_all(flushed.iter().copied(), &load);
    }

    fn append_all(
        &self,
        flushed: impl Iterator<Item = Flushed> + Clone,
        load: &impl Fn(Offset) -> u64,
    ) {
        if !self.is_on() {
            return;
        }
        let thread = thread_index().min(THREADS_MAX);
        let _shared = (thread == THREADS_MAX).then(|| self.sharing.lock());
        let ring = self.ring(thread);
        let mut rest = pieces(flushed);
        while rest.clone().next().is_some() {
            match self.append_some(thread, &ring, rest, load) {
                Some(others) => rest = others,
                None => return,
            }
        }
        let is_crowded = ring.room(ring.published().head) < self.ring_words / 4 * 3;
        if is_crowded || self.wakes_on_append.load(Ordering::Relaxed) {
            self.wake();
        }
        // What this thread stores next rests on what it has appended: whoever sees it must see the epoch, too.
        fence(Ordering::Release);
    }

    #[cold]
    fn wake(&self) {
        if let Some(flusher) = self.flusher.get()
            && !self.is_woken.load(Ordering::Relaxed)
            && !self.is_woken.swap(true, Ordering::AcqRel)
        {
            flusher.unpark();
        }
    }

    /// Appends as many pieces as fit into a quarter of a ring, and one at least; returns the others. `None`: the log
    /// was stopped, perhaps before anything was appended.
    fn append_some<P: Iterator<Item = Flushed> + Clone>(
        &self,
        thread: usize,
        ring: &Ring<'_>,
        pieces: P,
        load: &impl Fn(Offset) -> u64,
    ) -> Option<P> {
        loop {
            let published = ring.published();
            if published.is_first() && thread < THREADS_MAX {
                self.admit(thread);
            }
            let epoch = self.epoch.load(Ordering::Acquire);
            let mut end = published.head.after(1);
            let mut rest = pieces.clone();
            let mut next = rest.clone();
            while let Some(piece) = next.next() {
                let words = piece.words as usize + PIECE_HEADER_WORDS;
                let group_words = published.head.words_to(end) + words;
                if group_words > self.ring_words / 4 && end != published.head.after(1) {
                    break;
                }
                let mut turn = 0;
                while ring.room(published.head) < group_words {
                    if !self.is_on() {
                        return None;
                    }
                    self.wake();
                    spin(&mut turn);
                }
                let stripe = (piece.at.0 / STRIPE_BYTES) as usize % self.sequences.len();
                let sequence = self.sequences.get(stripe).fetch_add(1, Ordering::AcqRel);
                ring.set(end, sequence);
                ring.set(end.after(1), cut::place(piece));
                ring.copy(end.after(PIECE_HEADER_WORDS), piece, load);
                end = end.after(words);
                rest = next.clone();
            }
            let words = published.head.words_to(end) - 1;
            ring.set(published.head, ring::header(epoch, words));
            let is_open = self.epoch.load(Ordering::Acquire) == epoch;
            if !self.is_on() {
                return None;
            }
            if is_open && ring.publish(published, epoch, end) {
                return Some(rest);
            }
        }
    }

    /// Makes the flusher look at a thread's ring. Either it does so when it closes the epoch that is open now, or
    /// the thread then finds that epoch closed.
    #[cold]
    fn admit(&self, thread: usize) {
        self.used.fetch_max(thread as u64 + 1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    fn ring(&self, thread: usize) -> Ring<'_> {
        let control: &Line = self.controls.line(thread);
        let first = thread * self.ring_words;
        Ring::new(&self.rings.as_slice()[first..first + self.ring_words], control)
    }

    /// Closes the open epoch, and takes the records of it.
    pub fn seal(&self) -> Cut {
        let mut words = Vec::new();
        let epoch = self.seal_into(&mut words);
        Cut::new(epoch, words)
    }

    /// As [`LineLog::seal`], with the records as words behind those in `taken`. Returns the epoch.
    pub fn seal_into(&self, taken: &mut impl Extend<u64>) -> u64 {
        let _sealing = self.sealing.lock();
        self.is_woken.store(false, Ordering::Release);
        let epoch = self.epoch.load(Ordering::Relaxed);
        self.epoch.store(epoch + 1, Ordering::Release);
        // As in `admit`.
        fence(Ordering::SeqCst);
        let used = self.used.load(Ordering::Acquire) as usize;
        for thread in (0..used).chain([THREADS_MAX]) {
            let ring = self.ring(thread);
            let head = ring.seal(epoch);
            ring.take(epoch, head, taken);
        }
        epoch
    }
}

/// What was flushed, in pieces that lie in one stripe each.
fn pieces(flushed: impl Iterator<Item = Flushed> + Clone) -> impl Iterator<Item = Flushed> + Clone {
    flushed.filter(|flushed| flushed.words > 0).flat_map(|Flushed { at, words }| {
        let (first, end) = (at.0 / WORD, at.0 / WORD + words);
        let stripes = first / STRIPE_WORDS..end.div_ceil(STRIPE_WORDS);
        stripes.map(move |stripe| {
            let from = first.max(stripe * STRIPE_WORDS);
            let words = end.min((stripe + 1) * STRIPE_WORDS) - from;
            Flushed { at: Offset(from * WORD), words }
        })
    })
}

#[cfg(all(test, not(any(feature = "simulated", feature = "loom"))))]
mod tests;
