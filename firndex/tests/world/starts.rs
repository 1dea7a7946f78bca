//! Lets starts of threads fail. The executable's own `pthread_create` comes before the C library's, so that every start
//! goes through it, whoever asks for it.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

/// Which of a thread's attempts to start others are refused.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Refused {
    /// This one alone, counted from 0.
    One(u32),
    /// This one, and all that follow.
    From(u32),
}

thread_local! {
    static REFUSED: Cell<Option<Refused>> = const { Cell::new(None) };
    static ATTEMPTS: Cell<u32> = const { Cell::new(0) };
}

/// Runs `work`, which is refused these starts; also returns how many there were to be.
pub(crate) fn refusing<R>(refused: Refused, work: impl FnOnce() -> R) -> (R, u32) {
    ATTEMPTS.set(0);
    REFUSED.set(Some(refused));
    let result = work();
    REFUSED.set(None);
    (result, ATTEMPTS.get())
}

fn is_refused() -> bool {
    let Some(refused) = REFUSED.get() else { return false };
    let attempt = ATTEMPTS.replace(ATTEMPTS.get() + 1);
    match refused {
        Refused::One(one) => attempt == one,
        Refused::From(first) => attempt >= first,
    }
}

type Start = extern "C" fn(*mut c_void) -> *mut c_void;
type Create = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    Start,
    *mut c_void,
) -> c_int;

// SAFETY: it has the C library's signature, and does what that does or refuses.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    if is_refused() {
        return libc::EAGAIN;
    }
    // SAFETY: a name that ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr()) };
    assert!(!found.is_null());
    // SAFETY: the C library's function of that name has this signature.
    let create = unsafe { std::mem::transmute::<*mut c_void, Create>(found) };
    // SAFETY: the caller's arguments are passed on.
    unsafe { create(thread, attributes, start, argument) }
}
