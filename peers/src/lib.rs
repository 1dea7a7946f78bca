//! Concurrent maps of other authors, from 64-bit keys to 64-bit values, behind one small trait.
//!
//! [`Map`] is the trait, [`registry`] the list of what there is. Every map hashes with firndex's
//! function where it lets one choose, is sized in advance, and lies on 2 MiB pages when the
//! process was started as [`pages::ALLOCATOR_OPTIONS`] says.

pub mod hash;
pub mod maps;
pub mod pages;
pub mod registry;
pub mod stream;

pub use maps::{Batched, Map};
pub use registry::{CONTENDERS, Contender, WithMap, statically};

/// One allocator for all contenders, C++ ones included: it takes the place of `malloc` too.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
