//! Who follows a demonstration, and what is reported.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Shows a demonstration to a person, or to nobody.
pub trait Audience: Sync {
    /// A stage begins, with this many steps if that is known. It ends when the result is dropped.
    fn begin(&self, stage: Stage, steps: Option<u64>) -> Box<dyn Progress>;

    /// Something is worth telling, perhaps while stages are under way.
    fn tell(&self, note: Note<'_>);
}

/// A stage that is under way.
pub trait Progress: Sync {
    /// This many more steps are done.
    fn advance(&self, steps: u64);
}

/// What takes long enough to be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Finding files, a step each.
    Walk,
    /// Reading and cutting them, a step for each byte.
    Cut,
    /// Storing chunks, a step each, over all lives of the writing process.
    Store,
    /// Looking up chunks, a step each.
    Check,
    /// Reading chunks from their files once more, a step for each byte.
    Reread,
}

/// Something to report.
#[derive(Clone, Copy)]
pub enum Note<'a> {
    /// A file or directory cannot be read and is left out.
    Skipped {
        /// Which one, where `why` does not say it.
        path: Option<&'a Path>,
        /// What the operating system says.
        why: &'a dyn Display,
    },
    /// There are not enough chunks to kill the writing process as often as requested.
    FewerKills {
        /// Existing chunks.
        chunks: u64,
        /// Kills to be made.
        kills: u64,
        /// Kills requested.
        wanted: u64,
    },
    /// The writing process was killed, and the pool was opened again and judged.
    Killed {
        /// Number of the kill, from 1.
        kill: u64,
        /// Kills in all.
        kills: u64,
        /// Chunks reported so far.
        acknowledged: u64,
        /// How long the opening took, recovery included.
        reopen_ms: f64,
        /// How many of those are missing.
        lost: u64,
    },
    /// The pool's check found this wrong.
    Unsound(&'a dyn Display),
    /// The pool counts keys that nobody stored, or too few.
    Miscounted {
        /// Keys that the pool counts.
        keys: u64,
        /// Different chunks that were stored.
        expected: u64,
    },
    /// Files changed meanwhile, which is not the pool's fault.
    Changed {
        /// Chunks that no longer have their digest.
        chunks: u64,
        /// Their files.
        files: &'a BTreeSet<PathBuf>,
    },
}

/// Nobody, for tests.
#[cfg(test)]
pub(crate) struct Nobody;

#[cfg(test)]
impl Audience for Nobody {
    fn begin(&self, _: Stage, _: Option<u64>) -> Box<dyn Progress> {
        Box::new(Nobody)
    }

    fn tell(&self, _: Note<'_>) {}
}

#[cfg(test)]
impl Progress for Nobody {
    fn advance(&self, _: u64) {}
}
