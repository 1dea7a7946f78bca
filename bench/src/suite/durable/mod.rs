//! What surviving power loss on a disk costs, beside the disk itself and other authors' stores.
//!
//! Contenders are named after what they promise. `NAME-commit` waits for the disk in each call. `NAME-periodic` does
//! not, and may lose the last milliseconds. `NAME-process` writes no log at all. All files lie in a new directory below
//! [`Setting::directory`]. `--pools` puts the pools elsewhere; their logs stay.
//!
//! | part | rows |
//! |---|---|
//! | `puts` | `append_sync`, `overwrite_sync`, `overwrite_direct`: the disk, one block of 4 KiB at a time; `put` and `put_many` by 1, 2, 16 and 64 threads, `ratio` in units of the rate of `overwrite_direct` just before |
//! | `periodic` | processor and wall time of changes with a log, as a ratio to those without |
//! | `look-ups` | `get_beside_writer` with a log and without, `get_checkpointing` and `get_after_checkpoint`; `CPU` is the reader's processor time, which others on the machine do not take |
//! | `checkpoints` | how long single updates take while a checkpoint is made |
//! | `bytes` | bytes written per put |

mod beside;
mod bytes;
pub mod claims;
mod disk;
mod periodic;
mod place;
mod puts;
mod rows;

pub(crate) use disk::read_files;
pub(crate) use rows::{NAME, named};

use crate::choices::Part;
use crate::durable_map::{DurableMap, OnDisk, Open};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::Result;
use firndex::{Durability, Engine, Table};
use place::Place;
use std::path::Path;

/// One round of everything, for one of firndex's engines.
pub fn of_engine(name: &str, engine: Engine, setting: &Setting) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let choices = &setting.durable;
    if choices.has(Part::Puts) {
        for contender in own(name, engine) {
            rows.extend(puts::round(&contender, setting)?);
        }
    }
    if choices.has(Part::Periodic) {
        rows.extend(periodic::round(name, engine, setting)?);
    }
    if choices.has(Part::LookUps) {
        rows.extend(beside::look_ups(name, engine, setting)?);
    }
    if choices.has(Part::Checkpoints) {
        rows.extend(beside::changes(name, engine, setting)?);
    }
    if choices.has(Part::Bytes) {
        rows.extend(bytes::round(name, engine, setting)?);
    }
    Ok(rows)
}

/// One round of another author's map: only puts.
pub(crate) fn of_map(contender: &OnDisk<impl Open>, setting: &Setting) -> Result<Vec<Row>> {
    let is_wanted = setting.durable.has(Part::Puts);
    if is_wanted { puts::round(contender, setting) } else { Ok(Vec::new()) }
}

/// An engine in the modes that survive power loss.
fn own(name: &str, engine: Engine) -> [OnDisk<impl Open>; 2] {
    [(Durability::Commit, "every put"), (Durability::Periodic, "a prefix, but for the last ms")]
        .map(|(durability, promise)| OnDisk {
            name: named(name, durability),
            promise,
            groups: true,
            open: move |setting: &Setting, directory: &Path| {
                let place = Place::in_directory(setting, directory)?;
                let table =
                    place.options(engine, setting, durability).create_table(place.pool())?;
                Ok(Box::new(Own { table, _place: place }) as Box<dyn DurableMap>)
            },
        })
}

/// A table through the facade.
struct Own {
    table: Table,
    /// Dropped after the table.
    _place: Place,
}

impl DurableMap for Own {
    fn put(&self, key: u64, value: u64) -> Result<()> {
        self.table.put(key, value)?;
        Ok(())
    }

    fn put_many(&self, pairs: &[(u64, u64)]) -> Result<()> {
        self.table.put_many(pairs)?;
        Ok(())
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        Ok(self.table.get(key)?)
    }

    fn sync(&self) -> Result<()> {
        Ok(self.table.sync()?)
    }
}
