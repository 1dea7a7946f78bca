//! What a power loss takes away, drawn at random.

use crate::disk::SECTOR_BYTES;
use std::fmt;
use workload::Random;

/// Sectors of a block that some disks write as a whole.
const BLOCK_SECTORS: u64 = (4096 / SECTOR_BYTES) as u64;

/// What happens to the writes that no flush has covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All are on the disk.
    Nothing,
    /// None is.
    All,
    /// Each write is there or is not.
    Writes,
    /// Of each write, each block of 4096 bytes is there or is not.
    Blocks,
    /// Of each write, each sector is there or is not.
    Sectors,
}

/// One power loss.
#[derive(Debug, Clone, Copy)]
pub struct Loss {
    kind: Kind,
    /// How likely it is that something is kept.
    kept_percent: u64,
    seed: u64,
}

impl Loss {
    /// The loss after which the disk holds all that was written.
    pub const NOTHING: Loss = Loss { kind: Kind::Nothing, kept_percent: 100, seed: 0 };

    /// A loss at random.
    pub fn any(random: &mut Random) -> Loss {
        let kinds = [
            Kind::Nothing,
            Kind::All,
            Kind::Writes,
            Kind::Writes,
            Kind::Blocks,
            Kind::Sectors,
            Kind::Sectors,
        ];
        Loss {
            kind: *random.of(&kinds),
            // Of few writes nearly all must be kept, or nearly none, for something to go wrong.
            kept_percent: *random.of(&[3, 15, 50, 85, 97]),
            seed: random.word(),
        }
    }

    /// Whether what an entry wrote to a sector is kept.
    pub fn keeps(&self, entry: usize, sector: u64) -> bool {
        let part = match self.kind {
            Kind::Nothing => return true,
            Kind::All => return false,
            Kind::Writes => 0,
            // ext4 takes the block of its superblock to be written as a whole: a checksum covers two of its sectors.
            Kind::Sectors if sector < BLOCK_SECTORS => 0,
            Kind::Blocks => sector / BLOCK_SECTORS + 1,
            Kind::Sectors => sector + 1,
        };
        let of_entry = Random::new(self.seed ^ entry as u64).word();
        Random::new(of_entry ^ part).percent(self.kept_percent)
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            Kind::Nothing => return f.write_str("nothing lost"),
            Kind::All => return f.write_str("everything lost that no flush covered"),
            Kind::Writes => "writes",
            Kind::Blocks => "blocks of 4096 bytes",
            Kind::Sectors => "sectors",
        };
        write!(f, "{} % of the {what} kept, seed {:#x}", self.kept_percent, self.seed)
    }
}
