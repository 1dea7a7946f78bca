//! Figures of a pool.

use crate::{Engine, Kind, Medium, Role};
use index::{CacheUse, Level};
use pmem::durability::{Durability, LogUse};

/// A snapshot of a pool's figures. If others write meanwhile, each figure is from another moment.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// What the pool holds.
    pub kind: Kind,
    /// The engine it is built on.
    pub engine: Engine,
    /// The medium it lies on.
    pub medium: Medium,
    /// Pairs stored.
    pub pairs: u64,
    /// All slots but those that only take overflow: what the load factor is relative to. A table that could not grow
    /// may have more pairs.
    pub capacity: u64,
    /// Pairs divided by these slots, 1 at most.
    pub load_factor: f64,
    /// How full each level is, in the order in which a search visits them.
    pub levels: Vec<Level>,
    /// Whether a resize is under way.
    pub resizing: bool,
    /// Resizes begun since the pool was opened.
    pub resizes: u64,
    /// The cached table in DRAM, if there is one: its size, and how many look-ups it answered.
    pub cached: Option<CacheUse>,
    /// Bytes that the pool takes in its file or memory, including space prepared ahead.
    pub pool_bytes: u64,
    /// Bytes of the engine's sidecar: memory beside the pool, rebuilt on opening.
    pub sidecar_bytes: u64,
    /// Bytes of the heap, which holds the keys and values of a store.
    pub heap_bytes: u64,
    /// Of these, bytes in use.
    pub heap_used_bytes: u64,
    /// Of the heap, bytes whose space was given back to the system:
    /// [`Options::compact_at`](crate::Options::compact_at).
    pub heap_vacant_bytes: u64,
    /// Bytes per pair in index, sidecar and heap, without space prepared ahead.
    pub bytes_per_pair: f64,
    /// What this process is to the pool. A guest has all other figures from the owner.
    pub role: Role,
    /// Guests of the owner: see [`Options::guests`](crate::Options::guests).
    pub guests: u64,
    /// Number of times the pool was opened for writing.
    pub incarnation: u64,
    /// The pool's random identity.
    pub uuid: u128,
    /// What survives power loss while the pool is open. In a pool that is opened read-only: once it is opened for
    /// writing, unless that asks for another durability.
    pub durability: Durability,
    /// Figures of log and checkpoint, if the pool has them and is open for writing.
    pub log: Option<LogUse>,
    /// Milliseconds that opening took, recovery included.
    pub recovery_ms: f64,
    /// Of these, milliseconds for rebuilding the sidecar from the pool.
    pub scan_ms: f64,
}
