//! How Level hashing describes itself.

use super::layout::SLOTS_MAX;
use super::{Core, LevelHashing, Shape};
use crate::Settings;
use crate::engine::{
    Describe, Description, HotPath, PairSizes, Parameter, Parameters, Wanted, holds_pairs_up_to,
};
use crate::kit::operations::Operations;
use index::{Fixed, ItemReader, Record};
use pmem::superblock::ENGINE_PARAMS;
use pmem::{Medium, OpenError, Pool};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Level hashing in the list of engines.
#[derive(Debug)]
pub enum Engine {}

/// The parameter of buckets' slots.
pub const SLOTS: &str = "slots";
/// Slots of a bucket where none were asked for, as far as it matters which pairs fit.
const SLOTS_DEFAULT: u32 = 4;

/// The slots that buckets can have which hold such pairs.
fn slots_for(sizes: PairSizes) -> Option<RangeInclusive<u64>> {
    let fits =
        |&slots: &u32| sizes.key_bytes > 0 && sizes.pair_bytes() <= Shape::pair_bytes_max(slots);
    (1..=SLOTS_MAX).rev().find(fits).map(|most| 1..=most.into())
}

impl Describe for Engine {
    const DESCRIPTION: Description = Description {
        id: 2,
        name: "level",
        title: "Level hashing",
        paper: "Zuo, Hua, Wu: Level Hashing: A High-performance and Flexible-resizing Persistent \
                Hashing Index Structure. ACM Transactions on Storage 15(2), 2019",
        summary: "Grows and shrinks in place, on demand or by itself, and rehashes a third of its buckets.",
        pair_sizes: "keys of at least 1 byte, and at most 127 bytes for key and value together",
        pair_bytes_max: Shape::pair_bytes_max(SLOTS_DEFAULT),
        parameters: &[Parameter {
            name: SLOTS,
            help: "slots of a bucket, 1 to 8 (default: 4, or 3 if a fourth costs another line)",
            bounds: slots_for,
        }],
        shrinks_by_itself: true,
        scans_exactly: true,
        is_lock_free: false,
        has_helpers: false,
        opens_at_once: false,
    };

    holds_pairs_up_to!(Shape::pair_bytes_max(1), LevelHashing);

    type HotPath<M: Medium> = Hot<M>;

    fn takes(sizes: PairSizes, parameters: &Parameters) -> bool {
        let slots = parameters.get(SLOTS).unwrap_or(SLOTS_DEFAULT.into());
        parameters.iter().all(|(name, _)| name == SLOTS)
            && slots_for(sizes).is_some_and(|fitting| fitting.contains(&slots))
    }

    fn may_hold(sizes: PairSizes) -> bool {
        slots_for(sizes).is_some()
    }

    fn engine_params(wanted: &Wanted<'_>) -> [u64; ENGINE_PARAMS] {
        let mut shape = Shape::for_pair_bytes(wanted.sizes.pair_bytes());
        if let Some(slots) = wanted.parameters.get(SLOTS) {
            // Nothing beyond its bounds comes here; what does, no pool is opened with.
            shape.slots = u32::try_from(slots).unwrap_or(u32::MAX);
        }
        shape.for_pairs(wanted.pairs, wanted.resize_at).encode()
    }

    fn parameters_of(engine_params: &[u64; ENGINE_PARAMS]) -> Parameters {
        let mut parameters = Parameters::default();
        if let Ok(shape) = Shape::decode(engine_params) {
            parameters.set(SLOTS, shape.slots.into());
        }
        parameters
    }

    fn hot_path_of_words<M: Medium>(table: &Self::Words<M>) -> Option<Hot<M>> {
        Some(Hot { core: Arc::clone(&table.core), items: None })
    }

    fn hot_path_of_bytes<M: Medium>(store: &Self::Bytes<M>) -> Option<Hot<M>> {
        Some(Hot { core: Arc::clone(&store.index().core), items: Some(store.reader()) })
    }
}

/// Look-ups in a table or a store.
pub struct Hot<M: Medium> {
    core: Arc<Core<M, u64, u64>>,
    /// Those of a store.
    items: Option<ItemReader<M>>,
}

impl<M: Medium> HotPath for Hot<M> {
    #[inline(always)]
    fn get(&self, key: u64, _: impl FnOnce() -> Option<u64>) -> Option<u64> {
        self.core.get(key)
    }

    #[inline(always)]
    fn get_bytes<'a>(&'a self, key: &[u8]) -> Option<Option<Record<'a>>> {
        let items = self.items.as_ref()?;
        let (guard, hash) = items.begin(key);
        let slot = self.core.get(hash);
        items.end(guard, key, slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_what_fits_its_buckets() {
        // Most slots of a bucket; 0 where pairs fit none.
        for (key_bytes, value_bytes, most) in [
            (8, 8, 8),
            (8, 4, 8),
            (16, 0, 8),
            (1, 126, 4),
            (127, 0, 4),
            (120, 8, 3),
            (1, 127, 3),
            (200, 54, 2),
            (1, 510, 1),
            (1, 511, 0),
            (0, 8, 0),
            (0, 0, 0),
            (u32::MAX, u32::MAX, 0),
        ] {
            let sizes = PairSizes { key_bytes, value_bytes };
            for slots in 0..10 {
                let mut parameters = Parameters::default();
                parameters.set(SLOTS, slots);
                let is_within = (1..=most).contains(&slots);
                assert_eq!(Engine::takes(sizes, &parameters), is_within, "{sizes:?}, {slots}");
            }
            let takes = Engine::takes(sizes, &Parameters::default());
            assert_eq!(takes, most >= 4, "{sizes:?}");
            assert_eq!(Engine::may_hold(sizes), most > 0, "{sizes:?}");
        }
        let mut parameters = Parameters::default();
        parameters.set("shelves", 4);
        assert!(!Engine::takes(PairSizes::WORDS, &parameters));
    }
}
