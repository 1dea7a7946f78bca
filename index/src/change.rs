//! What a mutation makes of the state that it finds.

/// What becomes of a key. The functions say what each conditional write makes of what it has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<V> {
    /// Nothing: what was found stays.
    Keep,
    /// It has this value from now on.
    Put(V),
    /// It is absent from now on.
    Remove,
}

impl<V> Change<V> {
    /// [`Index::insert`](crate::Index::insert).
    #[inline(always)]
    pub fn if_absent<F>(found: Option<F>, value: V) -> Change<V> {
        match found {
            None => Change::Put(value),
            Some(_) => Change::Keep,
        }
    }

    /// [`Index::update`](crate::Index::update).
    #[inline(always)]
    pub fn if_present<F>(found: Option<F>, value: V) -> Change<V> {
        match found {
            None => Change::Keep,
            Some(_) => Change::Put(value),
        }
    }

    /// [`Index::compare_exchange`](crate::Index::compare_exchange), of a state that is the expected one or
    /// not.
    #[inline(always)]
    pub fn if_expected(is_expected: bool, new: Option<V>) -> Change<V> {
        match new {
            _ if !is_expected => Change::Keep,
            Some(value) => Change::Put(value),
            None => Change::Remove,
        }
    }
}
