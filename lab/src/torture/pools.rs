//! The two pools that are tortured: a table and a store on one engine.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use cli::format::Field;
use cli::pool::Pool;
use firndex::{Error, Existing, Options};

use super::calls::{Call, Deed, Key, Source};
use super::ledger::Found;

/// Whether a pool is the table or the store, in the order of their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Table,
    Store,
}

impl Which {
    pub(super) const BOTH: [Which; 2] = [Which::Table, Which::Store];

    pub(super) fn name(self) -> &'static str {
        match self {
            Which::Table => "table",
            Which::Store => "store",
        }
    }

    /// The pool's file.
    pub(super) fn path(self, directory: &Path) -> PathBuf {
        directory.join(self.name()).with_extension("firn")
    }

    pub(super) fn open(self, path: &Path, options: &Options) -> firndex::Result<Pool> {
        match self {
            Which::Table => options.open_table(path).map(Pool::Table),
            Which::Store => options.open_store(path).map(Pool::Store),
        }
    }

    pub(super) fn open_or_create(self, path: &Path, options: &Options) -> firndex::Result<Pool> {
        match self {
            Which::Table => options.open_or_create_table(path).map(Pool::Table),
            Which::Store => options.open_or_create_store(path).map(Pool::Store),
        }
    }
}

/// Makes a call.
pub(super) fn perform(pool: &Pool, source: Source, call: &Call) -> firndex::Result<()> {
    let Call { deed, keys, number } = call;
    let (key, number) = (keys[0], *number);
    match pool {
        Pool::Table(table) => {
            let value = source.word(key, number);
            match deed {
                Deed::Insert => table.insert(key.0, value).map(drop),
                Deed::Put if keys.len() > 1 => {
                    let pair = |key: &Key| (key.0, source.word(*key, number));
                    table
                        .put_many(&keys.iter().map(pair).collect::<Vec<_>>())
                        .map(drop)
                        .map_err(Error::from)
                }
                Deed::Put => table.put(key.0, value).map(drop),
                Deed::Update => table.update(key.0, value).map(drop),
                Deed::Remove if keys.len() > 1 => table
                    .remove_many(&keys.iter().map(|key| key.0).collect::<Vec<_>>())
                    .map(drop)
                    .map_err(Error::from),
                Deed::Remove => table.remove(key.0).map(drop),
                Deed::Toggle => {
                    table.modify(key.0, |before| before.is_none().then_some(value)).map(drop)
                }
                Deed::Add => table.modify(key.0, |count| Some(count.unwrap_or(0) + 1)).map(drop),
            }
        }
        Pool::Store(store) => {
            let bytes = key.bytes();
            let value = || source.bytes(key, number);
            match deed {
                Deed::Insert => store.insert(bytes, value()).map(drop),
                Deed::Put if keys.len() > 1 => {
                    let pair = |key: &Key| (key.bytes(), source.bytes(*key, number));
                    store
                        .put_many(&keys.iter().map(pair).collect::<Vec<_>>())
                        .map(drop)
                        .map_err(Error::from)
                }
                Deed::Put => store.put(bytes, value()).map(drop),
                Deed::Update => store.update(bytes, value()).map(drop),
                Deed::Remove if keys.len() > 1 => {
                    let keys: Vec<_> = keys.iter().map(|key| key.bytes()).collect();
                    store.remove_many(&keys).map(drop).map_err(Error::from)
                }
                Deed::Remove => store.remove(bytes).map(drop),
                Deed::Toggle => {
                    store.modify(bytes, |before| before.is_none().then(value)).map(drop)
                }
                Deed::Add => {
                    let add = |count: Option<&[u8]>| {
                        let count = count.and_then(|bytes| bytes.try_into().ok());
                        Some((count.map_or(0, u64::from_le_bytes) + 1).to_le_bytes().to_vec())
                    };
                    store.modify(bytes, add).map(drop)
                }
            }
        }
    }
}

/// Looks a key up, beside the writers; an error if no call can have written what is found.
pub(super) fn look_up(pool: &Pool, source: Source, key: Key) -> Result<()> {
    let found = match pool {
        Pool::Table(table) => table.get(key.0)?.map(|word| found_word(source, key, word)),
        Pool::Store(store) => store.get(key.bytes())?.map(|value| found_bytes(source, key, &value)),
    };
    ensure!(found != Some(Found::Foreign), "{key:x?} holds a value that no call wrote");
    Ok(())
}

fn found_word(source: Source, key: Key, word: u64) -> Found {
    if key.is_counter() {
        return Found::Count(word);
    }
    source.number(key, word).map_or(Found::Foreign, Found::Written)
}

fn found_bytes(source: Source, key: Key, value: &[u8]) -> Found {
    if key.is_counter() {
        let count = value.try_into().ok().map(u64::from_le_bytes);
        return count.map_or(Found::Foreign, Found::Count);
    }
    source.number_of_bytes(key, value).map_or(Found::Foreign, Found::Written)
}

/// All that the pool holds, and that a look-up finds each key. Nothing may write meanwhile.
pub(super) fn contents(pool: &Pool, source: Source) -> Result<HashMap<Key, Found>> {
    let mut found = HashMap::new();
    let wrong = pool.try_for_each(&mut |key, value| {
        let (key, what) = match (key, value) {
            (Field::Number(key), Field::Number(word)) => {
                (Key(key), found_word(source, Key(key), word))
            }
            (Field::Bytes(key), Field::Bytes(value)) => match Key::from_bytes(key) {
                Some(key) => (key, found_bytes(source, key, value)),
                None => return ControlFlow::Break(format!("a key that no call wrote: {key:x?}")),
            },
            _ => return ControlFlow::Break("a pair of the other kind".into()),
        };
        match found.insert(key, what) {
            None => ControlFlow::Continue(()),
            Some(_) => ControlFlow::Break(format!("{key:x?} twice")),
        }
    })?;
    if let ControlFlow::Break(wrong) = wrong {
        bail!("a scan shows {wrong}");
    }
    for (key, scanned) in &found {
        let looked_up = match pool {
            Pool::Table(table) => table.get(key.0)?.map(|word| found_word(source, *key, word)),
            Pool::Store(store) => {
                store.get(key.bytes())?.map(|value| found_bytes(source, *key, &value))
            }
        };
        ensure!(
            looked_up == Some(*scanned),
            "a scan shows {key:x?} with {scanned:?}, a look-up {looked_up:?}"
        );
    }
    let count = pool.len();
    ensure!(count == found.len() as u64, "{} pairs were found, `len` says {count}", found.len());
    Ok(found)
}

/// Writes a backup over the last one, and checks it.
pub(super) fn back_up(pool: &Pool, out: &Path) -> Result<()> {
    let which = match pool {
        Pool::Table(table) => {
            table.backup(out, Existing::Replace)?;
            Which::Table
        }
        Pool::Store(store) => {
            store.backup(out, Existing::Replace)?;
            Which::Store
        }
    };
    let report = which.open(out, &Options::default().read_only(true))?.check()?;
    ensure!(report.is_sound(), "the backup {} is not sound: {:?}", out.display(), report.findings);
    Ok(())
}

/// What the maintenance thread does to an open pool beside its writers.
pub(super) fn maintain(pool: &Pool, chance: u64, out: &Path) -> Result<()> {
    match (chance % 5, pool) {
        (0, Pool::Table(table)) => table.sync()?,
        (0, Pool::Store(store)) => store.sync()?,
        (1, _) => back_up(pool, out)?,
        (2, _) => drop(pool.shrink()?),
        (3, Pool::Store(store)) => drop(store.compact()?),
        _ => pool.try_for_each(&mut |_, _| ControlFlow::<()>::Continue(())).map(drop)?,
    }
    Ok(())
}

/// Ends the use of a pool: closes it, drops it, or writes it anew.
pub(super) fn end(pool: Pool, chance: u64) -> Result<()> {
    match (chance % 3, pool) {
        (0, pool) => pool.close(),
        (1, pool) => {
            drop(pool);
            Ok(())
        }
        (_, Pool::Table(table)) => Ok(table.rewrite().map(drop)?),
        (_, Pool::Store(store)) => Ok(store.rewrite().map(drop)?),
    }
}
