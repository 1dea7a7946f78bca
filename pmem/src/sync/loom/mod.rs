//! loom under the code of this crate and of the engines: every order of accesses, and every value that a load
//! may return, as far as loom goes. For the models in `kernels`.
//!
//! A model has two parts. First, on one thread, it sets the scene: opens a pool, fills a table.
//! Accesses are plain then and cost nothing. From [`begin`] on, each is loom's.
//!
//! loom keeps the past of each atomic, so it can follow some hundred of them, while a table has
//! thousands. Those that matter are the few that are loaded after [`begin`]. [`explore`] finds them out: an
//! atomic that is loaded and was not known before is remembered, by its number in the order of
//! creation, and the exploration begins anew.
//!
//! loom does not know the one order of all `SeqCst` accesses. What it gives is that of two threads which
//! each store one word and then load the other's, one sees the other; so here a `SeqCst` fence stands between a
//! thread's `SeqCst` store and its next `SeqCst` load.
//!
//! Light and heavy barriers stand for compiler fences and the kernel's membarrier. That runs a full barrier amid each
//! thread, which comes before or after the thread's compiler fence. So of a light and a heavy barrier one is first, and
//! what is behind the other one sees what is before it. Light barriers order nothing among each other, nor for those
//! who run no heavy one. `SeqCst` fences would do that, and so hide what is missing on processors that are not as
//! strict as x86-64. So each thread has a word, on which its light barriers meet all heavy ones, by read-modify-writes.

mod array;
mod atomic;
mod mutex;
// No model has helpers or recovers in parts, so nobody meets another thread in these.
#[path = "../native/parts.rs"]
mod parts;
#[path = "../native/rw_lock.rs"]
mod rw_lock;

pub use array::Array;
pub use atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Plain};
pub use mutex::{Mutex, MutexGuard};
pub use parts::{Part, parts_of, run_parts};
pub use rw_lock::RwLock;

use ::loom::model::Builder;
use ::loom::sync::atomic::AtomicUsize as AtomicUsizeOfLoom;
use ::loom::thread;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Threads that have a line of their own: few, so that a third one takes the shared one.
pub const THREADS_MAX: usize = 2;

/// How often an exploration begins anew before it is given up: a model whose setup is another one in each
/// execution would do so for ever.
const BEGINNINGS_MAX: usize = 200;
/// Turns that a thread waits while its model fails, when nobody else runs any more.
const TURNS_WHEN_FAILING: u32 = 1 << 16;
/// Words of a thread's stack: opening a pool takes more than loom gives.
const STACK_WORDS: usize = 1 << 15;
/// Accesses of one execution at most.
const ACCESSES_MAX: usize = 20_000;

/// An atomic or a mutex that loom can follow.
trait Followable: Send + Sync {
    /// From here on it does.
    fn follow(&self);
}

/// The explorations of one thread of the operating system.
#[derive(Default)]
struct Machine {
    /// Accesses are loom's.
    is_loom: Cell<bool>,
    /// Places created in this execution.
    created: Cell<u64>,
    /// Numbers of the places that were touched while accesses were loom's, in any execution.
    touched: RefCell<BTreeSet<u64>>,
    /// In this execution a place was touched that was not known before.
    is_incomplete: Cell<bool>,
    /// This execution's touched places.
    places: RefCell<Vec<Arc<dyn Followable>>>,
}

thread_local! {
    static MACHINE: Machine = Machine::default();
}

::loom::thread_local! {
    static NUMBER: Cell<usize> = Cell::new(THREADS_MAX);
}

::loom::lazy_static! {
    /// Where the light barriers of a thread, and of all without a number, meet heavy ones.
    static ref BARRIERS: [AtomicUsizeOfLoom; THREADS_MAX + 1] = Default::default();
}

/// The number of a place that is being created, and whether it is one that will be touched.
fn number_followable() -> (u64, bool) {
    MACHINE.with(|machine| {
        let number = machine.created.get();
        machine.created.set(number + 1);
        (number, machine.touched.borrow().contains(&number))
    })
}

/// Takes note of a place that will be touched.
fn enter(place: Arc<dyn Followable>) {
    MACHINE.with(|machine| {
        if machine.is_loom.get() { place.follow() } else { machine.places.borrow_mut().push(place) }
    });
}

/// Whether accesses are loom's now. While a model fails they are not: what is dropped then must not run into
/// loom, nor other threads run meanwhile.
fn is_loom() -> bool {
    MACHINE.with(|machine| machine.is_loom.get()) && !std::thread::panicking()
}

/// A place was touched that loom does not follow.
fn touch(number: u64) {
    MACHINE.with(|machine| {
        machine.touched.borrow_mut().insert(number);
        machine.is_incomplete.set(true);
    });
}

/// Explores all executions of `model`, with any number of preemptions or at most this many. Panics as the model does.
pub fn explore(preemptions_max: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    MACHINE.with(|machine| machine.touched.borrow_mut().clear());
    let model = Arc::new(model);
    for _ in 0..BEGINNINGS_MAX {
        MACHINE.with(|machine| machine.is_incomplete.set(false));
        let mut builder = Builder::new();
        builder.preemption_bound = preemptions_max;
        builder.max_branches = ACCESSES_MAX;
        let model = Arc::clone(&model);
        let explored = catch_unwind(AssertUnwindSafe(|| {
            builder.check(move || {
                MACHINE.with(|machine| {
                    assert!(!machine.is_incomplete.get(), "begins anew");
                    machine.is_loom.set(false);
                    machine.created.set(0);
                    machine.places.borrow_mut().clear();
                });
                let model = Arc::clone(&model);
                let first = spawn(0, move || model());
                first.join().unwrap_or_else(|panic| resume_unwind(panic));
            });
        }));
        // Whatever came of it: an access that was not loom's may have misled it.
        if MACHINE.with(|machine| machine.is_incomplete.get()) {
            continue;
        }
        return explored.unwrap_or_else(|panic| resume_unwind(panic));
    }
    panic!(
        "each of {BEGINNINGS_MAX} explorations touched another atomic: the setup is not the same in each"
    );
}

/// Ends the setup: from here on accesses are loom's.
pub fn begin() {
    MACHINE.with(|machine| {
        machine.places.borrow().iter().for_each(|place| place.follow());
        machine.is_loom.set(true);
    });
    // loom makes its statics when they are first used, and has all later users come after that.
    heavy_barrier();
}

/// When all threads have been joined: accesses are plain again, for looking at what came of it.
pub fn end() {
    MACHINE.with(|machine| machine.is_loom.set(false));
}

/// Starts a thread of the model with this number; one of [`THREADS_MAX`] or more has none.
pub fn spawn<T: Send + 'static>(
    number: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let started = thread::Builder::new().stack_size(STACK_WORDS).spawn(move || {
        number_thread(number);
        work()
    });
    started.expect("loom refuses no thread")
}

fn number_thread(number: usize) {
    NUMBER.with(|own| own.set(number.min(THREADS_MAX)));
}

/// The number that the calling thread was started with; the model's first thread has 0.
pub fn thread_index() -> usize {
    if std::thread::panicking() { THREADS_MAX } else { NUMBER.with(Cell::get) }
}

/// What [`thread_index`] returns.
pub(crate) fn known_index() -> usize {
    thread_index()
}

pub(crate) fn thread_indices_end() -> usize {
    THREADS_MAX
}

/// Nothing: a thread of a model keeps its number.
pub(crate) fn hold() {}

/// Nothing, as [`hold`].
pub(crate) fn release(_number: usize) {}

/// Lets other threads run.
pub fn pause() {
    if is_loom() {
        thread::yield_now();
    }
}

/// As in std.
pub fn fence(order: Ordering) {
    if is_loom() {
        ::loom::sync::atomic::fence(order);
    }
}

/// Always: see above.
pub(crate) fn is_asymmetric() -> bool {
    true
}

/// See above.
pub fn light_barrier() {
    asymmetric_light_barrier();
}

/// See above.
pub(crate) fn asymmetric_light_barrier() {
    if is_loom() {
        meet(&BARRIERS[thread_index()]);
    }
}

/// See above.
pub fn heavy_barrier() {
    fence(Ordering::SeqCst);
    if is_loom() {
        BARRIERS.iter().for_each(meet);
    }
    fence(Ordering::SeqCst);
}

/// Who comes later sees what all did that came before.
fn meet(barriers: &AtomicUsizeOfLoom) {
    barriers.fetch_add(1, Ordering::AcqRel);
}

/// One turn of waiting for another thread.
pub fn spin(turn: &mut u32) {
    *turn = turn.saturating_add(1);
    if is_loom() {
        thread::yield_now();
    } else if *turn > TURNS_WHEN_FAILING {
        eprintln!("a thread waits where no other one runs: in a setup, or while its model fails");
        std::process::abort();
    }
}

/// No model has a file.
pub(crate) fn count_bus_error() {}

/// No model forks.
pub fn forks() -> u32 {
    0
}

pub(crate) fn register_process() {}
