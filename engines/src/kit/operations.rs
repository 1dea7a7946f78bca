//! What an engine says of its operations: where an item goes, how room is made for it, and what it does in a way of its
//! own.

use super::ahead::Known;
use super::buckets::{Buckets, Item, Locked};
use super::hash::Hash;
use super::mutation::Likely;
use super::search::{Search, get_each};
use super::unfenced::Unfenced;
use index::Error;

/// How the attempt to place an item ended.
pub(crate) enum Placed {
    Done,
    /// The geometry has changed.
    Stale,
    /// There is no room where it may lie, nor could any be made.
    NoRoom,
    /// As [`Placed::NoRoom`], but somebody held a bucket to which an item could have been moved.
    Busy,
}

/// Tables of buckets in which items are placed.
pub(crate) trait Operations: Buckets {
    /// How room may be made in a full bucket.
    type Way;

    // Insertion.

    /// Puts an item where the paper says. `Done`: the change is pushed, and to be ended.
    fn insert<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, Self, MOST>,
        geometry: Self::Geometry,
        item: Item<Self>,
        hash: Hash,
    ) -> Placed;

    /// The full buckets in which room may be made for a key, and how.
    fn ways(
        &self,
        geometry: Self::Geometry,
        hash: Hash,
    ) -> impl Iterator<Item = (Self::Bucket, Self::Way)>;

    /// Makes room in a full, locked bucket, by moving an item elsewhere: the slot that this frees, and the lock of what
    /// the item went to if that is to be held until the next fence. Gives up if the geometry has changed. Sets
    /// `is_busy` if somebody else holds a bucket that may have room: it is only tried, since its holder may be waiting
    /// for this.
    fn free_slot(
        &self,
        geometry: Self::Geometry,
        bucket: Self::Bucket,
        way: Self::Way,
        is_busy: &mut bool,
    ) -> Option<(usize, Option<Locked<'_>>)>;

    /// Called when a key found no room under `geometry`. `Ok`: trying again makes sense.
    fn grow(&self, geometry: Self::Geometry, hash: Hash) -> Result<(), Error>;

    // Hints and second looks.

    /// A single mutation is about to read and write. This comes before its first lock, whose instruction waits for all
    /// earlier stores: so the misses overlap with those of the mutation before.
    #[inline(always)]
    fn hint(&self, known: &mut Known<Self>, likely: Likely) {
        known.look(self, likely);
    }

    /// What a mutation sees once it has the home of its key, if that is to be looked at again.
    #[inline(always)]
    fn see_again(
        &self,
        _near: &Self::Near,
        _known: &Known<Self>,
        _likely: Likely,
    ) -> Option<(Self::Seen, u32)> {
        None
    }

    // Ways of its own.

    /// Looks a key up.
    #[inline(always)]
    fn get(&self, key: Self::Key) -> Option<Self::Value> {
        Search::get_from_buckets(self, key)
    }

    /// The values of many keys.
    fn get_many(&self, keys: &[Self::Key], out: &mut [Option<Self::Value>]) {
        get_each(self, keys, out);
    }

    /// A mutation of a single key; `None`: it is left to the slow path.
    /// [`paths::mutate_alone`](super::paths::mutate_alone) if the engine has no way of its own.
    fn mutate_alone(
        &self,
        key: Self::Key,
        likely: Likely,
        decide: &impl Fn(Option<Self::Value>) -> index::Change<Self::Value>,
    ) -> Option<Option<Self::Value>>;
}
