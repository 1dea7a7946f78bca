//! redb: a copy-on-write B-tree, one writer at a time.

use super::{EVERY_PUT, Mode, contender};
use anyhow::Result;
use bench::{Contender, DurableMap};
use redb::{Database, Durability, ReadableDatabase, TableDefinition};
use std::path::Path;

const PAIRS: TableDefinition<u64, u64> = TableDefinition::new("pairs");

struct Redb {
    database: Database,
    durability: Durability,
}

impl Redb {
    fn open(directory: &Path, durability: Durability) -> Result<Redb> {
        Ok(Redb { database: Database::create(directory.join("redb"))?, durability })
    }

    fn commit(&self, pairs: &[(u64, u64)], durability: Durability) -> Result<()> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(durability)?;
        {
            let mut table = transaction.open_table(PAIRS)?;
            for (key, value) in pairs {
                table.insert(key, value)?;
            }
        }
        Ok(transaction.commit()?)
    }
}

impl DurableMap for Redb {
    fn put(&self, key: u64, value: u64) -> Result<()> {
        self.commit(&[(key, value)], self.durability)
    }

    fn put_many(&self, pairs: &[(u64, u64)]) -> Result<()> {
        self.commit(pairs, self.durability)
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        let table = self.database.begin_read()?.open_table(PAIRS)?;
        Ok(table.get(key)?.map(|found| found.value()))
    }

    fn sync(&self) -> Result<()> {
        match self.durability {
            Durability::Immediate => Ok(()),
            _ => self.commit(&[], Durability::Immediate),
        }
    }
}

pub(super) fn contenders() -> Vec<Box<dyn Contender>> {
    let durable = Mode { name: "", promise: EVERY_PUT };
    let fast = Mode { name: "none", promise: "what was synced" };
    let of = |mode: Mode, durability: Durability| {
        let open = move |directory: &Path| Redb::open(directory, durability);
        contender("redb", env!("VERSION_REDB"), &mode, false, open)
    };
    vec![of(durable, Durability::Immediate), of(fast, Durability::None)]
}
