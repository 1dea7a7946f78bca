//! Verifies slots, items and heap together. Exact when nothing writes.

use super::{AnyItems, GROUP};
use crate::report::CheckReport;
use crate::shown::Shown;
use pmem::heap::{Audit, Corrupt};
use pmem::{Medium, Offset};

impl<M: Medium> AnyItems<M> {
    pub(super) fn check_items(&self) -> CheckReport {
        // Before the index is looked at: the sweep scans it, which may lock a part. Not in a forked child: what the
        // parent knows of the heap is not whole then.
        let is_swept = self.sweep_to_look();
        let mut report = self.index.check();
        report.pairs = 0;
        let mut audit = is_swept.then(|| self.space.heap.audit());
        let guard = self.space.epochs.pin();
        let visited = self.index.for_each(&mut |hash, slot| {
            let at = Offset(slot & !GROUP);
            let checked = match slot & GROUP {
                0 => self.check_item(&mut report, &mut audit, hash, at),
                _ => self.space.heap.group(at, &guard).and_then(|group| {
                    if let Some(audit) = &mut audit {
                        audit.mark(at, 16 + 8 * group.len() as u64)?;
                    }
                    if group.len() < 2 {
                        report.fault(&|| format!("group at {at}: {} items", group.len()));
                    }
                    group
                        .into_iter()
                        .try_for_each(|at| self.check_item(&mut report, &mut audit, hash, at))
                }),
            };
            if let Err(corrupt) = checked {
                report.fault(&|| format!("slot of hash {hash:#018x}: {corrupt}"));
            }
        });
        if let Err(error) = visited {
            report.fault(&|| error.to_string());
        }
        let audited = audit.map(|audit| audit.finish(&self.space.epochs.retired()));
        let (leaks, looked_at) = audited.unwrap_or_default();
        report.looked_at += looked_at;
        if leaks > 0 {
            report.fault(&|| {
                format!("{leaks} items or segments are taken and nothing leads to them")
            });
        }
        if let (Some(expected), Some(found)) = (self.swept.recorded_pairs, self.tally.keys())
            && found != expected
        {
            report.fault(&|| format!("{found} keys were there, but {expected} when it was closed"));
        }
        let counted = self.pairs();
        if counted != report.pairs {
            let pairs = report.pairs;
            report.fault(&|| format!("{pairs} keys are stored, but {counted} were counted"));
        }
        report
    }

    fn check_item(
        &self,
        report: &mut CheckReport,
        audit: &mut Option<Audit<'_, M>>,
        hash: u64,
        at: Offset,
    ) -> Result<(), Corrupt> {
        let guard = self.space.epochs.pin();
        let item = self.space.heap.item(at, &guard)?;
        report.pairs += 1;
        if let Some(audit) = audit {
            audit.mark(at, Audit::<M>::item_bytes(item.key, item.value))?;
        }
        if !item.is_sound() {
            report.fault(&|| {
                let key = Shown(item.key);
                format!("item at {at}, key {key}: its checksum does not fit its bytes")
            });
        }
        let found = self.hasher.first_bytes(item.key);
        if found != hash {
            report.fault(&|| {
                let key = Shown(item.key);
                format!(
                    "item at {at}, key {key}: the key has hash {found:#018x}, its slot {hash:#018x}"
                )
            });
        }
        Ok(())
    }
}
