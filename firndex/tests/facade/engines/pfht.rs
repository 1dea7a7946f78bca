//! PFHT: pairs that fit a bucket of two lines, and the stash's nodes.

use super::{Anatomy, range};
use crate::api::equality::{Alike, Never};
use crate::api::pair_sizes::{Late, is_a_map};
use firndex::Engine;
use pmem::superblock::Extent;

/// Owners of the extents with buckets and with nodes.
const BUCKETS: u8 = 1;
const NODES: u8 = 4;

pub(super) fn dissect(_: &[u8], extent: &Extent, anatomy: &mut Anatomy) {
    match extent.owner {
        BUCKETS => anatomy.keys.extend(range(extent).step_by(16)),
        NODES => {
            anatomy.states.extend(range(extent).step_by(32));
            anatomy.keys.extend(range(extent).step_by(32).map(|node| node + 8));
        }
        _ => anatomy.states.extend(range(extent).step_by(8)),
    }
}

/// One slot in a bucket and most of them, and words that need no packing.
#[test]
fn it_keeps_pairs_that_fit_a_bucket() {
    is_a_map::<[u8; 16], [u8; 15]>(Engine::Pfht);
    is_a_map::<u64, [u8; 112]>(Engine::Pfht);
    is_a_map::<u16, [u8; 0]>(Engine::Pfht);
    is_a_map::<u32, u128>(Engine::Pfht);
    is_a_map::<Never<16>, Never<15>>(Engine::Pfht);
    is_a_map::<Alike<16>, Alike<15>>(Engine::Pfht);
    is_a_map::<Late<16>, Late<15>>(Engine::Pfht);
    is_a_map::<Late<16>, Late<8>>(Engine::Pfht);
}
