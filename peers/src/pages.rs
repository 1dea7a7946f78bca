//! 2 MiB pages: how to get them, and how many there are.
//!
//! firndex asks the kernel for them by itself. For all other contenders the allocator does, Rust
//! and C++ alike, and for small allocations as for large ones: a map that keeps each pair in a
//! node of its own would otherwise be the only one on 4 KiB pages.

use anyhow::{Context, Result};
use std::fs;

/// Environment variable and value that the measuring process must be started with.
///
/// jemalloc then advises huge pages for all that it maps, and keeps freed pages: giving some back
/// would break large pages up while the clock runs. The process ends soon anyhow.
pub const ALLOCATOR_OPTIONS: (&str, &str) =
    ("MALLOC_CONF", "thp:always,metadata_thp:always,dirty_decay_ms:-1,muzzy_decay_ms:-1");

/// Anonymous memory of this process.
#[derive(Debug, Clone, Copy)]
pub struct Resident {
    /// Bytes of it that are in memory.
    pub bytes: u64,
    /// Of these, bytes on large pages.
    pub huge_bytes: u64,
}

impl Resident {
    /// What there is now.
    pub fn now() -> Result<Self> {
        const SOURCE: &str = "/proc/self/smaps_rollup";
        let text = fs::read_to_string(SOURCE).context(SOURCE)?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
            kib.map(|kib| kib << 10).with_context(|| format!("{SOURCE} has no field {name}"))
        };
        Ok(Resident { bytes: field("Anonymous:")?, huge_bytes: field("AnonHugePages:")? })
    }

    /// What was added since `before`.
    pub fn since(self, before: Resident) -> Resident {
        Resident {
            bytes: self.bytes.saturating_sub(before.bytes),
            huge_bytes: self.huge_bytes.saturating_sub(before.huge_bytes),
        }
    }
}
