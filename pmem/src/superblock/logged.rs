//! Whether a pool has a log, and where.
//!
//! ```text
//! required feature 1: it has a log
//! typed root   | 2 | 0 | bits 0 to 7: durability, 255 if none was asked for; 8: the log is in another directory;
//!                        10 to 36, 37 to 63: tags of the checkpoint, and of the one that is about to replace it |
//! ```
//!
//! A tag is made from the generation of a checkpoint's log, and 0 is none. A checkpoint that is not named here is left
//! from another time: the pool was moved, used with other companions, and moved back.
//!
//! Without the feature the root says what was asked for last: the next opening, if it asks for nothing else, does that.

use super::{Superblock, halves};

/// Required feature: the pool has a log, or was closed by a build that keeps one.
pub(super) const LOGGED: u64 = 1;
/// Type of the root that says how.
const LOGGED_ROOT: u32 = 2;
const ELSEWHERE: u64 = 1 << 8;
/// In place of a durability's number where none was asked for.
const NOT_ASKED: u64 = 0xff;
const TAG_BITS: u32 = 27;
const CURRENT_SHIFT: u32 = 64 - 2 * TAG_BITS;
const NEXT_SHIFT: u32 = 64 - TAG_BITS;
/// What is not tags.
const MODE: u64 = (1 << CURRENT_SHIFT) - 1;

/// What survives power loss, for a pool in a file that is not on a DAX file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Durability {
    /// The whole pool, if it was closed, or synced and not written since. Otherwise it is refused.
    Process,
    /// A consistent state with everything before the last sync, and normally all but the last interval (5 ms by
    /// default).
    Periodic,
    /// Every change that returned. Each call waits for the disk.
    Commit,
}

impl Durability {
    /// All of them.
    pub const ALL: &'static [Durability] =
        &[Durability::Process, Durability::Periodic, Durability::Commit];

    /// The name used on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Durability::Process => "process",
            Durability::Periodic => "periodic",
            Durability::Commit => "commit",
        }
    }

    /// Number under which the superblock records it.
    pub const fn code(self) -> u64 {
        match self {
            Durability::Process => 0,
            Durability::Periodic => 1,
            Durability::Commit => 2,
        }
    }

    /// The durability of this number.
    pub const fn from_code(code: u64) -> Option<Durability> {
        match code {
            0 => Some(Durability::Process),
            1 => Some(Durability::Periodic),
            2 => Some(Durability::Commit),
            _ => None,
        }
    }
}

impl std::fmt::Display for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Durability {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Durability::ALL.iter().copied().find(|value| value.name() == name);
        found.ok_or_else(|| {
            format!("no durability is called {name:?}; there are process, periodic, commit")
        })
    }
}

/// How a pool is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logged {
    /// What survives power loss.
    pub durability: Durability,
    /// Whether log and checkpoint are in another directory than the pool.
    pub is_elsewhere: bool,
}

/// What the superblock keeps of a generation. Never 0.
fn tag(generation: u128) -> u64 {
    generation as u64 & ((1 << TAG_BITS) - 1) | 1
}

impl Superblock {
    fn logged_word(&self) -> Option<u64> {
        self.root_of_type(LOGGED_ROOT)
    }

    fn set_logged_word(&mut self, word: u64) {
        self.set_root(LOGGED_ROOT, Some((halves(LOGGED_ROOT, 0), word)));
    }

    /// The durability that was asked for last; `None`: none was.
    pub fn durability(&self) -> Option<Durability> {
        self.logged_word().and_then(|word| Durability::from_code(word & (ELSEWHERE - 1)))
    }

    /// How the pool is logged; `None`: not at all.
    pub fn logged(&self) -> Option<Logged> {
        (self.features_incompatible & LOGGED != 0).then(|| Logged {
            // What most pools are.
            durability: self.durability().unwrap_or(Durability::Periodic),
            is_elsewhere: self.logged_word().is_some_and(|word| word & ELSEWHERE != 0),
        })
    }

    /// Says how the pool is logged. If it no longer is, the durability that was asked for stays.
    pub(crate) fn set_logged(&mut self, logged: Option<Logged>) {
        self.features_incompatible &= !LOGGED;
        match logged {
            Some(Logged { durability, is_elsewhere }) => {
                self.features_incompatible |= LOGGED;
                let tags = self.logged_word().unwrap_or(0) & !MODE;
                let elsewhere = if is_elsewhere { ELSEWHERE } else { 0 };
                self.set_logged_word(tags | durability.code() | elsewhere);
            }
            None => {
                if let Some(durability) = self.durability() {
                    self.set_logged_word(durability.code());
                }
            }
        }
    }

    /// Names the checkpoint that there is, by the generation of its log, and the one that may be there soon.
    pub(crate) fn set_checkpoints(&mut self, current: Option<u128>, next: Option<u128>) {
        let tags = current.map_or(0, tag) << CURRENT_SHIFT | next.map_or(0, tag) << NEXT_SHIFT;
        self.set_logged_word(self.logged_word().map_or(NOT_ASKED, |word| word & MODE) | tags);
    }

    /// Whether the checkpoint that the pool names, and no other, is the one whose log is of this generation.
    pub fn has_checkpoint(&self, generation: u128) -> bool {
        self.logged_word().is_some_and(|word| word >> CURRENT_SHIFT == tag(generation))
    }

    /// Whether a checkpoint whose log is of this generation is one of those that the pool names; `None`: it names none.
    pub fn names_checkpoint(&self, generation: u128) -> Option<bool> {
        let word = self.logged_word().filter(|word| word & !MODE != 0)?;
        let current = word >> CURRENT_SHIFT & ((1 << TAG_BITS) - 1);
        Some([current, word >> NEXT_SHIFT].contains(&tag(generation)))
    }

    /// Says that the pool is not logged, since this durability was asked for.
    pub(crate) fn set_unlogged(&mut self, asked: Durability) {
        self.features_incompatible &= !LOGGED;
        self.set_logged_word(asked.code());
    }
}

#[cfg(test)]
mod tests {
    use super::super::{TYPED_ROOTS, tests::sample};
    use super::*;

    #[test]
    fn what_is_said_of_a_log_is_kept() {
        let mut superblock = Superblock { typed_roots: Default::default(), ..sample() };
        assert_eq!(superblock.logged(), None);
        for durability in [Durability::Periodic, Durability::Commit] {
            for is_elsewhere in [false, true] {
                let logged = Logged { durability, is_elsewhere };
                superblock.set_logged(Some(logged));
                let words = superblock.encode();
                let (read, _) = Superblock::choose([Some(&words), Some(&words)]).unwrap();
                assert_eq!(read.logged(), Some(logged));
                let roots = read.typed_roots.iter().filter(|root| root.0 != 0);
                assert_eq!(roots.count(), 1);
            }
        }
        superblock.set_logged(None);
        assert_eq!((superblock.logged(), superblock.features_incompatible), (None, 0));
        assert_eq!(superblock.durability(), Some(Durability::Commit));
        superblock.set_unlogged(Durability::Process);
        assert_eq!(
            (superblock.logged(), superblock.durability()),
            (None, Some(Durability::Process))
        );
        let mut full = Superblock { typed_roots: [(1, 2); TYPED_ROOTS], ..sample() };
        full.set_logged(Some(Logged { durability: Durability::Commit, is_elsewhere: true }));
        assert!(full.logged().is_some());
    }
    #[test]
    fn checkpoints_are_named_until_the_pool_is_not_logged() {
        let mut superblock = Superblock { typed_roots: Default::default(), ..sample() };
        let [first, second, other] = [1u128 << 70 | 0x1234_5678, 0xabcd_ef98, 0x7777_7776];
        assert_eq!(superblock.names_checkpoint(first), None);
        // Named before anything was asked for.
        superblock.set_checkpoints(None, Some(first));
        assert_eq!((superblock.logged(), superblock.durability()), (None, None));
        assert_eq!(superblock.names_checkpoint(first), Some(true));
        let logged = Logged { durability: Durability::Commit, is_elsewhere: true };
        superblock.set_logged(Some(logged));
        superblock.set_checkpoints(Some(first), Some(second));
        assert_eq!(superblock.logged(), Some(logged));
        for (generation, is_named) in [(first, true), (second, true), (other, false)] {
            assert_eq!(superblock.names_checkpoint(generation), Some(is_named));
        }
        assert!(!superblock.has_checkpoint(first) && !superblock.has_checkpoint(second));
        superblock.set_checkpoints(Some(second), None);
        assert_eq!(superblock.names_checkpoint(first), Some(false));
        assert!(superblock.has_checkpoint(second) && !superblock.has_checkpoint(first));
        superblock.set_logged(None);
        assert_eq!(superblock.names_checkpoint(second), None);
        assert_eq!(superblock.durability(), Some(Durability::Commit));
    }
}
