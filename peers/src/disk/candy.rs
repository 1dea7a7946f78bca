//! CandyStore: files that are appended to, and a mapped index of them.

use super::{Mode, contender, fast};
use anyhow::Result;
use bench::{ByteStore, Contender, Pair, See};
use candystore::{CandyStore, Config};
use std::path::Path;

struct Candy {
    store: CandyStore,
    is_durable: bool,
}

impl Candy {
    fn open(directory: &Path, is_durable: bool) -> Result<Candy> {
        let store = CandyStore::open(directory.join("candy"), Config::default())?;
        Ok(Candy { store, is_durable })
    }

    /// Ends a list of changes.
    fn end(&self) -> Result<()> {
        if self.is_durable { self.sync() } else { Ok(()) }
    }
}

impl ByteStore for Candy {
    fn put(&self, pairs: &[Pair<'_>]) -> Result<()> {
        for (key, value) in pairs {
            self.store.set(key, value)?;
        }
        self.end()
    }

    fn get(&self, keys: &[&[u8]], see: See<'_>) -> Result<()> {
        for (place, key) in keys.iter().enumerate() {
            see(place, self.store.get(key)?.as_deref());
        }
        Ok(())
    }

    fn remove(&self, keys: &[&[u8]]) -> Result<Option<usize>> {
        let mut removed = 0;
        for key in keys {
            removed += usize::from(self.store.remove(key)?.is_some());
        }
        self.end()?;
        Ok(Some(removed))
    }

    fn sync(&self) -> Result<()> {
        Ok(self.store.checkpoint()?)
    }
}

pub(super) fn contenders() -> Vec<Box<dyn Contender>> {
    let background = fast("background", Some("all up to a checkpoint")).keeping("every put");
    let of = |mode: Mode, is_durable: bool| {
        let open = move |directory: &Path| Candy::open(directory, is_durable);
        contender("candy", env!("VERSION_CANDYSTORE"), mode, true, open)
    };
    vec![of(Mode::DURABLE, true), of(background, false)]
}
