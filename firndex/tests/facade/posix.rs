//! The few calls that the standard library does not offer.

use std::os::fd::IntoRawFd;
use std::path::Path;

unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(status: i32) -> !;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn alarm(seconds: u32) -> u32;
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
    fn setrlimit(resource: i32, limits: *const [u64; 2]) -> i32;
}

/// A child that hangs is ended by a signal after this time.
const CHILD_SECONDS_MAX: u32 = 100;

/// A forked child.
pub(crate) struct Forked(i32);

/// Forks; the child runs `work`, which says whether all was well, and ends without running
/// anything else of this process.
pub(crate) fn forked(work: impl FnOnce() -> bool) -> Forked {
    // SAFETY: the child runs only `work`, which takes no lock that another thread of the parent
    // may hold but those of the C library, and that makes its own usable after a fork.
    match unsafe { fork() } {
        0 => {
            // SAFETY: sets a timer of the child's own.
            unsafe { alarm(CHILD_SECONDS_MAX) };
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

/// From now on no file of this process can be made longer than `bytes`.
pub(crate) fn limit_files(bytes: u64) {
    const RLIMIT_FSIZE: i32 = 1;
    // SAFETY: the limits outlive the call.
    let set = unsafe { setrlimit(RLIMIT_FSIZE, &[bytes, u64::MAX]) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// The next time that somebody changes a file in `directory` by a call, `handler` is called in the calling thread: when
/// it is the one, at the end of the call, amid whatever it was doing.
pub(crate) fn when_changed(directory: &Path, handler: extern "C" fn(i32)) {
    // The C library's binding lacks these.
    const F_SETOWN_EX: i32 = 15;
    const F_OWNER_TID: i32 = 0;
    const DN_MODIFY: i32 = 2;
    // SAFETY: it only asks.
    let own = [F_OWNER_TID, unsafe { libc::gettid() }];
    let watched = std::fs::File::open(directory).unwrap().into_raw_fd();
    // SAFETY: the signal comes at the end of system calls on files only, in which no lock of the C library is held, so
    // that the handler may do what an ordinary function may.
    unsafe { signal(libc::SIGIO, handler) };
    // SAFETY: `own` outlives the call. The descriptor stays open.
    let told = unsafe { libc::fcntl(watched, F_SETOWN_EX, &own) };
    // SAFETY: as above.
    let asked = unsafe { libc::fcntl(watched, libc::F_NOTIFY, DN_MODIFY) };
    assert_eq!((told, asked), (0, 0), "{}", std::io::Error::last_os_error());
}
