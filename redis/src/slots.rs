//! Slots of a cluster, and those that this server has closed since another one is about to get them.

use crate::names;
use crate::refusal::{Answer, Refusal};
use firndex::Store;
use std::collections::HashSet;
use std::ops::RangeInclusive;

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
    watch: Option<Watch>,
}

/// Slots that are being copied, and their keys that have changed since the copying began.
struct Watch {
    slots: RangeInclusive<u16>,
    changed: HashSet<Vec<u8>>,
}

impl ClosedSlots {
    pub(crate) fn read(store: &Store) -> Answer<ClosedSlots> {
        let record = store.get(names::CLOSED_SLOTS)?;
        let is_recorded = record.is_some();
        let bits = record.map(|bits| bits.to_vec()).unwrap_or_default();
        Ok(ClosedSlots { bits, is_recorded, watch: None })
    }

    /// How many keys of the pool are the record of this.
    pub(crate) fn records(&self) -> u64 {
        self.is_recorded.into()
    }

    fn is_closed(&self, slot: u16) -> bool {
        let byte = self.bits.get(usize::from(slot / 8)).copied().unwrap_or(0);
        byte >> (slot % 8) & 1 == 1
    }

    /// How many slots are closed.
    pub(crate) fn closed(&self) -> u64 {
        self.bits.iter().map(|byte| u64::from(byte.count_ones())).sum()
    }

    /// Refuses a key of a closed slot.
    pub(crate) fn admit(&self, key: &[u8]) -> Answer {
        if self.bits.is_empty() {
            return Ok(());
        }
        let slot = slot_of(key);
        if self.is_closed(slot) { Err(Refusal::HandedOver { slot }) } else { Ok(()) }
    }

    /// The record if these slots were closed, or opened.
    pub(crate) fn with(&self, slots: RangeInclusive<u16>, is_closed: bool) -> Vec<u8> {
        let mut bits = self.bits.clone();
        bits.resize(usize::from(SLOTS / 8), 0);
        for slot in slots.filter(|&slot| slot < SLOTS) {
            let bit = 1 << (slot % 8);
            let byte = &mut bits[usize::from(slot / 8)];
            *byte = if is_closed { *byte | bit } else { *byte & !bit };
        }
        if bits.iter().all(|&byte| byte == 0) {
            bits.clear();
        }
        bits
    }

    /// Takes over a record that the pool has now.
    pub(crate) fn set(&mut self, bits: &[u8]) {
        self.bits = bits.to_vec();
        self.is_recorded = true;
    }

    /// Begins to remember which keys of these slots change.
    pub(crate) fn watch(&mut self, slots: RangeInclusive<u16>) {
        self.watch = Some(Watch { slots, changed: HashSet::new() });
    }

    pub(crate) fn watch_no_more(&mut self) {
        self.watch = None;
    }

    /// A key has changed.
    pub(crate) fn changed(&mut self, key: &[u8]) {
        if let Some(watch) = &mut self.watch
            && watch.slots.contains(&slot_of(key))
        {
            watch.changed.insert(key.into());
        }
    }

    /// Up to `count` keys that have changed, which are forgotten; `None` if nobody watches.
    pub(crate) fn take_changed(&mut self, count: usize) -> Option<Vec<Vec<u8>>> {
        let changed = &mut self.watch.as_mut()?.changed;
        let keys: Vec<Vec<u8>> = changed.iter().take(count).cloned().collect();
        keys.iter().for_each(|key| {
            changed.remove(key);
        });
        Some(keys)
    }
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
    fn closed_slots_are_refused_until_they_are_opened() {
        let mut slots = ClosedSlots::default();
        let foo = slot_of(b"foo");
        assert!(slots.admit(b"foo").is_ok());
        slots.set(&slots.with(foo..=foo, true));
        assert!(matches!(slots.admit(b"foo"), Err(Refusal::HandedOver { slot }) if slot == foo));
        assert!(slots.admit(b"bar").is_ok() && slots.closed() == 1);
        slots.set(&slots.with(0..=SLOTS - 1, true));
        assert!(slots.admit(b"bar").is_err() && slots.closed() == u64::from(SLOTS));
        slots.set(&slots.with(0..=SLOTS - 1, false));
        assert!(slots.admit(b"foo").is_ok() && slots.bits.is_empty());
    }

    #[test]
    fn changes_are_told_once() {
        let mut slots = ClosedSlots::default();
        slots.changed(b"foo");
        assert!(slots.take_changed(9).is_none());
        let foo = slot_of(b"foo");
        slots.watch(foo..=foo);
        [b"foo", b"bar", b"foo"].iter().for_each(|&key| slots.changed(key));
        assert_eq!(slots.take_changed(9), Some(vec![b"foo".to_vec()]));
        assert_eq!(slots.take_changed(9), Some(vec![]));
    }

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
