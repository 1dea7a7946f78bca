//! What a guest looks up by itself, in what the owner shows.

use crate::background::Background;
use engines::engine::Describe;
use engines::{Preferred, PreferredSight};
use index::hash::Hasher;
use index::{Copied, SeenItems, Sight};
use pmem::Pool;
use pmem::medium::Memory;
use pmem::meeting::{Hello, Visit};
use pmem::sync::{Loan, forks};
use pmem::view::View;
use std::sync::Arc;

/// Keys of a table that are looked up together.
pub(super) const KEYS_AT_ONCE: usize = 64;

/// What one owner shows: a store, or a table, which is one without items.
pub(super) struct Seen {
    items: SeenItems<PreferredSight<Memory>, Memory>,
}

/// What the present owner shows.
pub(crate) struct Sights {
    /// None if there is no memory for that: then everything is asked.
    loan: Option<Loan<Seen>>,
    forks_at_open: u32,
}

/// Sees no more of an owner that has gone. A new one of the same file is noticed by its incarnation, at once; one of a
/// file that has taken that one's place only by this.
pub(super) struct Watch {
    visit: Arc<Visit>,
    forks_at_start: u32,
    _thread: Background,
}

impl Drop for Watch {
    fn drop(&mut self) {
        // In a forked child it is the parent's.
        if forks() == self.forks_at_start {
            self.visit.hang_up();
        }
    }
}

impl Sights {
    pub(super) fn none() -> Sights {
        Sights { loan: Loan::none().ok(), forks_at_open: forks() }
    }

    /// Sees this until the visit is over, or what is returned is dropped. Then nothing of it is mapped any more.
    /// `None`: everything is to be asked.
    pub(super) fn see_on(
        self: &Arc<Self>,
        visit: &Arc<Visit>,
        seen: Option<Seen>,
    ) -> Option<Watch> {
        let loan = self.loan.as_ref()?;
        let (sights, watched) = (Arc::clone(self), Arc::clone(visit));
        loan.lend(seen?);
        let watch = move |_: &_| {
            watched.await_end();
            sights.loan.iter().for_each(Loan::take_back);
        };
        let thread = Background::start("firndex-guest", watch);
        if thread.is_err() {
            loan.take_back();
        }
        Some(Watch { visit: Arc::clone(visit), forks_at_start: forks(), _thread: thread.ok()? })
    }

    /// The value of a key of a table. `None`, here and below: the owner is to be asked.
    #[inline(never)]
    pub(crate) fn word(&self, key: u64) -> Option<Option<u64>> {
        self.see(|seen| seen.items.sight().get(key))
    }

    /// The values of up to [`KEYS_AT_ONCE`] keys of a table.
    pub(super) fn words(&self, keys: &[u64], found: &mut [Option<Option<u64>>]) -> Option<()> {
        self.see(|seen| {
            let sight = seen.items.sight();
            let look = sight.look()?;
            sight.search_many(look, keys, found);
            sight.is_as(look).then_some(())
        })
    }

    /// The value of a key of a store.
    #[inline(never)]
    pub(crate) fn bytes(&self, key: &[u8]) -> Option<Copied> {
        self.see(|seen| seen.items.get(key))
    }

    /// The values of several keys of a store.
    pub(super) fn many_bytes(&self, keys: &[&[u8]]) -> Option<Vec<Option<Copied>>> {
        self.see(|seen| Some(seen.items.get_many(keys)))
    }

    #[inline(always)]
    fn see<T>(&self, look_up: impl FnOnce(&Seen) -> Option<T>) -> Option<T> {
        match self.loan.as_ref()?.with(look_up) {
            Some(found) => found,
            None => self.see_again(),
        }
    }

    /// Nothing is lent: perhaps since some other pool has lost a page.
    #[cold]
    fn see_again<T>(&self) -> Option<T> {
        if forks() == self.forks_at_open {
            self.loan.iter().for_each(Loan::renew);
        }
        None
    }
}

impl Seen {
    /// What the owner shows on this visit of `pool`, which was opened beside it. `None`: nothing, or nothing that this
    /// guest can use.
    pub(super) fn on(hello: Hello, view: Arc<View>, pool: &Arc<Pool<Memory>>) -> Option<Seen> {
        let superblock = pool.superblock();
        // Another owner may have come, or the pool have been replaced by another one.
        let is_owners =
            (superblock.uuid, superblock.incarnation) == (hello.uuid, hello.incarnation);
        if !is_owners || superblock.engine != Preferred::DESCRIPTION.id {
            return None;
        }
        let sight = PreferredSight::open(Arc::clone(pool), view).ok()?;
        let items = SeenItems::new(sight, Arc::clone(pool), Hasher::new(superblock.hash_seed));
        Some(Seen { items })
    }
}
