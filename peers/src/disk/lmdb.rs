//! LMDB, by heed: a copy-on-write B-tree in a mapped file, one writer at a time.

use super::{EVERY_PUT, Mode, contender};
use anyhow::{Context, Result};
use bench::{Contender, DurableMap};
use heed::byteorder::BigEndian;
use heed::types::U64;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions};
use std::path::Path;

/// Addresses that the map may take; the file grows as needed.
const MAP_BYTES: usize = 64 << 30;

type Pairs = Database<'static, U64<BigEndian>, U64<BigEndian>>;

struct Lmdb {
    env: Env,
    pairs: Pairs,
}

impl Lmdb {
    fn open(directory: &Path, flags: EnvFlags) -> Result<Lmdb> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        // SAFETY: the flags leave out one of two syncs at most: no torn pages after a crash.
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

impl DurableMap for Lmdb {
    fn put(&self, key: u64, value: u64) -> Result<()> {
        self.put_many(&[(key, value)])
    }

    fn put_many(&self, pairs: &[(u64, u64)]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for (key, value) in pairs {
            self.pairs.put(&mut transaction, key, value)?;
        }
        transaction.commit().context("committing")
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        let txn = self.env.read_txn()?;
        Ok(self.pairs.get(&txn, &key)?)
    }

    fn sync(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }
}

pub(super) fn contenders() -> Vec<Box<dyn Contender>> {
    let durable = Mode { name: "", promise: EVERY_PUT };
    let fast = Mode { name: "nometasync", promise: "all but the last transaction" };
    let of = |mode: Mode, flags: EnvFlags| {
        let open = move |directory: &Path| Lmdb::open(directory, flags);
        contender("lmdb", env!("VERSION_HEED"), &mode, false, open)
    };
    vec![of(durable, EnvFlags::empty()), of(fast, EnvFlags::NO_META_SYNC)]
}
