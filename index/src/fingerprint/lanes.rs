//! What the lanes of lines and words are, for every instruction set.

/// The fingerprint of a lane that holds none.
pub const EMPTY: u8 = 0;

/// The bit that a flag lane gives to its flag.
pub const FLAG: u8 = 0x80;

/// Lanes of a line, from lane 0 on, that are flag lanes.
pub const FLAG_LANES_OF_LINE: usize = 10;

/// The fingerprint bits of a line, word by word.
pub(super) static LINE_MASK: Differences = Differences([
    without_flags(8),
    without_flags(FLAG_LANES_OF_LINE - 8),
    u64::MAX,
    u64::MAX,
    u64::MAX,
    u64::MAX,
    u64::MAX,
    u64::MAX,
]);

/// For comparisons in fewer instructions than an empty register takes.
#[cfg(target_arch = "x86_64")]
pub(super) static ZEROS: Differences = Differences([0; 8]);

/// Lanes of a group: as many as slots of 16 bytes fit one cache line.
pub const GROUP_LANES: usize = 4;

/// Groups of a line.
const GROUPS: usize = 64 / GROUP_LANES;

/// The bit in the fingerprint of an entry that is not in the group it prefers.
///
/// A search looks for the fingerprint without it in the group that its key prefers, and with it everywhere else. Most
/// entries are in the group that they prefer, and other keys of the line mostly prefer other groups: so most entries
/// cannot be taken for the one that is sought. The bit costs a bit of the hash, which doubles the matches by chance,
/// and spares three in four of them.
pub const DISPLACED: u8 = 1;

/// The fingerprint that a byte of hash makes, without DISPLACED: an even byte whose bits 1 to 6 are not all 0, so that
/// it does not look EMPTY in a flag lane.
const fn print_of(byte: u8) -> u8 {
    let even = byte & !DISPLACED;
    if even & !FLAG == 0 { even | 2 } else { even }
}

/// What is sought in the lanes of a line differs from the fingerprint by this, word by word.
// Aligned, as some vector operands must be.
#[repr(C, align(64))]
pub(super) struct Differences(pub(super) [u64; 8]);

impl Differences {
    pub(super) const NONE: &Differences = &Differences([0; 8]);
}

/// What searches of lines look up. Whoever matches lines owns one: so it is found with what else they use, and not by
/// an address of its own.
#[repr(C, align(64))]
pub struct Tables {
    /// DISPLACED in all lanes but those of a group, by group. First: an entry is found by its byte alone.
    displaced_from: [Differences; GROUPS],
    /// [`print_of`] each byte of hash.
    prints: [u8; 256],
    /// The bits of a [`Near`] in lines with as many slots as these tables are for.
    near_mask: u32,
}

/// The group of lanes that a key prefers: the byte at which its entry in [`Tables`] begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Near(u32);

/// log2 of the bytes of an entry.
const ENTRY_LOG2: u32 = 6;

impl Near {
    /// The lowest bit of those that [`Tables::near`] takes from a hash.
    pub const HASH_BIT: u32 = ENTRY_LOG2;

    /// Where the entry begins: there are as many in all tables, whatever lines they are for.
    #[inline(always)]
    pub(super) const fn entry_byte(self) -> usize {
        self.0 as usize
    }

    /// The group's first lane.
    #[inline(always)]
    pub const fn lane(self) -> usize {
        // One shift: of the bits below the group's number none is set.
        self.0 as usize >> (ENTRY_LOG2 - GROUP_LANES.ilog2())
    }

    /// The bytes of as many slots of 16 bytes as there are lanes before the group.
    #[inline(always)]
    pub const fn slot_byte(self) -> usize {
        const { assert!(16 * GROUP_LANES == 1 << ENTRY_LOG2) };
        self.0 as usize
    }
}

const _: () = assert!(std::mem::offset_of!(Tables, displaced_from) == 0);

impl Tables {
    /// Tables for lines of which the first `slots` lanes are used.
    ///
    /// # Panics
    ///
    /// Unless that is a power of two from 4 to 64.
    pub const fn for_slots(slots: usize) -> Tables {
        let mut displaced_from = [const { Differences([repeat(DISPLACED); 8]) }; GROUPS];
        let mut lane = 0;
        while lane < 64 {
            displaced_from[lane / GROUP_LANES].0[lane / 8] &= !(0xff << (lane % 8 * 8));
            lane += 1;
        }
        let mut prints = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            prints[byte] = print_of(byte as u8);
            byte += 1;
        }
        assert!(slots.is_power_of_two() && slots >= GROUP_LANES && slots <= 64);
        let near_mask = ((slots / GROUP_LANES - 1) << ENTRY_LOG2) as u32;
        Tables { displaced_from, prints, near_mask }
    }

    /// The group that a key prefers, by the bits from [`Near::HASH_BIT`] on.
    #[inline(always)]
    pub const fn near(&self, bits: u64) -> Near {
        Near(bits as u32 & self.near_mask)
    }

    /// What to look for: the fingerprint of this byte of hash, of a key that prefers this group.
    #[inline(always)]
    pub const fn sought(&self, byte: u8, near: Near) -> Sought<'_> {
        Sought { tables: self, byte, near }
    }
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").field("near_mask", &self.near_mask).finish_non_exhaustive()
    }
}

/// What a search looks for in a line: a fingerprint, with [`DISPLACED`] in the lanes outside of one group.
#[derive(Debug, Clone, Copy)]
pub struct Sought<'a> {
    pub(super) tables: &'a Tables,
    pub(super) byte: u8,
    pub(super) near: Near,
}

impl Sought<'_> {
    /// Where [`Tables`] has the fingerprints.
    #[cfg(target_arch = "x86_64")]
    pub(super) const PRINTS: usize = std::mem::offset_of!(Tables, prints);

    /// The fingerprint of the key in a lane.
    #[inline(always)]
    pub fn fingerprint_in(self, lane: usize) -> u8 {
        let is_displaced = lane ^ self.near.lane() >= GROUP_LANES;
        self.print() | if is_displaced { DISPLACED } else { 0 }
    }

    #[inline(always)]
    pub(super) fn print(self) -> u8 {
        self.tables.prints[usize::from(self.byte)]
    }
}

impl<'a> Sought<'a> {
    /// What lanes hold beside the fingerprint.
    #[inline(always)]
    pub(super) fn differences(self) -> &'a Differences {
        &self.tables.displaced_from[self.near.entry_byte() >> ENTRY_LOG2 & (GROUPS - 1)]
    }
}

/// The bits of a word of fingerprints whose first lanes are flag lanes.
pub(super) const fn without_flags(flag_lanes: usize) -> u64 {
    !(repeat(FLAG) & ((1u128 << (8 * flag_lanes)) - 1) as u64)
}

/// `byte` in all eight lanes.
#[inline(always)]
pub(super) const fn repeat(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}
