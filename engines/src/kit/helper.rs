//! Helper threads: they do a resize's work in the background, and prepare space for the next one.

use crate::Settings;
use crate::kit::workers::Workers;
use index::Chore;
use pmem::sync::{AtomicBool, Ordering, RwLock};
use std::sync::{Arc, OnceLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How long a helper sleeps between turns; the system adds some. With as many writing threads as processors, one
/// writer waits while a helper runs. The pause makes that wait one turn long. Without it, it would be a time slice of
/// the scheduler: some milliseconds.
const PAUSE: Duration = Duration::from_micros(1);
/// When a helper that nobody wakes tries again what was refused, for lack of space for example.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// What is done in the background.
pub(crate) trait Background: Send + Sync + 'static {
    /// Turns that a helper takes between two pauses; `None`: all.
    fn turns_at_once(&self) -> Option<u32>;

    /// Where helpers listen.
    fn signal(&self) -> &Signal;

    /// Whether there is work. It is asked without the right to write, so that a synced pool without work stays clean.
    fn is_resizing(&self) -> bool;

    /// Does one turn of the work, with the right to write: a sync waits for one turn at most. After a refusal, trying
    /// again at once is pointless.
    fn take_turn(&self) -> Result<(), Refused>;

    /// Prepares memory that will be needed. It writes nothing.
    fn prepare(&self);

    /// Takes the space before a writer has to wait for it. Asks for the right to write only if there is space to take.
    fn take_space(&self) -> Result<(), Refused> {
        Ok(())
    }

    /// Runs the heap's chore when there is nothing else to do; whether it is still due.
    fn tidy(&self) -> bool {
        self.signal().chore().is_some_and(|chore| {
            if chore.is_due() {
                chore.run();
            }
            chore.is_due()
        })
    }
}

/// There was no right to write, or no room.
#[derive(Debug)]
pub(crate) struct Refused;

/// How helpers are told what to do. It has no lock: operations call it, and must not wait for a thread that the
/// scheduler has suspended inside it.
#[derive(Default)]
pub(crate) struct Signal {
    is_to_prepare: AtomicBool,
    is_stopped: AtomicBool,
    /// What the table's user has left to idle helpers.
    chore: OnceLock<Weak<dyn Chore>>,
    helpers: OnceLock<Vec<Thread>>,
    /// Each helper holds it for its turn. A thread that stops helpers holds it for writing.
    turns: RwLock<()>,
}

/// Helpers are kept from their turns while this is.
#[derive(Debug)]
pub(crate) struct Held<'a>(#[expect(dead_code, reason = "held")] Option<RwLockWriteGuard<'a, ()>>);

impl Signal {
    /// Whether somebody works in the background.
    #[inline(always)]
    pub(crate) fn has_helper(&self) -> bool {
        self.helpers.get().is_some()
    }

    /// Leaves this to idle helpers; once.
    pub(crate) fn set_chore(&self, chore: Weak<dyn Chore>) {
        self.chore.get_or_init(|| chore);
    }

    /// Says that a resize has begun, or that something else is to be done. Returns whether there are helpers.
    pub(crate) fn wake(&self) -> bool {
        self.helpers.get().into_iter().flatten().for_each(Thread::unpark);
        self.has_helper()
    }

    /// Asks for space to be prepared. Returns whether there are helpers.
    pub(crate) fn ask_to_prepare(&self) -> bool {
        if let Some(helper) = self.helpers.get().and_then(|helpers| helpers.first())
            && !self.is_to_prepare.swap(true, Ordering::Release)
        {
            helper.unpark();
        }
        self.has_helper()
    }

    /// Waits until no helper is in a turn, and lets none begin while it is held, so that the caller sees a table at
    /// rest. A holder of the right to write must not call this: a helper may be waiting for that right in its turn.
    pub(crate) fn hold(&self) -> Held<'_> {
        Held(Some(self.turns.write()))
    }

    /// As `hold`, without waiting: `None` if a helper is in a turn. While it is held no helper knows anything of the
    /// table.
    pub(crate) fn try_hold(&self) -> Option<Held<'_>> {
        if self.has_helper() {
            self.turns.try_write().map(|turns| Held(Some(turns)))
        } else {
            Some(Held(None))
        }
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

    /// Prepares space, if asked to.
    fn prepare(&self, table: &dyn Background) -> Result<(), Refused> {
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

    /// The right of a helper to look at the table.
    pub(crate) fn turn(&self) -> RwLockReadGuard<'_, ()> {
        self.turns.read()
    }

    /// Takes a turn, if there is anything to be done.
    fn take_turn(&self, table: &dyn Background) -> Result<bool, Refused> {
        let _turn = self.turn();
        let is_resizing = table.is_resizing();
        if is_resizing {
            table.take_turn()?;
        }
        Ok(is_resizing)
    }

    fn chore(&self) -> Option<Arc<dyn Chore>> {
        self.chore.get().and_then(Weak::upgrade)
    }

    /// Does what is due besides; whether it is due still.
    fn tidy(&self, table: &dyn Background) -> bool {
        if let Some(chore) = self.chore() {
            chore.prepare();
        }
        let _turn = self.turn();
        table.tidy()
    }
}

/// Works until the table is closed.
fn help(table: &dyn Background, is_first: bool) {
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
                if table.turns_at_once().is_some_and(|at_once| turns.is_multiple_of(at_once)) {
                    std::thread::sleep(PAUSE);
                }
            }
            // Woken meanwhile, it goes on at once.
            Ok(false) if !(is_first && signal.tidy(table)) && refused_at.is_none() => {
                std::thread::park();
            }
            _ => std::thread::park_timeout(RETRY_AFTER),
        }
    }
}

/// A helper whose turns the caller takes, for machines without threads.
#[cfg(feature = "simulated")]
impl Signal {
    /// From now on somebody works in the background.
    pub(crate) fn expect_turns(&self) {
        self.helpers.get_or_init(|| vec![std::thread::current()]);
    }

    /// What a helper does between two looks at whether it is to stop.
    pub(crate) fn take_one_round(&self, table: &dyn Background) {
        let _ = self.prepare(table);
        if !self.take_turn(table).unwrap_or(true) {
            self.tidy(table);
        }
    }
}

/// The running threads.
#[derive(Debug)]
pub(crate) struct Helpers(Workers);

impl Helpers {
    /// Starts as many threads as the settings say and the system allows; none for a table that is not written to.
    pub(crate) fn start(
        table: Arc<dyn Background>,
        settings: &Settings,
        is_read_only: bool,
    ) -> Helpers {
        let signal = table.signal();
        let count = if is_read_only { 0 } else { settings.helpers };
        let workers = Workers::start(count, "firndex-helper", &|index| {
            let table = Arc::clone(&table);
            Box::new(move || help(&*table, index == 0))
        });
        let threads = workers.threads();
        if !threads.is_empty() {
            signal.helpers.get_or_init(|| threads);
        }
        Helpers(workers)
    }

    /// Ends the threads and waits for them; in a forked child there are none to wait for.
    pub(crate) fn stop(self, signal: &Signal, is_inherited: bool) {
        self.0.stop(&signal.is_stopped, is_inherited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmem::sync::AtomicU64;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// What a helper has to do, told by numbers.
    #[derive(Default)]
    struct Work {
        signal: Signal,
        turns_left: AtomicU64,
        /// No turn may be taken while this is so.
        is_held: AtomicBool,
        /// Called in a turn, and while memory is prepared.
        in_turn: Meeting,
        in_prepare: Meeting,
        spaces_taken: AtomicU64,
        refuses_space: AtomicBool,
    }

    /// Where a helper waits for a test, if one has asked for it.
    #[derive(Default)]
    struct Meeting(std::sync::Mutex<Option<(Sender<()>, Receiver<()>)>>);

    impl Meeting {
        /// The next helper that comes here says so, and waits for an answer.
        fn arrange(&self) -> (Receiver<()>, Sender<()>) {
            let ((here, is_here), (go_on, may_go_on)) = (channel(), channel());
            *self.0.lock().unwrap() = Some((here, may_go_on));
            (is_here, go_on)
        }

        fn attend(&self) {
            if let Some((here, may_go_on)) = self.0.lock().unwrap().take() {
                here.send(()).unwrap();
                may_go_on.recv().unwrap();
            }
        }
    }

    impl Background for Work {
        fn turns_at_once(&self) -> Option<u32> {
            Some(3)
        }

        fn signal(&self) -> &Signal {
            &self.signal
        }

        fn is_resizing(&self) -> bool {
            self.turns_left.load(Ordering::Acquire) > 0
        }

        fn take_turn(&self) -> Result<(), Refused> {
            self.in_turn.attend();
            assert!(!self.is_held.load(Ordering::SeqCst), "a turn while helpers are held");
            let less = |turns: u64| turns.checked_sub(1);
            let _ = self.turns_left.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
            Ok(())
        }

        fn prepare(&self) {
            self.in_prepare.attend();
        }

        fn take_space(&self) -> Result<(), Refused> {
            self.spaces_taken.fetch_add(1, Ordering::AcqRel);
            if self.refuses_space.load(Ordering::Acquire) { Err(Refused) } else { Ok(()) }
        }
    }

    impl Work {
        fn begin(&self, turns: u64) {
            self.turns_left.store(turns, Ordering::Release);
            self.signal.wake();
        }

        fn spaces_taken(&self) -> u64 {
            self.spaces_taken.load(Ordering::Acquire)
        }
    }

    /// Waits for what must come.
    fn wait_until(is_so: impl Fn() -> bool) {
        while !is_so() {
            std::thread::yield_now();
        }
    }

    fn with_helpers(helpers: usize, test: impl FnOnce(&Work)) {
        let work = Arc::new(Work::default());
        let settings = Settings { helpers, ..Settings::default() };
        let helpers = Helpers::start(Arc::<Work>::clone(&work), &settings, false);
        test(&work);
        helpers.stop(&work.signal, false);
    }

    #[test]
    fn any_number_of_helpers_do_what_there_is_to_do_and_stop() {
        for helpers in [1, 2, 5] {
            with_helpers(helpers, |work| {
                for turns in [1, 100] {
                    work.begin(turns);
                    wait_until(|| !work.is_resizing());
                }
                assert!(work.signal.has_helper());
            });
        }
        with_helpers(0, |work| assert!(!work.signal.has_helper()));
    }

    #[test]
    fn a_table_that_is_not_written_to_has_none() {
        let work = Arc::new(Work::default());
        Helpers::start(Arc::<Work>::clone(&work), &Settings::default(), true);
        assert!(!work.signal.has_helper());
    }

    /// Something that has to be done some times over.
    struct Dishes(AtomicU64);

    impl Chore for Dishes {
        fn is_due(&self) -> bool {
            self.0.load(Ordering::Acquire) > 0
        }

        fn run(&self) {
            self.0.fetch_sub(1, Ordering::AcqRel);
        }
    }

    #[test]
    fn an_idle_helper_does_what_was_left_to_it() {
        with_helpers(1, |work| {
            let dishes: Arc<dyn Chore> = Arc::new(Dishes(AtomicU64::new(3)));
            work.signal.set_chore(Arc::downgrade(&dishes));
            work.signal.wake();
            wait_until(|| !dishes.is_due());
            work.begin(5);
            wait_until(|| !work.is_resizing());
        });
    }

    #[test]
    fn what_was_asked_for_before_a_rest_is_not_done_after_it() {
        with_helpers(1, |work| {
            let (is_preparing, go_on) = work.in_prepare.arrange();
            work.signal.ask_to_prepare();
            is_preparing.recv().unwrap();
            work.signal.rest();
            go_on.send(()).unwrap();
            // It goes on to its turns and comes to its beginning again.
            work.begin(5);
            wait_until(|| !work.is_resizing());
            assert_eq!(work.spaces_taken(), 0);
            work.signal.ask_to_prepare();
            wait_until(|| work.spaces_taken() == 1);
        });
    }

    #[test]
    fn without_space_turns_are_taken_and_space_is_asked_for_again() {
        with_helpers(1, |work| {
            work.refuses_space.store(true, Ordering::Release);
            work.signal.ask_to_prepare();
            wait_until(|| work.spaces_taken() > 0);
            work.begin(100);
            wait_until(|| !work.is_resizing());
            let before = work.spaces_taken();
            wait_until(|| work.spaces_taken() > before);
        });
    }

    #[test]
    fn helpers_are_held_between_their_turns_only() {
        with_helpers(2, |work| {
            let (is_in_turn, go_on) = work.in_turn.arrange();
            work.begin(50);
            is_in_turn.recv().unwrap();
            assert!(work.signal.try_hold().is_none());
            go_on.send(()).unwrap();
            wait_until(|| !work.is_resizing());
            work.signal.rest();
            for _ in 0..100 {
                let spaces_before = work.spaces_taken();
                let (is_preparing, go_on) = work.in_prepare.arrange();
                work.signal.ask_to_prepare();
                is_preparing.recv().unwrap();
                // The other one may be looking for a turn.
                let held =
                    std::iter::repeat_with(|| work.signal.try_hold()).flatten().next().unwrap();
                work.is_held.store(true, Ordering::SeqCst);
                work.begin(1);
                // Now one is awake, and has nothing before it but its turn.
                go_on.send(()).unwrap();
                (0..20).for_each(|_| std::thread::yield_now());
                assert!(work.is_resizing(), "a turn while helpers are held");
                work.is_held.store(false, Ordering::SeqCst);
                drop(held);
                wait_until(|| !work.is_resizing());
                // Asked again before, the first one would take both for one.
                wait_until(|| work.spaces_taken() > spaces_before);
            }
        });
    }
}
