//! What a mutation is expected to do.

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
