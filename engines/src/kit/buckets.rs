//! What an engine says of its buckets. Everything else of an operation is the kit's.

use super::hash::Hash;
use super::mutation::Likely;
use super::packed::second_of;
use super::shared::Shared;
use index::Fixed;
use pmem::sync::{AtomicU64, Ordering};
use pmem::{Medium, Offset};
use std::ops::Range;

/// Bit of a bucket's state, and of a home: it is locked. Only the lock holder changes the bucket and its state.
pub(crate) const LOCK: u64 = 1;
/// Bit of a bucket's state: one of its values is being overwritten, and is in the log.
pub(crate) const WRITING: u64 = 1 << 1;

/// The lock of a bucket or of a home, held until dropped.
pub(crate) type Locked<'a> = super::lock::Locked<'a, LOCK>;

/// A key and its value.
pub(crate) type Item<T> = (<T as Buckets>::Key, <T as Buckets>::Value);

/// A bucket, and where it begins: what a change knows once and would else look for again behind each store.
#[derive(Clone, Copy)]
pub(crate) struct Located<B> {
    pub(crate) bucket: B,
    pub(crate) at: Offset,
}

/// The buckets of a key while no resize is under way.
pub(crate) trait Near: Copy + Default {
    type Geometry;
    type Bucket;

    /// The geometry in which they are that.
    fn geometry(&self) -> Self::Geometry;

    fn bucket(&self, nth: usize) -> Self::Bucket;
}

/// What the sidecar shows of [`Near`] buckets.
pub(crate) trait Seen: Copy + Default {
    fn state(&self, nth: usize) -> u64;

    /// [`Buckets::wraps`] before they were read.
    #[inline(always)]
    fn wraps(&self) -> u64 {
        0
    }
}

/// A change of a locked bucket whose fence is still to come.
pub(crate) trait Pending: Copy + Default {
    type Bucket;

    fn bucket(&self) -> Self::Bucket;

    /// Whether it is committed after the first fence, since the item is in another line than the word that commits it.
    fn is_late(&self) -> bool;
}

/// A table of buckets, each with a word of state in the sidecar: lock, version, [`WRITING`].
pub(crate) trait Buckets: Send + Sync + Sized {
    type Key: Fixed;
    type Value: Fixed;
    type Medium: Medium;
    /// Which buckets there are, and which resize is under way, as one word.
    type Geometry: Copy + Eq + std::fmt::Debug;
    /// Which bucket.
    type Bucket: Copy + Eq;
    /// Where an item is that belongs to a bucket: in a slot, or in what the engine has besides.
    type Spot: Copy;
    type Near: Near<Geometry = Self::Geometry, Bucket = Self::Bucket>;
    type Seen: Seen;
    type Pending: Pending<Bucket = Self::Bucket>;
    /// The spots of a bucket whose items a resize has copied elsewhere.
    type Copied: Copy + Default;
    /// What another place than the buckets, such as a cache, is to learn of a change when that is durable.
    type Aside: Copy;

    /// For a change of which no other place learns.
    const NOTHING_ASIDE: Self::Aside;
    /// A removal erases the key before that is durable. Else it stays readable until the bucket shows it no longer.
    const ERASES_KEYS: bool = false;
    /// A copy of a resize goes to a bucket that no other copy holds, if there is one, and only then to the emptier one:
    /// one that is held would have to be made durable first. Half of the items that leave a bucket share their first
    /// choice.
    const COPIES_KEEP_APART: bool = true;

    // What there is.

    fn medium(&self) -> &Self::Medium;
    fn geometry(&self) -> Self::Geometry;
    fn shared(&self) -> &Shared<Self::Key>;

    /// h1 and h2.
    #[inline(always)]
    fn hash(&self, key: Self::Key) -> Hash {
        Hash(second_of(&self.shared().hasher, key))
    }

    /// Where a bucket begins. It stays there for as long as the bucket is locked, or its geometry lasts.
    fn at(&self, bucket: Self::Bucket) -> Offset;

    #[inline(always)]
    fn locate(&self, bucket: Self::Bucket) -> Located<Self::Bucket> {
        Located { bucket, at: self.at(bucket) }
    }

    // The state of a bucket.

    fn state(&self, bucket: Self::Bucket) -> &AtomicU64;

    /// The state with the next version: what the bucket shows has changed.
    fn next_version(state: u64) -> u64;

    /// Stores the state of a locked bucket.
    #[inline(always)]
    fn set_state(&self, bucket: Self::Bucket, state: u64) {
        self.state(bucket).store(state, Ordering::Release);
    }

    /// How often a version has come around. Equal states mean an unchanged bucket only if that has not happened
    /// meanwhile.
    #[inline(always)]
    fn wraps(&self) -> u64 {
        0
    }

    // Where a key can be.

    /// The buckets where a key can be, in the order in which its item moves; of each pair the first choice first.
    fn places(
        &self,
        geometry: Self::Geometry,
        hash: Hash,
    ) -> impl Iterator<Item = [Self::Bucket; 2]>;

    /// Where a key is in a bucket, and the slots on which an absence rests; 0: none. The bucket may be changing: the
    /// caller looks at its state again. `is_first`: it is the key's first choice.
    fn look_in(
        &self,
        bucket: Self::Bucket,
        state: u64,
        key: Self::Key,
        hash: Hash,
        is_first: bool,
    ) -> (Option<Self::Spot>, u64);

    fn value_in(&self, bucket: Self::Bucket, spot: Self::Spot) -> Self::Value;

    /// Makes durable that an item is there.
    fn persist_item(&self, bucket: Self::Bucket, spot: Self::Spot);

    /// Makes durable that an item is not in the slots `shown`, any more.
    fn persist_absence(&self, bucket: Self::Bucket, shown: u64);

    /// Level, number of the bucket and slot in the log.
    fn in_log(bucket: Self::Bucket, spot: Self::Spot) -> (u32, u64, usize);

    /// Whether an entry with the number of a bucket is of that.
    #[inline(always)]
    fn is_in_log_of(_bucket: Self::Bucket, _level: u32) -> bool {
        true
    }

    /// The slots of a locked bucket that are in use.
    fn used(&self, bucket: Self::Bucket) -> u64;

    fn key_in(&self, bucket: Self::Bucket, slot: usize) -> Self::Key;

    // The same in few instructions, while no resize is under way.

    /// The buckets of a key; `None`: there are more, or they are to be searched one by one.
    fn near(&self, hash: Hash) -> Option<Self::Near>;

    fn see(&self, near: &Self::Near) -> Self::Seen;

    /// What of the states has changed since they were seen, and the bits that are set in any of them now.
    fn changes(&self, near: &Self::Near, seen: &Self::Seen) -> (u64, u64);

    /// The slots with the fingerprint of this hash.
    fn slots_with(&self, seen: &Self::Seen, hash: Hash) -> u32;

    /// Which bucket, and the slot, for a bit of [`Buckets::slots_with`].
    fn nth_slot(bit: u32) -> (usize, usize);

    fn spot(slot: usize) -> Self::Spot;

    /// The item in a slot, as it is read beside writers.
    fn item(&self, at: Offset, slot: usize) -> Item<Self>;

    /// Whether a key that is not in its buckets may be elsewhere.
    #[inline(always)]
    fn may_be_elsewhere(_seen: &Self::Seen) -> bool {
        false
    }

    /// In which of the buckets an item is put, and in which slot.
    fn room(&self, seen: &Self::Seen) -> Option<(usize, usize)>;

    /// Whether a slot takes a key.
    #[inline(always)]
    fn takes(_key: Self::Key) -> bool {
        true
    }

    // Hints.

    /// The states are about to be read.
    fn prefetch_states(&self, near: &Self::Near);

    /// An item is about to be read; where, the states will tell, but then it is late.
    #[inline(always)]
    fn prefetch_items(&self, _near: &Self::Near) {}

    /// A slot is about to be written.
    fn prefetch_slot(&self, at: Offset, slot: usize);

    /// An operation on a key is about to do what is likely. `slots`: those with its fingerprint.
    fn prefetch_likely(&self, near: &Self::Near, seen: &Self::Seen, slots: u32, likely: Likely);

    /// The same, of what is not in the key's buckets.
    #[inline(always)]
    fn prefetch_aside(&self, _hash: Hash, _likely: Likely) {}

    // Changes of a locked bucket.

    /// The value of a key if it still is where it was found; the bucket is locked.
    fn value_if_there(
        &self,
        bucket: Located<Self::Bucket>,
        spot: Self::Spot,
        key: Self::Key,
    ) -> Option<Self::Value>;

    /// Stores an item into an empty slot, and flushes what of it is not in the line of the word that commits it. The
    /// slots `clear` have the item until then.
    fn fill(
        &self,
        bucket: Located<Self::Bucket>,
        slot: usize,
        item: Item<Self>,
        hash: Hash,
        clear: u64,
    ) -> Self::Pending;

    /// Commits that with one word of its bucket, which begins at `at`, and flushes it.
    fn commit(&self, at: Offset, change: &Self::Pending);

    /// Erases an item; the fence is still to come.
    fn erase(&self, bucket: Located<Self::Bucket>, spot: Self::Spot) -> Self::Pending;

    /// A change that the bucket does not show: of a value, in place.
    fn unseen(&self, bucket: Self::Bucket) -> Self::Pending;

    /// The word that is a value, if it may be overwritten there.
    fn value_word(&self, at: Offset, spot: Self::Spot) -> Option<Offset>;

    /// An empty slot for the new value of an item, and the slots that have the old one.
    fn slot_for_update(&self, bucket: Self::Bucket, spot: Self::Spot) -> Option<(usize, u64)>;

    /// Stores a value over another one, durably.
    fn overwrite(&self, bucket: Self::Bucket, spot: Self::Spot, item: Item<Self>);

    /// Shows a durable change; the lock stays, and nothing is left to be shown.
    fn show_locked(&self, change: &mut Self::Pending);

    /// Shows a durable change, and gives the lock back.
    fn show(&self, change: &mut Self::Pending);

    fn add_copied(copied: &mut Self::Copied, spot: Self::Spot);

    /// Deletes what a resize has copied elsewhere, durably.
    fn delete_copied(&self, source: Self::Bucket, copied: Self::Copied);

    // Other places.

    /// Whether all changes of a key happen under its home, and not only its insertion.
    #[inline(always)]
    fn locks_all_homes(&self) -> bool {
        false
    }

    /// Called before a change of the key can be seen. `appears`: the key is not there yet; `then`: its value after.
    #[inline(always)]
    fn begin_aside(
        &self,
        _key: Self::Key,
        _hash: Hash,
        _appears: bool,
        _then: Option<Self::Value>,
    ) -> Self::Aside {
        Self::NOTHING_ASIDE
    }

    /// Called when that is durable, and shown.
    #[inline(always)]
    fn end_aside(&self, _aside: Self::Aside) {}

    // Insertion.

    /// The number of empty slots of a bucket.
    fn empty_slots(&self, bucket: Self::Bucket) -> u32;

    fn empty_slot(&self, bucket: Self::Bucket) -> Option<usize>;

    /// Counts insertions and removals of the calling thread, and does what that does besides.
    fn count(&self, inserted: u64, removed: u64);

    // Scans.

    /// The numbers of all buckets that may hold items.
    fn numbers(&self) -> Range<u64>;

    fn number(bucket: Self::Bucket) -> u64;

    fn bucket_of(number: u64) -> Self::Bucket;

    /// Adds the items that belong to a locked bucket.
    fn items_of(&self, bucket: Self::Bucket, items: &mut Vec<Item<Self>>);

    /// The mover of an item calls this, while both buckets are locked and after a look at the geometry.
    fn tell_scans(&self, key: Self::Key, from: Self::Bucket, to: Self::Bucket) {
        let hash_of = |key| self.hash(key).0;
        self.shared().scans.tell(key, Self::number(from), Self::number(to), hash_of);
    }
}
