//! redb: a copy-on-write B-tree, one writer at a time.

use super::{CACHE_BYTES, Mode, contender, fast};
use anyhow::Result;
use bench::{ByteStore, Contender, Pair, See};
use redb::{Database, Durability, ReadableDatabase, Table, TableDefinition};
use std::path::Path;

type Bytes = &'static [u8];

const PAIRS: TableDefinition<Bytes, Bytes> = TableDefinition::new("pairs");

struct Redb {
    database: Database,
    durability: Durability,
}

impl Redb {
    fn open(directory: &Path, durability: Durability) -> Result<Redb> {
        let database =
            Database::builder().set_cache_size(CACHE_BYTES).create(directory.join("redb"))?;
        let redb = Redb { database, durability };
        // Readers find a table even if a kill has taken all that came after this.
        redb.commit(Durability::Immediate, |_| Ok(()))?;
        Ok(redb)
    }

    fn commit<T>(
        &self,
        durability: Durability,
        change: impl FnOnce(&mut Table<'_, Bytes, Bytes>) -> Result<T>,
    ) -> Result<T> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(durability)?;
        let changed = change(&mut transaction.open_table(PAIRS)?)?;
        transaction.commit()?;
        Ok(changed)
    }
}

impl ByteStore for Redb {
    fn put(&self, pairs: &[Pair<'_>]) -> Result<()> {
        self.commit(self.durability, |table| {
            for (key, value) in pairs {
                table.insert(*key, *value)?;
            }
            Ok(())
        })
    }

    fn get(&self, keys: &[&[u8]], see: See<'_>) -> Result<()> {
        let table = self.database.begin_read()?.open_table(PAIRS)?;
        for (place, key) in keys.iter().enumerate() {
            let found = table.get(*key)?;
            see(place, found.as_ref().map(|found| found.value()));
        }
        Ok(())
    }

    fn remove(&self, keys: &[&[u8]]) -> Result<Option<usize>> {
        self.commit(self.durability, |table| {
            let mut removed = 0;
            for key in keys {
                removed += usize::from(table.remove(*key)?.is_some());
            }
            Ok(Some(removed))
        })
    }

    fn sync(&self) -> Result<()> {
        match self.durability {
            Durability::Immediate => Ok(()),
            _ => self.commit(Durability::Immediate, |_| Ok(())),
        }
    }
}

pub(super) fn contenders() -> Vec<Box<dyn Contender>> {
    let durable = Mode::DURABLE.keeping("every transaction");
    let none = fast("none", Some("what was synced")).keeping_some("what was synced");
    let of = |mode: Mode, durability: Durability| {
        let open = move |directory: &Path| Redb::open(directory, durability);
        contender("redb", env!("VERSION_REDB"), mode, false, open)
    };
    vec![of(durable, Durability::Immediate), of(none, Durability::None)]
}
