//! What the interface offers: types, options, and what maps of the standard library have, too.

pub(crate) mod collection;
pub(crate) mod equality;
pub(crate) mod forced_flushes;
pub(crate) mod pair_sizes;
pub(crate) mod shapes;
pub(crate) mod structs;
