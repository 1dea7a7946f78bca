//! The pool of a life: a store, or a table of any sizes, by the bytes of its keys and values.

use std::path::Path;

use cli::sizes::{self, AnyKey, AnyValue};
use firndex::{
    BatchError, CheckReport, Existing, Fixed, Options, Pool, Result, Stats, Store, Table,
};

use super::plan::Shape;

/// The bytes of a value.
pub(super) type Bytes = Vec<u8>;

/// An open pool. What its changes return are the values that they replaced.
pub(super) trait Subject: Sync {
    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>>;
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>>;
    fn put(&self, key: &[u8], value: &[u8]) -> Result<Option<Bytes>>;
    fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Bytes>>;
    fn update(&self, key: &[u8], value: &[u8]) -> Result<Option<Bytes>>;
    fn remove(&self, key: &[u8]) -> Result<Option<Bytes>>;
    /// Returns the state found if it was not the expected one.
    fn compare_exchange(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<std::result::Result<(), Option<Bytes>>>;
    /// Replaces whatever is there by `after`.
    fn modify(&self, key: &[u8], after: Option<&[u8]>) -> Result<Option<Bytes>>;
    fn put_many(
        &self,
        pairs: &[(&[u8], &[u8])],
    ) -> std::result::Result<Vec<Option<Bytes>>, BatchError>;
    fn remove_many(&self, keys: &[&[u8]]) -> std::result::Result<Vec<Option<Bytes>>, BatchError>;
    fn for_each(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()>;
    fn len(&self) -> u64;
    fn stats(&self) -> Result<Stats>;
    fn check(&self) -> Result<CheckReport>;
    fn shrink(&self) -> Result<()>;
    /// Moves values together, if it is a store.
    fn compact(&self) -> Result<()>;
    fn sync(&self) -> Result<()>;
    fn backup(&self, out: &Path) -> Result<()>;
    fn rewrite(self: Box<Self>) -> Result<()>;
    fn close(self: Box<Self>) -> Result<()>;
}

/// How a pool is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Open,
    Create,
}

/// Opens a pool of this shape, or makes it.
pub(super) fn open(
    shape: Shape,
    how: How,
    path: &Path,
    options: &Options,
) -> Result<Box<dyn Subject>> {
    match (shape, how) {
        (Shape::Store, How::Open) => Ok(Box::new(options.open_store(path)?)),
        (Shape::Store, How::Create) => Ok(Box::new(options.create_store(path)?)),
        (Shape::WORDS, _) => open_table::<u64, u64>(how, path, options),
        (Shape::Table { key_bytes, value_bytes }, _) => {
            sizes::set(key_bytes, value_bytes);
            open_table::<AnyKey, AnyValue>(how, path, options)
        }
    }
}

fn open_table<K: Fixed, V: Fixed>(
    how: How,
    path: &Path,
    options: &Options,
) -> Result<Box<dyn Subject>> {
    let table: Table<K, V> = match how {
        How::Open => options.open_table_of(path)?,
        How::Create => options.create_table_of(path)?,
    };
    Ok(Box::new(table))
}

impl Subject for Store {
    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        Ok(Store::get_many(self, keys)?.into_iter().map(copied).collect())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        Store::get(self, key).map(copied)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<Option<Bytes>> {
        Store::put(self, key, value).map(copied)
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Bytes>> {
        Store::insert(self, key, value).map(copied)
    }

    fn update(&self, key: &[u8], value: &[u8]) -> Result<Option<Bytes>> {
        Store::update(self, key, value).map(copied)
    }

    fn remove(&self, key: &[u8]) -> Result<Option<Bytes>> {
        Store::remove(self, key).map(copied)
    }

    fn compare_exchange(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<std::result::Result<(), Option<Bytes>>> {
        Ok(Store::compare_exchange(self, key, expected, new)?.map_err(copied))
    }

    fn modify(&self, key: &[u8], after: Option<&[u8]>) -> Result<Option<Bytes>> {
        Store::modify(self, key, |_| after.map(<[u8]>::to_vec)).map(copied)
    }

    fn put_many(
        &self,
        pairs: &[(&[u8], &[u8])],
    ) -> std::result::Result<Vec<Option<Bytes>>, BatchError> {
        Ok(Store::put_many(self, pairs)?.into_iter().map(copied).collect())
    }

    fn remove_many(&self, keys: &[&[u8]]) -> std::result::Result<Vec<Option<Bytes>>, BatchError> {
        Ok(Store::remove_many(self, keys)?.into_iter().map(copied).collect())
    }

    fn for_each(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        Store::for_each(self, visit)
    }

    fn len(&self) -> u64 {
        Pool::len(self)
    }

    fn stats(&self) -> Result<Stats> {
        Pool::stats(self)
    }

    fn check(&self) -> Result<CheckReport> {
        Pool::check(self)
    }

    fn shrink(&self) -> Result<()> {
        Pool::shrink(self).map(drop)
    }

    fn compact(&self) -> Result<()> {
        Store::compact(self).map(drop)
    }

    fn sync(&self) -> Result<()> {
        Pool::sync(self)
    }

    fn backup(&self, out: &Path) -> Result<()> {
        Store::backup(self, out, Existing::Replace).map(drop)
    }

    fn rewrite(self: Box<Self>) -> Result<()> {
        Store::rewrite(*self).map(drop)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Store::close(*self)
    }
}

/// A copy, so that no record is held longer than a call.
fn copied(record: Option<firndex::Record<'_>>) -> Option<Bytes> {
    record.map(|record| record.to_vec())
}

impl<K: Fixed, V: Fixed> Subject for Table<K, V> {
    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        let keys: Vec<K> = keys.iter().map(|key| fixed(key)).collect();
        Ok(all_bytes(Table::get_many(self, &keys)?))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(Table::get(self, fixed(key))?.map(bytes))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<Option<Bytes>> {
        Ok(Table::put(self, fixed(key), fixed(value))?.map(bytes))
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Bytes>> {
        Ok(Table::insert(self, fixed(key), fixed(value))?.map(bytes))
    }

    fn update(&self, key: &[u8], value: &[u8]) -> Result<Option<Bytes>> {
        Ok(Table::update(self, fixed(key), fixed(value))?.map(bytes))
    }

    fn remove(&self, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(Table::remove(self, fixed(key))?.map(bytes))
    }

    fn compare_exchange(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<std::result::Result<(), Option<Bytes>>> {
        let (expected, new) = (expected.map(fixed), new.map(fixed));
        let exchanged = Table::compare_exchange(self, fixed(key), expected, new)?;
        Ok(exchanged.map_err(|found| found.map(bytes)))
    }

    fn modify(&self, key: &[u8], after: Option<&[u8]>) -> Result<Option<Bytes>> {
        Ok(Table::modify(self, fixed(key), |_| after.map(fixed))?.map(bytes))
    }

    fn put_many(
        &self,
        pairs: &[(&[u8], &[u8])],
    ) -> std::result::Result<Vec<Option<Bytes>>, BatchError> {
        let pairs: Vec<(K, V)> =
            pairs.iter().map(|(key, value)| (fixed(key), fixed(value))).collect();
        Table::put_many(self, &pairs).map(all_bytes)
    }

    fn remove_many(&self, keys: &[&[u8]]) -> std::result::Result<Vec<Option<Bytes>>, BatchError> {
        let keys: Vec<K> = keys.iter().map(|key| fixed(key)).collect();
        Table::remove_many(self, &keys).map(all_bytes)
    }

    fn for_each(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        Table::for_each(self, |key, value| visit(&bytes(key), &bytes(value)))
    }

    fn len(&self) -> u64 {
        Pool::len(self)
    }

    fn stats(&self) -> Result<Stats> {
        Pool::stats(self)
    }

    fn check(&self) -> Result<CheckReport> {
        Pool::check(self)
    }

    fn shrink(&self) -> Result<()> {
        Pool::shrink(self).map(drop)
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Pool::sync(self)
    }

    fn backup(&self, out: &Path) -> Result<()> {
        Table::backup(self, out, Existing::Replace).map(drop)
    }

    fn rewrite(self: Box<Self>) -> Result<()> {
        Table::rewrite(*self).map(drop)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Table::close(*self)
    }
}

fn fixed<T: Fixed>(bytes: &[u8]) -> T {
    T::of_words(|index| {
        let mut word = [0; 8];
        let rest = bytes.get(8 * index..).unwrap_or_default();
        let taken = rest.len().min(8);
        word[..taken].copy_from_slice(&rest[..taken]);
        u64::from_le_bytes(word)
    })
}

fn bytes<T: Fixed>(value: T) -> Bytes {
    let length = T::layout_bytes();
    let words = (0..length.div_ceil(8)).flat_map(|index| value.word(index).to_le_bytes());
    words.take(length).collect()
}

fn all_bytes<T: Fixed>(values: Vec<Option<T>>) -> Vec<Option<Bytes>> {
    values.into_iter().map(|value| value.map(bytes)).collect()
}
