//! What look-ups and scans find, also while others write.

pub(crate) mod collisions;
pub(crate) mod items;
pub(crate) mod scans;
pub(crate) mod store_model;
pub(crate) mod threads;
