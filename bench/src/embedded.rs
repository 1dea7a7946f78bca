//! Stores of byte strings in files, by any author.

use crate::byte_store::{AfterKill, ByteStore, Pair, Reopens};
use crate::choices::Suite;
use crate::contender::Contender;
use crate::durable_map::{DurableMap, OnDisk};
use crate::map::Map;
use crate::medium::Medium;
use crate::row::Row;
use crate::setting::Setting;
use crate::suite::{durable, open, values};
use anyhow::{Result, bail};
use firndex::Engine;
use std::path::Path;

/// One way to use a store: a contender of the suites whose promise it keeps.
pub struct Embedded<O> {
    /// Name on the command line: the store, followed by the mode.
    pub name: String,
    /// Version of the store.
    pub version: String,
    /// What power loss leaves of the puts that have returned; `None`: not a contender of suite `durable`.
    pub after_power_loss: Option<&'static str>,
    /// What SIGKILL leaves; `None`: not a contender of suite `values`.
    pub after_kill: Option<AfterKill>,
    /// After what it still has everything.
    pub reopens: Reopens,
    /// Whether threads wait for the disk together, so that rows of many threads are worthwhile.
    pub groups: bool,
    /// Opens the store with its files in a directory, and creates it if necessary.
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

    fn reopens(&self) -> Reopens {
        self.reopens
    }

    fn open_store(&self, directory: &Path, _: u64) -> Result<Box<dyn ByteStore>> {
        (self.open)(directory)
    }

    fn open_map(&self, _setting: &Setting) -> Result<Box<dyn Map>> {
        bail!("{} is no map of words", self.name())
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
            (Suite::Open, _) => open::round(self, setting),
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
