//! The few calls that the standard library does not offer.

unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(status: i32) -> !;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
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
