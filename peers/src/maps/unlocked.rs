use crate::hash::BuildKeyHash;
use crate::pages::GiveBack;
use crate::peer::Peer;
use anyhow::{Result, ensure};
use bench::Map;
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};

type Words = HashMap<u64, u64, BuildKeyHash>;

thread_local! {
    /// The map that this thread opened, under its number.
    static OPENED: RefCell<Option<(u64, Words)>> = const { RefCell::new(None) };
}

/// Numbers the maps; 0 is none.
static OPENED_COUNT: AtomicU64 = AtomicU64::new(0);

/// The standard library's HashMap behind no lock: the floor that a concurrent map stands on.
///
/// It belongs to the thread that opened it and panics in any other. It lies in that thread's
/// storage, since a check there costs a nanosecond, a lock several, and a map shared unlocked
/// would need an unsafe promise. A thread has one at a time.
pub struct Unlocked(u64, GiveBack);

impl Unlocked {
    #[inline(always)]
    fn with<T>(&self, work: impl FnOnce(&mut Words) -> T) -> T {
        OPENED.with_borrow_mut(|opened| match opened {
            Some((number, map)) if *number == self.0 => work(map),
            _ => panic!("an unlocked map belongs to the thread that opened it"),
        })
    }
}

impl Peer for Unlocked {
    const NAME: &'static str = "std";
    const VERSION: &'static str = env!("RUSTC_VERSION");
    const THREADS_MAX: usize = 1;

    fn open(capacity: u64) -> Result<Self> {
        let number = OPENED_COUNT.fetch_add(1, Ordering::Relaxed) + 1;
        OPENED.with_borrow_mut(|opened| {
            ensure!(opened.is_none(), "this thread has an unlocked map already");
            let map = HashMap::with_capacity_and_hasher(capacity as usize, BuildKeyHash);
            *opened = Some((number, map));
            Ok(Unlocked(number, GiveBack::default()))
        })
    }
}

impl Drop for Unlocked {
    fn drop(&mut self) {
        // In another thread there is nothing to free: the map goes with its own.
        OPENED.with_borrow_mut(|opened| {
            if opened.as_ref().is_some_and(|(number, _)| *number == self.0) {
                *opened = None;
            }
        });
    }
}

impl Map for Unlocked {
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.with(|map| map.get(&key).copied())
    }

    #[inline]
    fn insert(&self, key: u64, value: u64) -> bool {
        self.with(|map| match map.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(value);
                true
            }
            Entry::Occupied(_) => false,
        })
    }

    #[inline]
    fn update(&self, key: u64, value: u64) -> bool {
        self.with(|map| map.get_mut(&key).map(|found| *found = value).is_some())
    }

    #[inline]
    fn upsert(&self, key: u64, value: u64) -> bool {
        self.with(|map| map.insert(key, value).is_some())
    }

    #[inline]
    fn remove(&self, key: u64) -> bool {
        self.with(|map| map.remove(&key).is_some())
    }
}
