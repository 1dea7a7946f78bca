//! What the numbers of handles say.

use crate::code::Code;
use crate::failure::Failure;

pub(crate) const SLOT_BITS: u32 = 12;
/// Stores and tables that may be open at once. A process has addresses for fewer, unless they are small.
pub(crate) const POOLS_MAX: usize = 1 << SLOT_BITS;
pub(crate) const KIND_SHIFT: u32 = 60;

/// What a handle is of. The numbers are the handles' upper bits; no address of a process has such bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Kind {
    Store = 1,
    Table = 2,
    StoreIterator = 3,
    TableIterator = 4,
    Value = 5,
}

impl Kind {
    const ALL: [Kind; 5] =
        [Kind::Store, Kind::Table, Kind::StoreIterator, Kind::TableIterator, Kind::Value];

    /// What it is called.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Kind::Store => "a store",
            Kind::Table => "a table",
            Kind::StoreIterator => "an iterator of a store",
            Kind::TableIterator => "an iterator of a table",
            Kind::Value => "a value",
        }
    }

    /// Refuses a handle of another kind, and what is no handle.
    #[inline(always)]
    pub(crate) fn check(self, handle: u64) -> Result<(), Failure> {
        if handle >> KIND_SHIFT == self as u64 { Ok(()) } else { Err(self.refuse(handle)) }
    }

    #[cold]
    fn refuse(self, handle: u64) -> Failure {
        let expected = self.noun();
        if handle == 0 {
            return Failure::argument(format!("the handle is NULL, expected {expected}"));
        }
        let kind = handle >> KIND_SHIFT;
        let found = Kind::ALL.into_iter().find(|found| *found as u64 == kind);
        let found = found.map_or("no handle at all", Kind::noun);
        let message = format!(
            "the handle is {found}, expected {expected}; pass what the function that opened or made it returned"
        );
        Failure::new(Code::Handle, message)
    }
}

/// The slot that a handle names. Any number names one.
#[inline(always)]
pub(crate) fn slot_of(handle: u64) -> usize {
    handle as usize % POOLS_MAX
}
