//! Concurrent maps of other authors, from 64-bit keys to 64-bit values, as contenders of firndex's
//! benchmark.
//!
//! Embedded stores in files are in [`disk`]: contenders of suites `durable` and `values`.
//!
//! Caches are in [`caches`]: contenders of suite `cache`.
//!
//! [`Peer`] is a map that the benchmark can open, [`contenders()`] the list of what there is. Every
//! map hashes with firndex's function where it lets one choose, and lies on 2 MiB pages where the
//! kernel has them ([`pages`]).

pub mod caches;
pub mod contenders;
pub mod disk;
pub mod hash;
pub mod maps;
pub mod pages;
pub mod peer;
mod servers;

pub use contenders::{ForEach, contenders, for_each};
pub use peer::Peer;

/// One allocator for all contenders, C++ ones included: it takes the place of `malloc` too.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
