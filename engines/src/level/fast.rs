//! The four buckets of a key while no resize is under way: two of the top level, two of the bottom one.

use super::Core;
use super::geometry::Geometry;
use super::layout::BucketId;
use crate::kit::buckets::{Buckets, Near, Seen};
use crate::kit::hash::Hash;
use index::Fixed;
use index::hash::{h1, h2};
use pmem::Medium;

/// The buckets of a key in the two levels of a geometry: two of the top level, two of the bottom one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Four {
    pub(super) geometry: Geometry,
    pub(super) words: [u64; 4],
}

impl Four {
    #[inline(always)]
    pub(super) fn bucket_of(&self, nth: usize) -> BucketId {
        BucketId { level: self.geometry.top() - (nth as u32 >> 1), word: self.words[nth] }
    }
}

impl Near for Four {
    type Geometry = Geometry;
    type Bucket = BucketId;

    #[inline(always)]
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    #[inline(always)]
    fn bucket(&self, nth: usize) -> BucketId {
        self.bucket_of(nth)
    }
}

/// The words of four buckets, and how often a version had come around before they were read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FourSeen {
    pub(super) words: [u64; 4],
    pub(super) wraps: u64,
}

impl Seen for FourSeen {
    #[inline(always)]
    fn state(&self, nth: usize) -> u64 {
        self.words[nth]
    }

    #[inline(always)]
    fn wraps(&self) -> u64 {
        self.wraps
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// The four buckets of a key; `None`: there are more, or they are to be searched one by one.
    #[inline(always)]
    pub(super) fn four(&self, hash: Hash) -> Option<Four> {
        let geometry = self.geometry();
        if !geometry.has_fast_path() {
            return None;
        }
        let top = 1 << geometry.top();
        let bottom = top >> 1;
        let [first, second] = [h1(hash.0), h2(hash.0)];
        let word = |choice: u64, buckets: u64| choice & (buckets - 1) | buckets;
        let words =
            [word(first, top), word(second, top), word(first, bottom), word(second, bottom)];
        Some(Four { geometry, words })
    }
}
