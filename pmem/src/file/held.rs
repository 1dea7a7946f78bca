//! Which files this process holds: a lock on a file does not tell two handles of one process apart
//! once they share it, and what a process did before a fork binds the parent alone.

use super::access::Access;
use super::inherited::GivenUp;
use crate::sync::forks;
use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Device and inode.
pub(super) type FileId = (u64, u64);

/// For each file `usize::MAX` for one writer, else the number of readers.
type Holders = Mutex<HashMap<FileId, usize>>;
const WRITER: usize = usize::MAX;

struct Held {
    /// The process's [`forks`] when this was made: a child makes its own, since another thread of its
    /// parent's may have been at the inherited one, and will never unlock it.
    forks: u32,
    holders: Holders,
}

static HELD: AtomicPtr<Held> = AtomicPtr::new(std::ptr::null_mut());

fn held() -> MutexGuard<'static, HashMap<FileId, usize>> {
    let mut current = HELD.load(Ordering::Acquire);
    let held = loop {
        // SAFETY: a pointer in `HELD` is null or comes from `Box::leak` below and is never freed.
        match unsafe { current.as_ref() } {
            Some(held) if held.forks == forks() => break held,
            _ => {}
        }
        let new = Box::leak(Box::new(Held { forks: forks(), holders: Holders::default() }));
        match HELD.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => break &*new,
            Err(other) => current = other,
        }
    };
    held.holders.lock().unwrap_or_else(PoisonError::into_inner)
}

/// That this process holds a file; until dropped.
#[derive(Debug)]
pub(super) struct Registration {
    file: FileId,
    forks: u32,
    given_up: Option<GivenUp>,
}

impl Registration {
    /// Children of this process give up the lock on the file, if that can be.
    pub(super) fn set_given_up(&mut self, given_up: Option<GivenUp>) {
        self.given_up = given_up;
    }

    /// The file as it may be mapped: opened a second time, without the lock.
    pub(super) fn unlocked(&self) -> Option<&File> {
        self.given_up.as_ref().map(GivenUp::unlocked)
    }

    pub(super) fn enter(file: FileId, access: Access) -> Option<Registration> {
        let mut held = held();
        let users = held.entry(file).or_insert(0);
        match (access, *users) {
            (Access::Write, 0) => *users = WRITER,
            (Access::Read, WRITER) | (Access::Write, _) => return None,
            (Access::Read, readers) => *users = readers + 1,
        }
        Some(Registration { file, forks: forks(), given_up: None })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.forks != forks() {
            return;
        }
        let mut held = held();
        match held.get_mut(&self.file) {
            Some(users) if *users != WRITER && *users > 1 => *users -= 1,
            _ => drop(held.remove(&self.file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    unsafe extern "C" {
        fn fork() -> i32;
        fn _exit(status: i32) -> !;
        fn alarm(seconds: u32) -> u32;
        fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    }

    /// The status of a forked child that runs `work`, 0 if it said that all was well.
    fn status_of_child(work: impl FnOnce() -> bool) -> i32 {
        // SAFETY: the child runs only `work`, and then ends at once.
        let child = unsafe { fork() };
        if child == 0 {
            // SAFETY: a child that waits for a lock that nobody holds is ended, by a signal.
            unsafe { alarm(30) };
            let well = work();
            // SAFETY: ends the child; no destructor of the parent's runs twice.
            unsafe { _exit(if well { 0 } else { 1 }) }
        }
        let mut status = -1;
        // SAFETY: `status` outlives the call, and the child is this process's own.
        let waited = unsafe { waitpid(child, &mut status, 0) };
        assert!(child > 0 && waited == child);
        status
    }

    /// Another thread is amid a registration when the process forks.
    #[test]
    fn a_child_does_not_wait_for_what_its_parent_was_doing() {
        crate::sync::register_process();
        let file = (u64::MAX, 1);
        let inherited = Registration::enter(file, Access::Write).unwrap();
        let (locked, is_locked) = channel();
        let (go_on, may_go_on) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let held = held();
                locked.send(()).unwrap();
                may_go_on.recv().unwrap();
                drop(held);
            });
            is_locked.recv().unwrap();
            let mut inherited = Some(inherited);
            let status = status_of_child(|| {
                let own = Registration::enter(file, Access::Write);
                drop(inherited.take());
                own.is_some() && Registration::enter(file, Access::Write).is_none()
            });
            go_on.send(()).unwrap();
            assert_eq!(status, 0, "the child waited, or was refused what its parent holds");
        });
    }
}
