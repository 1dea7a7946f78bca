//! The typed roots: records that a build may not know. It keeps what it does not know as it is.

use super::{Superblock, low};

impl Superblock {
    /// The value of the root with this tag, whose low half is its type.
    pub(super) fn root(&self, tag: u64) -> Option<u64> {
        self.typed_roots.iter().find(|root| root.0 == tag).map(|root| root.1)
    }

    /// The value of the first root of a type, whatever else its tag says.
    pub(super) fn root_of_type(&self, kind: u32) -> Option<u64> {
        self.typed_roots.iter().find(|root| low(root.0) == kind).map(|root| root.1)
    }

    /// Replaces the root of a type by a tag of that type and a value, or by nothing. Without a free root the superblock
    /// says nothing.
    pub(super) fn set_root(&mut self, kind: u32, record: Option<(u64, u64)>) {
        let of_type = |root: &&mut (u64, u64)| low(root.0) == kind;
        self.typed_roots.iter_mut().filter(of_type).for_each(|root| *root = (0, 0));
        let free = self.typed_roots.iter_mut().find(|root| low(root.0) == 0);
        if let (Some(free), Some(record)) = (free, record) {
            *free = record;
        }
    }
}
