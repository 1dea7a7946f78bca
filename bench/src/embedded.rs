//! Stores of byte strings in files, whoever wrote them.

use crate::contender::Contender;
use crate::durable_map::{DurableMap, OnDisk};
use crate::medium::Medium;
use crate::options::Suite;
use crate::row::Row;
use crate::setting::Setting;
use crate::suite::{durable, values};
use anyhow::Result;
use firndex::Engine;
use std::path::Path;

/// A key and its value.
pub type Pair<'a> = (&'a [u8], &'a [u8]);

/// Called with the place of a key in a list, and its value or `None`.
pub type See<'a> = &'a mut dyn FnMut(usize, Option<&[u8]>);

/// A map from byte strings to byte strings in files. Changes may go back to several threads at once.
///
/// Lists, not single keys, go to and fro: so a store has its transactions, and nobody pays a virtual call for each key.
pub trait ByteStore: Send + Sync {
    /// Stores the pairs, in one transaction where the store has such.
    fn put(&self, pairs: &[Pair<'_>]) -> Result<()>;

    /// Looks each key up by itself. A transaction for reading may serve all of them.
    fn get(&self, keys: &[&[u8]], see: See<'_>) -> Result<()>;

    /// Whether [`get_many`](ByteStore::get_many) is a call of the store's own.
    fn has_get_many(&self) -> bool {
        false
    }

    /// Looks the keys up with one call.
    fn get_many(&self, keys: &[&[u8]], see: See<'_>) -> Result<()> {
        self.get(keys, see)
    }

    /// Removes the keys, in one transaction where the store has such. How many there were, if the store tells.
    fn remove(&self, keys: &[&[u8]]) -> Result<Option<usize>>;

    /// Returns when everything that was put before survives power loss.
    fn sync(&self) -> Result<()>;
}

/// What SIGKILL leaves of the changes that have returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AfterKill {
    /// In words.
    pub text: &'static str,
    /// Whether that is all of them.
    pub is_all: bool,
}

/// One way to use a store: a contender of the suites whose promise it has.
pub struct Embedded<O> {
    /// Name on the command line: the store, and the mode behind it.
    pub name: String,
    /// Version of the store.
    pub version: String,
    /// What power loss leaves of the puts that have returned; `None`: no contender of suite `durable`.
    pub after_power_loss: Option<&'static str>,
    /// What SIGKILL leaves; `None`: no contender of suite `values`.
    pub after_kill: Option<AfterKill>,
    /// Whether threads that wait for the disk wait together, so that many of them are worth a row.
    pub groups: bool,
    /// Opens the store with its files in a directory, and makes it if it is not there.
    pub open: O,
}

impl<O> Contender for Embedded<O>
where
    O: Fn(&Path) -> Result<Box<dyn ByteStore>> + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn threads_max(&self) -> usize {
        usize::MAX
    }

    fn lies_on(&self, medium: Medium, _: bool) -> bool {
        medium == Medium::Disk
    }

    fn grows(&self) -> bool {
        true
    }

    fn engine(&self) -> Option<Engine> {
        None
    }

    fn after_kill(&self) -> Option<AfterKill> {
        self.after_kill
    }

    fn open_store(&self, directory: &Path, _: u64) -> Result<Box<dyn ByteStore>> {
        (self.open)(directory)
    }

    fn round(&self, suite: Suite, setting: &Setting) -> Result<Vec<Row>> {
        match (suite, self.after_power_loss) {
            (Suite::Durable, Some(promise)) => {
                let of_words = OnDisk {
                    name: self.name.clone(),
                    promise,
                    groups: self.groups,
                    open: |_: &Setting, directory: &Path| {
                        Ok(Box::new(Words((self.open)(directory)?)) as Box<dyn DurableMap>)
                    },
                };
                durable::of_map(&of_words, setting)
            }
            (Suite::Values, _) => values::round(self, setting),
            _ => Ok(Vec::new()),
        }
    }
}

/// A store of words, each a string of 8 bytes.
struct Words(Box<dyn ByteStore>);

impl DurableMap for Words {
    fn put(&self, key: u64, value: u64) -> Result<()> {
        self.0.put(&[(&key.to_be_bytes(), &value.to_be_bytes())])
    }

    fn put_many(&self, pairs: &[(u64, u64)]) -> Result<()> {
        let bytes = |&(key, value): &(u64, u64)| (key.to_be_bytes(), value.to_be_bytes());
        let bytes: Vec<_> = pairs.iter().map(bytes).collect();
        let pairs: Vec<Pair<'_>> =
            bytes.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        self.0.put(&pairs)
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        let mut found = Ok(None);
        self.0.get(&[&key.to_be_bytes()], &mut |_, value| {
            let word = |bytes: &[u8]| Ok(u64::from_be_bytes(bytes.try_into()?));
            found = value.map(word).transpose();
        })?;
        found
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }
}
