//! FeOxDB: a table and an ordered index in memory, written behind to a file of fixed size in blocks of 4 KiB.

use super::{Mode, contender, fast};
use anyhow::{Context, Result};
use bench::{ByteStore, Contender, Pair, See};
use feoxdb::{FeoxError, FeoxStore};
use std::path::Path;

/// What the file may take, holes apart: the default of 1 GiB has room for 262,000 pairs, since each has a block or more
/// of its own. A file never grows, and an opening reads all of it.
const FILE_BYTES: u64 = 8 << 30;

struct Feox {
    store: FeoxStore,
    is_durable: bool,
}

impl Feox {
    fn open(directory: &Path, is_durable: bool) -> Result<Feox> {
        let path = directory.join("feox");
        let path = path.to_str().context("FeOxDB takes no path that is not UTF-8")?;
        let builder = FeoxStore::builder().device_path(path);
        Ok(Feox { store: builder.file_size(FILE_BYTES).build()?, is_durable })
    }

    /// Ends a list of changes.
    fn end(&self) -> Result<()> {
        if self.is_durable { self.sync() } else { Ok(()) }
    }
}

impl ByteStore for Feox {
    fn put(&self, pairs: &[Pair<'_>]) -> Result<()> {
        for (key, value) in pairs {
            self.store.insert(key, value)?;
        }
        self.end()
    }

    fn get(&self, keys: &[&[u8]], see: See<'_>) -> Result<()> {
        for (place, key) in keys.iter().enumerate() {
            match self.store.get_bytes(key) {
                Ok(value) => see(place, Some(&value)),
                Err(FeoxError::KeyNotFound) => see(place, None),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn remove(&self, keys: &[&[u8]]) -> Result<Option<usize>> {
        let mut removed = 0;
        for key in keys {
            match self.store.delete(key) {
                Ok(()) => removed += 1,
                Err(FeoxError::KeyNotFound) => (),
                Err(error) => return Err(error.into()),
            }
        }
        self.end()?;
        Ok(Some(removed))
    }

    fn sync(&self) -> Result<()> {
        Ok(self.store.flush()?)
    }

    /// Dropping a store that cannot write what it holds only prints that.
    fn close(self: Box<Self>) -> Result<u64> {
        self.sync()?;
        Ok(0)
    }
}

pub(super) fn contenders() -> Vec<Box<dyn Contender>> {
    let durable = Mode::DURABLE.keeping("every list");
    let behind = fast("behind", Some("what was written")).keeping_some("what was written");
    let of = |mode: Mode, is_durable: bool| {
        let open = move |directory: &Path| Feox::open(directory, is_durable);
        contender("feox", env!("VERSION_FEOXDB"), mode, true, open)
    };
    vec![of(durable, true), of(behind, false)]
}
