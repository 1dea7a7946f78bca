//! What this machine's memory allows.

/// Figures of one machine, medium, size and number of threads; all of them per thread.
#[derive(Debug, Clone, Copy)]
pub struct Ceilings {
    /// Random lines read a second, each address known only when the last line has come.
    pub reads_1_per_s: f64,
    /// Random lines read a second with 16 under way.
    pub reads_16_per_s: f64,
    /// Bare look-ups a second, one at a time: a fingerprint line, and then a line of the pool whose place follows from
    /// it. Nothing is hashed, compared or returned. This is the best that single look-ups of any table with such a
    /// sidecar can come near to.
    pub bare_gets_per_s: f64,
    /// Bare insertions a second, one at a time: a bare look-up, then the fingerprint line locked and scanned again, a
    /// pair stored, the line changed and unlocked.
    pub bare_inserts_per_s: f64,
    /// Bare insertions a second into the emptier of two buckets, one at a time. Each reads the fingerprints of both,
    /// which lie in two lines of the sidecar, takes the key's lock and the bucket's, stores a pair in a line of the
    /// pool, and unlocks both. This is the best that single insertions of cuckoo tables can come near to.
    pub bare_two_choice_inserts_per_s: f64,
    /// Random lines stored to a second.
    pub stores_per_s: f64,
    /// Random lines stored to, flushed and fenced a second; 0 where nothing can be flushed.
    pub persists_per_s: f64,
    /// Random pairs stored around the caches and fenced a second; 0 where nothing can be flushed.
    pub streams_per_s: f64,
    /// The longest gaps between two stores to cold lines: 1 in 10,000 microseconds, and the longest of all.
    pub stall_p9999_ns: f64,
    /// The longest of them.
    pub stall_max_ns: f64,
    /// The longest time that this loop is charged for ([`crate::effort`]): interrupts, and the host's work if this is a
    /// guest.
    pub stall_own_max_ns: f64,
}

impl Ceilings {
    /// What a look-up or an unflushed change is compared with: it needs a fingerprint line and a line of the pool, both
    /// cold.
    pub fn two_lines_per_s(&self) -> f64 {
        self.reads_16_per_s / 2.0
    }

    /// What an operation is compared with, by whether its flushes are real.
    pub fn of(&self, flushes: bool) -> Option<f64> {
        let ceiling = if flushes { self.persists_per_s } else { self.two_lines_per_s() };
        (ceiling > 0.0).then_some(ceiling)
    }
}
