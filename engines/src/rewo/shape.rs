//! What is fixed when a table is created.

use super::layout::{PARAM_CACHE, PARAM_DESIGN, PARAM_SIZES, SLOTS_MAX, slots_for};
use crate::kit::doubling::{LOG2_MAX, log2_for};

/// The design decisions that are in force: all of them, except in measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Design {
    /// How many items an insertion may move, at most 2 (section 3.1).
    pub evictions: u32,
    /// A value that lies in one word is overwritten there.
    pub in_place_update: bool,
    /// A search reads the buckets only of slots whose fingerprint in the sidecar is the key's. Without, it
    /// reads the meta word of each bucket, as in the paper.
    pub sidecar_prints: bool,
}

impl Default for Design {
    fn default() -> Self {
        Design { evictions: 2, in_place_update: true, sidecar_prints: true }
    }
}

impl Design {
    const IN_PLACE: u64 = 1 << 8;
    const SIDECAR: u64 = 1 << 9;

    /// Whether both buckets of a key are looked at first, by their records.
    pub(super) fn has_fast_path(self) -> bool {
        self.sidecar_prints
    }

    fn encode(&self) -> u64 {
        u64::from(self.evictions)
            | if self.in_place_update { Self::IN_PLACE } else { 0 }
            | if self.sidecar_prints { Self::SIDECAR } else { 0 }
    }

    fn decode(bits: u64) -> Design {
        Design {
            evictions: bits as u32 & 3,
            in_place_update: bits & Self::IN_PLACE != 0,
            sidecar_prints: bits & Self::SIDECAR != 0,
        }
    }
}

/// How large the cached table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cached {
    /// An eighth of the persistent table on a medium that reads more slowly than DRAM; else nothing, since a
    /// cache in DRAM of what is in DRAM saves nothing.
    ByMedium,
    /// There is none.
    Nothing,
    /// So many times two smaller than the persistent table, as log2: 0 is as large.
    SmallerLog2(u32),
}

impl Cached {
    /// The most times two that a cached table may be smaller.
    const SMALLER_LOG2_MAX: u32 = 16;
    /// The smallest cached table is this many times smaller than the persistent one.
    pub(super) const PART_MAX: u64 = 1 << Self::SMALLER_LOG2_MAX;

    /// An n-th of the persistent table: of a number between two powers of two, the larger one counts. 0: nothing.
    pub fn part(n: u32) -> Cached {
        match n {
            0 => Cached::Nothing,
            n => {
                let log2 = u32::BITS - (n - 1).leading_zeros();
                Cached::SmallerLog2(log2.min(Self::SMALLER_LOG2_MAX))
            }
        }
    }

    /// As [`Cached::part`] takes it; `None` if nothing was chosen.
    pub(super) fn chosen_part(self) -> Option<u64> {
        match self {
            Cached::ByMedium => None,
            Cached::Nothing => Some(0),
            Cached::SmallerLog2(log2) => Some(1 << log2),
        }
    }

    /// How many times two the cached table is smaller, on a medium; `None`: there is none.
    pub(super) fn smaller_log2(self, reads_slowly: bool) -> Option<u32> {
        match self {
            Cached::ByMedium => reads_slowly.then_some(3),
            Cached::Nothing => None,
            Cached::SmallerLog2(log2) => Some(log2),
        }
    }

    fn encode(self) -> u64 {
        match self {
            Cached::ByMedium => 0,
            Cached::Nothing => 1,
            Cached::SmallerLog2(log2) => 2 + u64::from(log2),
        }
    }

    fn decode(param: u64) -> Option<Cached> {
        match param {
            0 => Some(Cached::ByMedium),
            1 => Some(Cached::Nothing),
            param if param <= 2 + u64::from(Self::SMALLER_LOG2_MAX) => {
                Some(Cached::SmallerLog2(param as u32 - 2))
            }
            _ => None,
        }
    }
}

/// What a table of this engine is fixed to at creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Slots of a bucket, 1 to 15: as many as pairs fit into 256 bytes with a word to spare.
    pub slots: u32,
    /// log2 of the number of buckets of the first data table. The table never gets smaller.
    pub initial_log2: u32,
    /// How large the cached table is.
    pub cached: Cached,
    /// The design decisions in force.
    pub design: Design,
}

impl Shape {
    /// The shape for keys and values with this many bytes together.
    pub fn for_pair_bytes(pair_bytes: u64) -> Shape {
        Shape {
            slots: slots_for(pair_bytes),
            initial_log2: 4,
            cached: Cached::ByMedium,
            design: Design::default(),
        }
    }

    /// The shape that holds `pairs` at `resize_at` without growing.
    #[must_use]
    pub fn for_pairs(self, pairs: u64, resize_at: f64) -> Shape {
        let mut shape = self;
        // A little less than a table of many pairs fills to before an insertion finds no room.
        let fill = resize_at.min(match shape.slots {
            1 => 0.4,
            2 => 0.7,
            3 => 0.8,
            4..=6 => 0.87,
            _ => 0.9,
        });
        let least = shape.initial_log2;
        shape.initial_log2 = log2_for(pairs, shape.slots, fill, least, LOG2_MAX);
        shape
    }

    /// As engine parameters of the superblock.
    pub(super) fn encode(&self) -> [u64; 16] {
        let mut params = [0; 16];
        params[PARAM_SIZES] = u64::from(self.slots) | u64::from(self.initial_log2) << 32;
        params[PARAM_DESIGN] = self.design.encode();
        params[PARAM_CACHE] = self.cached.encode();
        params
    }

    /// The shape that [`engine_params`](super::engine_params) were made of, or what is wrong with them.
    pub fn decode(params: &[u64; 16]) -> Result<Shape, String> {
        let Some(cached) = Cached::decode(params[PARAM_CACHE]) else {
            return Err(format!(
                "a cached table of size {}, which there is not",
                params[PARAM_CACHE]
            ));
        };
        let shape = Shape {
            cached,
            slots: params[PARAM_SIZES] as u32,
            initial_log2: (params[PARAM_SIZES] >> 32) as u32,
            design: Design::decode(params[PARAM_DESIGN]),
        };
        if !(1..=SLOTS_MAX).contains(&shape.slots)
            || shape.initial_log2 > LOG2_MAX
            || shape.design.evictions > 2
        {
            return Err(format!(
                "{shape:?}: buckets have 1 to {SLOTS_MAX} slots, the first table 1 to 2^{LOG2_MAX} \
                 buckets, and an insertion moves at most 2 items"
            ));
        }
        Ok(shape)
    }
}
