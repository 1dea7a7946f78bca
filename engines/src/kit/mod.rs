//! What engines share.
//!
//! Most of it is the *bucket kit*: what a hash table of buckets needs besides what its paper says. It is generic over
//! the bucket, never over the algorithm. An engine implements two traits. [`Buckets`](buckets::Buckets): where a key
//! can be, in search order; which of these has room; by which word a change is committed, and how it is shown; what
//! lies elsewhere, in a cache or a stash. [`Operations`](operations::Operations): where an item goes, and how room is
//! made for it. From these the kit makes every operation, once for all engines.
//!
//! | module | what it has |
//! |---|---|
//! | `buckets`, `operations` | the traits that an engine implements |
//! | `unfenced` | changes that share a fence, with their locks |
//! | `search` | reading between two versions, fast and slow |
//! | `change` | mutations, fast and slow; updates in place, into an empty slot, and by the log |
//! | `paths`, `ahead` | which of the two; batches |
//! | `table` | an open table as an `Index` |
//! | `scan`, `scans` | visiting all pairs beside writers |
//! | `doubling` | tables of two choices that double |
//! | `log`, `lock`, `hash`, `packed`, `progress` | what these are built from |
//! | `helper`, `workers`, `parallel`, `crowded` | threads; when a table refuses to double |
//!
//! # The protocol
//!
//! A bucket has a word of state in the sidecar: a lock, a version, and [`WRITING`](buckets::WRITING). A key has a
//! *home*, a lock by its hash.
//!
//! 1. *A bucket changes only under its lock, after a check of the geometry.* A thread that publishes a new geometry and
//!    then empties the bucket must take the same lock. So an item never goes to a bucket that is emptied for good: who
//!    locked it before the geometry was published is waited for, and who locks it later sees that geometry.
//! 2. *A key appears where it was absent only under its home.* The locks of buckets do not suffice: two insertions of
//!    one key may go to different buckets. A change of what is there needs no home, since an item stays in its bucket
//!    while that is locked.
//! 3. *What a bucket shows is durable.* A change is stored and flushed, then comes the fence, then the bucket shows it,
//!    and then its locks are given back. In between the bucket is locked, and a reader that meets it makes durable what
//!    it reports. So nothing that anybody has seen is taken back by a crash.
//! 4. *Every change of what a bucket shows is a new version, and a replacement is shown in an earlier version than the
//!    one that hides the original.* A reader looks at the state before and after. If both are alike except for the
//!    lock, what it read was there at one instant. A key is absent if none of its buckets has changed since it was
//!    looked at, nor the geometry: at the second look all of them are as they were, at one instant. An item that moves
//!    is in both places until its copy is durable and shown, so a search that met neither has met a changed version.
//! 5. *A value that is being overwritten is in the log, and the state says so.* Before the state says so the entry is
//!    durable: from then on recovery ends the update, so a reader may report the new value, from the log.
//! 6. *A thread that waits for a lock holds none, or the home of its key, or the lock of a bucket that a resize empties
//!    in the present geometry.* With changes that have no fence yet it only tries; if that fails it fences, shows them,
//!    and gives all locks back before it waits. Who empties a bucket waits for one that is not being emptied, and gives
//!    up when the geometry changes. Whoever moves an item to make room only tries the bucket that it goes to.
//!
//! The fast path of an operation is the slow one of a single geometry: it reads the states of all buckets of a key
//! first, and does nothing unless they are still what they were. Whatever it does not find so it leaves to the slow
//! path.

pub(crate) mod ahead;
pub(crate) mod buckets;
pub(crate) mod built;
pub(crate) mod change;
pub(crate) mod crowded;
pub(crate) mod doubling;
pub(crate) mod hash;
pub(crate) mod helper;
pub(crate) mod lock;
pub(crate) mod log;
pub(crate) mod mutation;
pub(crate) mod operations;
pub(crate) mod packed;
pub(crate) mod parallel;
pub(crate) mod paths;
pub(crate) mod progress;
pub(crate) mod scan;
pub(crate) mod scans;
pub(crate) mod search;
pub(crate) mod shared;
pub(crate) mod table;
pub(crate) mod unfenced;
pub(crate) mod workers;
