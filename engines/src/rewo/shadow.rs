//! Shadowing synchronization (section 3.5): threads that update the cached table while writers store their items in the
//! pool.
//!
//! Before a writer stores an item, it puts an order on a desk. After the store, and before anybody can see the item, it
//! takes the order back. If a thread has carried it out, the key's entry is busy. If no thread has begun, the writer
//! marks the entry itself; it waits only for a thread that is working on it. When the item is durable, the writer
//! publishes it in the cached table, as it does without such threads.

use super::Core;
use super::cache::Busy;
use crate::doubling::Hash;
use crate::workers::Workers;
use index::Fixed;
use pmem::sync::{Array, AtomicBool, AtomicU64, Ordering, spin, thread_index};
use pmem::{Medium, OpenError};
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

/// Desks. Writers with the same one, of which one does without, are rare: few write at the same instant.
const DESKS: usize = 32;
/// Words of a desk: its lines are its own, and those of lines that are fetched together.
const DESK_WORDS: usize = 32;

// Words of a desk.
const STATE: usize = 0;
const HASH: usize = 1;
const BUSY: usize = 2;
const KEY: usize = 3;

// States of a desk.
const FREE: u64 = 0;
const CLAIMED: u64 = 1;
/// The order may be carried out.
const ORDERED: u64 = 2;
const TAKEN: u64 = 3;
const DONE: u64 = 4;

/// Rounds over all desks that find nothing before a thread goes to sleep: some 20 us.
const IDLE_ROUNDS_MAX: u32 = 1000;
/// A writer that finds all threads asleep wakes one after this many orders: waking takes longer than an order.
const ORDERS_PER_WAKE: u64 = 64;

/// Where orders are laid.
pub(super) struct Desks {
    /// Empty where there are no threads.
    words: Option<Array<AtomicU64>>,
    threads: OnceLock<Vec<Thread>>,
    awake: AtomicU64,
    unheard: AtomicU64,
    is_stopped: AtomicBool,
}

/// An order on a desk.
#[must_use]
pub(super) struct Order<'a, K> {
    state: &'a AtomicU64,
    /// Where the thread that carries it out says which entry is busy.
    busy: &'a AtomicU64,
    key: K,
    hash: Hash,
}

impl Desks {
    /// Desks for orders to `threads` threads.
    pub(super) fn new(threads: usize) -> io::Result<Desks> {
        let words = DESKS * DESK_WORDS;
        Ok(Desks {
            words: if threads == 0 { None } else { Some(Array::reserve(words, words)?) },
            threads: OnceLock::new(),
            awake: AtomicU64::new(0),
            unheard: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
        })
    }

    /// Lays an order for a key that appears, if a thread is awake and the caller's desk is free.
    #[inline(always)]
    pub(super) fn order<K: Fixed>(&self, key: K, hash: Hash) -> Option<Order<'_, K>> {
        self.words.as_ref().and_then(|words| self.order_among(words, key, hash))
    }

    fn order_among<'a, K: Fixed>(
        &'a self,
        words: &'a Array<AtomicU64>,
        key: K,
        hash: Hash,
    ) -> Option<Order<'a, K>> {
        if self.awake.load(Ordering::Relaxed) == 0 {
            self.wake_now_and_then();
            return None;
        }
        let desk = thread_index() % DESKS * DESK_WORDS;
        let state = words.get(desk + STATE);
        state.compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Relaxed).ok()?;
        words.get(desk + HASH).store(hash.0, Ordering::Relaxed);
        for word in 0..K::layout_bytes().div_ceil(8) {
            words.get(desk + KEY + word).store(key.word(word), Ordering::Relaxed);
        }
        state.store(ORDERED, Ordering::Release);
        Some(Order { state, busy: words.get(desk + BUSY), key, hash })
    }

    #[cold]
    fn wake_now_and_then(&self) {
        if self.unheard.fetch_add(1, Ordering::Relaxed).is_multiple_of(ORDERS_PER_WAKE) {
            self.threads.get().into_iter().flatten().for_each(Thread::unpark);
        }
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Starts the threads that the settings ask for, if there is a cached table that they can serve.
    pub(super) fn start_synchronizers(core: &Arc<Self>) -> Result<Workers, OpenError> {
        let asked = core.tables.settings.synchronizers;
        let count =
            if core.cache.is_some() && !core.tables.pool.is_read_only() { asked } else { 0 };
        let workers = Workers::start(count, "firndex-sync", &core.desks.is_stopped, |_| {
            let core = Arc::clone(core);
            move || core.synchronize()
        })?;
        core.desks.threads.get_or_init(|| workers.threads());
        Ok(workers)
    }

    /// Ends them.
    pub(super) fn stop_synchronizers(&self, workers: Workers) {
        workers.stop(&self.desks.is_stopped, self.tables.pool.is_inherited());
    }

    /// Carries out orders until the table is closed; asleep while there are none.
    fn synchronize(&self) {
        let desks = &self.desks;
        let Some(words) = &desks.words else { return };
        let mut idle_rounds = IDLE_ROUNDS_MAX;
        while !desks.is_stopped.load(Ordering::Relaxed) {
            if idle_rounds >= IDLE_ROUNDS_MAX {
                std::thread::park();
                desks.awake.fetch_add(1, Ordering::Relaxed);
                idle_rounds = 0;
            }
            let carried_out = (0..DESKS).filter(|desk| self.carry_out(words, *desk)).count();
            idle_rounds = if carried_out == 0 { idle_rounds + 1 } else { 0 };
            if idle_rounds == IDLE_ROUNDS_MAX {
                // An order that nobody carries out any more, its writer takes back.
                desks.awake.fetch_sub(1, Ordering::Relaxed);
            }
            pmem::sync::pause();
        }
    }

    /// Carries out the order on a desk, if there is one.
    fn carry_out(&self, words: &Array<AtomicU64>, desk: usize) -> bool {
        let first = desk * DESK_WORDS;
        let state = words.get(first + STATE);
        if state.load(Ordering::Relaxed) != ORDERED
            || state.compare_exchange(ORDERED, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return false;
        }
        let hash = Hash(words.get(first + HASH).load(Ordering::Relaxed));
        let key = K::of_words(|word| words.get(first + KEY + word).load(Ordering::Relaxed));
        let busy = self.cache.as_ref().and_then(|cache| cache.mark_busy(key, hash, true));
        words.get(first + BUSY).store(busy.map_or(0, Busy::word), Ordering::Relaxed);
        state.store(DONE, Ordering::Release);
        true
    }

    /// Called before the key can be seen in the pool: after this, its entry is busy, if it has one.
    pub(super) fn take_back(&self, order: Order<'_, K>) -> Option<Busy> {
        let Order { state, busy, key, hash } = order;
        let taken_back =
            state.compare_exchange(ORDERED, CLAIMED, Ordering::Acquire, Ordering::Acquire);
        let busy = if taken_back.is_ok() {
            self.cache.as_ref().and_then(|cache| cache.mark_busy(key, hash, true))
        } else {
            let mut turn = 0;
            while state.load(Ordering::Acquire) != DONE {
                spin(&mut turn);
            }
            Busy::of_word(busy.load(Ordering::Relaxed))
        };
        state.store(FREE, Ordering::Release);
        busy
    }
}
