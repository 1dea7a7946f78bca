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

/// [`print_of`] each byte of hash.
static PRINTS: [u8; 256] = {
    let mut prints = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        prints[byte] = print_of(byte as u8);
        byte += 1;
    }
    prints
};

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

/// DISPLACED in all lanes but those of a group, by group.
pub(super) static DISPLACED_FROM: [Differences; GROUPS] = {
    let mut displaced_from = [const { Differences([repeat(DISPLACED); 8]) }; GROUPS];
    let mut lane = 0;
    while lane < 64 {
        displaced_from[lane / GROUP_LANES].0[lane / 8] &= !(0xff << (lane % 8 * 8));
        lane += 1;
    }
    displaced_from
};

/// DISPLACED in all lanes.
#[cfg(target_arch = "x86_64")]
pub(super) static DISPLACED_IN_ALL: Differences = Differences([repeat(DISPLACED); 8]);

/// What a search looks for in a line: a fingerprint, with [`DISPLACED`] in the lanes outside of one group.
#[derive(Clone, Copy)]
pub struct Sought {
    pub(super) print: &'static u8,
    /// The group's first lane.
    near: usize,
}

impl Sought {
    /// The fingerprint of this byte of hash, of a key that prefers the group of [`GROUP_LANES`] lanes that begins with
    /// lane `near`.
    #[inline(always)]
    pub fn new(byte: u8, near: usize) -> Sought {
        Sought { print: &PRINTS[usize::from(byte)], near }
    }

    /// The fingerprint of the key in a lane.
    #[inline(always)]
    pub fn fingerprint_in(self, lane: usize) -> u8 {
        let is_displaced = lane ^ self.near >= GROUP_LANES;
        self.print | if is_displaced { DISPLACED } else { 0 }
    }

    /// What lanes hold beside the fingerprint.
    #[inline(always)]
    pub(super) fn differences(self) -> &'static Differences {
        &DISPLACED_FROM[self.near / GROUP_LANES % GROUPS]
    }

    /// The lanes of other groups.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn far(self) -> u64 {
        const GROUP: u64 = (1 << GROUP_LANES) - 1;
        (!GROUP).rotate_left(self.near as u32)
    }
}

impl std::fmt::Debug for Sought {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sought").field("fingerprint", self.print).field("near", &self.near).finish()
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
