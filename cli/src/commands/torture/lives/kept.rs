//! Lives that have found something. They run first.

use firndex::Engine;

/// A life by its seed, and whether the file system is filled in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    pub(super) seed: u64,
    pub(super) fill: bool,
}

/// What each has found, in words.
pub(super) const KEPT: &[Kept] = &[];

/// The engine of a life, if none was asked for.
pub(super) fn engine_of(seed: u64) -> Engine {
    Engine::ALL[(seed % Engine::ALL.len() as u64) as usize]
}
