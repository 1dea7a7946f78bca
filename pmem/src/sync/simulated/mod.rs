//! The volatile side of a simulated machine: every access is a scheduling point, and stores may
//! become visible late.
//!
//! A simulated machine lives on one thread of the operating system. Its own threads are routines
//! that the hook of a [`Context`] switches between; the hook is called before each access. What a
//! machine does is therefore a function of what its hook decides, and can be repeated.
//!
//! Where a context says so, a store stays invisible to the other simulated threads until its own
//! thread does a read-modify-write that releases, waits, takes a mutex or ends its operation, or
//! until somebody else writes there. A thread's stores become visible in order; a store that is not a release
//! store may pass all those before it, and does if the crash lab demoted it. That is what weakly
//! ordered processors do to a release store that is missing; reordered loads are not simulated.
//!
//! Accesses, here and in `medium/sim`, are not marked to be inlined. Engines have them everywhere: the lab's code
//! was larger by half then, took twice as long to compile, and ran no faster.

mod atomic;
pub mod fault;
mod mutex;
pub(super) mod pages;
mod parts;
mod rw_lock;

pub use atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, fence};
pub use mutex::{Mutex, MutexGuard, mutexes_held};
pub(crate) use pages::Shared;
pub use parts::{Part, RunParts, parts_of, run_parts, run_parts_by};
pub use rw_lock::RwLock;

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;

/// Threads of a simulated machine that have a line of their own: few, so that histories of three
/// and four threads have some that share one.
pub const THREADS_MAX: usize = 2;

/// What an access does to the memory at its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// Reads it.
    Reads,
    /// Writes it.
    Writes,
    /// Reads and writes it in one step: also shows what the thread stored before, or waits for others.
    Modifies,
    /// Neither: it writes lines back.
    Flushes,
    /// Neither: it waits until lines are written back.
    Fences,
}

/// What is about to happen.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// An access to shared memory: to the word at this address, the first one of several.
    Access(usize, Touch),
    /// A thread cannot go on before another one has done something.
    Wait,
}

/// What the code running on this thread of the operating system takes for its machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context {
    /// Called before each access; nothing if `None`.
    pub hook: Option<fn(Event)>,
    /// The simulated thread that runs.
    pub thread: usize,
    /// The simulated process: handles of another one do nothing any more when dropped.
    pub process: u32,
    /// Whether stores may become visible late.
    pub delays: bool,
}

/// A store that the other threads do not see yet.
struct Unseen {
    address: usize,
    before: u64,
    thread: usize,
}

struct Machine {
    context: Cell<Context>,
    unseen: RefCell<Vec<Unseen>>,
    unseen_len: Cell<usize>,
}

thread_local! {
    static MACHINE: Machine = const {
        Machine {
            context: Cell::new(Context { hook: None, thread: 0, process: 0, delays: false }),
            unseen: RefCell::new(Vec::new()),
            unseen_len: Cell::new(0),
        }
    };
}

/// Puts another context in place; returns the former one.
pub fn enter(context: Context) -> Context {
    MACHINE.with(|machine| machine.context.replace(context))
}

/// The context in place.
pub fn context() -> Context {
    MACHINE.with(|machine| machine.context.get())
}

/// Makes everything visible that `thread` has stored.
pub fn show(thread: usize) {
    MACHINE.with(|machine| {
        if machine.unseen_len.get() != 0 {
            let mut unseen = machine.unseen.borrow_mut();
            unseen.retain(|store| store.thread != thread);
            machine.unseen_len.set(unseen.len());
        }
    });
}

/// Makes everything visible.
pub fn show_all() {
    MACHINE.with(|machine| {
        machine.unseen.borrow_mut().clear();
        machine.unseen_len.set(0);
    });
}

/// Before an access.
pub(crate) fn access(address: usize, touch: Touch) {
    MACHINE.with(|machine| {
        if let Some(hook) = machine.context.get().hook {
            hook(Event::Access(address, touch));
        }
    });
}

/// Whether any thread sees less at some address than it holds.
pub(crate) fn is_anything_unseen() -> bool {
    MACHINE.with(|machine| machine.unseen_len.get() != 0)
}

/// Whether what `thread` stored at an address last is visible to it alone.
pub(crate) fn is_unseen(address: usize, thread: usize) -> bool {
    MACHINE.with(|machine| {
        let unseen = machine.unseen.borrow();
        unseen.iter().any(|store| store.address == address && store.thread == thread)
    })
}

/// What the running thread sees at an address that holds `stored`.
pub(crate) fn seen(address: usize, stored: u64) -> u64 {
    MACHINE.with(|machine| {
        if machine.unseen_len.get() == 0 || !machine.context.get().delays {
            return stored;
        }
        let thread = machine.context.get().thread;
        let unseen = machine.unseen.borrow();
        let hidden = |store: &&Unseen| store.address == address && store.thread != thread;
        unseen.iter().find(hidden).map_or(stored, |store| store.before)
    })
}

/// Before a store to `address`, which holds `before`, that need not be visible at once.
pub(crate) fn delay(address: usize, before: u64) {
    MACHINE.with(|machine| {
        let context = machine.context.get();
        if context.delays {
            show_address(machine, address, |thread| thread != context.thread);
            let thread = context.thread;
            machine.unseen.borrow_mut().push(Unseen { address, before, thread });
            machine.unseen_len.set(machine.unseen_len.get() + 1);
        }
    });
}

/// Before a store to `address` that passes all stores before it, save those to this address.
pub(crate) fn pass(address: usize) {
    MACHINE.with(|machine| {
        if machine.context.get().delays {
            show_address(machine, address, |_| true);
        }
    });
}

/// Before a read-modify-write at `address`: it acts on what was stored there last. If it releases,
/// nothing that its thread stored before stays behind.
pub(crate) fn modify(address: usize, order: Ordering) {
    MACHINE.with(|machine| {
        if machine.unseen_len.get() != 0 {
            let thread = machine.context.get().thread;
            show_address(machine, address, |owner| owner != thread);
            show_address(machine, address, |owner| owner == thread);
            if !matches!(order, Ordering::Relaxed | Ordering::Acquire) {
                show(thread);
            }
        }
    });
}

/// Shows what threads chosen by `which` stored, up to and with the last store to `address`.
fn show_address(machine: &Machine, address: usize, which: impl Fn(usize) -> bool) {
    if machine.unseen_len.get() == 0 {
        return;
    }
    let mut unseen = machine.unseen.borrow_mut();
    let found = unseen.iter().rposition(|store| store.address == address && which(store.thread));
    if let Some(last) = found {
        let thread = unseen[last].thread;
        let mut index = 0;
        unseen.retain(|store| {
            index += 1;
            index > last + 1 || store.thread != thread
        });
        machine.unseen_len.set(unseen.len());
    }
}

/// One turn of waiting for another thread.
pub fn spin(turn: &mut u32) {
    *turn = turn.saturating_add(1);
    let context = context();
    show(context.thread);
    if let Some(hook) = context.hook {
        hook(Event::Wait);
    }
}

/// Nothing: who runs next is the hook's choice at each access.
pub fn pause() {}

/// The number of the running simulated thread.
pub fn thread_index() -> usize {
    context().thread.min(THREADS_MAX)
}

/// What [`thread_index`] returns.
pub(crate) fn known_index() -> usize {
    thread_index()
}

pub(crate) fn thread_indices_end() -> usize {
    THREADS_MAX
}

/// Nothing: a simulated thread keeps its number.
pub(crate) fn hold() {}

/// Nothing, as [`hold`].
pub(crate) fn release(_number: usize) {}

/// No file is mapped here.
pub(crate) fn count_bus_error() {}

/// The number of the running simulated process.
pub fn forks() -> u32 {
    context().process
}

/// Never: see [`Asymmetric`](super::Asymmetric).
pub(crate) fn is_asymmetric() -> bool {
    false
}

/// Nothing: a store that has not been shown is what the heavy side forces out.
pub fn light_barrier() {}

/// Nothing, as [`light_barrier`].
pub(crate) fn asymmetric_light_barrier() {}

/// Forces every thread's stores out.
pub fn heavy_barrier() {
    access(0, Touch::Modifies);
    show_all();
}

pub(crate) fn register_process() {}
