//! Verification of slots, items and heap together. Exact when nothing writes.

use super::layout::{Bucket, Context, LEVEL_MAX, Word, load, tag};
use super::{Core, RETIRED_LEVEL};
use index::{CheckReport, Shown};
use pmem::heap::{Audit, Corrupt};
use pmem::{Medium, Offset};

impl<M: Medium> Core<M> {
    #[inline(never)]
    pub(super) fn check(&self) -> CheckReport {
        let _at_rest = self.signal.hold();
        let mut report = CheckReport::default();
        let mut audit = self.heap.audit();
        let guard = self.epochs.pin();
        let context = self.context();
        // Marks are not flushed when they are taken off: a closed pool may show some.
        let is_read_only = self.pool.is_read_only();
        self.check_levels(context, &mut report);
        for number in context.levels() {
            let level = self.levels.get(number);
            let is_open = context.open().contains(&number);
            for index in 0..level.buckets() {
                for slot in level.bucket(index).slots() {
                    report.looked_at += 1;
                    let word = load(self.medium(), slot);
                    if word.is_item() {
                        if let Err(corrupt) = self.check_item(context, slot, word, &mut audit) {
                            report.fault(&|| format!("slot at {slot}: {corrupt}"));
                        }
                        report.pairs += 1;
                    } else if is_read_only || word == Word::EMPTY {
                        continue;
                    } else if word == Word::FROZEN && is_open {
                        report.fault(&|| {
                            format!("slot at {slot}: frozen in a level that is not drained")
                        });
                    } else if word != Word::FROZEN {
                        report
                            .fault(&|| format!("slot at {slot}: an operation left {:#x}", word.0));
                    }
                    if word.is_dirty() && !is_read_only {
                        report.fault(&|| format!("slot at {slot}: marked as not durable"));
                    }
                }
            }
        }
        self.check_others(context, &mut report);
        drop(guard);
        let mut retired = self.epochs.retired();
        retired.retain(|word| word & RETIRED_LEVEL == 0);
        let (leaks, looked_at) = audit.finish(&retired);
        report.looked_at += looked_at;
        if leaks > 0 {
            report.fault(&|| {
                format!("{leaks} items or segments are taken and nothing leads to them")
            });
        }
        let (counted, pairs) = (self.len(), report.pairs);
        if counted != pairs {
            report.fault(&|| format!("{pairs} keys are stored, but {counted} were counted"));
        }
        report
    }

    fn check_levels(&self, context: Context, report: &mut CheckReport) {
        let [back, before] = context.open().map(|level| self.levels.get(level).log2());
        if before + 1 != back {
            report.fault(&|| format!("the last two levels have 2^{before} and 2^{back} buckets"));
        }
    }

    /// Levels that the context does not name have lost their items before it lost them, durably.
    fn check_others(&self, context: Context, report: &mut CheckReport) {
        let is_other = |&number: &u32| !context.levels().any(|level| level == number);
        for number in (1..=LEVEL_MAX).filter(is_other).filter(|&number| self.levels.has(number)) {
            let level = self.levels.get(number);
            let slots = level.slots();
            for slot in slots {
                report.looked_at += 1;
                if load(self.medium(), slot).is_item() {
                    report.fault(&|| format!("slot at {slot}: an item in a level not in use"));
                }
            }
        }
    }

    fn check_item(
        &self,
        context: Context,
        slot: Offset,
        word: Word,
        audit: &mut Audit<'_, M>,
    ) -> Result<(), Corrupt> {
        let guard = self.epochs.pin();
        let item = self.heap.item(word.at(), &guard)?;
        audit.mark(word.at(), Audit::<M>::item_bytes(item.key, item.value))?;
        let corrupt = |found: &str| {
            let found = format!("{found}, of key {}", Shown(item.key));
            Err(Corrupt { at: word.at(), found })
        };
        if !item.is_sound() {
            return corrupt("an item whose checksum does not fit its bytes");
        }
        let hash = self.hash(item.key);
        if word.clean() != Word::item(hash, word.at()) {
            return corrupt("an item whose slot has another tag than its key, or bits without use");
        }
        if !self.fingerprints.is_set(slot, tag(hash)) {
            return corrupt("an item that its fingerprint in memory hides");
        }
        let mut buckets =
            context.levels().flat_map(|level| self.levels.get(level).candidates(hash));
        if !buckets.any(|bucket| bucket == Bucket::of(slot)) {
            return corrupt("an item in a bucket that is none of its key's");
        }
        match self.probe(context, hash, item.key, &guard, &mut false)? {
            Some(hit) if hit.slot == slot => Ok(()),
            _ => corrupt("an item whose key is found in another slot, too"),
        }
    }
}
