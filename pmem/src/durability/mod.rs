//! Surviving power loss on an ordinary disk: a log of what is flushed, and checkpoints.
//!
//! A pool in a file that is mapped shared survives its process. It does not survive power loss, since the kernel writes
//! its pages back in any order. So a [`LineLog`] collects what the engines flush and fence. A [`Durable`] writes the
//! log's cuts to a log on a disk, and from time to time a *checkpoint*, a whole image of the pool. After a power loss a
//! [`SafeCopy`] restores the pool from the last checkpoint and the log after it. The pool file itself is ignored then.
//!
//! The files are in the pool's [directory](crate::file::SafeDirectory).
//!
//! # Checkpoints
//!
//! There are two places for checkpoints: one has the last, the other is room for the next. A checkpoint is a copy of
//! the pool, in the other place, or the log is merged into the last one (`durable::merge`, `checkpoint::merge`). A
//! copy:
//!
//! | step | what an opening finds after a crash here |
//! |---|---|
//! | 1 the other place is marked as room, durably | the former checkpoint and its log |
//! | 2 the next frame's place, and the epoch `s` that it belongs to or precedes, are noted; the pool is copied while it changes | the same |
//! | 3 every operation in flight at the end of the copy ends; epoch `g` is closed and waited for, so the log has whatever the copy caught half | the same |
//! | 4 the first time in a generation: the pool names both this generation and that of the former checkpoint, and is synced | the same |
//! | 5 the header is written, with place, `s`, `g` and a number, and synced | the former one or the new one, both whole; of two the one with the larger number |
//! | 6 the pool names this generation alone | the new one |
//! | 7 the former place is marked as room | the new one |
//! | 8 segments before the noted place are reused | the new one |
//!
//! A merge, of the log up to an epoch that is in it:
//!
//! | step | what an opening finds after a crash here |
//! |---|---|
//! | 1 the sums that the image will have are written to their other place behind it, durably | the checkpoint and its log |
//! | 2 the header with them and the epoch is written to the other place, durably | the same, or that header |
//! | 3 the pages that change are written, and synced | that header: a chunk fits its sum as it is, or with the epoch |
//! | 4 the header with the log's place behind it is written to the image's place, durably | that of step 2, or this |
//! | 5 the other place is marked as room | this one |
//! | 6 segments before the log's new place are reused | this one |
//!
//! If one of these writes fails, the header moves to the image's own place before the other one is used, and no log is
//! merged into that image any more.
//!
//! # Room
//!
//! Both places have space for the pool as large as it is: it grows only if they can, too. So a checkpoint takes no
//! space. A closed pool gives one of them back, if that is much; if the next opening cannot have it again, logs are
//! merged until there is room (`checkpoint::rest`). A segment is made ready when half of the one before is full, or of
//! what was free of it at the opening. If the disk has no room for it, a checkpoint is made at once, and segments
//! before it are used again. Mutations wait meanwhile. If that does not help, since there is only one segment, the log
//! is begun anew in the reserve, a small segment that is kept for this; then that one is free. An opening does the
//! same. So a pool whose disk is full goes on.
//!
//! After any number of killed processes the directory has no more than two checkpoints, the log since the last one,
//! and four segments: an opening uses or removes what its predecessors left that no checkpoint needs. Until it has made
//! its first checkpoint, the log before it counts as well.
//!
//! *Why the image is whole.* A word fenced before the copy began is in it, or something newer. A word that changed
//! later was fenced by an operation that ended before `g` was closed, so its record is in the log from `s` to `g`. Or
//! it is never fenced; then nothing depends on it.
//!
//! # Generations
//!
//! The log of a pool that was closed goes on (`durable::resume`). So does that of a killed process, once it has caught
//! up with the pool (`durable::rejoin`). Any other opening for writing begins a log of a new generation (a random
//! number) in new segments. The former log and checkpoint stay unchanged until the first checkpoint of the new
//! generation has its name: until then a power loss leads back to the former state. Frames of an old generation in
//! reused space do not belong to the log.

mod changes;
mod checkpoint;
pub mod disk;
mod durable;
mod error;
mod frame;
mod image;
mod names;
mod pages;
mod restore;
mod segments;
mod supply;
mod writer;

pub use crate::superblock::{Durability, LogEnd, Logged};
pub use durable::{Attendant, Config, Durable, LogUse, Steps, WhenDurable};
pub use error::{HoldError, LogError, RestoreError};
pub use image::Image;
pub use restore::{Restored, SafeCopy};

#[cfg(doc)]
use crate::line_log::LineLog;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Sizes of the parts of log and checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of the smallest segment, a power of two.
    pub segment_min: u64,
    /// Bytes of the largest one, a power of two.
    pub segment_max: u64,
    /// Bytes of a chunk of the image: pages, and no more than [`CHUNK_BYTES_MAX`].
    pub chunk: u64,
    /// A merge takes memory for so many lines of the pool at once, and for more if the pool is large.
    pub lines_min: u64,
    /// Bytes that the companions of a closed pool may take beside one image of it and a twentieth. What is above that
    /// is given back, as far as it can be.
    pub rest: u64,
}

/// A checkpoint's chunk is not larger.
pub const CHUNK_BYTES_MAX: u64 = 1 << 20;
/// Nor is a segment of the log.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// The sizes of real pools. Others are for simulations with short histories.
impl Default for Sizes {
    fn default() -> Sizes {
        Sizes {
            segment_min: 256 << 10,
            segment_max: SEGMENT_BYTES_MAX,
            chunk: CHUNK_BYTES_MAX,
            lines_min: 64 << 10,
            rest: 64 << 20,
        }
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No holder panics in the middle of a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
