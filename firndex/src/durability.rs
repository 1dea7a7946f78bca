//! The durability that a pool has if its opening asks for none.

use pmem::durability::Durability;
use pmem::medium::MediumKind;
use pmem::superblock::Superblock;

/// The durability of a pool for which none was asked.
pub(crate) fn default_durability(is_in_memory: bool) -> Durability {
    if is_in_memory { Durability::Process } else { Durability::Periodic }
}

/// The durability that the next opening for writing gives a pool if it asks for none.
pub(crate) fn next_durability(
    superblock: &Superblock,
    is_in_memory: impl FnOnce() -> bool,
) -> Durability {
    if let Some(logged) = superblock.logged() {
        return logged.durability;
    }
    // On `dax` there is never a log.
    if superblock.medium == MediumKind::Dax {
        return Durability::Process;
    }
    superblock.durability().unwrap_or_else(|| default_durability(is_in_memory()))
}
