//! Where and when a pool was written.

/// What tells one boot of the machine from another.
pub type BootId = [u64; 2];

/// Second word of an id that was made up where the kernel's could not be read. The kernel's have other bits there.
pub const MADE_UP_BOOT: u64 = u64::from_le_bytes(*b"\0made up");

/// Whether an id is not the kernel's.
pub fn is_made_up(id: &BootId) -> bool {
    id[1] == MADE_UP_BOOT || *id == [0, 0]
}

/// Where a file is and when: what tells a pool from its copy and this boot from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// The kernel's boot id, or a made-up one; zero if unknown.
    pub boot_id: BootId,
    /// Inode number of the file.
    pub inode: u64,
    /// Id of the file system, and of the device that it is on.
    pub file_system: u64,
}

impl Place {
    /// Whether both were in one boot of the machine, if that is known.
    pub fn same_boot(&self, other: &Place) -> bool {
        self.boot_id == other.boot_id && self.boot_id != [0, 0]
    }

    /// Whether both are not known to have been in different boots.
    pub fn may_be_same_boot(&self, other: &Place) -> bool {
        self.same_boot(other) || is_made_up(&self.boot_id) || is_made_up(&other.boot_id)
    }
}
