//! The line log: what threads flush, collected at their fences and cut at epochs.
//!
//! A pool on a disk survives power loss through a log of everything that was made durable. Engines already say what
//! that is, and in which order: they flush extents and fence. So a fence appends the flushed content to its thread's
//! ring. A flusher collects all rings, epoch by epoch, and writes them to a file.
//!
//! # What a cut promises
//!
//! [`LineLog::seal`] closes an epoch and returns its records, its *cut*. All cuts so far, replayed in order onto an
//! empty image, give an image that a crash of durable memory could have left at the moment when the epoch was closed.
//! Everything fenced before is there, and nothing is there without what it depends on.
//!
//! # The protocol
//!
//! | a thread that fences | the flusher |
//! |---|---|
//! | 1 announces in its ring's word that it appends; passes a light barrier | 1 opens epoch e + 1; a heavy barrier |
//! | 2 reads the open epoch e | 2 waits for each announcing thread, until that announcement is gone |
//! | 3 for each extent: adds one to the sequence number of its stripe, then copies it into its ring | 3 takes what is published there of epochs up to e |
//! | 4 checks that e is still open; if not, withdraws and starts again | |
//! | 5 publishes: stores the ring's word, with e and the new head, and without the announcement | |
//!
//! *Nothing of epoch e comes late.* Either the flusher sees the announcement and waits, or the thread's read comes
//! after the heavy barrier and finds e + 1. So a thread that is preempted while it appends delays the flusher, but no
//! other appending thread. It waits for nobody meanwhile: if its ring is full, it withdraws first.
//!
//! *No cut lacks what it depends on.* The content of a record of epoch e was stored before step 4 found e open.
//! If the record depends on another one, that one was published before this content was stored, under an epoch that was
//! open then: e or an earlier one. Without step 4 that other record could belong to e + 1.
//!
//! *Of two records of a word the one with the larger (epoch, sequence number) is the newer one.* The add of step 3
//! comes after the stores that the thread flushed, and before the copy. Of two records of a stripe, the second to add
//! sees what was stored before the first one's add. It also sees the first one's epoch, in step 4 at the latest, so it
//! does not have an older one. A later store is in the later record of the thread that made it.
//!
//! *A lock holder may draw its number early.* The add waits for all earlier stores, and everything later waits for the
//! add. After the store to a cold line it costs the whole cache miss. So a thread that holds a lock on a pair of words
//! can draw the number right after it got the lock ([`LineLog::sequence`]). Records of a lock's holders are ordered as
//! the holders are, wherever each draws.
//!
//! *An observer of such a pair without the lock* ([`LineLog::append_observed`]) reads the epoch, draws its number,
//! passes a heavy barrier, and copies. Without that barrier the copy could lack the holder's store and yet have the
//! larger number or the later epoch. The holder passes its light barrier, then reads the epoch and checks that its
//! number is still the last of the stripe; if not, it draws another. So either the copy has the holder's store, or the
//! holder sees the observer's number and epoch, and gets larger ones.
//!
//! An extent consists of words that only its caller changes, or of whole lines. Lines are read until two readings in a
//! row agree: a copy with the value before a change and the key after it would break the order of the stores to a line.
//!
//! # Flushes and fences
//!
//! [`LineLog::note`] is a flush: it remembers what to append. [`LineLog::fence`] appends what the thread has noted. The
//! medium calls these two, so an engine need not know of the log. For speed, an engine that changes pairs of words
//! under a lock may use [`Medium::sequence`](crate::Medium::sequence). Before [`LineLog::start`] and after
//! [`LineLog::stop`] nothing is appended, and nobody waits.

mod cut;
mod pairs;
mod ring;
mod room;

pub use cut::{Cut, Record, records};
pub use pairs::Sequence;
pub use room::Room;

use crate::limits;
use crate::offset::{LINE, Offset, WORD};
use crate::sync::{
    Array, AtomicBool, AtomicU64, Line, Mutex, Ordering, PerThread, THREADS_MAX, fence,
    heavy_barrier, light_barrier, register_process, spin, thread_index, thread_indices_end,
};
use ring::{RING_WORDS_MAX, Ring};
use std::io;
use std::sync::OnceLock;
use std::thread::Thread;

/// Bytes of the pool that share a sequence number. Extents are logged in pieces of at most this size.
const STRIPE_BYTES: u64 = 4096;
/// Words of a stripe.
const STRIPE_WORDS: u64 = STRIPE_BYTES / WORD;
/// Number of stripes: far more than threads, so that two seldom add to the same one at once.
const STRIPES: usize = 4096;
/// Words that a piece takes in a ring besides its content: its sequence number and its place.
const PIECE_HEADER_WORDS: usize = 2;
/// Extents that a thread notes before it appends them without waiting for its fence.
const NOTES_MAX: usize = 64;
/// Of a thread's line in `controls`, whose first two words are its ring's: how many notes there are.
const NOTES_WORD: usize = 2;
/// The same: up to which word of its ring the thread may stage pairs.
const LIMIT_WORD: usize = 3;
/// The same: how many words are staged, behind what is published.
const STAGED_WORD: usize = 4;
/// Of the log's state: fences append.
const ON: u64 = 1;
/// Of the log's state: the flusher sleeps until something is appended.
const DOZING: u64 = 2;
/// How far ahead a ring is fetched: the flusher has had its lines, and a store to such a line takes as long as a miss.
const PREFETCH_WORDS: usize = 4 * (LINE / WORD) as usize;
/// The largest piece must fit into a ring several times.
const RING_WORDS_MIN: usize = 4 * (STRIPE_WORDS as usize + PIECE_HEADER_WORDS);

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
    /// By stripe: records so far.
    sequences: Array<AtomicU64>,
    stripe_mask: u64,
    rings: Array<AtomicU64>,
    ring_words: usize,
    /// By ring: what is published, what is taken, how many notes there are, what may be staged, and what is.
    controls: PerThread,
    /// By thread: what it has flushed since its last fence.
    notes: Array<AtomicU64>,
    /// [`ON`] and [`DOZING`].
    state: AtomicU64,
    /// Whoever calls [`LineLog::seal`], and whether it has been woken.
    flusher: OnceLock<Thread>,
    is_woken: AtomicBool,
    /// Whether a ring was half full after the last seal.
    is_any_crowded: AtomicBool,
    /// Threads without a number share a ring.
    sharing: Mutex<()>,
    sealing: Mutex<()>,
    room: room::RoomKeeper,
}

impl LineLog {
    /// An empty log. Each thread may have `ring_words` words, a power of two, under way; memory is taken when they are
    /// first used. Fails if the system does not grant the addresses.
    pub fn new(ring_words: usize) -> io::Result<LineLog> {
        let words_min = RING_WORDS_MIN.next_power_of_two();
        let mut ring_words = ring_words.next_power_of_two().clamp(words_min, RING_WORDS_MAX);
        if let Some(left_bytes) = limits::address_bytes_left() {
            // With smaller rings, threads wait for the disk more often.
            let ring_bytes = left_bytes / limits::SHARE / (THREADS_MAX as u64 + 1);
            while ring_words > words_min && ring_words as u64 * WORD > ring_bytes {
                ring_words /= 2;
            }
        }
        Self::with_rings(ring_words)
    }

    /// As [`LineLog::new`], with rings of any size: for models that append less than a stripe.
    pub fn with_rings(ring_words: usize) -> io::Result<LineLog> {
        // Light barriers are light from then on.
        register_process();
        let all = (THREADS_MAX + 1) * ring_words;
        let notes = THREADS_MAX * NOTES_MAX;
        let sequences = Array::reserve(STRIPES, 1)?;
        let controls = PerThread::new()?;
        for thread in 0..THREADS_MAX {
            controls.line(thread).0[LIMIT_WORD].store(ring_words as u64 / 4, Ordering::Relaxed);
        }
        Ok(LineLog {
            stripe_mask: (1 << sequences.len().ilog2()) - 1,
            epoch: AtomicU64::new(1),
            sequences,
            rings: Array::reserve(all, all)?,
            ring_words,
            controls,
            notes: Array::reserve(notes, notes)?,
            state: AtomicU64::new(0),
            flusher: OnceLock::new(),
            is_woken: AtomicBool::new(false),
            is_any_crowded: AtomicBool::new(false),
            sharing: Mutex::new(()),
            sealing: Mutex::new(()),
            room: room::RoomKeeper::default(),
        })
    }

    /// The open epoch. What was appended before this call is in the cut of this epoch or of an earlier one.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// From now on fences append. What was fenced before has to be in the image that the cuts are replayed onto.
    pub fn start(&self) {
        self.state.fetch_or(ON, Ordering::SeqCst);
    }

    /// As [`LineLog::start`], of a log that goes on: `epoch` is the first of it. To be called before any other thread
    /// uses the log.
    pub fn start_from(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Relaxed);
        self.start();
    }

    /// Nothing is appended any more, and nobody waits for a flusher. What was not sealed is lost.
    pub fn stop(&self) {
        self.state.fetch_and(!ON, Ordering::SeqCst);
    }

    /// Whether fences append.
    pub fn is_on(&self) -> bool {
        self.state.load(Ordering::Acquire) & ON != 0
    }

    /// The thread that seals: woken, by [`Thread::unpark`], when a ring has filled by a quarter.
    pub fn wake_when_full(&self, flusher: Thread) {
        // One log has one flusher.
        let _ = self.flusher.set(flusher);
    }

    /// Whether the next append wakes the flusher, too. It has to seal once more after it has said so: what was appended
    /// before does not wake it.
    pub fn wake_on_append(&self, wakes: bool) {
        if wakes {
            self.state.fetch_or(DOZING, Ordering::SeqCst);
        } else {
            self.state.fetch_and(!DOZING, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        self.is_woken.store(false, Ordering::Release);
    }

    /// Whether the ring of the calling thread is more than half full: time to wait where nobody is waiting for it.
    #[inline(always)]
    pub fn is_crowded(&self) -> bool {
        self.is_any_crowded.load(Ordering::Relaxed) && self.is_own_ring_half_full()
    }

    /// The same by the ring itself, whatever the last seal found.
    #[cold]
    pub fn is_own_ring_half_full(&self) -> bool {
        let ring = self.ring(thread_index().min(THREADS_MAX));
        ring.room(ring.published().head()) < self.ring_words / 2 && self.is_on()
    }

    #[inline(always)]
    fn counter(&self, stripe: u64) -> &AtomicU64 {
        self.sequences.get((stripe & self.stripe_mask) as usize)
    }

    #[inline(always)]
    fn draw(&self, stripe: u64) -> u64 {
        self.counter(stripe).fetch_add(1, Ordering::AcqRel)
    }

    /// Notes that `words` words from `at` on were flushed, to be appended at this thread's next fence or before. They
    /// are read then, by `load`.
    pub fn note(&self, at: Offset, words: u64, load: impl Fn(Offset) -> u64) {
        if !self.is_on() {
            return;
        }
        let thread = thread_index();
        let flushed = Flushed { at, words };
        let is_piece = at.0 % STRIPE_BYTES + words * WORD <= STRIPE_BYTES;
        if thread >= THREADS_MAX || !is_piece {
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
    #[inline(always)]
    pub fn fence(&self, load: impl Fn(Offset) -> u64) {
        let thread = thread_index();
        let control = &self.controls.line(thread).0;
        if control[STAGED_WORD].load(Ordering::Relaxed) > 0 {
            self.publish_staged(thread, &load);
        }
        let noted = control[NOTES_WORD].load(Ordering::Relaxed);
        if noted > 0 {
            self.append_noted(thread, noted as usize, &load);
        }
    }

    #[inline(never)]
    fn append_noted(&self, thread: usize, noted: usize, load: &impl Fn(Offset) -> u64) {
        let notes = &self.notes.as_slice()[thread * NOTES_MAX..][..noted];
        let piece = |index: usize| cut::extent(notes[index].load(Ordering::Relaxed));
        self.append_pieces(thread, noted, false, piece, load);
        self.controls.line(thread).0[NOTES_WORD].store(0, Ordering::Relaxed);
    }

    /// Appends what `flushed` says, as `load` reads it, with acquire ordering. When this has returned, what it has
    /// read is in the cut of the epoch that is open now, or of an earlier one. Waits for [`LineLog::seal`] where the
    /// thread's ring is full.
    pub fn append(&self, flushed: &[Flushed], load: impl Fn(Offset) -> u64) {
        self.append_each(flushed, false, load);
    }

    /// As [`LineLog::append`], of what another thread may be changing that has drawn its number already.
    pub fn append_observed(&self, flushed: &[Flushed], load: impl Fn(Offset) -> u64) {
        self.append_each(flushed, true, load);
    }

    fn append_each(&self, flushed: &[Flushed], is_observed: bool, load: impl Fn(Offset) -> u64) {
        let thread = thread_index().min(THREADS_MAX);
        let _shared = (thread == THREADS_MAX).then(|| self.sharing.lock());
        for piece in pieces(flushed) {
            self.append_pieces(thread, 1, is_observed, |_| piece, &load);
        }
    }

    /// Appends `count` pieces.
    #[inline(always)]
    fn append_pieces(
        &self,
        thread: usize,
        count: usize,
        is_observed: bool,
        piece: impl Fn(usize) -> Flushed,
        load: &impl Fn(Offset) -> u64,
    ) {
        if !self.is_on() {
            return;
        }
        if self.controls.line(thread).0[STAGED_WORD].load(Ordering::Relaxed) > 0 {
            self.publish_staged(thread, load);
        }
        let ring = self.ring(thread);
        let mut done = 0;
        while done < count {
            let piece = |index| piece(done + index);
            done += self.append_some(&ring, count - done, is_observed, piece, load);
        }
        let room = ring.room(ring.published().head());
        if room < self.ring_words / 2 {
            self.is_any_crowded.store(true, Ordering::Relaxed);
        }
        let is_dozing = self.state.load(Ordering::Relaxed) & DOZING != 0;
        if room < self.ring_words / 4 * 3 || is_dozing {
            self.wake();
        }
        if thread < THREADS_MAX {
            self.allow_staging(thread, &ring);
        }
        // What this thread stores next depends on what it has appended. A thread that sees the store must see the
        // epoch, too.
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

    /// Appends as many pieces as fit into a quarter of a ring, and one at least; returns how many. All of them, if
    /// nothing is appended any more.
    #[inline(always)]
    fn append_some(
        &self,
        ring: &Ring<'_>,
        count: usize,
        is_observed: bool,
        piece: impl Fn(usize) -> Flushed,
        load: &impl Fn(Offset) -> u64,
    ) -> usize {
        'again: loop {
            let before = ring.published();
            ring.announce(before);
            light_barrier();
            let epoch = self.epoch.load(Ordering::Acquire);
            let head = before.head();
            let (mut end, mut done, mut room) = (head, 0, ring.room(head));
            while done < count {
                let piece = piece(done);
                let next = end.after(PIECE_HEADER_WORDS + piece.words as usize);
                let words = head.words_to(next);
                if words > self.ring_words / 4 && done > 0 {
                    break;
                }
                if room < words {
                    room = ring.room(head);
                }
                if room < words {
                    // Whoever makes room waits for what was announced.
                    ring.withdraw(before);
                    if self.wait_for_room(ring, words) {
                        continue 'again;
                    }
                    return count;
                }
                let number = self.draw(piece.at.0 / STRIPE_BYTES);
                if is_observed {
                    heavy_barrier();
                }
                ring.begin_piece(end, number, cut::marked(cut::place(piece), epoch));
                ring.copy(end.after(PIECE_HEADER_WORDS), piece, load);
                end = next;
                done += 1;
            }
            if self.epoch.load(Ordering::Acquire) == epoch {
                ring.publish(epoch, end);
                return done;
            }
            ring.withdraw(before);
            if !self.is_on() {
                return count;
            }
        }
    }

    /// Waits until a ring has room for this many words. `false`: nothing is appended any more.
    #[cold]
    fn wait_for_room(&self, ring: &Ring<'_>, words: usize) -> bool {
        let mut turn = 0;
        while ring.room(ring.published().head()) < words {
            if !self.is_on() {
                return false;
            }
            self.wake();
            spin(&mut turn);
        }
        true
    }

    #[inline(always)]
    fn ring(&self, thread: usize) -> Ring<'_> {
        self.ring_of(thread, self.controls.line(thread))
    }

    #[inline(always)]
    fn ring_of<'a>(&'a self, thread: usize, control: &'a Line) -> Ring<'a> {
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
        self.is_any_crowded.store(false, Ordering::Relaxed);
        let epoch = self.epoch.load(Ordering::Relaxed);
        self.epoch.store(epoch + 1, Ordering::Release);
        heavy_barrier();
        // A thread that has no number yet will find that epoch closed.
        let numbers = 0..thread_indices_end().min(THREADS_MAX);
        for thread in numbers.chain([THREADS_MAX]) {
            self.ring(thread).take(epoch, taken);
        }
        epoch
    }
}

/// What was flushed, in pieces that lie in one stripe each.
fn pieces(flushed: &[Flushed]) -> impl Iterator<Item = Flushed> {
    flushed.iter().filter(|flushed| flushed.words > 0).flat_map(|&Flushed { at, words }| {
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
