//! What is fixed when a table is created.

use super::layout::{
    LOG2_MAX, NODES_MAX, NODES_OF_ZERO, PARAM_DESIGN, PARAM_SIZES, PARAM_STASH, SLOTS_MAX,
    slots_for,
};
use crate::kit::doubling::log2_for;
use index::{Fixed, are_words};

/// Most nodes for keys that a slot could take.
const STASHED_MAX: u64 = NODES_MAX - NODES_OF_ZERO;

/// The design decisions that are in force: all of them, except in measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Design {
    /// An insertion moves an item if that makes room (section 4.1): once, or never.
    pub displaces: bool,
    /// A search reads the buckets only of slots whose fingerprint in the sidecar is the key's. Without, it reads
    /// both buckets, as in the paper.
    pub sidecar_prints: bool,
    /// A search reads the stash only if it has a key with the same first bucket. Without, it reads a chain of the
    /// stash for each key that is not in the main table, as in the paper.
    pub sticky_bit: bool,
}

impl Default for Design {
    fn default() -> Self {
        Design { displaces: true, sidecar_prints: true, sticky_bit: true }
    }
}

impl Design {
    /// The paper's: without what was added here.
    pub const PAPER: Design = Design { displaces: true, sidecar_prints: false, sticky_bit: false };

    const DISPLACES: u64 = 1;
    const SIDECAR: u64 = 1 << 1;
    const STICKY: u64 = 1 << 2;

    /// Whether both buckets of a key are looked at first, by their records.
    pub(super) fn has_fast_path(self) -> bool {
        self.sidecar_prints && self.sticky_bit
    }

    fn encode(self) -> u64 {
        [
            (self.displaces, Self::DISPLACES),
            (self.sidecar_prints, Self::SIDECAR),
            (self.sticky_bit, Self::STICKY),
        ]
        .into_iter()
        .filter(|&(is_in_force, _)| is_in_force)
        .fold(0, |bits, (_, bit)| bits | bit)
    }

    fn decode(bits: u64) -> Design {
        Design {
            displaces: bits & Self::DISPLACES != 0,
            sidecar_prints: bits & Self::SIDECAR != 0,
            sticky_bit: bits & Self::STICKY != 0,
        }
    }
}

/// What a table of this engine is fixed to at creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Slots of a bucket, 1 to 8: as many as pairs fit into two lines.
    pub slots: u32,
    /// log2 of the number of buckets of the first data table. The table never gets smaller.
    pub initial_log2: u32,
    /// How many hundredths of all slots and nodes the stash has, 0 to 5.
    pub stash_percent: u32,
    /// The design decisions in force.
    pub design: Design,
}

impl Shape {
    /// Most hundredths that a stash has (section 4.2).
    pub const STASH_PERCENT_MAX: u32 = 5;

    /// The shape for a `K` and a `V`.
    pub fn for_pair<K: Fixed, V: Fixed>() -> Shape {
        Shape::for_sizes((K::layout_bytes() + V::layout_bytes()) as u64, are_words::<K, V>())
    }

    /// The shape for pairs of this many bytes. `words`: whether key and value are a word each.
    pub fn for_sizes(pair_bytes: u64, words: bool) -> Shape {
        Shape {
            slots: slots_for(pair_bytes, words),
            initial_log2: 4,
            stash_percent: 3,
            design: Design::default(),
        }
    }

    /// The shape that holds `pairs` at `resize_at` without growing.
    #[must_use]
    pub fn for_pairs(self, pairs: u64, resize_at: f64) -> Shape {
        let mut shape = self;
        // A little less than a table of many pairs fills to before an insertion finds no room.
        let fill = resize_at.min(match shape.slots {
            1 => 0.35,
            2 => 0.6,
            3 => 0.75,
            4..=6 => 0.82,
            _ => 0.93,
        });
        let least = shape.initial_log2;
        shape.initial_log2 = log2_for(pairs, shape.slots, fill, least, LOG2_MAX);
        shape
    }

    /// Nodes of the stash that come with the first data table, for keys that a slot could take.
    pub(super) fn first_nodes(&self) -> u64 {
        let (slots, percent) =
            (u64::from(self.slots) << self.initial_log2, u64::from(self.stash_percent));
        (slots * percent).div_ceil(100 - percent)
    }

    /// Nodes that come with a data table. Each doubling doubles them, up to the most that a stash has. With the first
    /// table come two more: what no slot takes lies there.
    pub(super) fn nodes_of(&self, table: usize) -> u64 {
        let first = self.first_nodes().min(STASHED_MAX);
        match table {
            0 => NODES_OF_ZERO + first,
            table => {
                let before = first << (table - 1);
                before.min(STASHED_MAX.saturating_sub(before))
            }
        }
    }

    /// As engine parameters of the superblock.
    pub(super) fn encode(&self) -> [u64; 16] {
        let mut params = [0; 16];
        params[PARAM_SIZES] = u64::from(self.slots) | u64::from(self.initial_log2) << 32;
        params[PARAM_DESIGN] = self.design.encode();
        params[PARAM_STASH] = self.stash_percent.into();
        params
    }

    /// The shape that [`engine_params`](super::engine_params) were made of, or what is wrong with them.
    pub fn decode(params: &[u64; 16]) -> Result<Shape, String> {
        let shape = Shape {
            slots: params[PARAM_SIZES] as u32,
            initial_log2: (params[PARAM_SIZES] >> 32) as u32,
            stash_percent: u32::try_from(params[PARAM_STASH]).unwrap_or(u32::MAX),
            design: Design::decode(params[PARAM_DESIGN]),
        };
        if !(1..=SLOTS_MAX).contains(&shape.slots)
            || shape.initial_log2 > LOG2_MAX
            || shape.stash_percent > Self::STASH_PERCENT_MAX
        {
            return Err(format!(
                "{shape:?}: buckets have 1 to {SLOTS_MAX} slots, the first table 1 to 2^{LOG2_MAX} \
                 buckets, and the stash at most {} hundredths",
                Self::STASH_PERCENT_MAX
            ));
        }
        Ok(shape)
    }
}
