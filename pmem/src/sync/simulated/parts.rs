//! Work in parts, each by a separate simulated thread.

use std::any::Any;
use std::cell::Cell;
use std::mem::transmute;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A part of some work.
pub type Part<'a> = Box<dyn FnOnce() + Send + 'a>;

/// What runs parts as threads of a simulated machine, to their ends.
pub type RunParts = fn(Vec<Part<'static>>);

thread_local! {
    static RUN_PARTS: Cell<Option<RunParts>> = const { Cell::new(None) };
}

/// Puts what runs parts in place, or has them run one after another; returns the former one.
pub fn run_parts_by(by: Option<RunParts>) -> Option<RunParts> {
    RUN_PARTS.replace(by)
}

/// How many parts `units` of work are worth: however few they are, so that small tables have
/// several.
pub fn parts_of(units: u64, _units_per_thread: u64, threads: usize) -> u64 {
    units.clamp(1, threads.max(1) as u64)
}

/// Ends the process when dropped, unless this many parts have ended.
struct AllEnded<'a> {
    ended: &'a AtomicUsize,
    parts: usize,
}

impl Drop for AllEnded<'_> {
    fn drop(&mut self) {
        if self.ended.load(Ordering::Acquire) != self.parts {
            eprintln!("parts of some work wait for each other: what they borrow is about to go");
            std::process::abort();
        }
    }
}

/// Does all parts, and waits for them.
pub fn run_parts(parts: Vec<Part<'_>>) {
    let Some(run) = RUN_PARTS.get().filter(|_| parts.len() > 1) else {
        return parts.into_iter().for_each(|part| part());
    };
    let ended = AtomicUsize::new(0);
    let panic: Mutex<Option<Box<dyn Any + Send>>> = Mutex::new(None);
    {
        let _all_ended = AllEnded { ended: &ended, parts: parts.len() };
        let watched = parts.into_iter().map(|part| {
            let watched = || {
                if let Err(payload) = catch_unwind(AssertUnwindSafe(part)) {
                    *panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(payload);
                }
                ended.fetch_add(1, Ordering::Release);
            };
            Box::new(watched) as Part<'_>
        });
        // SAFETY: what the parts borrow outlives this block, and the block is left, by return or by
        // unwinding, only when every part has ended: else the process ends instead.
        run(unsafe { transmute::<Vec<Part<'_>>, Vec<Part<'static>>>(watched.collect()) });
    }
    if let Some(payload) = panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
        resume_unwind(payload);
    }
}
