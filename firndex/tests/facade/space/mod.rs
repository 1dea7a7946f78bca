//! How much space pools take, give back and use again, and what a full one does.

pub(crate) mod ahead;
pub(crate) mod any_size;
pub(crate) mod emptied;
pub(crate) mod full;
pub(crate) mod given_back;
pub(crate) mod many_pools;
pub(crate) mod reclaim;
pub(crate) mod rising_limit;
pub(crate) mod shrink;
pub(crate) mod small_store;
pub(crate) mod wide_slabs;
