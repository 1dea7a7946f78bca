//! IcebergHT: where its pairs are.

use super::{Anatomy, range};
use pmem::superblock::Extent;

/// The owner of level 3, whose nodes have a state.
const NODES: u8 = 3;

pub(super) fn dissect(_bytes: &[u8], extent: &Extent, anatomy: &mut Anatomy) {
    if extent.owner == NODES {
        anatomy.keys.extend(range(extent).step_by(32));
        anatomy.states.extend(range(extent).step_by(32).map(|node| node + 16));
    } else {
        anatomy.keys.extend(range(extent).step_by(16));
    }
}
