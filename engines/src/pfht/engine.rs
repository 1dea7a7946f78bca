//! How PFHT describes itself.

use super::layout::{BUCKET_BYTES, slots_for};
use super::{Pfht, Shape};
use crate::Settings;
use crate::engine::{
    Describe, Description, NoHotPath, PairSizes, Parameter, Parameters, Wanted, holds_pairs_up_to,
};
use index::Fixed;
use pmem::superblock::ENGINE_PARAMS;
use pmem::{Medium, OpenError, Pool, WORD};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// PFHT in the list of engines.
#[derive(Debug)]
pub enum Engine {}

/// The parameter of buckets' slots.
pub const SLOTS: &str = "slots";
/// The parameter of the stash's size.
pub const STASH: &str = "stash";

/// Most bytes of a pair.
const PAIR_BYTES_MAX: u64 = BUCKET_BYTES - WORD;

/// The slots that buckets can have which hold such pairs.
fn bounds_of_slots(sizes: PairSizes) -> Option<RangeInclusive<u64>> {
    let most = u64::from(slots_for(sizes.pair_bytes(), sizes == PairSizes::WORDS));
    (sizes.key_bytes > 0 && most > 0).then_some(1..=most)
}

fn bounds_of_stash(sizes: PairSizes) -> Option<RangeInclusive<u64>> {
    bounds_of_slots(sizes).map(|_| 0..=u64::from(Shape::STASH_PERCENT_MAX))
}

impl Describe for Engine {
    const DESCRIPTION: Description = Description {
        id: 5,
        name: "pfht",
        title: "PFHT",
        paper: "Debnath, Haghdoost, Kadav, Khatib, Ungureanu: Revisiting Hash Table Design for Phase Change Memory",
        summary: "Cuckoo hashing that moves at most one item, with a stash. Gets the fullest, with the fewest writes.",
        pair_sizes: "keys of at least 1 byte, and at most 120 bytes for key and value together",
        pair_bytes_max: PAIR_BYTES_MAX,
        parameters: &[
            Parameter {
                name: SLOTS,
                help: "slots of a bucket, 1 to 8 (default: as many as two lines hold)",
                bounds: bounds_of_slots,
            },
            Parameter {
                name: STASH,
                help: "size of the stash in hundredths of the table, 0 to 5 (default: 3)",
                bounds: bounds_of_stash,
            },
        ],
        shrinks_by_itself: true,
        scans_exactly: true,
        is_lock_free: false,
        has_helpers: true,
        opens_at_once: false,
    };

    holds_pairs_up_to!(PAIR_BYTES_MAX, Pfht);

    // Each engine that has one makes the choice among them longer, for all.
    type HotPath<M: Medium> = NoHotPath;

    fn engine_params(wanted: &Wanted<'_>) -> [u64; ENGINE_PARAMS] {
        let is_words = wanted.sizes == PairSizes::WORDS;
        let mut shape = Shape::for_sizes(wanted.sizes.pair_bytes(), is_words);
        if let Some(slots) = wanted.parameters.get(SLOTS) {
            // Nothing beyond its bounds comes here; what does, no pool is opened with.
            shape.slots = u32::try_from(slots).unwrap_or(u32::MAX);
        }
        if let Some(percent) = wanted.parameters.get(STASH) {
            shape.stash_percent = u32::try_from(percent).unwrap_or(u32::MAX);
        }
        shape.for_pairs(wanted.pairs, wanted.resize_at).encode()
    }

    fn parameters_of(engine_params: &[u64; ENGINE_PARAMS]) -> Parameters {
        let mut parameters = Parameters::default();
        if let Ok(shape) = Shape::decode(engine_params) {
            parameters.set(SLOTS, shape.slots.into());
            parameters.set(STASH, shape.stash_percent.into());
        }
        parameters
    }
}

#[cfg(test)]
mod tests {
    use super::super::SLOTS_MAX;
    use super::*;

    #[test]
    fn it_takes_what_fits_its_buckets() {
        // Most slots of a bucket; 0 where pairs fit none.
        for (key_bytes, value_bytes, most) in [
            (8, 8, 8),
            (1, 0, 8),
            (16, 15, 3),
            (8, 7, 8),
            (60, 0, 2),
            (1, 59, 2),
            (120, 0, 1),
            (8, 113, 0),
            (0, 8, 0),
            (0, 0, 0),
            (u32::MAX, u32::MAX, 0),
        ] {
            let sizes = PairSizes { key_bytes, value_bytes };
            for slots in 0..=u64::from(SLOTS_MAX) + 1 {
                let mut parameters = Parameters::default();
                parameters.set(SLOTS, slots);
                let is_within = (1..=most).contains(&slots);
                assert_eq!(Engine::takes(sizes, &parameters), is_within, "{sizes:?}, {slots}");
            }
            assert_eq!(Engine::takes(sizes, &Parameters::default()), most > 0, "{sizes:?}");
            assert_eq!(Engine::may_hold(sizes), most > 0, "{sizes:?}");
        }
        let mut parameters = Parameters::default();
        parameters.set("shelves", 4);
        assert!(!Engine::takes(PairSizes::WORDS, &parameters));
    }
}
