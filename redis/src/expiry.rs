//! Keys that end: how they are found and removed.
//!
//! No command returns a value that is over. Removing it is a matter of space, so it is done in small steps by the
//! server's timer, on masters only: a removal is an effect, and replicas get it from their master.
//!
//! There is no index of ends, which a restart would have to build, and which would take memory for each key. A thread
//! walks through the pool when some key has ended, at most a tenth of the time, and queues what it finds.

use crate::api::now_ms;
use crate::names;
use crate::value::Value;
use firndex::Store;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Keys that wait for their removal. A walk that finds more ends, and another one begins when these are gone.
const QUEUED_MAX: usize = 65_536;
/// Keys that one step removes. At some microseconds each, other commands wait less than a millisecond.
const STEP_KEYS: usize = 100;
/// Between two walks at least this, and this many times what the last one took.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_TIMES: u32 = 9;
/// How often the thread looks whether a walk is due.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What commands, timer and thread know of ends.
pub(crate) struct Expiry {
    /// Keys that were over when they were seen.
    over: Mutex<VecDeque<Vec<u8>>>,
    /// No key ends before.
    earliest_ms: AtomicU64,
    is_master: AtomicBool,
    pub(crate) removed: AtomicU64,
}

impl Expiry {
    /// Of a pool that is empty, it is known that no key ends.
    pub(crate) fn new(is_empty: bool) -> Expiry {
        Expiry {
            over: Mutex::default(),
            earliest_ms: AtomicU64::new(if is_empty { u64::MAX } else { 0 }),
            is_master: AtomicBool::new(false),
            removed: AtomicU64::new(0),
        }
    }

    fn over(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is known of the pool's ends any more.
    pub(crate) fn reset(&self) {
        self.over().clear();
        self.earliest_ms.store(0, Ordering::Relaxed);
    }

    pub(crate) fn set_master(&self, is_master: bool) {
        self.is_master.store(is_master, Ordering::Relaxed);
    }

    /// A key gets this end.
    pub(crate) fn will_end(&self, ends_ms: u64) {
        // Usually it is later: then nothing is written.
        if ends_ms < self.earliest_ms.load(Ordering::Relaxed) {
            self.earliest_ms.fetch_min(ends_ms, Ordering::Relaxed);
        }
    }

    /// A command has met this key, which is over.
    pub(crate) fn meet(&self, key: &[u8]) {
        if self.is_master.load(Ordering::Relaxed) {
            let mut over = self.over();
            if over.len() < QUEUED_MAX {
                over.push_back(key.into());
            }
        }
    }

    pub(crate) fn queued(&self) -> usize {
        self.over().len()
    }

    /// The keys of one step.
    pub(crate) fn take(&self) -> Vec<Vec<u8>> {
        let mut over = self.over();
        let count = over.len().min(STEP_KEYS);
        over.drain(..count).collect()
    }
}

/// The thread that walks through the pool. It ends when this is dropped.
pub(crate) struct Sweeper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    /// `None` if there can be no thread.
    pub(crate) fn start(store: Arc<Store>, expiry: Arc<Expiry>) -> Option<Sweeper> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("firn-ends".into())
            .spawn(move || sweep(&store, &expiry, &stopped))
            .ok()?;
        Some(Sweeper { stop, thread: Some(thread) })
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().ok();
        }
    }
}

fn sweep(store: &Store, expiry: &Expiry, stop: &AtomicBool) {
    let mut pause = PAUSE_MIN;
    let mut ended = Instant::now();
    let mut is_whole = true;
    while !stop.load(Ordering::Relaxed) {
        let may_begin = if is_whole { ended.elapsed() >= pause } else { expiry.queued() == 0 };
        let is_due = expiry.is_master.load(Ordering::Relaxed)
            && may_begin
            && expiry.earliest_ms.load(Ordering::Relaxed) <= now_ms();
        if !is_due {
            std::thread::park_timeout(LOOK_EVERY);
            continue;
        }
        let began = Instant::now();
        // Ends that commands set from here on are counted there.
        expiry.earliest_ms.store(u64::MAX, Ordering::Relaxed);
        let earliest_ms = walk(store, expiry, stop);
        expiry.will_end(earliest_ms.unwrap_or(0));
        is_whole = earliest_ms.is_some();
        ended = Instant::now();
        pause = PAUSE_MIN.max((ended - began) * PAUSE_TIMES);
    }
}

/// Queues the keys that are over; the earliest end of the others. `None` if it did not come to the end.
fn walk(store: &Store, expiry: &Expiry, stop: &AtomicBool) -> Option<u64> {
    let now_ms = now_ms();
    let mut earliest_ms = u64::MAX;
    let walked = store.try_for_each(|stored, value| {
        if stop.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        let (Some(key), Some(Value { ends_ms: Some(ends_ms), .. })) =
            (names::shown(stored), Value::read(value))
        else {
            return ControlFlow::Continue(());
        };
        if ends_ms > now_ms {
            earliest_ms = earliest_ms.min(ends_ms);
            return ControlFlow::Continue(());
        }
        let mut over = expiry.over();
        if over.len() >= QUEUED_MAX {
            // Not waited for here: others may wait for this thread to let go of the pool.
            return ControlFlow::Break(());
        }
        over.push_back(key.into());
        ControlFlow::Continue(())
    });
    matches!(walked, Ok(ControlFlow::Continue(()))).then_some(earliest_ms)
}
