//! The simulated processor: threads that run one at a time, and switch exactly where a schedule says.
//!
//! Each simulated thread is a coroutine on the same thread of the operating system. The hook of
//! [`pmem::sync::simulated`] is called before every access to pool memory and to shared volatile
//! state; it counts accesses, and when the running slice is used up it gives control back here.

use pmem::medium::sim::{self, OnFence};
use pmem::sync::simulated::{self, Context, Event, Touch};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use workload::Random;

/// A number of accesses of one thread, one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Which thread.
    pub thread: usize,
    /// How many accesses.
    pub accesses: u64,
}

/// Who runs when. After the last slice each thread runs until it is done or must wait.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule {
    /// The beginning.
    pub slices: Vec<Slice>,
    /// Whether stores become visible to other threads late.
    pub delays: bool,
}

/// A schedule with a few changes of thread at random moments.
pub fn random_schedule(threads: usize, accesses: u64, random: &mut Random) -> Schedule {
    let changes = match random.index(4) {
        0 => random.index(40),
        _ => random.index(6),
    };
    let mean = (accesses as usize / (changes + 1)).max(1);
    let slices = (0..changes)
        .map(|_| Slice { thread: random.index(threads), accesses: random.index(2 * mean) as u64 });
    let mut slices: Vec<Slice> = slices.collect();
    // Whoever goes on alone in the end is chosen, too.
    slices.push(Slice { thread: random.index(threads), accesses: random.index(2 * mean) as u64 });
    Schedule { slices, delays: random.index(3) == 0 }
}

/// An access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Who made it.
    pub thread: usize,
    /// To which address; [`CALL`] for the beginning of a call.
    pub at: usize,
    /// What it did there.
    pub touch: Touch,
}

/// Stands for the address of a call's beginning, before which its thread can be interrupted.
pub const CALL: usize = usize::MAX;

/// A run that did not end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stuck {
    /// All threads wait for each other.
    Deadlock,
    /// A thread has made more accesses than any operation needs.
    Livelock,
    /// A thread panicked, with this message.
    Panic(String),
}

/// Keeps panics inside the simulation off stderr: they are findings, and reported as such.
pub fn silence_panics() {
    static SILENCED: std::sync::Once = std::sync::Once::new();
    SILENCED.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if simulated::context().process == 0 {
                report(panic);
            }
        }));
    });
}

/// What a simulated thread does.
pub type Job = Box<dyn FnOnce() + Send>;

/// Accesses after which a run counts as endless.
const ACCESSES_MAX: u64 = 300_000;
/// The same for a thread by itself, which fills a table, reads it, or recovers it.
const ACCESSES_ALONE_MAX: u64 = 2_000_000;
/// Turns of waiting without progress after which a wait counts as endless.
const WAITS_MAX: u32 = 64;
/// Words of a coroutine's stack: the simulated code does not recurse.
const STACK_WORDS: usize = 32 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Yielded {
    /// The slice is used up.
    Preempted,
    /// It waits for another thread.
    Waiting,
    /// The job is done.
    Done,
}

struct Running {
    left: Cell<u64>,
    accesses: Cell<u64>,
    slices_begun: Cell<usize>,
    /// Threads of killed processes, a bit each.
    killed: Cell<u64>,
    /// Whether the running coroutine is one of those, and gives back what its thread had.
    is_remains: Cell<bool>,
    yielded: Cell<Yielded>,
    is_traced: Cell<bool>,
    trace: RefCell<Vec<Access>>,
    job: RefCell<Option<Job>>,
    panic: RefCell<Option<String>>,
}

thread_local! {
    static RUNNING: Running = const {
        Running {
            left: Cell::new(0),
            accesses: Cell::new(0),
            slices_begun: Cell::new(0),
            killed: Cell::new(0),
            is_remains: Cell::new(false),
            yielded: Cell::new(Yielded::Done),
            is_traced: Cell::new(false),
            trace: RefCell::new(Vec::new()),
            job: RefCell::new(None),
            panic: RefCell::new(None),
        }
    };
    /// Of the run that ended last.
    static REMAINS: RefCell<Remains> = RefCell::default();
    /// Coroutines without a job, to be used again.
    static IDLE: RefCell<Vec<Coroutine>> = const { RefCell::new(Vec::new()) };
}

type Coroutine = generator::Generator<'static, (), ()>;

fn hook(event: Event) {
    if std::thread::panicking() {
        // Unwinding drops guards, which are accesses. Another coroutine must not run meanwhile: if
        // it panicked, too, that would be a panic within a panic.
        return;
    }
    RUNNING.with(|running| match event {
        Event::Access(at, touch) => {
            if running.accesses.get() == ACCESSES_MAX {
                // Unwinds the operation; what it leaves is not judged any more.
                running.accesses.set(0);
                panic!("{LIVELOCK}");
            }
            running.accesses.set(running.accesses.get() + 1);
            while running.left.get() == 0 {
                give_way(running, Yielded::Preempted);
            }
            running.left.set(running.left.get() - 1);
            if running.is_traced.get() {
                let thread = simulated::context().thread;
                running.trace.borrow_mut().push(Access { thread, at, touch });
            }
        }
        Event::Wait => give_way(running, Yielded::Waiting),
    });
}

/// A call is about to begin. Its thread can be interrupted here, after its earlier calls.
pub fn begin_call() {
    hook(Event::Access(CALL, Touch::Reads));
}

/// Begins or ends keeping every access of a run. Returns the accesses kept so far.
pub fn trace(is_traced: bool) -> Vec<Access> {
    RUNNING.with(|running| {
        running.is_traced.set(is_traced);
        running.trace.take()
    })
}

const LIVELOCK: &str = "an operation does not come to an end";

#[expect(deprecated, reason = "the scoped variant cannot be reached from inside a hook")]
fn give_way(running: &Running, yielded: Yielded) {
    running.yielded.set(yielded);
    generator::yield_with(());
    if running.is_remains.get() && yielded != Yielded::Done {
        // No panic: nothing is wrong, and nobody is told.
        std::panic::resume_unwind(Box::new(()));
    }
}

/// Kills the process of the threads for which `is_its`: they do nothing any more. Memory keeps what they have stored.
pub fn kill(threads: usize, is_its: impl Fn(usize) -> bool) {
    hook(Event::Access(0, Touch::Modifies));
    for thread in (0..threads).filter(|&thread| is_its(thread)) {
        simulated::show(thread);
        RUNNING.with(|running| running.killed.set(running.killed.get() | 1 << thread));
    }
}

/// What killed threads had. To be dropped when nobody looks at the memory any more: that stores there.
#[derive(Default)]
pub struct Remains(Vec<(usize, Coroutine)>);

impl Drop for Remains {
    fn drop(&mut self) {
        for (thread, mut coroutine) in self.0.drain(..) {
            // In no process of the machine: handles then close nothing.
            let context = Context { hook: Some(hook), thread, process: 0, delays: false };
            let outer = simulated::enter(context);
            RUNNING.with(|running| running.is_remains.set(true));
            coroutine.resume();
            RUNNING.with(|running| {
                running.is_remains.set(false);
                running.panic.take();
            });
            simulated::enter(outer);
            IDLE.with_borrow_mut(|idle| idle.push(coroutine));
        }
    }
}

fn coroutine() -> Coroutine {
    generator::Gn::new_opt(STACK_WORDS, || {
        loop {
            let job = RUNNING.with(|running| running.job.take());
            if let Some(job) = job
                && let Err(panic) = catch_unwind(AssertUnwindSafe(job))
            {
                let text = panic.downcast_ref::<String>().cloned();
                let text =
                    text.or_else(|| panic.downcast_ref().map(|text: &&str| text.to_string()));
                RUNNING.with(|running| running.panic.replace(Some(text.unwrap_or_default())));
            }
            RUNNING.with(|running| give_way(running, Yielded::Done));
        }
    })
}

/// A thread that runs alone must come to an end, too.
fn hook_alone(event: Event) {
    if std::thread::panicking() {
        return;
    }
    RUNNING.with(|running| {
        let cost = match event {
            Event::Access(..) => 1,
            // Nobody is there to be waited for.
            Event::Wait => ACCESSES_ALONE_MAX / u64::from(WAITS_MAX),
        };
        running.accesses.set(running.accesses.get() + cost);
        if running.accesses.get() > ACCESSES_ALONE_MAX {
            running.accesses.set(0);
            panic!("{LIVELOCK}");
        }
    });
}

/// Runs `work` as thread 0 of simulated process `process`, by itself, telling of fences.
pub fn alone<R>(process: u32, on_fence: Option<OnFence>, work: impl FnOnce() -> R) -> R {
    alone_as(0, process, on_fence, work)
}

/// As [`alone`], as the thread of this number.
pub fn alone_as<R>(
    thread: usize,
    process: u32,
    on_fence: Option<OnFence>,
    work: impl FnOnce() -> R,
) -> R {
    RUNNING.with(|running| running.accesses.set(0));
    let before = sim::set_on_fence(on_fence);
    let hook = Some(hook_alone as fn(Event));
    let outer = simulated::enter(Context { hook, thread, process, delays: false });
    let result = catch_unwind(AssertUnwindSafe(work));
    simulated::enter(outer);
    sim::set_on_fence(before);
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

thread_local! {
    /// The schedule of work in parts.
    static OF_PARTS: RefCell<Schedule> = RefCell::default();
}

/// Does `work`; its parts are done by threads under this schedule.
pub fn in_parts<R>(schedule: Schedule, work: impl FnOnce() -> R) -> R {
    let schedule = OF_PARTS.replace(schedule);
    let before = simulated::run_parts_by(Some(run_parts));
    let result = catch_unwind(AssertUnwindSafe(work));
    simulated::run_parts_by(before);
    OF_PARTS.set(schedule);
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn run_parts(parts: Vec<Job>) {
    let on_fence = sim::on_fence().unwrap_or(|_| {});
    let schedule = OF_PARTS.with_borrow(Schedule::clone);
    if let Err(stuck) = run(parts, simulated::context().process, &schedule, on_fence) {
        panic!("{stuck:?}");
    }
}

/// Runs the jobs, one thread each, of process `process` under a schedule. Returns the accesses
/// that each thread made.
pub fn run(
    jobs: Vec<Job>,
    process: u32,
    schedule: &Schedule,
    on_fence: OnFence,
) -> Result<Vec<u64>, Stuck> {
    let mut threads: Vec<Thread> = jobs
        .into_iter()
        .map(|job| Thread {
            job: Some(job),
            coroutine: IDLE.with_borrow_mut(Vec::pop).unwrap_or_else(coroutine),
            is_done: false,
            accesses: 0,
            process,
        })
        .collect();
    RUNNING.with(|running| {
        running.accesses.set(0);
        running.slices_begun.set(0);
        running.killed.set(0);
        running.panic.replace(None);
    });
    let before = sim::set_on_fence(Some(on_fence));
    let result = drive(&mut threads, schedule);
    simulated::show_all();
    sim::set_on_fence(before);
    let accesses = threads.iter().map(|thread| thread.accesses).collect();
    for (index, thread) in threads.into_iter().enumerate() {
        if thread.is_done || thread.job.is_some() {
            IDLE.with_borrow_mut(|idle| idle.push(thread.coroutine));
        } else if result.is_ok() {
            REMAINS.with_borrow_mut(|Remains(all)| {
                all.push((index, thread.coroutine));
            });
        } else {
            // Stuck in the middle of an operation: its stack is not unwound, since what is on it
            // belongs to a machine that has stopped.
            std::mem::forget(thread.coroutine);
        }
    }
    result.map(|()| accesses)
}

struct Thread {
    job: Option<Job>,
    coroutine: Coroutine,
    is_done: bool,
    accesses: u64,
    /// The one that it belongs to by now.
    process: u32,
}

/// What the threads had that were killed in the last run.
pub fn remains() -> Remains {
    REMAINS.take()
}

/// Slices of the schedule that have begun in the run that is under way.
pub fn slices_begun() -> usize {
    RUNNING.with(|running| running.slices_begun.get())
}

fn is_killed(thread: usize) -> bool {
    RUNNING.with(|running| running.killed.get() & 1 << thread != 0)
}

fn drive(threads: &mut [Thread], schedule: &Schedule) -> Result<(), Stuck> {
    let mut slices = schedule.slices.iter();
    let mut current = 0;
    let mut waits = 0;
    let goes_on = |(index, thread): (usize, &Thread)| !thread.is_done && !is_killed(index);
    while threads.iter().enumerate().any(goes_on) {
        let mut budget = u64::MAX;
        if let Some(slice) = slices.next() {
            current = slice.thread;
            budget = slice.accesses;
            RUNNING.with(|running| running.slices_begun.set(running.slices_begun.get() + 1));
        }
        if threads[current].is_done || is_killed(current) {
            current = (current + 1) % threads.len();
            continue;
        }
        let thread = &mut threads[current];
        let (process, delays) = (thread.process, schedule.delays);
        let context = Context { hook: Some(hook), thread: current, process, delays };
        let (yielded, accesses) = RUNNING.with(|running| {
            if let Some(job) = thread.job.take() {
                running.job.replace(Some(job));
            }
            running.left.set(budget);
            let outer = simulated::enter(context);
            thread.coroutine.resume();
            thread.process = simulated::enter(outer).process;
            (running.yielded.get(), budget - running.left.get())
        });
        thread.accesses += accesses;
        thread.is_done = yielded == Yielded::Done;
        if let Some(text) = RUNNING.with(|running| running.panic.take()) {
            return Err(if text == LIVELOCK { Stuck::Livelock } else { Stuck::Panic(text) });
        }
        match yielded {
            Yielded::Waiting => {
                waits += 1;
                if waits > WAITS_MAX * threads.len() as u32 {
                    return Err(Stuck::Deadlock);
                }
                current = (current + 1) % threads.len();
            }
            Yielded::Done | Yielded::Preempted => waits = 0,
        }
    }
    Ok(())
}
