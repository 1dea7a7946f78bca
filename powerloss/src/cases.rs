//! What the guest does, and what must be left of it.

use crate::appender;
use crate::notes::Notes;
use crate::pool::Pool;
use anyhow::Result;
use firndex::Durability::{Commit, Periodic};
use firndex::{Engine, Kind, Medium};
use std::path::Path;

/// One experiment.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// How often the machine is started, each time with a disk that the time before may have left.
    pub starts: u32,
    /// Whether the writer is killed now and then, while the machine goes on.
    pub is_killed: bool,
    /// Whether it acknowledges too early, which must be found out.
    pub is_hasty: bool,
    what: What,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Appender,
    Pool(Pool),
}

const CALM: Case =
    Case { name: "", starts: 1, is_killed: false, is_hasty: false, what: What::Appender };
const TABLE: Pool =
    Pool { kind: Kind::Table, medium: Medium::Mapped, durability: Periodic, keys: 2000, batch: 1 };
const STORE: Pool = Pool { kind: Kind::Store, ..TABLE };

/// All of them.
pub const ALL: &[Case] = &[
    Case { name: "appender", ..CALM },
    Case { name: "appender-hasty", is_hasty: true, ..CALM },
    Case { name: "table-hasty", is_hasty: true, what: What::Pool(TABLE), ..CALM },
    Case { name: "table-periodic", starts: 2, is_killed: true, what: What::Pool(TABLE), ..CALM },
    Case {
        name: "table-commit",
        starts: 2,
        what: What::Pool(Pool { durability: Commit, keys: 300, ..TABLE }),
        ..CALM
    },
    Case {
        name: "store-periodic",
        starts: 2,
        what: What::Pool(Pool { batch: 8, ..STORE }),
        ..CALM
    },
    Case {
        name: "store-commit",
        starts: 2,
        is_killed: true,
        what: What::Pool(Pool { durability: Commit, batch: 20, ..STORE }),
        ..CALM
    },
];

/// The case of this name.
pub fn named(name: &str) -> Option<Case> {
    ALL.iter().copied().find(|case| case.name == name)
}

impl Case {
    /// Writes until it is killed.
    pub fn write(&self, engine: Engine, directory: &Path, notes: &Notes) -> Result<()> {
        match self.what {
            What::Appender => appender::write(directory, notes, self.is_hasty),
            What::Pool(pool) => pool.write(engine, directory, notes, self.is_hasty),
        }
    }

    /// What is wrong with what a directory holds is the error.
    pub fn judge(&self, engine: Engine, directory: &Path, notes: &Notes) -> Result<()> {
        match self.what {
            What::Appender => appender::judge(directory, notes),
            What::Pool(pool) => pool.judge(engine, directory, notes).map(drop),
        }
    }
}
