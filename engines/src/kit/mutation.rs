//! What a mutation does, and what it is expected to do.

use index::Change;

/// What a mutation is expected to do, by which it fetches memory ahead and takes locks. It may do something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Likely {
    /// Puts something where nothing was.
    Inserts,
    Updates,
    Removes,
}

impl Likely {
    /// What a compare-exchange of these states does if it does anything.
    #[inline(always)]
    pub(crate) fn exchange<V>(expected: Option<V>, new: Option<V>) -> Likely {
        match (expected, new) {
            (_, None) => Likely::Removes,
            (None, Some(_)) => Likely::Inserts,
            (Some(_), Some(_)) => Likely::Updates,
        }
    }
}

/// Where a batch of pairs puts its values. As a closure it would compile the batch anew for each operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Puts {
    if_absent: bool,
    if_present: bool,
}

impl Puts {
    pub(crate) const ALWAYS: Puts = Puts { if_absent: true, if_present: true };
    pub(crate) const IF_ABSENT: Puts = Puts { if_absent: true, if_present: false };
    pub(crate) const IF_PRESENT: Puts = Puts { if_absent: false, if_present: true };

    /// What becomes of a key in this state.
    #[inline(always)]
    pub(crate) fn change<F, V>(self, found: Option<F>, value: V) -> Change<V> {
        let puts = match found {
            None => self.if_absent,
            Some(_) => self.if_present,
        };
        if puts { Change::Put(value) } else { Change::Keep }
    }
}
