//! What is fixed when a table is created.

use super::layout::{
    BUCKET_BYTES_MAX, LEVEL_MAX, PARAM_DESIGN, PARAM_SIZES, SLOTS_MAX, TOKENS_BYTES_MIN,
};
use pmem::LINE;

/// The paper's design decisions that are in force: all of them, except in measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Design {
    /// D2: two hash functions.
    pub two_hashes: bool,
    /// D3: a bottom level. Without one insertions go to the top level only.
    pub two_levels: bool,
    /// D4: an insertion may move one item.
    pub movement: bool,
    /// A search reads the buckets only of slots whose fingerprint in the sidecar is the key's. Without,
    /// it reads one bucket after the other, as in the paper.
    pub fingerprints: bool,
    /// An insertion may move an item from the bottom level to the top one (section 3.2.1).
    pub bottom_to_top: bool,
    /// The level with more items is searched first (section 3.2.1). It makes little difference with
    /// fingerprints.
    pub dynamic_search: bool,
    /// An update uses an empty slot of the bucket, if there is one (section 3.3.4).
    pub log_free_update: bool,
    /// A value that lies in one word is overwritten there.
    pub in_place_update: bool,
}

impl Default for Design {
    fn default() -> Self {
        Design {
            two_hashes: true,
            two_levels: true,
            movement: true,
            fingerprints: true,
            bottom_to_top: true,
            dynamic_search: true,
            log_free_update: true,
            in_place_update: true,
        }
    }
}

impl Design {
    /// Whether searches look at one bucket after the other, and not at four words first.
    pub(super) fn is_one_by_one(&self) -> bool {
        !(self.fingerprints && self.two_hashes)
    }

    fn bits(&self) -> [bool; 8] {
        [
            self.two_hashes,
            self.two_levels,
            self.movement,
            self.bottom_to_top,
            self.dynamic_search,
            self.log_free_update,
            self.in_place_update,
            self.fingerprints,
        ]
    }

    fn encode(&self) -> u64 {
        self.bits().into_iter().enumerate().map(|(bit, is_on)| u64::from(is_on) << bit).sum()
    }

    fn decode(bits: u64) -> Design {
        let is_on = |bit: u32| bits & 1 << bit != 0;
        Design {
            two_hashes: is_on(0),
            two_levels: is_on(1),
            movement: is_on(2),
            bottom_to_top: is_on(3),
            dynamic_search: is_on(4),
            log_free_update: is_on(5),
            in_place_update: is_on(6),
            fingerprints: is_on(7),
        }
    }
}

/// What a table of this engine is fixed to at creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Slots of a bucket, 1 to [`SLOTS_MAX`].
    pub slots: u32,
    /// log2 of the number of buckets that the top level begins with, at least 1. The table never
    /// gets smaller.
    pub initial_log2: u32,
    /// The design decisions in force.
    pub design: Design,
}

impl Default for Shape {
    fn default() -> Self {
        Shape { slots: 4, initial_log2: 4, design: Design::default() }
    }
}

impl Shape {
    /// The shape for keys and values with this many bytes together: four slots as in the paper, but three where a
    /// fourth would cost every bucket a line more. (With 8-byte keys and values a bucket is then one line, and a table
    /// three quarters as large.)
    pub fn for_pair_bytes(pair_bytes: u64) -> Shape {
        let lines = |slots: u64| (TOKENS_BYTES_MIN + slots * pair_bytes).div_ceil(LINE);
        let slots = if lines(3) < lines(4) { 3 } else { 4 };
        Shape { slots, ..Shape::default() }
    }

    /// Most bytes of a key and its value together, in buckets of this many slots.
    pub const fn pair_bytes_max(slots: u32) -> u64 {
        (BUCKET_BYTES_MAX - TOKENS_BYTES_MIN) / slots as u64
    }

    /// The shape that holds `pairs` at `resize_at` without growing.
    #[must_use]
    pub fn for_pairs(self, pairs: u64, resize_at: f64) -> Shape {
        let mut shape = self;
        // A little less than a table of many pairs fills to before an insertion finds no room.
        let fill = resize_at.min(match shape.slots {
            1 => 0.3,
            2 => 0.65,
            3 => 0.82,
            _ => 0.88,
        });
        let fits = |shape: &Shape| {
            ((u64::from(shape.slots) * 3) << shape.initial_log2) as f64 / 2.0 * fill > pairs as f64
        };
        while !fits(&shape) && shape.initial_log2 < LEVEL_MAX {
            shape.initial_log2 += 1;
        }
        shape
    }

    /// As engine parameters of the superblock.
    pub(super) fn encode(&self) -> [u64; 16] {
        let mut params = [0; 16];
        params[PARAM_SIZES] = u64::from(self.slots) | u64::from(self.initial_log2) << 32;
        params[PARAM_DESIGN] = self.design.encode();
        params
    }

    /// The shape that [`engine_params`](super::engine_params) were made of, or what is wrong with them.
    pub fn decode(params: &[u64; 16]) -> Result<Shape, String> {
        let shape = Shape {
            slots: params[PARAM_SIZES] as u32,
            initial_log2: (params[PARAM_SIZES] >> 32) as u32,
            design: Design::decode(params[PARAM_DESIGN]),
        };
        let is_one =
            (1..=SLOTS_MAX).contains(&shape.slots) && (1..=LEVEL_MAX).contains(&shape.initial_log2);
        if !is_one {
            return Err(format!(
                "{shape:?}: buckets have 1 to 8 slots, the top level 2 to 2^{LEVEL_MAX} buckets"
            ));
        }
        Ok(shape)
    }
}
