//! The two buckets of a key: what tables of two choices that double tell the kit, each in the same words.

use super::geometry::Geometry;
use crate::kit::buckets::{Near, Pending, Seen};

/// The two buckets of a key in a table that is not resizing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Two {
    pub(crate) geometry: Geometry,
    pub(crate) buckets: [u64; 2],
}

impl Near for Two {
    type Geometry = Geometry;
    type Bucket = u64;

    #[inline(always)]
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    #[inline(always)]
    fn bucket(&self, nth: usize) -> u64 {
        self.buckets[nth]
    }
}

/// A change of a locked bucket whose fence is still to come. `X`: what the engine changes besides.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Change<X = ()> {
    pub(crate) bucket: u64,
    /// The slot that is to be shown, and its fingerprint; 0: none.
    pub(crate) slot: usize,
    pub(crate) print: u8,
    /// The slots that it stands for, or that are to be hidden.
    pub(crate) clear: u64,
    /// Whether it is committed after a fence, since the item is not in the line of the word that commits it.
    pub(crate) is_beyond: bool,
    pub(crate) besides: X,
}

impl<X: Copy + Default> Pending for Change<X> {
    type Bucket = u64;

    #[inline(always)]
    fn bucket(&self) -> u64 {
        self.bucket
    }

    #[inline(always)]
    fn is_late(&self) -> bool {
        self.is_beyond
    }
}

/// The states and fingerprints of two buckets.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TwoSeen<P> {
    pub(crate) states: [u64; 2],
    pub(crate) prints: [P; 2],
}

impl<P> TwoSeen<P> {
    /// What two records show. Both of them are found before the first is read: else the compiler would look for the
    /// second anew.
    #[inline(always)]
    pub(crate) fn of<R>([first, second]: [&R; 2], read: impl Fn(&R) -> (u64, P)) -> Self {
        let (first, first_prints) = read(first);
        let (second, second_prints) = read(second);
        TwoSeen { states: [first, second], prints: [first_prints, second_prints] }
    }
}

impl<P: Copy + Default> Seen for TwoSeen<P> {
    #[inline(always)]
    fn state(&self, nth: usize) -> u64 {
        self.states[nth]
    }
}

/// The part of `Buckets` that such tables have in common, of a `Core` with `tables`, `shared`, `records` and `bucket`,
/// where `state_and_prints` reads a record and changes of a bucket are a `Change`.
macro_rules! buckets_of_doubling {
    ($prints:ty) => {
        type Key = K;
        type Value = V;
        type Medium = M;
        type Geometry = Geometry;
        type Bucket = u64;
        type Near = Two;
        type Seen = TwoSeen<$prints>;
        type Pending = Change;

        #[inline(always)]
        fn medium(&self) -> &M {
            self.tables.medium()
        }

        #[inline(always)]
        fn geometry(&self) -> Geometry {
            self.tables.geometry()
        }

        #[inline(always)]
        fn shared(&self) -> &Shared<K> {
            &self.shared
        }

        #[inline(always)]
        fn at(&self, bucket: u64) -> Offset {
            self.tables.at::<BUCKET_BYTES>(bucket)
        }

        #[inline(always)]
        fn state(&self, bucket: u64) -> &AtomicU64 {
            &self.record_of(bucket)[STATE]
        }

        fn key_in(&self, bucket: u64, slot: usize) -> K {
            self.bucket.key(self.medium(), self.at(bucket), slot)
        }

        #[inline(always)]
        fn item(&self, at: Offset, slot: usize) -> (K, V) {
            self.bucket.pair(self.medium(), at, slot)
        }

        #[inline(always)]
        fn unseen(&self, bucket: u64) -> Change {
            Change { bucket, ..Change::default() }
        }

        #[inline(always)]
        fn show_locked(&self, change: &mut Change) {
            self.show_of(change);
            *change = self.unseen(change.bucket);
        }

        fn places(&self, geometry: Geometry, hash: Hash) -> impl Iterator<Item = [u64; 2]> {
            geometry.places().map(move |log2| self.pair_among(log2, hash))
        }

        #[inline(always)]
        fn near(&self, hash: Hash) -> Option<Two> {
            let geometry = self.geometry();
            if geometry.is_resizing() || !self.shape.design.has_fast_path() {
                return None;
            }
            Some(Two { geometry, buckets: self.pair_among(geometry.log2(), hash) })
        }

        #[inline(always)]
        fn see(&self, near: &Two) -> Self::Seen {
            TwoSeen::of(near.buckets.map(|bucket| self.record_of(bucket)), state_and_prints)
        }

        #[inline(always)]
        fn changes(&self, near: &Two, seen: &Self::Seen) -> (u64, u64) {
            let first = self.state(near.buckets[0]).load(Ordering::Relaxed);
            let second = self.state(near.buckets[1]).load(Ordering::Relaxed);
            ((first ^ seen.states[0]) | (second ^ seen.states[1]), first | second)
        }

        #[inline(always)]
        fn prefetch_states(&self, near: &Two) {
            for bucket in near.buckets {
                self.records.prefetch(self.record(bucket));
            }
        }

        #[inline(always)]
        fn empty_slots(&self, bucket: u64) -> u32 {
            self.empty(bucket).count_ones()
        }

        #[inline(always)]
        fn empty_slot(&self, bucket: u64) -> Option<usize> {
            let empty = self.empty(bucket);
            (empty != 0).then(|| empty.trailing_zeros() as usize)
        }

        #[inline(always)]
        fn count(&self, inserted: u64, removed: u64) {
            self.look_after(inserted, removed);
        }

        fn numbers(&self) -> Range<u64> {
            0..self.geometry().buckets()
        }

        fn number(bucket: u64) -> u64 {
            bucket
        }

        fn bucket_of(number: u64) -> u64 {
            number
        }
    };
}
pub(crate) use buckets_of_doubling;

/// The part of `Operations` that such tables have in common.
macro_rules! operations_of_doubling {
    () => {
        type Way = ();

        fn ways(&self, geometry: Geometry, hash: Hash) -> impl Iterator<Item = (u64, ())> {
            self.pair_among(geometry.log2(), hash).into_iter().map(|bucket| (bucket, ()))
        }

        fn grow(&self, geometry: Geometry, hash: Hash) -> Result<(), Error> {
            Ok(self.make_room(geometry, hash)?)
        }
    };
}
pub(crate) use operations_of_doubling;

/// The part of `Upkeep` that such tables have in common.
macro_rules! upkeep_of_doubling {
    () => {
        fn pool(&self) -> &Pool<M> {
            &self.tables.pool
        }

        fn signal(&self) -> Option<&Signal> {
            Some(&self.tables.signal)
        }

        fn len(&self) -> u64 {
            self.tables.len()
        }

        fn settle(&self) {
            Doubles::settle(self);
        }

        fn shrink(&self) -> Result<Shrunk, Error> {
            crate::kit::doubling::shrink(self)
        }
    };
}
pub(crate) use upkeep_of_doubling;
