//! What [`check`](crate::Index::check) and [`occupancy`](crate::Index::occupancy) report.

/// How full one level is (or, for the heap, one kind of space).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// The paper's name of the level, e.g. `level 1`.
    pub name: &'static str,
    /// Pairs stored in it.
    pub pairs: u64,
    /// Slots it has.
    pub slots: u64,
    /// Pool bytes of its extents.
    pub pool_bytes: u64,
    /// Volatile bytes of its sidecar.
    pub sidecar_bytes: u64,
}

/// How full a table is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Occupancy {
    /// The levels in the order in which a search visits them.
    pub levels: Vec<Level>,
    /// Slots that the load factor is relative to, without levels that only take overflow.
    pub capacity: u64,
    /// Whether a resize is under way.
    pub resizing: bool,
    /// Resizes completed or begun since the pool was opened.
    pub resizes: u64,
    /// Figures of the cached table, if the engine has one in use.
    pub cached: Option<CacheUse>,
}

/// Size of the cached table in DRAM, and its answers since the pool was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheUse {
    /// Bytes of DRAM, included in those of the sidecar.
    pub bytes: u64,
    /// Whether it has every pair, so that it also knows which keys are absent.
    pub is_full_loaded: bool,
    /// Look-ups that found their key in it.
    pub hits: u64,
    /// Look-ups of absent keys that it answered.
    pub absences: u64,
    /// Look-ups that had to read the pool.
    pub misses: u64,
}

impl CacheUse {
    /// The part of look-ups that did not touch the pool, 0 to 1; 0 if there were none.
    pub fn hit_rate(&self) -> f64 {
        let answered = self.hits + self.absences;
        answered as f64 / (answered + self.misses).max(1) as f64
    }
}

impl Occupancy {
    /// Pairs in all levels.
    pub fn pairs(&self) -> u64 {
        self.levels.iter().map(|level| level.pairs).sum()
    }

    /// Pairs per slot of capacity, 0 to 1. Levels that take overflow add pairs but no slots, so a table with more pairs
    /// than capacity counts as full.
    pub fn load_factor(&self) -> f64 {
        (self.pairs() as f64 / self.capacity.max(1) as f64).min(1.0)
    }

    /// Pool bytes of all levels' extents.
    pub fn pool_bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.pool_bytes).sum()
    }

    /// Volatile bytes of all levels' sidecars.
    pub fn sidecar_bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.sidecar_bytes).sum()
    }

    /// Bytes per pair, pool and sidecar together, keys and values included.
    pub fn bytes_per_pair(&self) -> f64 {
        (self.pool_bytes() + self.sidecar_bytes()) as f64 / self.pairs().max(1) as f64
    }
}

/// The outcome of a shrink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shrunk {
    /// The table has half as many buckets as before.
    Halved,
    /// It has its first size, or is too full to become smaller.
    Kept,
}

/// The outcome of a check: how much was verified, and what was wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// Pairs that were found and verified.
    pub pairs: u64,
    /// Slots, items and other structures verified.
    pub looked_at: u64,
    /// Total number of faults, listed or not.
    pub faults: u64,
    /// The first faults in words: what was found, what was expected, where.
    pub findings: Vec<String>,
}

impl CheckReport {
    /// Findings beyond this many are counted, not listed.
    pub const MAX_FINDINGS: usize = 100;

    /// Whether no fault was found.
    pub fn is_sound(&self) -> bool {
        self.faults == 0
    }

    /// Records a fault.
    pub fn fault(&mut self, finding: &dyn Fn() -> String) {
        self.faults += 1;
        if self.findings.len() < Self::MAX_FINDINGS {
            self.findings.push(finding());
        }
    }

    /// Adds what another part of the check found.
    pub fn merge(&mut self, other: CheckReport) {
        self.pairs += other.pairs;
        self.looked_at += other.looked_at;
        self.faults += other.faults;
        let room = Self::MAX_FINDINGS.saturating_sub(self.findings.len());
        self.findings.extend(other.findings.into_iter().take(room));
    }
}
