//! LMDB, by heed: a copy-on-write B-tree in a mapped file, one writer at a time.

use super::{Mode, contender, fast};
use anyhow::{Context, Result};
use bench::{ByteStore, Contender, Pair, See};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions};
use std::path::Path;

/// Addresses that the map may take; the file grows as needed.
const MAP_BYTES: usize = 64 << 30;

type Pairs = Database<'static, Bytes, Bytes>;

struct Lmdb {
    env: Env,
    pairs: Pairs,
}

impl Lmdb {
    fn open(directory: &Path, flags: EnvFlags) -> Result<Lmdb> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        // SAFETY: the flags leave out syncs alone. Pages can only be torn if the machine stops, and then nobody opens
        // the files again: their directory is temporary. After SIGKILL the kernel still has every page.
        unsafe { options.flags(flags) };
        // SAFETY: the directory is this process's own, so nobody changes its files under the map.
        let env = unsafe { options.open(directory)? };
        let transaction = env.write_txn()?;
        let pairs = env
            .create_databases_and_commit(transaction, |opener, transaction| {
                let made = opener.create_database(transaction, None);
                made.map(CommitOrAbort::<_, ()>::Commit)
            })?
            .unwrap_commit();
        Ok(Lmdb { env, pairs })
    }
}

impl ByteStore for Lmdb {
    fn put(&self, pairs: &[Pair<'_>]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for (key, value) in pairs {
            self.pairs.put(&mut transaction, key, value)?;
        }
        transaction.commit().context("committing")
    }

    fn get(&self, keys: &[&[u8]], see: See<'_>) -> Result<()> {
        let transaction = self.env.read_txn()?;
        for (place, key) in keys.iter().enumerate() {
            see(place, self.pairs.get(&transaction, key)?);
        }
        Ok(())
    }

    fn remove(&self, keys: &[&[u8]]) -> Result<Option<usize>> {
        let mut transaction = self.env.write_txn()?;
        let mut removed = 0;
        for key in keys {
            removed += usize::from(self.pairs.delete(&mut transaction, key)?);
        }
        transaction.commit().context("committing")?;
        Ok(Some(removed))
    }

    fn sync(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }
}

pub(super) fn contenders() -> Vec<Box<dyn Contender>> {
    let no_meta_sync = fast("nometasync", Some("all but the last transaction"));
    let no_sync = fast("nosync", None).keeping("every transaction");
    let of = |mode: Mode, flags: EnvFlags| {
        let open = move |directory: &Path| Lmdb::open(directory, flags);
        contender("lmdb", env!("VERSION_HEED"), mode, false, open)
    };
    vec![
        of(Mode::DURABLE, EnvFlags::empty()),
        of(no_meta_sync, EnvFlags::NO_META_SYNC),
        of(no_sync, EnvFlags::NO_SYNC),
    ]
}
