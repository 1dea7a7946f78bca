//! The simulated medium: memory that knows which of its stores a power failure may take back.
//!
//! Each line has a log of the stores that are not certain to survive, in coherence order. A fence makes certain what
//! its thread flushed before: in those lines, the stores that the thread saw at the flush, its own and those of others
//! that were visible to it. A store in another thread's store buffer is not in the line yet, so it cannot be written
//! back, and it comes after the stores in the line. A crash leaves, line by line, the certain words and any of the
//! pending stores, with two exceptions:
//!
//! * a release store (or a read-modify-write) survives only with every earlier store to its line, except bulk copies,
//!   which only a flush and a fence order;
//! * of two stores to one word the earlier one survives if the later one does.
//!
//! So 16-byte stores tear, bulk copies arrive as any subset of their words, and a plain store may overtake an earlier
//! release store. Read-modify-writes complete no flush. Memory added behind the pool ([`Medium::grow`]) certainly stays
//! only once a word in it is certain.
//!
//! A medium may have a line log ([`Sim::logged`]). Its flushes and fences then append to the log before they make
//! anything certain, so the log always has what is certain. It takes only the requested part of a line, so
//! [`Medium::flush_range`] covers only the words of its range.

mod access;

use super::Medium;
use crate::line_log::LineLog;
use crate::offset::{LINE, Offset, WORD};
use crate::sync::simulated::fault::{Fault, SiteKind, fault_at};
use crate::sync::simulated::{Touch, access, context, is_anything_unseen, is_unseen, seen};
use std::cell::Cell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const LINE_WORDS: usize = (LINE / WORD) as usize;

/// Called before stores become certain, by a fence mostly: fewer crash images are possible afterwards.
pub type OnFence = fn(&Sim);

thread_local! {
    static ON_FENCE: Cell<Option<OnFence>> = const { Cell::new(None) };
}

/// What is called before the fences of everything that runs on this thread of the operating system.
pub fn on_fence() -> Option<OnFence> {
    ON_FENCE.get()
}

/// Puts another one in place; returns the former one.
pub fn set_on_fence(on_fence: Option<OnFence>) -> Option<OnFence> {
    ON_FENCE.replace(on_fence)
}

/// How a pending store is ordered within its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Not at all.
    Plain,
    /// After every earlier store that is no bulk copy.
    Release,
    /// Not at all, and no release store is ordered after it.
    Copy,
}

/// A store that a crash may take back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pending {
    /// Word of the line, 0 to 7.
    pub word: u8,
    /// What it holds after the store.
    pub value: u64,
    /// See [`Order`].
    pub order: Order,
}

/// A line with pending stores.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PendingLine {
    /// Number of the line.
    pub line: u32,
    /// Its pending stores, oldest first.
    pub stores: Vec<Pending>,
}

/// What is certain to survive, and what is not.
#[derive(Debug, Clone)]
pub struct Durable {
    /// The certain content, word by word, up to the pool's size.
    pub words: Vec<u64>,
    /// Bytes of the pool that are certain to exist; the words after them are zero.
    pub size_certain: u64,
    /// Lines with pending stores.
    pub pending: Vec<PendingLine>,
    /// The sum of [`word_hash`] over `words`.
    pub sum: u64,
}

impl Durable {
    /// A hash of everything.
    pub fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.sum, self.words.len(), self.size_certain).hash(&mut hasher);
        self.pending.hash(&mut hasher);
        hasher.finish()
    }
}

/// A hash of the word at an index, of which images are hashed by summing up. Zero words count
/// nothing, so that fresh memory does not have to be looked at.
#[inline]
pub fn word_hash(index: usize, word: u64) -> u64 {
    if word == 0 {
        return 0;
    }
    let spread = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (word ^ spread).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 32 ^ spread).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// A store that is not certain to survive.
#[derive(Debug, Clone, Copy)]
struct Logged {
    /// Its number among all stores.
    id: u64,
    /// Who made it; nobody if a killed process did.
    thread: Option<usize>,
    store: Pending,
}

#[derive(Debug)]
struct Flushed {
    thread: usize,
    line: usize,
    /// The stores that the flush covers.
    ids: Vec<u64>,
}

#[derive(Debug, Default)]
struct Log {
    lines: Vec<Vec<Logged>>,
    /// Stores made so far.
    stores: u64,
    /// By line: the number of its latest store.
    latest: Vec<u64>,
    certain: Vec<u64>,
    certain_sum: u64,
    size_certain: u64,
    flushed: Vec<Flushed>,
    /// A store whose turn comes after the next one to its line.
    late: Option<(Offset, u64)>,
    /// A fence whose turn comes later: its thread, and further accesses until then.
    late_fence: Option<(usize, u32)>,
}

/// What the processes share that have a medium.
#[derive(Debug)]
struct Memory {
    words: Box<[AtomicU64]>,
    size: AtomicU64,
    log: Mutex<Log>,
}

/// A simulated medium. All its threads run on one thread of the operating system.
#[derive(Debug)]
pub struct Sim {
    memory: Arc<Memory>,
    /// Whether nothing but a sync makes stores certain.
    is_mapped: bool,
    /// Whether every store is certain at once.
    keeps_all: bool,
    /// Where flushes and fences append.
    line_log: Option<Arc<LineLog>>,
    /// What [`Medium::bytes`] handed out where a thread must not see what memory holds.
    copies: Mutex<Vec<Box<[u64]>>>,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sim {
    /// A medium that holds `words`, all of them certain, and may grow to `limit` bytes.
    pub fn new(words: &[u64], limit: u64) -> Sim {
        let count = (limit / WORD) as usize;
        let size = (words.len() as u64 * WORD).min(limit);
        let mut certain = vec![0; count];
        certain[..(size / WORD) as usize].copy_from_slice(&words[..(size / WORD) as usize]);
        let lines: Vec<_> = (0..count.div_ceil(LINE_WORDS)).map(|_| Vec::new()).collect();
        let latest = vec![0; lines.len()];
        let certain_sum = certain
            .iter()
            .enumerate()
            .fold(0u64, |sum, (index, &word)| sum.wrapping_add(word_hash(index, word)));
        let memory = Memory {
            words: certain.iter().map(|&word| AtomicU64::new(word)).collect(),
            size: AtomicU64::new(size),
            log: Mutex::new(Log {
                lines,
                latest,
                certain,
                certain_sum,
                size_certain: size,
                ..Log::default()
            }),
        };
        Sim {
            memory: Arc::new(memory),
            is_mapped: false,
            keeps_all: false,
            line_log: None,
            copies: Mutex::default(),
        }
    }

    /// As [`Sim::new`], but a medium like a file in memory: flushes and fences complete nothing, and a sync completes
    /// every store to its range, by any thread.
    pub fn mapped(words: &[u64], limit: u64) -> Sim {
        Sim { is_mapped: true, ..Sim::new(words, limit) }
    }

    /// As [`Sim::new`], but a medium that keeps every store, in order: what a killed process leaves, or a power failure
    /// where the caches are written back. Flushes and fences do nothing.
    pub fn keeping(words: &[u64], limit: u64) -> Sim {
        Sim { keeps_all: true, ..Sim::new(words, limit) }
    }

    /// The same medium, whose flushes and fences append to `log` as well.
    pub fn logged(self, log: Arc<LineLog>) -> Sim {
        Sim { line_log: Some(log), ..self }
    }

    /// For each line, a number that is another one after every store to it.
    pub fn latest_stores(&self) -> Vec<u64> {
        held(&self.memory.log).latest.clone()
    }

    /// What its flushes and fences append to.
    pub fn line_log(&self) -> Option<&Arc<LineLog>> {
        self.line_log.as_ref()
    }

    /// The medium as a process leaves it to the next one that is killed when this is what a crash
    /// may leave: everything that was stored is there, and what was pending still is. `sim` holds
    /// what is certain.
    pub fn killed(sim: Sim, durable: &Durable) -> Sim {
        {
            let mut log = held(&sim.memory.log);
            log.size_certain = durable.size_certain;
            for line in &durable.pending {
                for store in &line.stores {
                    let index = line.line as usize * LINE_WORDS + usize::from(store.word);
                    sim.memory.words[index].store(store.value, Relaxed);
                }
                // All of them are visible, so one number does for them.
                let left = |&store: &Pending| Logged { id: 0, thread: None, store };
                log.lines[line.line as usize] = line.stores.iter().map(left).collect();
            }
        }
        sim
    }

    /// The same memory, for another process.
    pub fn shared(&self) -> Sim {
        let (memory, line_log) = (Arc::clone(&self.memory), self.line_log.clone());
        Sim { memory, line_log, copies: Mutex::default(), ..*self }
    }

    /// What a crash now certainly leaves, and what it may leave.
    pub fn durable(&self) -> Durable {
        let log = held(&self.memory.log);
        let count = (self.memory.size.load(Relaxed) / WORD) as usize;
        let pending = log.lines.iter().zip(0..).filter(|(line, _)| !line.is_empty());
        let in_order = |(log, line): (&Vec<Logged>, u32)| {
            let (visible, hidden) = self.parted(line as usize, log, context().thread);
            PendingLine { line, stores: visible.chain(hidden).map(|logged| logged.store).collect() }
        };
        let pending = pending.map(in_order).collect();
        Durable {
            words: log.certain[..count].to_vec(),
            size_certain: log.size_certain,
            pending,
            sum: log.certain_sum,
        }
    }

    /// Whether a store at or beyond `from` is pending.
    pub fn is_pending_from(&self, from: Offset) -> bool {
        let log = held(&self.memory.log);
        log.lines.iter().skip(from.line() as usize).any(|line| !line.is_empty())
    }

    fn word(&self, at: Offset) -> &AtomicU64 {
        assert!(at.0.is_multiple_of(WORD), "{at} is misaligned");
        &self.memory.words[(at.0 / WORD) as usize]
    }

    fn address(&self, at: Offset) -> usize {
        std::ptr::from_ref(self.word(at)).addr()
    }

    fn see(&self, at: Offset) -> u64 {
        let stored = self.word(at).load(Relaxed);
        seen(self.address(at), stored)
    }

    /// The stores of a line that `thread` sees, then those in the store buffers of others: these reach
    /// the line later, so they come after all that are in it.
    fn parted<'a>(
        &self,
        line: usize,
        log: &'a [Logged],
        thread: usize,
    ) -> (impl Iterator<Item = &'a Logged>, impl Iterator<Item = &'a Logged>) {
        let word_at = |word| self.memory.words.get(line * LINE_WORDS + word);
        let addresses: [usize; LINE_WORDS] = std::array::from_fn(|word| {
            word_at(word).map_or(0, |word| std::ptr::from_ref(word).addr())
        });
        let is_any = is_anything_unseen();
        let is_hidden = move |logged: &&Logged| {
            let address = addresses[usize::from(logged.store.word)];
            let others = logged.thread.filter(|&owner| is_any && owner != thread);
            others.is_some_and(|owner| is_unseen(address, owner))
        };
        (log.iter().filter(move |logged| !is_hidden(logged)), log.iter().filter(is_hidden))
    }

    fn append(&self, log: &mut Log, at: Offset, value: u64, order: Order) {
        assert!(at.0 < self.memory.size.load(Relaxed), "store to {at}, beyond the pool's size");
        let word = (at.0 % LINE / WORD) as u8;
        log.stores += 1;
        let (id, thread) = (log.stores, Some(context().thread));
        let logged = Logged { id, thread, store: Pending { word, value, order } };
        log.lines[at.line() as usize].push(logged);
        log.latest[at.line() as usize] = id;
        if let Some((late_at, late_value)) = log.late
            && late_at.line() == at.line()
        {
            log.late = None;
            self.append(log, late_at, late_value, Order::Plain);
        }
        if self.keeps_all {
            self.make_certain(
                log,
                vec![Flushed { thread: context().thread, line: at.line() as usize, ids: vec![id] }],
            );
        }
    }

    fn record(&self, at: Offset, value: u64, order: Order, fault: Option<Fault>) {
        if self.keeps_all {
            self.before_certainty();
        }
        let mut log = held(&self.memory.log);
        match fault {
            Some(Fault::Late) => log.late = Some((at, value)),
            _ => self.append(&mut log, at, value, order),
        }
    }

    fn complete(&self, thread: usize) {
        let mut log = held(&self.memory.log);
        let log = &mut *log;
        let flushed = std::mem::take(&mut log.flushed);
        let (mine, others) = flushed.into_iter().partition(|flush| flush.thread == thread);
        log.flushed = others;
        self.make_certain(log, mine);
    }

    fn make_certain(&self, log: &mut Log, flushed: Vec<Flushed>) {
        for flush in flushed {
            let start = flush.line * LINE_WORDS;
            let mut left = Vec::new();
            for logged in std::mem::take(&mut log.lines[flush.line]) {
                if !flush.ids.contains(&logged.id) {
                    left.push(logged);
                    continue;
                }
                let Pending { word, value, .. } = logged.store;
                let index = start + usize::from(word);
                let before = std::mem::replace(&mut log.certain[index], value);
                log.certain_sum = log
                    .certain_sum
                    .wrapping_sub(word_hash(index, before))
                    .wrapping_add(word_hash(index, value));
                if flush.line as u64 * LINE >= log.size_certain {
                    log.size_certain = self.memory.size.load(Relaxed);
                }
            }
            log.lines[flush.line] = left;
        }
    }

    /// Starts writing back the lines of these words: all of each line, or only these words if there is a log. Whether
    /// it does: not where that is left out to see whether somebody notices.
    #[track_caller]
    fn flush_words(&self, words: Range<u64>) -> bool {
        let lines = words.start / LINE_WORDS as u64..words.end.div_ceil(LINE_WORDS as u64);
        for line in lines {
            self.step(self.address(Offset(line * LINE)), Touch::Flushes);
            if fault_at(SiteKind::Flush, Location::caller()).is_some() {
                return false;
            }
            let mut log = held(&self.memory.log);
            let (thread, line) = (context().thread, line as usize);
            let is_flushed = |logged: &&Logged| {
                let word = line * LINE_WORDS + usize::from(logged.store.word);
                self.line_log.is_none() || words.contains(&(word as u64))
            };
            let (visible, _) = self.parted(line, &log.lines[line], thread);
            let ids: Vec<u64> = visible.filter(is_flushed).map(|logged| logged.id).collect();
            if !ids.is_empty() && !self.is_mapped && !self.keeps_all {
                log.flushed.push(Flushed { thread, line, ids });
            }
        }
        true
    }

    #[track_caller]
    fn flush_and_note(&self, words: Range<u64>) {
        if self.flush_words(words.clone())
            && let Some(log) = &self.line_log
        {
            let (at, count) = (Offset(words.start * WORD), words.end - words.start);
            log.note(at, count, |at| self.load(at));
        }
    }

    /// A fence, at which the log gets what `append` appends.
    #[track_caller]
    fn fence_with(&self, append: impl Fn(&LineLog)) {
        self.step(0, Touch::Fences);
        let thread = context().thread;
        match fault_at(SiteKind::Fence, Location::caller()) {
            Some(Fault::LateFence(accesses)) => {
                held(&self.memory.log).late_fence = Some((thread, accesses));
            }
            Some(_) => {}
            None => {
                if let Some(log) = &self.line_log {
                    append(log);
                }
                self.fence_now(thread);
            }
        }
    }

    /// Whether a fence of this thread would make anything certain.
    fn is_effective(&self, thread: usize) -> bool {
        let log = held(&self.memory.log);
        log.flushed
            .iter()
            .filter(|flush| flush.thread == thread)
            .any(|flush| log.lines[flush.line].iter().any(|logged| flush.ids.contains(&logged.id)))
    }

    /// Before the running thread makes stores certain.
    fn before_certainty(&self) {
        // Unwinding drops guards, which may fence: what they leave is not judged any more.
        if let Some(on_fence) = ON_FENCE.get().filter(|_| !std::thread::panicking()) {
            on_fence(self);
        }
    }

    fn fence_now(&self, thread: usize) {
        if self.is_effective(thread) {
            self.before_certainty();
        }
        self.complete(thread);
    }

    fn step(&self, at: usize, touch: Touch) {
        access(at, touch);
        let due = {
            let mut log = held(&self.memory.log);
            match &mut log.late_fence {
                Some((thread, 0)) => {
                    let thread = *thread;
                    log.late_fence = None;
                    Some(thread)
                }
                Some((thread, left)) if *thread == context().thread => {
                    *left -= 1;
                    None
                }
                _ => None,
            }
        };
        if let Some(thread) = due {
            self.fence_now(thread);
        }
    }
}
