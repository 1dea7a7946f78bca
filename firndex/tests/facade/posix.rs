//! The few calls that the standard library does not offer.

use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(status: i32) -> !;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn pthread_kill(thread: std::os::unix::thread::RawPthread, signal: i32) -> i32;
    fn sigaction(signal: i32, new: *const SignalAction, old: *mut SignalAction) -> i32;
}

const SIGTRAP: i32 = 5;
const SIGUSR1: i32 = 10;
const SA_SIGINFO: i32 = 4;
const SA_RESTART: i32 = 0x1000_0000;

/// The C library's `struct sigaction` on Linux.
#[repr(C)]
struct SignalAction {
    handler: extern "C" fn(i32, *mut u8, *mut u8),
    mask: [u64; 16],
    flags: i32,
    restorer: usize,
}

/// Set by a thread while it is where it can be held up.
pub(crate) static IS_HERE: AtomicBool = AtomicBool::new(false);
/// Instructions that an interrupted thread still runs there before it is held up.
static STEPS_LEFT: AtomicU64 = AtomicU64::new(0);
static HELD_UP: AtomicBool = AtomicBool::new(false);
static GO_ON: AtomicBool = AtomicBool::new(false);

/// Runs in the interrupted thread, and again after each of its instructions for as long as there
/// are steps left.
extern "C" fn on_signal(_signal: i32, _info: *mut u8, context: *mut u8) {
    let is_here = IS_HERE.load(Ordering::SeqCst);
    let left = STEPS_LEFT.load(Ordering::SeqCst);
    if (left > 0 || !is_here) && single_step(context, true) {
        STEPS_LEFT.store(left - u64::from(is_here), Ordering::SeqCst);
        return;
    }
    single_step(context, false);
    HELD_UP.store(true, Ordering::SeqCst);
    while !GO_ON.swap(false, Ordering::SeqCst) {
        std::thread::yield_now();
    }
}

/// Makes the interrupted thread trap after its next instruction, or go on freely. Whether that is
/// possible here.
#[cfg(target_arch = "x86_64")]
fn single_step(context: *mut u8, traps: bool) -> bool {
    const TRAP_FLAG: u64 = 1 << 8;
    const FLAGS_REGISTER_AT: usize = 40 + 17 * 8;
    // SAFETY: the kernel passes the `ucontext_t` of the thread that runs this handler; the flags
    // register is the 18th of the general registers, which begin at byte 40.
    unsafe {
        let flags = context.add(FLAGS_REGISTER_AT).cast::<u64>();
        let others = flags.read() & !TRAP_FLAG;
        flags.write(if traps { others | TRAP_FLAG } else { others });
    }
    true
}

#[cfg(not(target_arch = "x86_64"))]
fn single_step(_context: *mut u8, _traps: bool) -> bool {
    false
}

/// A forked child.
pub(crate) struct Forked(i32);

/// Forks; the child runs `work`, which says whether all was well, and ends without running
/// anything else of this process.
pub(crate) fn forked(work: impl FnOnce() -> bool) -> Forked {
    // SAFETY: the child runs only `work`, which takes no lock that another thread of the parent
    // may hold but those of the C library, and that makes its own usable after a fork.
    match unsafe { fork() } {
        0 => {
            let well = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // SAFETY: ends the child at once; no destructor of the parent's runs twice.
            unsafe { _exit(if well.unwrap_or(false) { 0 } else { 1 }) }
        }
        child => {
            assert!(child > 0, "{}", std::io::Error::last_os_error());
            Forked(child)
        }
    }
}

impl Forked {
    /// Waits for the child, and says whether all was well there.
    pub(crate) fn ended_well(self) -> bool {
        let mut status = -1;
        // SAFETY: `status` outlives the call, and the child is this process's own.
        let waited = unsafe { waitpid(self.0, &mut status, 0) };
        waited == self.0 && status == 0
    }
}

/// Lets a thread run until it [`IS_HERE`] and `steps` instructions more (where single steps are
/// possible), and holds it up while `meanwhile` runs. One thread at a time.
pub(crate) fn hold_up<T, R>(
    thread: &JoinHandle<T>,
    steps: u64,
    meanwhile: impl FnOnce() -> R,
) -> R {
    let action = SignalAction {
        handler: on_signal,
        mask: [0; 16],
        flags: SA_SIGINFO | SA_RESTART,
        restorer: 0,
    };
    for signal in [SIGUSR1, SIGTRAP] {
        // SAFETY: the handler does nothing but load and store atomics, change the flags of its
        // own context, and yield.
        let failed = unsafe { sigaction(signal, &action, std::ptr::null_mut()) };
        assert_eq!(failed, 0);
    }
    STEPS_LEFT.store(steps, Ordering::SeqCst);
    // SAFETY: the thread has not been joined, so its id is valid.
    let failed = unsafe { pthread_kill(thread.as_pthread_t(), SIGUSR1) };
    assert_eq!(failed, 0);
    while !HELD_UP.swap(false, Ordering::SeqCst) {
        std::thread::yield_now();
    }
    let result = meanwhile();
    GO_ON.store(true, Ordering::SeqCst);
    result
}
