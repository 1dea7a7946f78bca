//! Tables of any types: their keys and values as text, by the shapes that the pool records, and in hexadecimal digits
//! without a record.

mod text;

use std::ops::{ControlFlow, Deref};
use std::path::Path;

use anyhow::Result;
use firndex::{BatchError, Copied, Existing, Fixed, Options, PoolInfo, Shape, Table};

use crate::failure::Failure;
use crate::format::Field;
use crate::quote::quote;
use crate::sizes::{self, AnyKey, AnyValue};

/// Eight bytes of any type. Pairs of words have a layout of their own in each engine.
#[derive(Clone, Copy)]
pub(crate) struct Word(u64);

impl Fixed for Word {
    const BYTES: usize = 8;

    #[inline(always)]
    fn word(self, index: usize) -> u64 {
        self.0.word(index)
    }

    #[inline(always)]
    fn of_words(word: impl Fn(usize) -> u64) -> Self {
        Word(Fixed::of_words(word))
    }
}

/// What a key or a value is.
struct Side {
    what: &'static str,
    shape: Option<Shape>,
    bytes: usize,
}

impl Side {
    fn text<T: Fixed>(&self, value: T) -> Vec<u8> {
        let words = (0..self.bytes.div_ceil(8)).flat_map(|index| value.word(index).to_le_bytes());
        let bytes: Vec<u8> = words.take(self.bytes).collect();
        text::of_bytes(self.shape.as_ref(), &bytes).into_bytes()
    }

    fn read<T: Fixed>(&self, text: &[u8]) -> Result<T> {
        let wrong = |expected: String| {
            let what = format!("the {} {} is not of this table's", self.what, quote(text));
            Failure::new(
                what,
                format!("it has keys and values of fixed types; expected {expected}"),
            )
        };
        let string = std::str::from_utf8(text).map_err(|_| wrong("text".into()))?;
        let bytes = text::to_bytes(self.shape.as_ref(), self.bytes, string).map_err(wrong)?;
        let word = |index: usize| {
            let mut word = [0; 8];
            let own = bytes.get(8 * index..).unwrap_or_default();
            let len = own.len().min(8);
            word[..len].copy_from_slice(&own[..len]);
            u64::from_le_bytes(word)
        };
        Ok(T::of_words(word))
    }
}

enum AnyTable {
    Words(Table<Word, Word>),
    Sized(Table<AnyKey, AnyValue>),
}

/// An open table of any types.
pub(crate) struct Typed {
    table: AnyTable,
    key: Side,
    value: Side,
}

macro_rules! with {
    ($typed:expr, $table:ident => $result:expr) => {
        match $typed {
            AnyTable::Words($table) => $result,
            AnyTable::Sized($table) => $result,
        }
    };
}

impl Deref for Typed {
    type Target = firndex::Pool;

    fn deref(&self) -> &firndex::Pool {
        with!(&self.table, table => table)
    }
}

impl Typed {
    /// Opens a pool, of which `inspect` has told this. Its keys and values must be short enough to be copied, if any
    /// are.
    pub(crate) fn open(path: &Path, info: &PoolInfo, options: &Options) -> firndex::Result<Typed> {
        let table = if (info.key_bytes, info.value_bytes) == (8, 8) {
            AnyTable::Words(options.open_table_of(path)?)
        } else {
            sizes::set(info.key_bytes, info.value_bytes);
            AnyTable::Sized(options.open_table_of(path)?)
        };
        let side = |what, shape: &Option<Shape>, bytes: u32| Side {
            what,
            shape: shape.clone(),
            bytes: bytes as usize,
        };
        Ok(Typed {
            table,
            key: side("key", &info.key_shape, info.key_bytes),
            value: side("value", &info.value_shape, info.value_bytes),
        })
    }

    /// The text of the value of the key with this text.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        with!(&self.table, table => {
            let found = table.get(self.key.read(key)?)?;
            Ok(found.map(|value| self.value.text(value)))
        })
    }

    /// Whether it replaced a value.
    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        with!(&self.table, table => {
            Ok(table.put(self.key.read(key)?, self.value.read(value)?)?.is_some())
        })
    }

    /// Whether the key was there.
    pub(crate) fn remove(&self, key: &[u8]) -> Result<bool> {
        with!(&self.table, table => Ok(table.remove(self.key.read(key)?)?.is_some()))
    }

    /// Whether both are texts of the table's types.
    pub(crate) fn read(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.key.read::<Bytes>(key)?;
        self.value.read::<Bytes>(value)?;
        Ok(())
    }

    /// Stores pairs that have been [read](Typed::read).
    pub(crate) fn put_many(&self, pairs: &[Texts]) -> std::result::Result<(), BatchError> {
        with!(&self.table, table => {
            let pairs: Vec<_> = pairs
                .iter()
                .filter_map(|(key, value)| {
                    Some((self.key.read(key).ok()?, self.value.read(value).ok()?))
                })
                .collect();
            table.put_many(&pairs).map(drop)
        })
    }

    pub(crate) fn try_for_each<B>(
        &self,
        visit: &mut dyn FnMut(Field<'_>, Field<'_>) -> ControlFlow<B>,
    ) -> firndex::Result<ControlFlow<B>> {
        with!(&self.table, table => table.try_for_each(|key, value| {
            visit(Field::Bytes(&self.key.text(key)), Field::Bytes(&self.value.text(value)))
        }))
    }

    /// As [`Table::scan`], with pairs in text.
    pub(crate) fn scan(&self, cursor: u64, count: usize) -> firndex::Result<(Vec<Texts>, u64)> {
        with!(&self.table, table => {
            let (pairs, next) = table.scan(cursor, count)?;
            let text = |(key, value)| (self.key.text(key), self.value.text(value));
            Ok((pairs.into_iter().map(text).collect(), next))
        })
    }

    pub(crate) fn backup(&self, out: &Path, existing: Existing) -> firndex::Result<Copied> {
        with!(&self.table, table => table.backup(out, existing))
    }

    pub(crate) fn convert(
        &self,
        out: &Path,
        existing: Existing,
        options: &Options,
    ) -> firndex::Result<Copied> {
        with!(&self.table, table => table.convert(out, existing, options))
    }

    pub(crate) fn rewrite(self) -> firndex::Result<Option<Copied>> {
        with!(self.table, table => table.rewrite())
    }

    pub(crate) fn close(self) -> firndex::Result<()> {
        with!(self.table, table => table.close())
    }
}

/// Those of a key and its value.
type Texts = (Vec<u8>, Vec<u8>);

/// Read, and dropped.
type Bytes = [u8; 0];
