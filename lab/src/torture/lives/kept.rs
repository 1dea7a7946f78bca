//! Lives that have found something. They run first.

use firndex::Engine;

/// A life by its seed, and whether the file system is filled in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    pub(super) seed: u64,
    pub(super) fill: bool,
}

pub(super) const KEPT: &[Kept] = &[
    // The heap's descriptor words were copied to a place that overlapped the old one.
    Kept { seed: 100_055, fill: false },
    Kept { seed: 100_120, fill: false },
    Kept { seed: 100_028, fill: false },
    // A halved table grew again within a limit below its size, beyond the heads that its stash had.
    Kept { seed: 10_029, fill: false },
];

/// The engine of a life, if none was asked for.
pub(super) fn engine_of(seed: u64) -> Engine {
    Engine::ALL[(seed % Engine::ALL.len() as u64) as usize]
}
