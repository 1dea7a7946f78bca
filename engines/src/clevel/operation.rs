//! The steps of operations: by their owner and by anyone else, once or often, in time or late.
//!
//! `docs/engines/clevel.md` argues why that is right. In short: a slot goes from exactly one word to another. No word
//! returns to a slot while a thread that may still expect it is pinned. A helper's conclusion enters the status only if
//! nothing was decided before.

use super::Core;
use super::descriptor::{Kind, Operation, Own, Status};
use super::layout::{Word, compare_and_swap, load};
use pmem::epoch::Guard;
use pmem::sync::{AtomicU64, Ordering};
use pmem::{Medium, Offset};

impl<M: Medium> Core<M> {
    /// Brings an operation into force and completes it. Returns its result.
    pub(super) fn perform(
        &self,
        own: &Own<'_>,
        operation: &Operation,
        guard: &Guard<'_>,
    ) -> Option<Status> {
        own.describe(operation);
        let stripe = self.descriptors.stripe(operation.hash);
        loop {
            match stripe.compare_exchange(
                0,
                operation.reference,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => break,
                Err(other) => self.help(stripe, other, guard),
            }
        }
        self.complete(stripe, operation, guard);
        self.descriptors.status(operation)
    }

    /// Completes the operation that is in force in the stripe of this hash, if there is one.
    pub(super) fn help_with(&self, hash: u64, guard: &Guard<'_>) {
        let stripe = self.descriptors.stripe(hash);
        match stripe.load(Ordering::Acquire) {
            0 => {}
            reference => self.help(stripe, reference, guard),
        }
    }

    fn help(&self, stripe: &AtomicU64, reference: u64, guard: &Guard<'_>) {
        if let Some(operation) = self.descriptors.read(stripe, reference) {
            self.complete(stripe, &operation, guard);
        }
    }

    /// Takes every step that is left. Afterwards the operation is no longer in force.
    fn complete(&self, stripe: &AtomicU64, operation: &Operation, guard: &Guard<'_>) {
        match operation.kind {
            Kind::Insert => self.complete_insert(operation, guard),
            Kind::Swap => self.complete_swap(operation),
            Kind::Remove => self.complete_remove(operation),
            Kind::Move => self.complete_move(operation, Word::FROZEN),
            Kind::Shift => self.complete_move(operation, Word::EMPTY),
        }
        // Fails if another thread has done it.
        let _ =
            stripe.compare_exchange(operation.reference, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    fn is_undecided(&self, operation: &Operation) -> bool {
        self.descriptors.status(operation) == Some(Status::Undecided)
    }

    fn complete_insert(&self, operation: &Operation, guard: &Guard<'_>) {
        let Operation { new, claim, .. } = *operation;
        if self.is_undecided(operation) {
            // An unreadable item has no key. A search finds and reports it.
            let is_there = self.heap.item(new.at(), guard).is_ok_and(|item| {
                let (hash, context) = (operation.hash, self.context());
                matches!(self.probe(context, hash, item.key, guard, &mut false), Ok(Some(_)))
            });
            let found = if is_there { Status::Found } else { Status::Absent };
            self.descriptors.decide(operation, Status::Undecided, found);
        }
        if self.descriptors.status(operation) == Some(Status::Absent) {
            compare_and_swap(self.medium(), claim, operation.claim_word(), new.dirty());
            if load(self.medium(), claim).clean() == new {
                self.medium().persist(claim);
                self.descriptors.decide(operation, Status::Absent, Status::Done);
            } else {
                self.descriptors.decide(operation, Status::Absent, Status::Killed);
            }
        }
        match self.descriptors.status(operation) {
            Some(Status::Done) => self.clear_dirty(claim, new),
            Some(Status::Found) => self.release_claim(claim, operation.claim_word()),
            _ => {}
        }
    }

    fn complete_swap(&self, operation: &Operation) {
        let Operation { old, new, slot, .. } = *operation;
        if self.is_undecided(operation) {
            self.replace(slot, old, new.dirty());
            if load(self.medium(), slot).clean() == new {
                self.medium().persist(slot);
                self.descriptors.decide(operation, Status::Undecided, Status::Done);
            } else {
                self.descriptors.decide(operation, Status::Undecided, Status::Void);
            }
        }
        if self.descriptors.status(operation) == Some(Status::Done) {
            self.clear_dirty(slot, new);
        }
    }

    fn complete_remove(&self, operation: &Operation) {
        let Operation { old, slot, .. } = *operation;
        if self.is_undecided(operation) {
            self.replace(slot, old, old.gone());
            if load(self.medium(), slot) == old.gone() {
                self.medium().persist(slot);
                self.descriptors.decide(operation, Status::Undecided, Status::Done);
            } else {
                self.descriptors.decide(operation, Status::Undecided, Status::Void);
            }
        }
        if self.descriptors.status(operation) == Some(Status::Done) {
            compare_and_swap(self.medium(), slot, old.gone(), Word::EMPTY);
        }
    }

    /// Leaves `rest` in the slot.
    fn complete_move(&self, operation: &Operation, rest: Word) {
        let Operation { old, slot, claim, .. } = *operation;
        if self.is_undecided(operation) {
            if load(self.medium(), slot).clean() == old {
                compare_and_swap(self.medium(), claim, operation.claim_word(), old.dirty());
                if load(self.medium(), claim).clean() == old {
                    // Durable before the source is empty: a crash in between leaves it twice, and
                    // recovery knows which one to take.
                    self.medium().persist(claim);
                    self.replace(slot, old, old.gone());
                } else {
                    self.descriptors.decide(operation, Status::Undecided, Status::Killed);
                }
            }
            if load(self.medium(), slot) == old.gone() {
                // Durable before the next operation on the key, which changes the copy only.
                self.medium().persist(slot);
                self.descriptors.decide(operation, Status::Undecided, Status::Done);
            } else {
                self.descriptors.decide(operation, Status::Undecided, Status::Void);
            }
        }
        match self.descriptors.status(operation) {
            Some(Status::Done) => {
                compare_and_swap(self.medium(), slot, old.gone(), rest);
                self.clear_dirty(claim, old);
            }
            Some(Status::Void) => self.release_claim(claim, operation.claim_word()),
            _ => {}
        }
    }

    /// Replaces an item's word, whether dirty or not.
    fn replace(&self, slot: Offset, old: Word, new: Word) {
        // Readers may clear the bit meanwhile, once.
        for before in [old.dirty(), old] {
            compare_and_swap(self.medium(), slot, before, new);
        }
    }

    /// Says that an item's word is durable.
    pub(super) fn clear_dirty(&self, slot: Offset, word: Word) {
        compare_and_swap(self.medium(), slot, word.dirty(), word);
    }

    /// Gives a claimed slot back.
    pub(super) fn release_claim(&self, claim: Offset, word: Word) {
        compare_and_swap(self.medium(), claim, word, Word::EMPTY);
    }
}
