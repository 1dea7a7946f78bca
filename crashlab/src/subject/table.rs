//! A table on an engine: of words, or of pairs of several words.

use super::{Failed, Refusal, Setup, Subject, place, read_only, sight, spec, sync, verdict};
use crate::history::{Action, Key, Value};
use engines::PreferredSight;
use engines::engine::as_pairs;
use index::{Fixed, Index, Sight, is_same};
use pmem::medium::sim::Sim;
use pmem::pool::Spec;
use pmem::superblock::PoolKind;
use pmem::{OpenError, Pool};
use std::sync::Arc;

/// `Table<K, V>` on an engine.
pub struct PairsSubject<K: Fixed, V: Fixed> {
    index: Box<dyn Index<K, V>>,
    pool: Arc<Pool<Sim>>,
    /// What a guest sees of a table of words.
    sight: Option<PreferredSight<Sim>>,
}

/// `Table<u64, u64>`.
pub type TableSubject = PairsSubject<u64, u64>;
/// A key of two words.
pub type LongKey = [u8; 16];
/// A value of three words, which is stored, and torn, in three steps.
pub type LongValue = [u8; 24];
/// A table of such pairs.
pub type LongTableSubject = PairsSubject<LongKey, LongValue>;

/// What a word stands for in a table of longer keys or values: no word of it is the same in
/// another one, nor at another place in this one, so that what is torn is known.
pub fn lengthened<T: Fixed>(word: u64) -> T {
    T::of_words(|index| word.wrapping_add(index as u64))
}

/// The word that stands for what was found, if any does.
fn shortened<T: Fixed>(found: T) -> Option<u64> {
    Some(found.word(0)).filter(|&word| is_same(lengthened::<T>(word), found))
}

fn open<K: Fixed, V: Fixed>(
    pool: &Arc<Pool<Sim>>,
    setup: &Setup,
) -> Result<Box<dyn Index<K, V>>, OpenError> {
    if const { K::BYTES == 8 && V::BYTES == 8 } {
        let words = as_pairs(open_words(pool, setup)?);
        words.map_err(|_| OpenError::Corrupt {
            found: "the lab's pairs of 8 bytes are words".into(),
        })
    } else {
        setup.engine.open_pairs(Arc::clone(pool), setup.settings())
    }
}

/// Not generic: so the engines are compiled here, once, and not in every program that opens a table.
fn open_words(pool: &Arc<Pool<Sim>>, setup: &Setup) -> Result<Box<dyn Index<u64, u64>>, OpenError> {
    Ok(setup.engine.open_words(Arc::clone(pool), setup.settings())?.engine)
}

impl<K: Fixed, V: Fixed> PairsSubject<K, V> {
    /// How full the table's levels are.
    pub fn occupancy(&self) -> index::Occupancy {
        self.index.occupancy()
    }

    fn on(pool: Arc<Pool<Sim>>, setup: &Setup) -> Result<Self, Refusal> {
        let index = open::<K, V>(&pool, setup)?;
        if setup.has_helper {
            index.expect_help();
        }
        let sight = index.view().map(|view| sight(&pool, view)).transpose()?;
        Ok(PairsSubject { index, pool, sight })
    }

    /// What a guest finds; `None` if there is none, or if it has to ask.
    fn seen(&self, key: K) -> Option<Option<V>> {
        let found = self.sight.as_ref()?.get(key.word(0))?;
        Some(found.map(|word| V::of_words(|_| word)))
    }

    /// The same of several keys; `None` if it has to ask for all of them.
    fn many_seen(&self, keys: &[K]) -> Option<Vec<Option<Option<V>>>> {
        let sight = self.sight.as_ref()?;
        let look = sight.look()?;
        let words: Vec<u64> = keys.iter().map(|key| key.word(0)).collect();
        let mut seen = vec![None; keys.len()];
        sight.search_many(look, &words, &mut seen);
        let value = |word: u64| V::of_words(|_| word);
        let values = seen.into_iter().map(|found| found.map(|word| word.map(value)));
        sight.is_as(look).then(|| values.collect())
    }

    fn get_many(&self, keys: &[K], found: &mut [Option<V>]) {
        let Some(seen) = self.many_seen(keys) else { return self.index.get_many(keys, found) };
        for ((seen, &key), found) in seen.into_iter().zip(keys).zip(found) {
            *found = seen.unwrap_or_else(|| self.index.get(key));
        }
    }
}

fn value<V: Fixed>(value: Value) -> V {
    lengthened(Setup::word(value))
}

/// The value of what was found in a table, or what is wrong with it.
fn known_value<V: Fixed>(found: Option<V>) -> Result<Option<Value>, Failed> {
    match found.map(|found| shortened(found).and_then(Setup::value_of)) {
        Some(None) => Err(Failed::Wrong(format!("found {}, which nobody stored", hex(found)))),
        value => Ok(value.flatten()),
    }
}

/// The words of what was found.
fn hex<T: Fixed>(found: Option<T>) -> String {
    let words = |found: T| (0..T::BYTES.div_ceil(8)).map(move |index| found.word(index));
    format!("{:x?}", found.into_iter().flat_map(words).collect::<Vec<u64>>())
}

/// Pairs of a batch, by the kind of its first action.
enum Batch<K, V> {
    Get(Vec<K>),
    Insert(Vec<(K, V)>),
    Upsert(Vec<(K, V)>),
    Remove(Vec<K>),
    Exchange(Vec<(K, Option<V>, Option<V>)>),
}

impl<K: Fixed, V: Fixed> Batch<K, V> {
    fn of(setup: &Setup, calls: &[(Key, Action)]) -> Self {
        let keys = || calls.iter().map(|&(key, _)| lengthened(setup.keys[usize::from(key)]));
        let values = || {
            calls.iter().map(|&(_, action)| match action {
                Action::Insert(new) | Action::Update(new) | Action::Upsert(new) => value(new),
                _ => lengthened(0),
            })
        };
        match calls.first() {
            Some((_, Action::Insert(_))) => Batch::Insert(keys().zip(values()).collect()),
            Some((_, Action::Upsert(_))) => Batch::Upsert(keys().zip(values()).collect()),
            Some((_, Action::Remove)) => Batch::Remove(keys().collect()),
            Some((_, Action::Exchange(..))) => Batch::Exchange(
                calls
                    .iter()
                    .zip(keys())
                    .map(|(&(_, action), key)| match action {
                        Action::Exchange(expected, new) => {
                            (key, expected.map(value), new.map(value))
                        }
                        _ => (key, None, None),
                    })
                    .collect(),
            ),
            _ => Batch::Get(keys().collect()),
        }
    }
}

impl<K: Fixed, V: Fixed> Subject for PairsSubject<K, V> {
    fn name(setup: &Setup) -> String {
        setup.engine.name().into()
    }

    fn scans_exactly(setup: &Setup) -> bool {
        setup.engine.description().scans_exactly
    }

    fn create(medium: Sim, setup: &Setup) -> Result<Self, Refusal> {
        let words =
            spec(setup, PoolKind::Table, setup.engine.description().id, setup.engine_params);
        let spec = Spec { key_bytes: K::BYTES as u32, value_bytes: V::BYTES as u32, ..words };
        PairsSubject::on(Arc::new(Pool::create(medium, &spec, place(0))?), setup)
    }

    fn open(medium: Sim, setup: &Setup, boot: u64) -> Result<Self, Refusal> {
        PairsSubject::on(Arc::new(Pool::open(medium, place(boot))?), setup)
    }

    fn open_read_only(medium: Sim, setup: &Setup) -> Result<Self, Refusal> {
        PairsSubject::on(Arc::new(read_only(medium)?), setup)
    }

    fn is_resizing(&self) -> bool {
        self.occupancy().resizing
    }

    fn resizes(&self) -> u64 {
        self.occupancy().resizes
    }

    fn sync(&self) -> Result<(), String> {
        sync(self, &self.pool)
    }

    fn call(&self, setup: &Setup, key: Key, action: Action) -> Result<Option<Value>, Failed> {
        let key: K = lengthened(setup.keys[usize::from(key)]);
        if action == Action::Get {
            return known_value(self.seen(key).unwrap_or_else(|| self.index.get(key)));
        }
        let _write = self.pool.write().map_err(|error| Failed::Wrong(error.to_string()))?;
        let found = match action {
            Action::Get => self.index.get(key),
            Action::Insert(new) => self.index.insert(key, value(new))?,
            Action::Update(new) => self.index.update(key, value(new))?,
            Action::Upsert(new) => self.index.upsert(key, value(new))?,
            Action::Remove => self.index.remove(key)?,
            Action::OfCache(_) => return Err(Failed::of_cache(action)),
            Action::Exchange(expected, new) => {
                let expected = expected.map(value);
                match self.index.compare_exchange(key, expected, new.map(value))? {
                    Ok(()) => expected,
                    Err(found) => found,
                }
            }
        };
        known_value(found)
    }

    fn call_many(
        &self,
        setup: &Setup,
        calls: &[(Key, Action)],
    ) -> Result<Vec<Option<Value>>, Failed> {
        // Reading asks for no right to write: a pool that was synced stays clean.
        let is_reading = calls.iter().all(|(_, action)| *action == Action::Get);
        let _write = (!is_reading)
            .then(|| self.pool.write().map_err(|error| Failed::Wrong(error.to_string())))
            .transpose()?;
        let mut found = vec![None; calls.len()];
        match Batch::of(setup, calls) {
            Batch::Get(keys) => self.get_many(&keys, &mut found),
            Batch::Insert(pairs) => self.index.insert_many(&pairs, &mut found)?,
            Batch::Upsert(pairs) => self.index.upsert_many(&pairs, &mut found)?,
            Batch::Remove(keys) => self.index.remove_many(&keys, &mut found)?,
            Batch::Exchange(changes) => self.index.compare_exchange_many(&changes, &mut found)?,
        }
        found.into_iter().map(known_value).collect()
    }

    fn see(&self, setup: &Setup, keys: &[Key]) -> Result<Vec<Option<Option<Value>>>, Failed> {
        let keys: Vec<K> =
            keys.iter().map(|&key| lengthened(setup.keys[usize::from(key)])).collect();
        let seen = match keys[..] {
            [key] => vec![self.seen(key)],
            _ => self.many_seen(&keys).unwrap_or_else(|| vec![None; keys.len()]),
        };
        seen.into_iter().map(|found| found.map(known_value).transpose()).collect()
    }

    fn help(&self) {
        self.index.help();
    }

    fn settle(&self) {
        self.index.settle();
    }

    fn close(&self) -> Result<(), String> {
        self.pool.record_pairs(Some(self.index.len()));
        self.pool.close().map_err(|error| error.to_string())
    }

    fn shrink(&self) -> Result<(), Failed> {
        let _write = self.pool.write().map_err(|error| Failed::Wrong(error.to_string()))?;
        Ok(self.index.shrink().map(drop)?)
    }

    fn wait_for_writers(&self) {
        self.pool.wait_for_writers();
    }

    fn medium(&self) -> &Sim {
        self.pool.medium()
    }

    fn scan(&self, setup: &Setup) -> Result<Vec<(Key, Value)>, String> {
        let mut pairs = Vec::new();
        let mut wrong = None;
        let scanned = self.index.for_each(&mut |key, found| {
            let key_found = shortened(key).and_then(|key| setup.key_of(key));
            match (key_found, known_value(Some(found))) {
                (Some(key), Ok(Some(value))) => pairs.push((key, value)),
                _ => {
                    let (key, found) = (hex(Some(key)), hex(Some(found)));
                    wrong = Some(format!("the pair {key}, {found} was never stored"));
                }
            }
        });
        scanned.map_err(|error| error.to_string())?;
        wrong.map_or(Ok(pairs), Err)
    }

    fn check(&self) -> Result<(), String> {
        verdict(self.index.check(), self.index.len())
    }
}
