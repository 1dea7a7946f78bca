//! Atomics that are plain until a model begins, and loom's from then on.

use super::{Followable, enter, fence, is_loom, number_followable, touch};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::Ordering::{self, Relaxed, SeqCst};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

::loom::thread_local! {
    /// Whether a thread has a `SeqCst` store behind it and no such load since.
    static HAS_STORED: Cell<bool> = Cell::new(false);
}

/// Before an access that loads.
fn before_load(order: Ordering) {
    if order == SeqCst && HAS_STORED.with(|has_stored| has_stored.replace(false)) {
        fence(SeqCst);
    }
}

/// After an access that stores.
fn after_store(order: Ordering) {
    if order == SeqCst {
        HAS_STORED.with(|has_stored| has_stored.set(true));
    }
}

macro_rules! atomic {
    ($name:ident, $followed:ident, $value:ty) => {
        /// One that is, or will be, touched while accesses are loom's.
        #[derive(Debug)]
        struct $followed {
            latest: std::sync::atomic::$name,
            followed: OnceLock<::loom::sync::atomic::$name>,
        }

        impl Followable for $followed {
            fn follow(&self) {
                let value = self.latest.load(Relaxed);
                self.followed.get_or_init(|| ::loom::sync::atomic::$name::new(value));
            }
        }

        /// As the atomic of this name in std.
        #[derive(Debug)]
        pub struct $name {
            number: u64,
            /// What was stored last, if `shared` does not tell.
            latest: std::sync::atomic::$name,
            shared: Option<Arc<$followed>>,
        }

        impl $name {
            /// An atomic holding `value`.
            pub fn new(value: $value) -> Self {
                let (number, is_touched) = number_followable();
                let shared = (is_touched || is_loom()).then(|| {
                    let latest = std::sync::atomic::$name::new(value);
                    let shared = Arc::new($followed { latest, followed: OnceLock::new() });
                    enter(Arc::<$followed>::clone(&shared));
                    shared
                });
                $name { number, latest: std::sync::atomic::$name::new(value), shared }
            }

            fn latest(&self) -> &std::sync::atomic::$name {
                self.shared.as_ref().map_or(&self.latest, |shared| &shared.latest)
            }

            /// Whether loom follows it, or will once the model has begun.
            #[allow(dead_code, reason = "asked of words of a pool")]
            pub(crate) fn is_followed(&self) -> bool {
                self.shared.is_some()
            }

            fn followed(&self) -> Option<&::loom::sync::atomic::$name> {
                if !is_loom() {
                    return None;
                }
                let followed = self.shared.as_ref().and_then(|shared| shared.followed.get());
                if followed.is_none() {
                    touch(self.number);
                }
                followed
            }

            /// As in std.
            pub fn load(&self, order: Ordering) -> $value {
                match self.followed() {
                    Some(followed) => {
                        before_load(order);
                        followed.load(order)
                    }
                    None => self.latest().load(Relaxed),
                }
            }

            /// As in std.
            pub fn store(&self, value: $value, order: Ordering) {
                // One that nobody loads need not be followed.
                if self.is_followed()
                    && let Some(followed) = self.followed()
                {
                    followed.store(value, order);
                    after_store(order);
                }
                self.latest().store(value, Relaxed);
            }

            /// As in std.
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                match self.followed() {
                    Some(followed) => {
                        before_load(order);
                        let found = followed.swap(value, order);
                        self.latest().store(value, Relaxed);
                        after_store(order);
                        found
                    }
                    None => self.latest().swap(value, Relaxed),
                }
            }

            /// As in std.
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                match self.followed() {
                    Some(followed) => {
                        before_load(success);
                        let exchanged = followed.compare_exchange(current, new, success, failure);
                        if exchanged.is_ok() {
                            self.latest().store(new, Relaxed);
                        }
                        after_store(success);
                        exchanged
                    }
                    None => self.latest().compare_exchange(current, new, Relaxed, Relaxed),
                }
            }

            /// As in std.
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut found = self.load(failure);
                while let Some(new) = change(found) {
                    match self.compare_exchange(found, new, success, failure) {
                        Ok(before) => return Ok(before),
                        Err(other) => found = other,
                    }
                }
                Err(found)
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $name::new(Default::default())
            }
        }
    };
}

/// What a failed exchange does of this.
fn loading(order: Ordering) -> Ordering {
    match order {
        Ordering::Relaxed | Ordering::Release => Relaxed,
        _ => Ordering::Acquire,
    }
}

macro_rules! integer {
    ($name:ident, $followed:ident, $value:ty) => {
        atomic!($name, $followed, $value);

        impl $name {
            /// As in std.
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.change(order, |found| found.wrapping_add(value))
            }

            /// As in std.
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.change(order, |found| found.wrapping_sub(value))
            }

            /// As in std.
            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.change(order, |found| found | value)
            }

            /// As in std.
            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                self.change(order, |found| found & value)
            }

            /// As in std.
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                self.change(order, |found| found.max(value))
            }

            /// A read-modify-write; one that changes nothing is a load of the newest value. As a store loom would
            /// not order it against another thread's that it does not know of, though it came
            /// before: who tries for a lock that is held would hide from itself that it is given back.
            fn change(&self, order: Ordering, change: impl Fn($value) -> $value) -> $value {
                let Some(followed) = self.followed() else {
                    let found = self.latest().load(Relaxed);
                    self.latest().store(change(found), Relaxed);
                    return found;
                };
                before_load(order);
                let found = loop {
                    let found = self.latest().load(Relaxed);
                    let new = change(found);
                    // An exchange that fails tells the newest value.
                    let expected = if new == found { !found } else { found };
                    match followed.compare_exchange(expected, new, order, loading(order)) {
                        Ok(_) => {
                            assert_eq!(expected, found, "nothing has all bits changed at once");
                            self.latest().store(new, Relaxed);
                            break found;
                        }
                        Err(newest) if change(newest) == newest => break newest,
                        Err(_) => {}
                    }
                };
                after_store(order);
                found
            }
        }
    };
}

atomic!(AtomicBool, FollowedBool, bool);
integer!(AtomicU8, FollowedU8, u8);
integer!(AtomicU32, FollowedU32, u32);
integer!(AtomicU64, FollowedU64, u64);
integer!(AtomicUsize, FollowedUsize, usize);

/// As in std: an address.
pub struct AtomicPtr<T> {
    address: AtomicUsize,
    _target: PhantomData<std::sync::atomic::AtomicPtr<T>>,
}

impl<T> AtomicPtr<T> {
    /// An atomic holding `value`.
    pub fn new(value: *mut T) -> Self {
        AtomicPtr { address: AtomicUsize::new(value.expose_provenance()), _target: PhantomData }
    }

    /// As in std.
    pub fn load(&self, order: Ordering) -> *mut T {
        ptr::with_exposed_provenance_mut(self.address.load(order))
    }

    /// As in std.
    pub fn compare_exchange(
        &self,
        current: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        let (current, new) = (current.expose_provenance(), new.expose_provenance());
        let exchanged = self.address.compare_exchange(current, new, success, failure);
        exchanged.map(ptr::with_exposed_provenance_mut).map_err(ptr::with_exposed_provenance_mut)
    }
}

/// Memory that is not atomic: a place that loom watches for accesses that race; it holds nothing.
#[derive(Debug)]
pub struct Plain {
    number: u64,
    shared: Option<Arc<FollowedPlain>>,
}

/// The mutex makes it shareable; loom does not know of it, so it orders nothing in a model.
#[derive(Debug, Default)]
struct FollowedPlain(OnceLock<Mutex<::loom::cell::UnsafeCell<()>>>);

impl Followable for FollowedPlain {
    fn follow(&self) {
        self.0.get_or_init(Mutex::default);
    }
}

impl Default for Plain {
    fn default() -> Self {
        let (number, is_touched) = number_followable();
        let shared = (is_touched || is_loom()).then(|| {
            let shared = Arc::new(FollowedPlain::default());
            enter(Arc::<FollowedPlain>::clone(&shared));
            shared
        });
        Plain { number, shared }
    }
}

impl Plain {
    fn access(&self, access: impl FnOnce(&::loom::cell::UnsafeCell<()>)) {
        if is_loom() {
            match self.shared.as_ref().and_then(|shared| shared.0.get()) {
                Some(cell) => access(&cell.lock().unwrap_or_else(PoisonError::into_inner)),
                None => touch(self.number),
            }
        }
    }

    /// Reads it.
    pub fn read(&self) {
        self.access(|cell| cell.with(|_| ()));
    }

    /// Writes it.
    pub fn write(&self) {
        self.access(|cell| cell.with_mut(|_| ()));
    }
}
