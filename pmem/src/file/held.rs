//! Which files this process holds: a lock on a file does not tell two handles of one process apart
//! once they share it, and what a process did before a fork binds the parent alone.

use super::Access;
use crate::sync::forks;
use std::collections::HashMap;
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
}

impl Registration {
    pub(super) fn enter(file: FileId, access: Access) -> Option<Registration> {
        let mut held = held();
        let users = held.entry(file).or_insert(0);
        match (access, *users) {
            (Access::Write, 0) => *users = WRITER,
            (Access::Read, WRITER) | (Access::Write, _) => return None,
            (Access::Read, readers) => *users = readers + 1,
        }
        Some(Registration { file, forks: forks() })
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
