//! Persistent memory pools: the substrate under every firndex engine.
//!
//! * [`medium`]: the one seam. Every load, store, flush and fence on pool memory goes through a
//!   [`Medium`], dispatched statically.
//! * [`pool`]: one file or anonymous map with two superblock copies and extents that engines
//!   and the heap take from it.
//! * [`slots`]: blocks of slots that are found by number.
//! * [`heap`]: variable-length items, allocated without a log.
//! * [`arena`]: items one behind the other, in segments that are given up as a whole.
//! * [`epoch`]: when a retired item's space may be used again.
//! * [`line_log`]: what threads flush, collected for a log file that survives power loss on a disk.
//! * `durability`: writes that log, and checkpoints; makes a pool of them again.
//! * [`meeting`]: where processes meet that use one pool.
//! * [`view`]: what its owner lets the others see by themselves.
//! * [`sync`]: all shared volatile state, so that a scheduler can be put in.
//! * [`mod@file`]: creating, finding, locking and mapping pool files.

#![cfg(target_pointer_width = "64")]

pub mod arena;
mod bus;
#[cfg(not(any(feature = "simulated", feature = "loom")))]
pub mod durability;
pub mod epoch;
pub mod error;
pub mod file;
pub mod heap;
mod limits;
pub mod line_log;
pub mod medium;
pub mod meeting;
pub mod offset;
pub mod opaque;
pub mod pair;
pub mod pool;
pub mod prefetch;
pub mod signals;
pub mod slots;
mod space_error;
pub mod superblock;
pub mod sync;
pub mod view;

#[doc(hidden)]
pub use error::Named;
pub use error::{Damage, OpenError, SpaceError};
pub use medium::Medium;
pub use offset::{LINE, MEDIA_BLOCK, Offset, WORD};
pub use pool::{Pool, Write};
