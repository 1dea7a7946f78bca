//! What the guest does, and what must be left of it.

use crate::appender;
use crate::notes::Notes;
use crate::pool::Pool;
use anyhow::Result;
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

/// All of them.
pub const ALL: &[Case] = &[
    Case { name: "appender", starts: 1, is_killed: false, is_hasty: false, what: What::Appender },
    Case {
        name: "appender-hasty",
        starts: 1,
        is_killed: false,
        is_hasty: true,
        what: What::Appender,
    },
];

/// The case of this name.
pub fn named(name: &str) -> Option<Case> {
    ALL.iter().copied().find(|case| case.name == name)
}

impl Case {
    /// Writes until it is killed.
    pub fn write(&self, directory: &Path, notes: &Notes) -> Result<()> {
        match self.what {
            What::Appender => appender::write(directory, notes, self.is_hasty),
            What::Pool(pool) => pool.write(directory, notes, self.is_hasty),
        }
    }

    /// What is wrong with what a directory holds is the error.
    pub fn judge(&self, directory: &Path, notes: &Notes) -> Result<()> {
        match self.what {
            What::Appender => appender::judge(directory, notes),
            What::Pool(pool) => pool.judge(directory, notes),
        }
    }
}
