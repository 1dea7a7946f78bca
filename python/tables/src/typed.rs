//! The operations of a table on bytes, whatever its types are.

use crate::sized::{Bytes, Key, Place, Value};
use firndex::{BatchError, Copied, Existing, Options, Pool, Result, Table};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Bytes of pairs that one call of the facade gets: they stay in a cache near the processor.
const CALL_BYTES: usize = 1 << 17;

/// The result of a batch: how many entries took effect before the call of the facade that failed, and its error.
pub type Batch = std::result::Result<(), (usize, BatchError)>;

/// Called with each key and value.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// Keys and values have the sizes of the table's, in columns one behind another.
pub trait Operations: Send + Sync {
    /// What does not concern single pairs.
    fn pool(&self) -> &Pool;
    /// Fails where the handle may not be used, as in a forked child.
    fn probe(&self) -> Result<()>;
    /// Whether there is a value; then `value` has it.
    fn get(&self, key: &[u8], value: &mut [u8]) -> Result<bool>;
    /// Stores the pair.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;
    /// `value` has what is there afterwards.
    fn insert(&self, key: &[u8], value: &mut [u8]) -> Result<()>;
    /// Whether there was a value; then `value` has it.
    fn remove(&self, key: &[u8], value: &mut [u8]) -> Result<bool>;
    /// Whether the state was the expected one, and is the new one.
    fn compare_exchange(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool>;
    /// Where there is no value, its bytes are zeros.
    fn get_many(&self, keys: &[u8], values: &mut [u8], found: &mut [u8]) -> Result<()>;
    /// Stores the pairs, in order.
    fn put_many(&self, keys: &[u8], values: &[u8]) -> Batch;
    /// Removes the keys, in order. `found` tells which were there.
    fn remove_many(&self, keys: &[u8], found: &mut [u8]) -> Batch;
    /// Removes all pairs.
    fn clear(&self) -> Result<()>;
    /// Shows every pair until `visit` breaks off.
    fn visit(&self, visit: Visit<'_>) -> Result<ControlFlow<()>>;
    /// Writes a copy.
    fn backup(&self, out: &Path, existing: Existing) -> Result<Copied>;
    /// Closes the pool.
    fn close(self: Box<Self>) -> Result<()>;
}

struct Typed<K: Bytes, V: Bytes> {
    /// Before the place: it goes first.
    table: Table<K, V>,
    key_bytes: usize,
    value_bytes: usize,
    /// Keeps the sizes of the types as they are.
    _place: Option<Arc<Place>>,
}

/// How a pool is opened.
#[derive(Debug, Clone, Copy)]
pub enum Way<'a> {
    /// In memory.
    InMemory,
    /// The one at this path.
    Open(&'a Path),
    /// The one at this path, or else a new one.
    OpenOrCreate(&'a Path),
    /// A new one, where nothing is.
    Create(&'a Path),
}

fn opened<K: Bytes, V: Bytes>(options: &Options, way: Way<'_>) -> Result<Table<K, V>> {
    match way {
        Way::InMemory => options.in_memory_table_of(),
        Way::Open(path) => options.open_table_of(path),
        Way::OpenOrCreate(path) => options.open_or_create_table_of(path),
        Way::Create(path) => options.create_table_of(path),
    }
}

/// Opens a table of keys and values of 8 bytes each.
#[inline]
pub fn open_words(options: &Options, way: Way<'_>) -> Result<Box<dyn Operations>> {
    Ok(Box::new(Typed::new(opened::<u64, u64>(options, way)?, None)))
}

/// Opens a table of the sizes of this place, which it keeps.
pub fn open_in(options: &Options, way: Way<'_>, place: Arc<Place>) -> Result<Box<dyn Operations>> {
    match place.number() {
        0 => in_place::<0>(options, way, place),
        _ => in_place::<1>(options, way, place),
    }
}

fn in_place<const PLACE: usize>(
    options: &Options,
    way: Way<'_>,
    place: Arc<Place>,
) -> Result<Box<dyn Operations>> {
    let table = opened::<Key<PLACE>, Value<PLACE>>(options, way)?;
    Ok(Box::new(Typed::new(table, Some(place))))
}

impl<K: Bytes, V: Bytes> Typed<K, V> {
    fn new(table: Table<K, V>, place: Option<Arc<Place>>) -> Self {
        let (key_bytes, value_bytes) = (K::layout_bytes(), V::layout_bytes());
        Typed { table, key_bytes, value_bytes, _place: place }
    }

    /// Entries of one call.
    const CALL: usize = {
        let entries = CALL_BYTES / size_of::<(K, V)>();
        if entries < 64 { 64 } else { entries }
    };

    fn keys<'a>(&self, keys: &'a [u8]) -> impl Iterator<Item = K> + use<'a, K, V> {
        keys.chunks_exact(self.key_bytes).map(K::read)
    }
}

impl<K: Bytes, V: Bytes> Operations for Typed<K, V> {
    fn pool(&self) -> &Pool {
        &self.table
    }

    fn probe(&self) -> Result<()> {
        self.table.get(K::of_words(|_| 0)).map(drop)
    }

    fn get(&self, key: &[u8], value: &mut [u8]) -> Result<bool> {
        let found = self.table.get(K::read(key))?;
        Ok(found.map(|found| found.write(value)).is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.table.put(K::read(key), V::read(value)).map(drop)
    }

    fn insert(&self, key: &[u8], value: &mut [u8]) -> Result<()> {
        let found = self.table.insert(K::read(key), V::read(value))?;
        found.into_iter().for_each(|found| found.write(value));
        Ok(())
    }

    fn remove(&self, key: &[u8], value: &mut [u8]) -> Result<bool> {
        let found = self.table.remove(K::read(key))?;
        Ok(found.map(|found| found.write(value)).is_some())
    }

    fn compare_exchange(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let done =
            self.table.compare_exchange(K::read(key), expected.map(V::read), new.map(V::read))?;
        Ok(done.is_ok())
    }

    fn get_many(&self, keys: &[u8], values: &mut [u8], found: &mut [u8]) -> Result<()> {
        let mut of_call = Vec::with_capacity(Self::CALL);
        let mut answers = vec![None; Self::CALL];
        let calls =
            keys.chunks(Self::CALL * self.key_bytes).zip(found.chunks_mut(Self::CALL)).enumerate();
        for (index, (keys, found)) in calls {
            of_call.clear();
            of_call.extend(self.keys(keys));
            let answers = &mut answers[..found.len()];
            self.table.get_many_into(&of_call, answers)?;
            let begin = index * Self::CALL * self.value_bytes;
            let values = &mut values[begin..begin + answers.len() * self.value_bytes];
            for (is_found, answer) in found.iter_mut().zip(&*answers) {
                *is_found = u8::from(answer.is_some());
            }
            if self.value_bytes > 0 {
                for (value, answer) in values.chunks_exact_mut(self.value_bytes).zip(&*answers) {
                    match answer {
                        Some(answer) => answer.write(value),
                        None => value.fill(0),
                    }
                }
            }
        }
        Ok(())
    }

    fn put_many(&self, keys: &[u8], values: &[u8]) -> Batch {
        let mut pairs = Vec::with_capacity(Self::CALL);
        let mut replaced = vec![None; Self::CALL];
        let mut before = 0;
        for keys in keys.chunks(Self::CALL * self.key_bytes) {
            let value = |index: usize| {
                let begin = (before + index) * self.value_bytes;
                V::read(&values[begin..begin + self.value_bytes])
            };
            pairs.clear();
            pairs.extend(self.keys(keys).enumerate().map(|(index, key)| (key, value(index))));
            self.table.put_many_into(&pairs, &mut replaced).map_err(|error| (before, error))?;
            before += pairs.len();
        }
        Ok(())
    }

    fn remove_many(&self, keys: &[u8], found: &mut [u8]) -> Batch {
        let mut of_call = Vec::with_capacity(Self::CALL);
        let mut removed = vec![None; Self::CALL];
        let mut before = 0;
        let calls = keys.chunks(Self::CALL * self.key_bytes).zip(found.chunks_mut(Self::CALL));
        for (keys, found) in calls {
            of_call.clear();
            of_call.extend(self.keys(keys));
            let removed = &mut removed[..of_call.len()];
            self.table.remove_many_into(&of_call, removed).map_err(|error| (before, error))?;
            for (is_found, removed) in found.iter_mut().zip(&*removed) {
                *is_found = u8::from(removed.is_some());
            }
            before += of_call.len();
        }
        Ok(())
    }

    fn clear(&self) -> Result<()> {
        self.table.retain(|_, _| false).map(drop)
    }

    fn visit(&self, visit: Visit<'_>) -> Result<ControlFlow<()>> {
        let (mut key_buffer, mut value_buffer) =
            (vec![0; self.key_bytes], vec![0; self.value_bytes]);
        self.table.try_for_each(|key, value| {
            key.write(&mut key_buffer);
            value.write(&mut value_buffer);
            visit(&key_buffer, &value_buffer)
        })
    }

    fn backup(&self, out: &Path, existing: Existing) -> Result<Copied> {
        self.table.backup(out, existing)
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Typed { table, _place, .. } = *self;
        table.close()
    }
}
