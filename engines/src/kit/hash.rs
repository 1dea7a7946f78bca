//! The hash of a key, and its home.

/// Homes: locks by hash, under which all changes of a key happen. Many times as many as threads, few enough
/// to stay in the caches.
pub(crate) const HOMES: usize = 1 << 13;
/// Where the bits of a hash begin that choose the home: apart from the low ones of either choice, or the keys
/// of one bucket would share few homes.
const HOME_SHIFT: u32 = 20;

/// The hash of a key: its low and its high half each choose a bucket.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hash(pub(crate) u64);

impl Hash {
    /// The home whose lock excludes other insertions of the key.
    #[inline(always)]
    pub(crate) fn home(self) -> usize {
        (self.0 >> HOME_SHIFT) as usize & (HOMES - 1)
    }

    /// A fingerprint: 1 to `most`.
    #[inline(always)]
    pub(crate) fn print_to(self, most: u64) -> u64 {
        // Mixed: the bits that chose the bucket are equal for all keys in it.
        let mixed = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        1 + ((mixed * most) >> 32)
    }

    /// The fingerprint of a byte: 1 to 255.
    #[inline(always)]
    pub(crate) fn print(self) -> u8 {
        self.print_to(0xff) as u8
    }
}

/// The slots of a set of bits, lowest first.
pub(crate) fn slots_in(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let slot = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        slot
    })
}
