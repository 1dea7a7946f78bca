//! What seeds hold: tables and stores, asked by the numbers of their keys.

use firndex::{CheckReport, Error, Fixed, Options, Pool, Result, Store, Table};
use rapidhash::v3::RapidSecrets;
use std::path::Path;

/// Seed of the hash function of all seeds: keys that collide are known.
pub(crate) const HASH_SEED: u64 = 0x5eed;
/// So many keys of a store have one hash, and share a group.
const COLLIDING: u32 = 5;
/// No scan shows more pairs than the pool has words; else it goes in circles.
const PAIRS_PER_WORD: u64 = 1;

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// The kinds of pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A table with keys and values of 8 bytes.
    Words,
    /// A table with keys of 12 bytes and values of 4.
    Odd,
    Store,
}

type OddKey = [u8; 12];

/// A key or a value of a table that a number stands for.
trait Numbered: Fixed {
    fn of(number: u32) -> Self;
    fn bytes(self) -> Vec<u8> {
        (0..Self::BYTES).map(|at| (self.word(at / 8) >> (at % 8 * 8)) as u8).collect()
    }
}

impl Numbered for u64 {
    fn of(number: u32) -> u64 {
        number.into()
    }
}

impl Numbered for u32 {
    fn of(number: u32) -> u32 {
        number
    }
}

impl Numbered for OddKey {
    fn of(number: u32) -> OddKey {
        std::array::from_fn(|at| (number >> (at % 4)) as u8 ^ (number as u8).rotate_left(at as u32))
    }
}

fn value_number(number: u32) -> u32 {
    number.wrapping_mul(31) ^ 7
}

fn store_key(number: u32) -> Vec<u8> {
    if number < COLLIDING {
        // The first word takes away all that the second one says.
        let word = RapidSecrets::seed(HASH_SEED).secrets[1];
        return [word.to_le_bytes(), u64::from(number).to_le_bytes()].concat();
    }
    let mut key = number.to_le_bytes().to_vec();
    key.resize(4 + number as usize % 15, 9);
    key
}

fn store_value(number: u32) -> Vec<u8> {
    // A few take whole segments of the heap.
    let len = if number % 41 == 7 { 1300 + number } else { number * 7 % 90 };
    vec![number as u8 ^ 0x55; len as usize]
}

impl Form {
    pub(crate) const ALL: [Form; 3] = [Form::Words, Form::Odd, Form::Store];

    /// The pair of this number.
    pub(crate) fn pair(self, number: u32) -> Pair {
        let value = value_number(number);
        match self {
            Form::Words => (u64::of(number).bytes(), u64::of(value).bytes()),
            Form::Odd => (OddKey::of(number).bytes(), value.bytes()),
            Form::Store => (store_key(number), store_value(number)),
        }
    }

    /// Makes a pool.
    pub(crate) fn create(self, options: &Options, path: &Path) -> Result<Box<dyn Subject>> {
        Ok(match self {
            Form::Words => Box::new(options.create_table_of::<u64, u64>(path)?),
            Form::Odd => Box::new(options.create_table_of::<OddKey, u32>(path)?),
            Form::Store => Box::new(options.create_store(path)?),
        })
    }

    /// Opens a pool.
    pub(crate) fn open(self, options: &Options, path: &Path) -> Result<Box<dyn Subject>> {
        Ok(match self {
            Form::Words => Box::new(options.open_table_of::<u64, u64>(path)?),
            Form::Odd => Box::new(options.open_table_of::<OddKey, u32>(path)?),
            Form::Store => Box::new(options.open_store(path)?),
        })
    }
}

/// An open pool.
pub(crate) trait Subject {
    fn get(&self, number: u32) -> Result<Option<Vec<u8>>>;
    fn get_many(&self, numbers: &[u32]) -> Result<Vec<Option<Vec<u8>>>>;
    /// All pairs that a scan shows, of which there are no more than words of the pool.
    fn pairs(&self) -> Result<Vec<Pair>>;
    /// The pairs that a scan in parts shows.
    fn pairs_in_parts(&self) -> Result<u64>;
    fn put(&self, number: u32) -> Result<()>;
    fn change(&self, number: u32) -> Result<()>;
    fn change_many(&self, numbers: &[u32]) -> Result<()>;
    fn remove(&self, number: u32) -> Result<()>;
    fn check(&self) -> Result<CheckReport>;
    fn len(&self) -> u64;
    fn is_resizing(&self) -> Result<bool>;
    fn tidy(&self) -> Result<()>;
    fn sync(&self) -> Result<()>;
    fn close(self: Box<Self>) -> Result<()>;
}

/// Fails if a scan goes on when it cannot.
fn count_shown(shown: &mut u64, pool_bytes: u64) {
    *shown += 1;
    assert!(*shown <= pool_bytes / 8 * PAIRS_PER_WORD, "a scan of {pool_bytes} bytes goes on");
}

impl<K: Numbered, V: Numbered> Subject for Table<K, V> {
    fn get(&self, number: u32) -> Result<Option<Vec<u8>>> {
        Ok(Table::get(self, K::of(number))?.map(V::bytes))
    }

    fn get_many(&self, numbers: &[u32]) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<K> = numbers.iter().map(|&number| K::of(number)).collect();
        let values = Table::get_many(self, &keys)?;
        Ok(values.into_iter().map(|value| value.map(V::bytes)).collect())
    }

    fn pairs(&self) -> Result<Vec<Pair>> {
        let (mut pairs, mut shown, bytes) = (Vec::new(), 0, self.stats()?.pool_bytes);
        self.for_each(|key, value| {
            count_shown(&mut shown, bytes);
            pairs.push((key.bytes(), value.bytes()));
        })?;
        Ok(pairs)
    }

    fn pairs_in_parts(&self) -> Result<u64> {
        let (mut cursor, mut shown, bytes) = (0, 0, self.stats()?.pool_bytes);
        loop {
            let (pairs, next) = self.scan(cursor, 7)?;
            pairs.iter().for_each(|_| count_shown(&mut shown, bytes));
            if next == 0 {
                return Ok(shown);
            }
            cursor = next;
        }
    }

    fn put(&self, number: u32) -> Result<()> {
        Table::put(self, K::of(number), V::of(value_number(number))).map(drop)
    }

    fn change(&self, number: u32) -> Result<()> {
        self.update(K::of(number), V::of(!number)).map(drop)
    }

    fn change_many(&self, numbers: &[u32]) -> Result<()> {
        let pairs: Vec<(K, V)> =
            numbers.iter().map(|&number| (K::of(number), V::of(number))).collect();
        self.put_many(&pairs)?;
        let keys: Vec<K> = pairs.iter().step_by(2).map(|pair| pair.0).collect();
        self.remove_many(&keys).map(drop).map_err(Error::from)
    }

    fn remove(&self, number: u32) -> Result<()> {
        Table::remove(self, K::of(number)).map(drop)
    }

    fn check(&self) -> Result<CheckReport> {
        Pool::check(self)
    }

    fn len(&self) -> u64 {
        Pool::len(self)
    }

    fn is_resizing(&self) -> Result<bool> {
        Ok(self.stats()?.resizing)
    }

    fn tidy(&self) -> Result<()> {
        self.shrink().map(drop)
    }

    fn sync(&self) -> Result<()> {
        Pool::sync(self)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Table::close(*self)
    }
}

impl Subject for Store {
    fn get(&self, number: u32) -> Result<Option<Vec<u8>>> {
        Ok(Store::get(self, store_key(number))?.map(|value| value.to_vec()))
    }

    fn get_many(&self, numbers: &[u32]) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<Vec<u8>> = numbers.iter().map(|&number| store_key(number)).collect();
        let values = Store::get_many(self, &keys)?;
        Ok(values.into_iter().map(|value| value.map(|value| value.to_vec())).collect())
    }

    fn pairs(&self) -> Result<Vec<Pair>> {
        let (mut pairs, mut shown, bytes) = (Vec::new(), 0, self.stats()?.pool_bytes);
        self.for_each(|key, value| {
            count_shown(&mut shown, bytes);
            pairs.push((key.to_vec(), value.to_vec()));
        })?;
        Ok(pairs)
    }

    fn pairs_in_parts(&self) -> Result<u64> {
        let (mut cursor, mut shown, bytes) = (0, 0, self.stats()?.pool_bytes);
        loop {
            let (pairs, next) = self.scan(cursor, 7)?;
            pairs.iter().for_each(|_| count_shown(&mut shown, bytes));
            if next == 0 {
                return Ok(shown);
            }
            cursor = next;
        }
    }

    fn put(&self, number: u32) -> Result<()> {
        Store::put(self, store_key(number), store_value(number)).map(drop)
    }

    fn change(&self, number: u32) -> Result<()> {
        let value = store_value(number / 2);
        if number.is_multiple_of(2) {
            return self.update(store_key(number), value).map(drop);
        }
        self.modify(store_key(number), |_| Some(value.clone())).map(drop)
    }

    fn change_many(&self, numbers: &[u32]) -> Result<()> {
        let pairs: Vec<Pair> =
            numbers.iter().map(|&number| (store_key(number), store_value(number / 3))).collect();
        let slices: Vec<(&[u8], &[u8])> =
            pairs.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        self.put_many(&slices).map(drop)?;
        let keys: Vec<&[u8]> = slices.iter().step_by(2).map(|pair| pair.0).collect();
        self.remove_many(&keys).map(drop).map_err(Error::from)
    }

    fn remove(&self, number: u32) -> Result<()> {
        Store::remove(self, store_key(number)).map(drop)
    }

    fn check(&self) -> Result<CheckReport> {
        Pool::check(self)
    }

    fn len(&self) -> u64 {
        Pool::len(self)
    }

    fn is_resizing(&self) -> Result<bool> {
        Ok(self.stats()?.resizing)
    }

    fn tidy(&self) -> Result<()> {
        self.compact()?;
        self.shrink().map(drop)
    }

    fn sync(&self) -> Result<()> {
        Pool::sync(self)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Store::close(*self)
    }
}
