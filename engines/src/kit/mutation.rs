//! All changes of an index, built on two operations of an engine: `mutate` passes the state of a key to a closure and
//! stores the result, and `mutate_many` does so for many keys.

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

/// The key of a pair. This is a function, since each closure would be a different type: so batches of pairs are
/// compiled once.
pub(crate) fn key_of<K: Copy, V>(&(key, _): &(K, V)) -> K {
    key
}

/// The methods of `Index` that change a table whose `core` can `mutate` and `mutate_many`.
macro_rules! changes_by_mutation {
    ($key:ty, $value:ty) => {
        fn insert(&self, key: $key, value: $value) -> Result<Option<$value>, index::Error> {
            self.core.mutate(key, Likely::Inserts, |found| Change::if_absent(found, value))
        }

        fn update(&self, key: $key, value: $value) -> Result<Option<$value>, index::Error> {
            self.core.mutate(key, Likely::Updates, |found| Change::if_present(found, value))
        }

        fn upsert(&self, key: $key, value: $value) -> Result<Option<$value>, index::Error> {
            self.core.mutate(key, Likely::Inserts, |_| Change::Put(value))
        }

        fn remove(&self, key: $key) -> Result<Option<$value>, index::Error> {
            self.core.mutate(key, Likely::Removes, |_| Change::Remove)
        }

        fn compare_exchange(
            &self,
            key: $key,
            expected: Option<$value>,
            new: Option<$value>,
        ) -> Result<index::Exchange<$value>, index::Error> {
            let found = self.core.mutate(key, Likely::exchange(expected, new), |found| {
                Change::if_expected(is_same_state(found, expected), new)
            })?;
            Ok(if is_same_state(found, expected) { Ok(()) } else { Err(found) })
        }

        #[inline]
        fn modify(
            &self,
            key: $key,
            decide: impl Fn(Option<$value>) -> Change<$value>,
        ) -> Result<Option<$value>, index::Error> {
            self.core.mutate(key, Likely::Updates, decide)
        }

        fn insert_many(
            &self,
            pairs: &[($key, $value)],
            out: &mut [Option<$value>],
        ) -> Result<(), index::Unfinished<index::Error>> {
            let decide = |&(_, value): &($key, $value), found| Change::if_absent(found, value);
            self.core.mutate_many(pairs, out, key_of, Likely::Inserts, decide)
        }

        fn update_many(
            &self,
            pairs: &[($key, $value)],
            out: &mut [Option<$value>],
        ) -> Result<(), index::Unfinished<index::Error>> {
            let decide = |&(_, value): &($key, $value), found| Change::if_present(found, value);
            self.core.mutate_many(pairs, out, key_of, Likely::Updates, decide)
        }

        fn upsert_many(
            &self,
            pairs: &[($key, $value)],
            out: &mut [Option<$value>],
        ) -> Result<(), index::Unfinished<index::Error>> {
            let decide = |&(_, value): &($key, $value), _| Change::Put(value);
            self.core.mutate_many(pairs, out, key_of, Likely::Inserts, decide)
        }

        fn remove_many(
            &self,
            keys: &[$key],
            out: &mut [Option<$value>],
        ) -> Result<(), index::Unfinished<index::Error>> {
            self.core.mutate_many(keys, out, |&key| key, Likely::Removes, |_, _| Change::Remove)
        }

        fn compare_exchange_many(
            &self,
            changes: &[($key, Option<$value>, Option<$value>)],
            out: &mut [Option<$value>],
        ) -> Result<(), index::Unfinished<index::Error>> {
            self.core.mutate_many(
                changes,
                out,
                |&(key, _, _)| key,
                Likely::Inserts,
                |&(_, expected, new), found| {
                    Change::if_expected(is_same_state(found, expected), new)
                },
            )
        }
    };
}
pub(crate) use changes_by_mutation;
