//! Resizing while operations run: the part that only this engine has. The paper has no resizing; this one is that of
//! `doubling`.
//!
//! An extension adds a data table as large as all before it, with as many nodes for the stash, and about half of the
//! items of each of these move there. Every insertion or removal also empties some buckets of what must move. The items
//! of a bucket are copied, with few fences, and then deleted there. Nodes of the stash that belong to the bucket go to
//! the main table if there is room. A shrink does the reverse: it empties the last table. Its nodes stay.

use super::Core;
use super::bucket::Unfenced;
use super::layout::{Bucket, Locked, RECORD_WORDS, STASH_OWNER, STASHED, has_mark, with_mark};
use crate::kit::crowded::Room;
use crate::kit::doubling::{Doubles, Geometry, Hash, Placed, Tables, slots_in};
use index::Fixed;
use pmem::pool::Draft;
use pmem::superblock::Extent;
use pmem::sync::{Array, AtomicU64, Ordering};
use pmem::{Medium, SpaceError};

/// Copies of a bucket's items that share their fences.
const COPIES: usize = 8;

impl<M: Medium, K: Fixed, V: Fixed> Doubles for Core<M, K, V> {
    type Medium = M;

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

    fn room(&self) -> Room {
        Room { of_bucket: self.bucket.slots, has_way_out: self.shape.design.displaces }
    }

    fn open_scans(&self) -> u64 {
        self.scans.open()
    }

    fn lock_bucket(&self, bucket: u64) -> impl Sized {
        Locked::wait(self.state(bucket))
    }

    fn is_drained(&self, geometry: Geometry, bucket: u64) -> bool {
        has_mark(self.state(bucket).load(Ordering::Acquire), geometry.generation())
    }

    fn mark_drained(&self, geometry: Geometry, bucket: u64) {
        self.set_state(bucket, |state| with_mark(state, geometry.generation()));
    }

    fn used(&self, bucket: u64) -> u64 {
        self.bucket.bitmap(self.medium(), self.at(bucket))
    }

    fn hash_in(&self, bucket: u64, slot: usize) -> Hash {
        self.hash(self.bucket.key(self.medium(), self.at(bucket), slot))
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
        let (medium, at) = (self.medium(), self.at(bucket));
        let mut unfenced = Unfenced::<M, K, V, COPIES>::from(self, bucket);
        for slot in slots_in(self.misplaced(geometry, bucket)) {
            let item = self.bucket.pair(medium, at, slot);
            match self.insert(&mut unfenced, geometry, item, self.hash(item.0), true) {
                Placed::Done => unfenced.end_copy(slot, item.0),
                other => return other,
            }
        }
        unfenced.commit();
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
            let takes = Bucket::<K, V>::takes(item.0);
            if pair[0] == bucket {
                // Of its buckets one is locked here, and the other may be another thread's that waits for this one.
                if takes {
                    self.copy_node_here(bucket, node, item, hash);
                }
                continue;
            }
            let mut unfenced = Unfenced::<M, K, V, 1>::from(self, bucket);
            let mut placed = Placed::NoRoom;
            if takes && !pair.iter().any(is_source) {
                placed = self.insert_into_table(&mut unfenced, geometry, item, hash);
            }
            if matches!(placed, Placed::NoRoom | Placed::Busy) {
                placed = self.insert_into_stash(&mut unfenced, geometry, pair[0], item);
            }
            match placed {
                Placed::Done => unfenced.end_copy_of_node(node, item.0),
                other => return other,
            }
        }
        Placed::Done
    }

    /// Moves a node's item into an empty slot of the locked bucket that the node belongs to, if it has one.
    fn copy_node_here(&self, bucket: u64, node: u64, item: (K, V), hash: Hash) {
        let empty = self.empty(bucket);
        if empty == 0 {
            return;
        }
        self.put_locked(bucket, empty.trailing_zeros() as usize, item, hash.print());
        self.delete_node(bucket, node);
    }
}
