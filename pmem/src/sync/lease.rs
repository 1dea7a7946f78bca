//! References that a fork or a lost page takes away.
//!
//! What a handle offers must not be used in a forked child, nor after a page of the pool's file has vanished. To
//! compare a count of such events in each call takes five instructions of the hot path, which leads to the same object
//! anyway. So the path to the object is what an event takes away: it is a word, and the event marks all words there
//! are. Who then finds none looks for what has happened, and has the word set again if it does not concern the handle.
//!
//! A lease is also a proof that the process has [`Asymmetric`] barriers: without them none is given.
//!
//! Words are never freed, only used again, since an event may come at any time: as a signal, or in a forked child.

use super::Asymmetric;
#[cfg(feature = "loom")]
use super::loom::{AtomicBool, AtomicPtr, AtomicUsize, fence};
use std::sync::Arc;
use std::sync::atomic::Ordering;
// In the crash lab, too: its machines, to which no lease is given, share these words.
#[cfg(not(feature = "loom"))]
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, fence};
use std::{array, ptr};

/// Statics of the process.
#[cfg(not(feature = "loom"))]
macro_rules! statics {
    ($($(#[$attribute:meta])* static $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[$attribute])* static $name: $type = $value;)*
    };
}

/// Statics of one execution of a model: loom's atomics do not outlive it.
#[cfg(feature = "loom")]
macro_rules! statics {
    ($($(#[$attribute:meta])* static $name:ident: $type:ty = $value:expr;)*) => {
        ::loom::lazy_static! { $($(#[$attribute])* static ref $name: $type = $value;)* }
    };
}

statics! {
    /// The newest slab.
    static SLABS: AtomicPtr<Slab> = AtomicPtr::new(ptr::null_mut());
    /// The word of all leases that are never given.
    static NEVER: AtomicUsize = AtomicUsize::new(GONE);
}

/// Set in a word that leads to nothing. The bits above it tell the event that did this.
pub(super) const GONE: usize = 1;

/// A word, and whether a lease has it.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) word: AtomicUsize,
    taken: AtomicBool,
}

/// Slots of a slab. Under loom one: so models add slabs, and an event passes few slots.
const SLOTS: usize = if cfg!(feature = "loom") { 1 } else { 256 };

/// Slots that were allocated together.
struct Slab {
    slots: [Slot; SLOTS],
    next: *const Slab,
}

// SAFETY: `next` is set before the slab is published, and then only read. What it leads to is never freed.
unsafe impl Sync for Slab {}

fn slabs() -> impl Iterator<Item = &'static Slab> {
    // SAFETY: slabs are never freed, and whole before they are published.
    let newest = unsafe { SLABS.load(Ordering::Acquire).as_ref() };
    // SAFETY: as above.
    std::iter::successors(newest, |slab| unsafe { slab.next.as_ref() })
}

/// What a word is set to by the `event`-th event.
#[cfg(not(feature = "simulated"))]
const fn gone(event: usize) -> usize {
    event << 1 | GONE
}

impl Slot {
    fn new() -> Slot {
        Slot { word: AtomicUsize::new(GONE), taken: AtomicBool::new(false) }
    }

    pub(super) fn take() -> &'static Slot {
        let try_take = |slot: &&Slot| {
            slot.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        loop {
            if let Some(slot) = slabs().flat_map(|slab| &slab.slots).find(try_take) {
                // Either an event's own fence comes later, and it sees this slot. Or a look from here on sees what the
                // event is about.
                fence(Ordering::SeqCst);
                return slot;
            }
            let next = SLABS.load(Ordering::Acquire);
            let slab = Box::new(Slab { slots: array::from_fn(|_| Slot::new()), next });
            let slab = Box::into_raw(slab);
            let published = SLABS.compare_exchange(next, slab, Ordering::AcqRel, Ordering::Relaxed);
            if published.is_err() {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(slab) });
            }
        }
    }

    fn give_back(&self) {
        self.word.store(GONE, Ordering::Relaxed);
        self.taken.store(false, Ordering::Release);
    }
}

/// What a fork or a lost page does to all leases, in a model.
#[cfg(feature = "loom")]
pub fn take_leases_away() {
    take_away();
}

/// Takes all leases away. Safe in a signal's handler and in a forked child.
#[cfg(not(feature = "simulated"))]
pub(super) fn take_away() {
    statics! { static EVENTS: AtomicUsize = AtomicUsize::new(1); }
    // See `Slot::take`.
    fence(Ordering::SeqCst);
    let event = EVENTS.fetch_add(1, Ordering::Relaxed);
    for slot in slabs().flat_map(|slab| &slab.slots) {
        // By an exchange, which whoever reads the word later is behind: so it is behind earlier events, too.
        slot.word.swap(gone(event), Ordering::AcqRel);
    }
}

/// A slot until its last user is gone.
#[derive(Debug)]
pub(super) struct Holding(pub(super) &'static Slot);

impl Drop for Holding {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

/// A reference that the next event takes away, and its [`Renewal`] gives again. There is none at first.
#[derive(Debug)]
pub struct Lease<T> {
    /// `GONE` or more, or the address of `target`.
    word: &'static AtomicUsize,
    target: Option<Arc<T>>,
    _holding: Option<Arc<Holding>>,
}

/// Gives the reference of one [`Lease`] again.
#[derive(Debug)]
pub struct Renewal {
    holding: Arc<Holding>,
    address: usize,
}

/// A lease as it was before a look at what has happened.
#[derive(Debug)]
pub struct Lapsed<'a> {
    renewal: &'a Renewal,
    word: usize,
}

impl<T> Lease<T> {
    /// A lease of `target`, and what gives it.
    pub fn new(target: Arc<T>) -> (Lease<T>, Renewal) {
        const { assert!(align_of::<T>() > GONE, "the lowest bit of an address must be free") };
        let slot = Slot::take();
        let holding = Arc::new(Holding(slot));
        let renewal =
            Renewal { holding: Arc::clone(&holding), address: Arc::as_ptr(&target) as usize };
        (Lease { word: &slot.word, target: Some(target), _holding: Some(holding) }, renewal)
    }

    /// A lease that is never given.
    pub fn never() -> Lease<T> {
        Lease { word: &NEVER, target: None, _holding: None }
    }

    /// The target, unless an event has taken it away.
    #[inline(always)]
    pub fn get(&self) -> Option<(&T, Asymmetric)> {
        let word = self.word.load(Ordering::Acquire);
        if word & GONE != 0 {
            return None;
        }
        debug_assert!(
            self.target.as_ref().is_some_and(|target| Arc::as_ptr(target) as usize == word)
        );
        // SAFETY: only the renewal that was made with this lease sets its word to anything else than `GONE` or more,
        // and then to the address of the target, which `self` keeps alive. The word is this lease's as long as it
        // lives.
        let target = unsafe { &*ptr::with_exposed_provenance::<T>(word) };
        Some((target, Asymmetric::known()))
    }
}

impl Renewal {
    /// Call this first, then look whether anything has happened that forbids a renewal.
    pub fn begin(&self) -> Lapsed<'_> {
        Lapsed { renewal: self, word: self.holding.0.word.load(Ordering::Acquire) }
    }
}

impl Lapsed<'_> {
    /// Gives the lease again, unless there was another event since the renewal began.
    pub fn renew(self) {
        let Lapsed { renewal: Renewal { holding, address }, word } = self;
        if word & GONE != 0 && Asymmetric::granted().is_some() {
            let _ = holding.0.word.compare_exchange(
                word,
                *address,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
    }
}

#[cfg(all(test, not(any(feature = "simulated", feature = "loom"))))]
mod tests {
    use super::*;
    use crate::sync::register_process;

    /// Renews a lease. Other tests of this process may take all leases away at any moment.
    fn renew<T: Copy>(lease: &Lease<T>, renewal: &Renewal) -> Option<T> {
        register_process();
        let renewed = (0..100).find_map(|_| {
            renewal.begin().renew();
            found(lease)
        });
        // Without them there are no leases.
        assert_eq!(renewed.is_some(), Asymmetric::granted().is_some());
        renewed
    }

    fn found<T: Copy>(lease: &Lease<T>) -> Option<T> {
        lease.get().map(|(target, _)| *target)
    }

    #[test]
    fn an_event_takes_it_away_until_it_is_renewed() {
        let (lease, renewal) = Lease::new(Arc::new(5));
        assert_eq!(found(&lease), None);
        let Some(value) = renew(&lease, &renewal) else { return };
        assert_eq!(value, 5);
        take_away();
        assert_eq!(found(&lease), None);
        assert_eq!(renew(&lease, &renewal), Some(5));
        let lapsed = renewal.begin();
        take_away();
        lapsed.renew();
        assert_eq!(found(&lease), None);
        assert_eq!(found(&Lease::<u64>::never()), None);
    }

    #[test]
    fn an_event_amid_a_renewal_is_not_overlooked() {
        let (lease, renewal) = Lease::new(Arc::new(5));
        for _ in 0..2 {
            let lapsed = renewal.begin();
            take_away();
            lapsed.renew();
            assert_eq!(found(&lease), None);
        }
        renew(&lease, &renewal);
    }

    #[test]
    fn slots_are_used_again_when_both_halves_are_gone() {
        let (lease, renewal) = Lease::new(Arc::new(1));
        let word: *const AtomicUsize = lease.word;
        renewal.begin().renew();
        drop(lease);
        renewal.begin().renew();
        let many: Vec<_> = (0..1000).map(|number| Lease::new(Arc::new(number))).collect();
        assert!(many.iter().all(|(lease, _)| !ptr::eq(lease.word, word)));
        for (number, (lease, renewal)) in many.iter().enumerate() {
            assert_eq!(found(lease), None);
            assert!(renew(lease, renewal).is_none_or(|found| found == number));
        }
        take_away();
        assert!(many.iter().all(|(lease, _)| found(lease).is_none()));
        let slots = || slabs().count();
        let before = slots();
        drop((renewal, many));
        for number in 0..10_000 {
            assert_eq!(found(&Lease::new(Arc::new(number)).0), None);
        }
        assert_eq!(slots(), before);
    }
}
