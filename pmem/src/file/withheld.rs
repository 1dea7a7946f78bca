//! Descriptors that forked children are to be without.

use super::inherited::{Entry, NONE, watch_forks};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// That children get a descriptor which leads nowhere in place of one; until dropped, which must be before that one is
/// closed. A child that kept a connection would hide the end of its parent from the other side.
#[derive(Debug)]
pub(crate) struct Withheld {
    entry: &'static Entry,
}

impl Withheld {
    /// `None` if the system refuses what it takes: then children keep the descriptor.
    pub(crate) fn new(descriptor: BorrowedFd<'_>) -> Option<Withheld> {
        watch_forks().ok()?;
        let nowhere = nowhere()?;
        Some(Withheld { entry: Entry::take(descriptor.as_raw_fd(), nowhere) })
    }
}

impl Drop for Withheld {
    fn drop(&mut self) {
        self.entry.give_back();
    }
}

/// A descriptor that leads nowhere, and stays open.
fn nowhere() -> Option<i32> {
    // Not a `OnceLock`: see `watch_forks`.
    static NOWHERE: AtomicI32 = AtomicI32::new(NONE);
    let open = NOWHERE.load(Ordering::Acquire);
    if open != NONE {
        return Some(open);
    }
    let made = eventfd(0, EventfdFlags::CLOEXEC).ok()?;
    match NOWHERE.compare_exchange(NONE, made.as_raw_fd(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(made.into_raw_fd()),
        Err(other) => Some(other),
    }
}
