//! Resizing while operations run: the part that only this engine has. The paper has no resizing; this one is that of
//! `doubling`.
//!
//! An extension adds a data table as large as all before it, with as many nodes for the stash, and about half of the
//! items of each of these move there. Every insertion or removal also empties some buckets of what must move. The items
//! of a bucket are copied, with few fences, and then deleted there. Nodes of the stash that belong to the bucket go to
//! the main table if there is room. A shrink does the reverse: it empties the last table. Its nodes stay.

use super::Core;
use super::layout::{RECORD_WORDS, STASH_OWNER, STASHED, has_mark, with_mark};
use super::search::Spot;
use crate::kit::buckets::Buckets;
use crate::kit::change::Mutate;
use crate::kit::crowded::Room;
use crate::kit::doubling::{Doubles, Geometry, Tables};
use crate::kit::hash::Hash;
use crate::kit::operations::Placed;
use crate::kit::unfenced::Unfenced;
use index::Fixed;
use pmem::pool::Draft;
use pmem::superblock::Extent;
use pmem::sync::{Array, AtomicU64, Ordering};
use pmem::{Medium, SpaceError};

impl<M: Medium, K: Fixed, V: Fixed> Doubles for Core<M, K, V> {
    const RECORD_WORDS: usize = RECORD_WORDS;
    const FULL: &'static str = "the buckets of a key and the stash are full";

    #[inline(always)]
    fn tables(&self) -> &Tables<M> {
        &self.tables
    }

    fn records(&self) -> &Array<AtomicU64> {
        &self.records
    }

    fn capacity(&self, geometry: Geometry) -> u64 {
        let doublings = geometry.log2() - self.shape.initial_log2;
        (u64::from(self.bucket.slots) << geometry.log2()) + (self.shape.first_nodes() << doublings)
    }

    fn room_for_keys(&self) -> Room {
        Room { of_bucket: self.bucket.slots, has_way_out: self.shape.design.displaces }
    }

    fn is_drained(&self, geometry: Geometry, bucket: u64) -> bool {
        has_mark(self.state(bucket).load(Ordering::Acquire), geometry.generation())
    }

    fn mark_drained(&self, geometry: Geometry, bucket: u64) {
        self.change_state(bucket, |state| with_mark(state, geometry.generation()));
    }

    fn has_sidecar_for(&self, log2: u32) -> bool {
        self.stash.has_room_for(&self.shape, log2)
    }

    fn bytes_beside(&self, table: usize) -> u64 {
        self.stash.bytes_of(table)
    }

    fn take_beside(&self, draft: &mut Draft, table: usize) -> Result<Option<Extent>, SpaceError> {
        draft.take_extent(STASH_OWNER, table as u8, self.stash.bytes_of(table)).map(Some)
    }

    fn add_beside(&self, table: usize, extent: Extent) {
        self.stash.add(table, extent.start);
    }

    fn copy_out(&self, geometry: Geometry, bucket: u64) -> Placed {
        match self.copy_out_of(geometry, bucket, self.misplaced(geometry, bucket)) {
            Placed::Done => {}
            other => return other,
        }
        if self.state(bucket).load(Ordering::Relaxed) & STASHED != 0 {
            return self.copy_out_nodes(geometry, bucket);
        }
        Placed::Done
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Moves what belongs to a locked bucket from the stash to the main table if there is room, and copies the rest to
    /// nodes of the buckets that it belongs to now. (Relinked, a node would be in neither chain for a moment.)
    #[cold]
    fn copy_out_nodes(&self, geometry: Geometry, bucket: u64) -> Placed {
        let is_source = |bucket: &u64| geometry.sources().contains(bucket);
        for node in self.stash.nodes_of(bucket) {
            let item = self.stash.pair(self.medium(), node);
            let hash = self.hash(item.0);
            let pair = self.pair_among(geometry.log2(), hash);
            let takes = Self::takes(item.0);
            if pair[0] == bucket {
                // Of its buckets one is locked here, and the other may be another thread's that waits for this one.
                if takes {
                    self.copy_node_here(bucket, node, item, hash);
                }
                continue;
            }
            let mut unfenced = Unfenced::<Self, 1>::from(self, bucket);
            let mut placed = Placed::NoRoom;
            if takes && !pair.iter().any(is_source) {
                placed = self.insert_into_table(&mut unfenced, geometry, item, hash);
            }
            if matches!(placed, Placed::NoRoom | Placed::Busy) {
                placed = self.insert_into_stash(&mut unfenced, geometry, pair[0], item);
            }
            match placed {
                Placed::Done => unfenced.end_copy(Spot::Node(node), item.0),
                other => return other,
            }
        }
        Placed::Done
    }

    /// Moves a node's item into an empty slot of the locked bucket that the node belongs to, if it has one.
    fn copy_node_here(&self, bucket: u64, node: u64, item: (K, V), hash: Hash) {
        let Some(slot) = self.empty_slot(bucket) else { return };
        self.put_locked(bucket, slot, item, hash.print());
        self.delete_node(bucket, node);
    }
}
