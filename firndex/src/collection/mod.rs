//! What maps of the standard library have, too, made of the operations of tables and stores.

mod entry;
mod store;
mod table;

pub use entry::{Entry, StoreEntry};

/// Keys removed, or pairs stored, in one call: enough to overlap their cache misses.
const BATCH: usize = 256;
