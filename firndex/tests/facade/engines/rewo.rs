//! Rewo-Hash: pairs that fit a bucket of 256 bytes.

use super::{Anatomy, range};
use crate::api::equality::{Alike, Never};
use crate::api::pair_sizes::{Late, is_a_map};
use firndex::Engine;
use pmem::superblock::Extent;

pub(super) fn dissect(_: &[u8], extent: &Extent, anatomy: &mut Anatomy) {
    if extent.owner != 1 {
        return anatomy.states.extend(range(extent).step_by(8));
    }
    for bucket in range(extent).step_by(256) {
        anatomy.states.push(bucket);
        anatomy.keys.extend((bucket + 16..bucket + 256).step_by(16));
    }
}

/// The paper's sizes, one slot in a bucket and most of them, and words that need no packing.
#[test]
fn it_keeps_pairs_that_fit_a_bucket() {
    is_a_map::<[u8; 16], [u8; 15]>(Engine::Rewo);
    is_a_map::<u64, [u8; 120]>(Engine::Rewo);
    is_a_map::<u16, [u8; 0]>(Engine::Rewo);
    is_a_map::<u32, u128>(Engine::Rewo);
    is_a_map::<Never<16>, Never<15>>(Engine::Rewo);
    is_a_map::<Alike<16>, Alike<15>>(Engine::Rewo);
    is_a_map::<Late<16>, Late<15>>(Engine::Rewo);
    is_a_map::<Late<16>, Late<8>>(Engine::Rewo);
    is_a_map::<Late<20>, Late<12>>(Engine::Rewo);
}
