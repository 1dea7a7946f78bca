//! Helper threads: they do a resize's work in the background, and have space at hand for the next
//! one.

use pmem::sync::{AtomicBool, Ordering};
use std::io;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// How long a helper sleeps between its turns, the system's slack aside. Where there are no more
/// processors than threads that write, one of them waits while a helper runs: for as long as it works
/// without a pause, and not for a whole slice of the scheduler's, some milliseconds.
const PAUSE: Duration = Duration::from_micros(1);
/// After how long a helper tries again what was refused, for want of space say, if nobody wakes it.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// What is done in the background.
pub(crate) trait Background: Send + Sync + 'static {
    /// Turns that a helper takes between two pauses.
    const TURNS_AT_ONCE: u32;

    /// Where helpers listen.
    fn signal(&self) -> &Signal;

    /// Whether there is anything to be done. Looked at without the right to write: a pool that was
    /// synced stays clean if there is not.
    fn is_resizing(&self) -> bool;

    /// Does some of it, with the right to write: a sync waits for so much at most. Refused, there is
    /// no point in trying again at once.
    fn take_turn(&self) -> Result<(), Refused>;

    /// Has memory at hand for what will be needed. Writes nothing.
    fn prepare(&self);

    /// Takes of that what is needed before anybody waits for it, with the right to write if there is
    /// anything to be taken.
    fn take_space(&self) -> Result<(), Refused> {
        Ok(())
    }
}

/// There was no right to write, or no room.
#[derive(Debug)]
pub(crate) struct Refused;

/// How helpers are told what to do: without a lock, since operations tell it, and none may wait for
/// a thread that is put aside while it does so.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    is_to_prepare: AtomicBool,
    is_stopped: AtomicBool,
    helpers: OnceLock<Vec<Thread>>,
    /// Held by each helper for its turn, for writing by who keeps them from it.
    turns: RwLock<()>,
}

impl Signal {
    /// Whether somebody works in the background.
    #[inline(always)]
    pub(crate) fn has_helper(&self) -> bool {
        self.helpers.get().is_some()
    }

    /// Says that a resize has begun.
    pub(crate) fn wake(&self) {
        self.helpers.get().into_iter().flatten().for_each(Thread::unpark);
    }

    /// Asks for space to be at hand.
    pub(crate) fn ask_to_prepare(&self) {
        if let Some(helper) = self.helpers.get().and_then(|helpers| helpers.first())
            && !self.is_to_prepare.swap(true, Ordering::Release)
        {
            helper.unpark();
        }
    }

    /// Waits for the turns that helpers are in the midst of, and keeps them from others while it is held:
    /// for who wants to look at a table at rest. Not for a holder of the right to write, which
    /// a helper may be waiting for in its turn.
    pub(crate) fn hold(&self) -> RwLockWriteGuard<'_, ()> {
        self.turns.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turns that helpers are in the midst of, and takes back what writers have asked for: after
    /// this, helpers write nothing until others do. Not for a holder of the right to write.
    pub(crate) fn rest(&self) {
        if self.has_helper() {
            let _held = self.hold();
            self.is_to_prepare.store(false, Ordering::Relaxed);
        }
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Has space at hand, if that is asked for.
    fn prepare<B: Background>(&self, table: &B) -> Result<(), Refused> {
        if !self.is_to_prepare.load(Ordering::Acquire) {
            return Ok(());
        }
        table.prepare();
        let _turn = self.turn();
        // Not so if somebody made the table rest meanwhile.
        if !self.is_to_prepare.swap(false, Ordering::Acquire) {
            return Ok(());
        }
        let taken = table.take_space();
        if taken.is_err() {
            // Asked for again by every insertion into a full pool, it is tried now and then.
            self.is_to_prepare.store(true, Ordering::Release);
        }
        taken
    }

    fn turn(&self) -> RwLockReadGuard<'_, ()> {
        self.turns.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a turn, if there is anything to be done.
    fn take_turn<B: Background>(&self, table: &B) -> Result<bool, Refused> {
        let _turn = self.turn();
        match table.is_resizing() {
            true => table.take_turn().map(|()| true),
            false => Ok(false),
        }
    }
}

/// Works until the table is closed.
fn help<B: Background>(table: &B, is_first: bool) {
    let signal = table.signal();
    let mut turns = 0u32;
    let mut refused_at: Option<Instant> = None;
    while !signal.is_stopped() {
        // A pool that has no space for what is to come may be resizing all the same.
        if is_first && refused_at.is_none_or(|at| at.elapsed() >= RETRY_AFTER) {
            refused_at = signal.prepare(table).is_err().then(Instant::now);
        }
        match signal.take_turn(table) {
            Ok(true) => {
                turns = turns.wrapping_add(1);
                if turns.is_multiple_of(B::TURNS_AT_ONCE) {
                    std::thread::sleep(PAUSE);
                }
            }
            // Woken meanwhile, it goes on at once.
            Ok(false) if refused_at.is_none() => std::thread::park(),
            _ => std::thread::park_timeout(RETRY_AFTER),
        }
    }
}

/// The running threads.
#[derive(Debug)]
pub(crate) struct Helpers(Vec<JoinHandle<()>>);

impl Helpers {
    /// Starts `count` threads.
    pub(crate) fn start<B: Background>(table: &Arc<B>, count: usize) -> io::Result<Helpers> {
        let mut helpers = Helpers(Vec::new());
        for index in 0..count {
            let theirs = Arc::clone(table);
            let thread = std::thread::Builder::new().name("firndex-helper".into());
            match thread.spawn(move || help(&*theirs, index == 0)) {
                Ok(thread) => helpers.0.push(thread),
                Err(error) => {
                    helpers.stop(table.signal(), false);
                    return Err(error);
                }
            }
        }
        if count > 0 {
            let threads = || helpers.0.iter().map(|helper| helper.thread().clone()).collect();
            table.signal().helpers.get_or_init(threads);
        }
        Ok(helpers)
    }

    /// Ends the threads and waits for them; in a forked child there are none to wait for.
    pub(crate) fn stop(self, signal: &Signal, is_inherited: bool) {
        if is_inherited {
            return;
        }
        signal.is_stopped.store(true, Ordering::Relaxed);
        for helper in self.0 {
            helper.thread().unpark();
            // A helper that panicked has said so; what it left undone, recovery does.
            let _ = helper.join();
        }
    }
}
