//! Operations that anyone can complete: stripes and descriptors.
//!
//! ```text
//! stripe      | turn: 53 bits | descriptor: 11 |        0: no operation
//! descriptor  | turn: 61 bits, status: 3 | kind | hash | old | new | slot | claim | taken |
//! ```
//!
//! A thread writes the fields of its descriptor while no stripe refers to it. Another thread finds a reference, reads
//! the fields, and finds the same reference again. Then the fields belong to it: a reference is in a stripe only once,
//! for one span of time, and the fields are not written in that span.

use super::layout::{CLAIMANT_BITS, Word};
use pmem::Offset;
use pmem::sync::{Array, AtomicU64, Line, Ordering, THREADS_MAX, spin, thread_index};
use std::io;

/// Stripes: several times as many as threads, few enough to stay in the caches.
const STRIPES: usize = 8 * THREADS_MAX;
/// Descriptors: one for each thread with a number, further ones for the others.
const DESCRIPTORS: usize = (THREADS_MAX + 64).next_power_of_two();
/// Bits that number a descriptor.
const DESCRIPTOR_BITS: u32 = 11;
const STATUS_BITS: u32 = 3;

const _: () = assert!(DESCRIPTORS <= 1 << DESCRIPTOR_BITS && STRIPES.is_power_of_two());

// Words of a descriptor.
const STATUS: usize = 0;
const KIND: usize = 1;
const HASH: usize = 2;
const OLD: usize = 3;
const NEW: usize = 4;
const SLOT: usize = 5;
const CLAIM: usize = 6;
const TAKEN: usize = 7;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Puts `new` into `claim` if its key is absent.
    Insert = 1,
    /// Replaces `old` by `new` in `slot`.
    Swap = 2,
    /// Takes `old` out of `slot`.
    Remove = 3,
    /// Takes `old` from `slot`, which is not used again, to `claim`.
    Move = 4,
    /// Takes `old` from `slot`, which is free then, to `claim`.
    Shift = 5,
}

impl Kind {
    fn of_field(field: u64) -> Kind {
        const INSERT: u64 = Kind::Insert as u64;
        const SWAP: u64 = Kind::Swap as u64;
        const REMOVE: u64 = Kind::Remove as u64;
        const MOVE: u64 = Kind::Move as u64;
        match field {
            INSERT => Kind::Insert,
            SWAP => Kind::Swap,
            REMOVE => Kind::Remove,
            MOVE => Kind::Move,
            _ => Kind::Shift,
        }
    }
}

/// How far an operation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// Nothing is decided.
    Undecided = 1,
    /// An insertion's key is absent.
    Absent = 2,
    /// It has taken effect, durably.
    Done = 3,
    /// Without effect: an insertion's key is there.
    Found = 4,
    /// Without effect: the slot does not hold `old`.
    Void = 5,
    /// Without effect: the claim is no more.
    Killed = 6,
}

/// A copy of what a descriptor says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation {
    pub(super) reference: u64,
    pub(super) kind: Kind,
    pub(super) hash: u64,
    pub(super) old: Word,
    pub(super) new: Word,
    pub(super) slot: Offset,
    pub(super) claim: Offset,
}

impl Operation {
    /// The word by which `claim` is claimed.
    pub(super) fn claim_word(&self) -> Word {
        self.new.pending(claimant(self.reference))
    }
}

/// The bits of a reference that tell claims apart.
fn claimant(reference: u64) -> u64 {
    reference & ((1 << CLAIMANT_BITS) - 1)
}

/// All stripes and descriptors of a table.
#[derive(Debug)]
pub(super) struct Descriptors {
    stripes: Array<AtomicU64>,
    lines: Array<Line>,
}

/// A thread's right to one descriptor, for one operation after another.
pub(super) struct Own<'a> {
    line: &'a Line,
    index: u64,
    is_shared: bool,
}

impl Own<'_> {
    /// Begins a new turn: a reference that never was.
    pub(super) fn next_reference(&self) -> u64 {
        let turn = (self.line.0[STATUS].load(Ordering::Relaxed) >> STATUS_BITS) + 1;
        self.line.0[STATUS].store(turn << STATUS_BITS, Ordering::Release);
        turn << DESCRIPTOR_BITS | self.index
    }

    /// The word by which a slot is claimed for the item of `word` in this turn.
    pub(super) fn claim_word(reference: u64, word: Word) -> Word {
        word.pending(claimant(reference))
    }

    /// Writes down an operation of this turn.
    pub(super) fn describe(&self, operation: &Operation) {
        let fields = [
            (KIND, operation.kind as u64),
            (HASH, operation.hash),
            (OLD, operation.old.0),
            (NEW, operation.new.0),
            (SLOT, operation.slot.0),
            (CLAIM, operation.claim.0),
        ];
        for (field, value) in fields {
            // A helper that sees it must not find the reference of an earlier turn in the stripe
            // afterwards.
            self.line.0[field].store(value, Ordering::Release);
        }
        let turn = operation.reference >> DESCRIPTOR_BITS;
        let status = turn << STATUS_BITS | Status::Undecided as u64;
        self.line.0[STATUS].store(status, Ordering::Release);
    }
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        if self.is_shared {
            self.line.0[TAKEN].store(0, Ordering::Release);
        }
    }
}

impl Descriptors {
    pub(super) fn new() -> io::Result<Descriptors> {
        Ok(Descriptors {
            stripes: Array::reserve(STRIPES, STRIPES)?,
            lines: Array::reserve(DESCRIPTORS, DESCRIPTORS)?,
        })
    }

    /// The calling thread's descriptor. Threads without a number take one of the others, and wait
    /// for one only if all of them are in the midst of an operation.
    pub(super) fn own(&self) -> Own<'_> {
        let thread = thread_index();
        if thread < THREADS_MAX {
            return Own { line: self.lines.get(thread), index: thread as u64, is_shared: false };
        }
        let mut turn = 0;
        loop {
            for index in THREADS_MAX..DESCRIPTORS {
                let line = self.lines.get(index);
                let taken = &line.0[TAKEN];
                if taken.load(Ordering::Relaxed) == 0
                    && taken.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
                {
                    return Own { line, index: index as u64, is_shared: true };
                }
            }
            spin(&mut turn);
        }
    }

    /// The stripe of a hash.
    #[inline(always)]
    pub(super) fn stripe(&self, hash: u64) -> &AtomicU64 {
        let mixed = hash ^ hash >> 32 ^ hash >> 16;
        self.stripes.get(mixed as usize & (STRIPES - 1))
    }

    fn line(&self, reference: u64) -> &Line {
        self.lines.get(reference as usize & (DESCRIPTORS - 1))
    }

    /// The operation that `stripe` refers to, if it still does.
    pub(super) fn read(&self, stripe: &AtomicU64, reference: u64) -> Option<Operation> {
        let field = |field: usize| self.line(reference).0[field].load(Ordering::Acquire);
        let operation = Operation {
            reference,
            kind: Kind::of_field(field(KIND)),
            hash: field(HASH),
            old: Word(field(OLD)),
            new: Word(field(NEW)),
            slot: Offset(field(SLOT)),
            claim: Offset(field(CLAIM)),
        };
        (stripe.load(Ordering::Acquire) == reference).then_some(operation)
    }

    /// How far an operation has come; `None` if its descriptor has another turn: then it is over.
    pub(super) fn status(&self, operation: &Operation) -> Option<Status> {
        let word = self.line(operation.reference).0[STATUS].load(Ordering::Acquire);
        let is_its = word >> STATUS_BITS == operation.reference >> DESCRIPTOR_BITS;
        let status = match word & ((1 << STATUS_BITS) - 1) {
            1 => Status::Undecided,
            2 => Status::Absent,
            3 => Status::Done,
            4 => Status::Found,
            5 => Status::Void,
            6 => Status::Killed,
            _ => return None,
        };
        is_its.then_some(status)
    }

    /// Brings an operation from one status to the next; nothing if it is not there any more.
    pub(super) fn decide(&self, operation: &Operation, from: Status, to: Status) {
        let turn = operation.reference >> DESCRIPTOR_BITS << STATUS_BITS;
        // A faster thread decided the same, or knew more.
        let _ = self.line(operation.reference).0[STATUS].compare_exchange(
            turn | from as u64,
            turn | to as u64,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }
}
