//! Slots of a cluster, and those that this server has closed since another one is about to get them.

use crate::names;
use crate::refusal::{Answer, Refusal};
use firndex::Store;

/// How many slots a cluster has.
pub(crate) const SLOTS: u16 = 16_384;

/// The slots that are closed: their keys are neither read nor written here.
///
/// They are recorded in the pool and on replicas. If they were not, a master that is killed or fails over in the middle
/// of a handover would accept writes again, which the new owner of the slot never gets.
#[derive(Default)]
pub(crate) struct ClosedSlots {
    /// A bit for each slot; empty if none is closed.
    bits: Vec<u8>,
    is_recorded: bool,
}

impl ClosedSlots {
    pub(crate) fn read(store: &Store) -> Answer<ClosedSlots> {
        let record = store.get(names::CLOSED_SLOTS)?;
        let is_recorded = record.is_some();
        let bits = record.map(|bits| bits.to_vec()).unwrap_or_default();
        Ok(ClosedSlots { bits, is_recorded })
    }

    /// How many keys of the pool are the record of this.
    pub(crate) fn records(&self) -> u64 {
        self.is_recorded.into()
    }

    /// Refuses a key of a closed slot.
    pub(crate) fn admit(&self, key: &[u8]) -> Answer {
        if self.bits.is_empty() {
            return Ok(());
        }
        let slot = slot_of(key);
        let byte = self.bits.get(usize::from(slot / 8)).copied().unwrap_or(0);
        if byte >> (slot % 8) & 1 == 1 { Err(Refusal::HandedOver { slot }) } else { Ok(()) }
    }

    /// A key has changed.
    pub(crate) fn changed(&mut self, _key: &[u8]) {}
}

/// The slot of a key, as clusters of Redis define it.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    let tag = || {
        let begin = key.iter().position(|&byte| byte == b'{')? + 1;
        let len = key[begin..].iter().position(|&byte| byte == b'}')?;
        (len > 0).then(|| &key[begin..begin + len])
    };
    crc16(tag().unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM: polynomial 0x1021, nothing reflected.
fn crc16(bytes: &[u8]) -> u16 {
    const fn entry(byte: u16) -> u16 {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        crc
    }
    const TABLE: [u16; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            table[byte] = entry(byte as u16);
            byte += 1;
        }
        table
    };
    bytes.iter().fold(0, |crc, &byte| crc << 8 ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // From the specification of clusters, and of CLUSTER KEYSLOT.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"{user1000}.followers"));
        assert_eq!(slot_of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of(b"foo{{bar}}zap"), crc16(b"{bar") % SLOTS);
        assert_eq!(slot_of(b"foo{bar}{zap}"), slot_of(b"bar"));
    }
}
