//! A barrier that is free on the side that runs often.
//!
//! A thread announces something by a plain store and then reads a flag, with
//! [`light_barrier`] between; another sets the flag and then reads the announcements, with
//! [`heavy_barrier`] between. At least one of the two sees the other. The heavy side makes the
//! kernel run a full barrier on every processor that runs this process, so that the light side
//! only has to stop the compiler.

use rustix::thread::{MembarrierCommand, membarrier};
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

static ASYMMETRIC: AtomicBool = AtomicBool::new(false);

/// Registers this process with the kernel; must have run before the first light barrier whose
/// heavy counterpart relies on it.
pub(super) fn register() {
    // Not a `OnceLock`, which a forked child could inherit amid its initialisation by another thread.
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.load(Ordering::Acquire) {
        // Again is as good as once; a forked child is registered as its parent is.
        if membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok() {
            ASYMMETRIC.store(true, Ordering::SeqCst);
        }
        REGISTERED.store(true, Ordering::Release);
    }
}

/// Whether the kernel runs the barriers of heavy sides, which does not change while a process runs.
#[inline]
pub(crate) fn is_asymmetric() -> bool {
    ASYMMETRIC.load(Ordering::Relaxed)
}

/// The side that runs often.
#[inline(always)]
pub fn light_barrier() {
    if ASYMMETRIC.load(Ordering::Relaxed) {
        asymmetric_light_barrier();
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The same where the kernel runs the barriers of heavy sides.
#[inline(always)]
pub(crate) fn asymmetric_light_barrier() {
    compiler_fence(Ordering::SeqCst);
}

/// The side that runs rarely.
pub fn heavy_barrier() {
    fence(Ordering::SeqCst);
    if ASYMMETRIC.load(Ordering::Relaxed) {
        // Registration succeeded, after which the kernel documents no failure.
        let _ = membarrier(MembarrierCommand::PrivateExpedited);
    }
    fence(Ordering::SeqCst);
}
