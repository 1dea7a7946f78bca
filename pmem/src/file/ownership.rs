//! Whose a file is, and who may read it.

use crate::error::OpenError;
use rustix::fs::{Gid, Mode, Stat, Uid};
use rustix::process::{getegid, geteuid, getgroups};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// Owner, group and permissions of a file.
///
/// What is made for a pool has those of the pool: else root, who looks after a service's pool, would lock the service
/// out of it; and who may not read the pool could read its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ownership {
    user: u32,
    group: u32,
    /// Permissions, nine bits.
    mode: u32,
}

impl Ownership {
    /// Those of an open file.
    pub fn of(file: impl AsFd) -> io::Result<Ownership> {
        Ok(Ownership::of_stat(&rustix::fs::fstat(file)?))
    }

    pub(super) fn of_stat(stat: &Stat) -> Ownership {
        Ownership { user: stat.st_uid, group: stat.st_gid, mode: stat.st_mode & 0o777 }
    }

    /// The numbers of owner and group.
    #[cfg(not(any(feature = "simulated", feature = "loom")))]
    pub(crate) fn ids(&self) -> (u32, u32) {
        (self.user, self.group)
    }

    /// Permissions, nine bits.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// The same owner and group, with these permissions.
    pub fn with_mode(self, mode: u32) -> Ownership {
        Ownership { mode: mode & 0o777, ..self }
    }

    /// The same for a directory of such files: who may read them may search it.
    pub(crate) fn of_directory(self) -> Ownership {
        Ownership { mode: self.mode | (self.mode & 0o444) >> 2, ..self }
    }

    /// Gives them to a file that this process has made.
    pub fn give(&self, file: impl AsFd) -> io::Result<()> {
        let found = Ownership::of(&file)?;
        if (found.user, found.group) != (self.user, self.group) {
            let (user, group) = (Uid::from_raw(self.user), Gid::from_raw(self.group));
            rustix::fs::fchown(&file, Some(user), Some(group))?;
        }
        // Last: a change of the owner may take permissions away.
        if Ownership::of(&file)?.mode != self.mode {
            rustix::fs::fchmod(&file, Mode::from_bits_truncate(self.mode))?;
        }
        Ok(())
    }

    /// Whether nobody may read a file with these who may not read one with `others`.
    #[cfg(not(any(feature = "simulated", feature = "loom")))]
    pub(crate) fn is_as_private_as(&self, others: &Ownership) -> bool {
        (self.user, self.group) == (others.user, others.group) && self.mode & !others.mode == 0
    }

    /// An error unless this process may make files that have them.
    pub fn demand(&self, path: &Path) -> Result<(), OpenError> {
        let (user, group) = (geteuid(), getegid());
        let is_in_group = || {
            group.as_raw() == self.group
                || getgroups()
                    .is_ok_and(|groups| groups.iter().any(|one| one.as_raw() == self.group))
        };
        if user.is_root() || user.as_raw() == self.user && is_in_group() {
            return Ok(());
        }
        Err(OpenError::OthersFile {
            path: path.into(),
            owner: format!("user {} and group {}", self.user, self.group),
            caller: format!("user {} and group {}", user.as_raw(), group.as_raw()),
        })
    }
}
