//! Keys and the orders they come in. Everything follows from the seed.

/// Values told apart by who wrote them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// The first insertion.
    Insert,
    /// The update after it.
    Update,
    /// The upsert after that.
    Upsert,
}

impl Writer {
    /// The value that it stores under `key`.
    #[inline(always)]
    pub fn value(self, key: u64) -> u64 {
        match self {
            Writer::Insert => !key,
            Writer::Update => key ^ 0x5555_5555_5555_5555,
            Writer::Upsert => key.rotate_left(1),
        }
    }
}

/// The keys of one run: numbered, all different, without any order.
#[derive(Debug, Clone, Copy)]
pub struct Keys {
    seed: u64,
    count: u64,
}

/// Numbers have this many bits, the seed the others.
const NUMBER_BITS: u32 = 40;

impl Keys {
    /// `count` keys to be stored; numbers from `count` on are of keys stored by nobody.
    pub fn new(seed: u64, count: u64) -> Self {
        Keys { seed, count }
    }

    /// The key of this number.
    pub fn key(&self, number: u64) -> u64 {
        let mut word = (self.seed << NUMBER_BITS).wrapping_add(number);
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// The number at `place` of the order that `salt` names, a permutation of the stored keys'
    /// numbers. Look-ups in the order of insertion would walk through the nodes of a map that
    /// allocates them as through an array.
    pub fn shuffled(&self, salt: u64, place: u64) -> u64 {
        let bits = (u64::BITS - self.count.leading_zeros()).max(2);
        let mask = (1 << bits) - 1;
        let mut number = place;
        // Each step permutes the numbers below the power of two; those too large go round again.
        loop {
            number = (number ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15)) & mask;
            number = number.wrapping_mul(0xd134_2543_de82_ef95) & mask;
            number ^= number >> (bits / 2);
            number = number.wrapping_mul(0xaf25_1af3_b0f0_25b5) & mask;
            number ^= number >> (bits / 2);
            if number < self.count {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_every_number_once() {
        for count in [1, 2, 3, 1000, 1024, 1025] {
            let keys = Keys::new(7, count);
            for salt in 0..3 {
                let mut numbers: Vec<u64> =
                    (0..count).map(|place| keys.shuffled(salt, place)).collect();
                numbers.sort_unstable();
                assert!(numbers.into_iter().eq(0..count), "{count} numbers, salt {salt}");
            }
        }
    }

    #[test]
    fn writers_store_different_values() {
        let key = Keys::new(1, 10).key(3);
        let values = [Writer::Insert, Writer::Update, Writer::Upsert].map(|w| w.value(key));
        assert!(values[0] != values[1] && values[1] != values[2] && values[0] != values[2]);
    }
}
