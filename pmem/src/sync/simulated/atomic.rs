//! Atomics whose every access is a scheduling point.
//!
//! All simulated threads run on one thread of the operating system, so the accesses below are
//! relaxed: their order is the program's.

use super::fault::{Fault, SiteKind, fault_at};
use super::{Touch, access, context, delay, modify, seen, show};
use std::panic::Location;
use std::sync::atomic::Ordering::{self, Relaxed};

macro_rules! atomic {
    ($name:ident, $value:ty, $to_word:expr, $from_word:expr) => {
        /// As the atomic of this name in std.
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(std::sync::atomic::$name);

        impl $name {
            /// An atomic holding `value`.
            pub const fn new(value: $value) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }

            fn address(&self) -> usize {
                std::ptr::from_ref(self).addr()
            }

            /// As in std.
            pub fn load(&self, _order: Ordering) -> $value {
                access(self.address(), Touch::Reads);
                $from_word(seen(self.address(), $to_word(self.0.load(Relaxed))))
            }

            /// As in std.
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                access(self.address(), Touch::Writes);
                if fault_at(SiteKind::Volatile, Location::caller()) == Some(Fault::Skipped) {
                    return;
                }
                delay(self.address(), $to_word(self.0.load(Relaxed)));
                self.0.store(value, Relaxed);
                if order == Ordering::SeqCst {
                    show(context().thread);
                }
            }

            /// As in std.
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                access(self.address(), Touch::Modifies);
                modify(self.address(), order);
                self.0.swap(value, Relaxed)
            }
        }
    };
}

macro_rules! integer {
    ($name:ident, $value:ty) => {
        atomic!($name, $value, |value: $value| u64::from(value), |word: u64| word as $value);

        impl $name {
            /// As in std.
            #[track_caller]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                access(self.address(), Touch::Modifies);
                if fault_at(SiteKind::Volatile, Location::caller()) == Some(Fault::Skipped) {
                    return self.0.load(Relaxed);
                }
                modify(self.address(), order);
                self.0.fetch_add(value, Relaxed)
            }

            /// As in std.
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                access(self.address(), Touch::Modifies);
                modify(self.address(), order);
                self.0.fetch_sub(value, Relaxed)
            }

            /// As in std.
            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                access(self.address(), Touch::Modifies);
                modify(self.address(), order);
                self.0.fetch_or(value, Relaxed)
            }

            /// As in std.
            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                access(self.address(), Touch::Modifies);
                modify(self.address(), order);
                self.0.fetch_and(value, Relaxed)
            }

            /// As in std.
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                access(self.address(), Touch::Modifies);
                modify(self.address(), order);
                self.0.fetch_max(value, Relaxed)
            }

            /// As in std.
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                _failure: Ordering,
            ) -> Result<$value, $value> {
                access(self.address(), Touch::Modifies);
                let fault = fault_at(SiteKind::Volatile, Location::caller());
                modify(self.address(), success);
                match fault {
                    Some(Fault::Skipped) => Ok(current),
                    Some(Fault::Forced) => Ok(self.0.swap(new, Relaxed)),
                    _ => self.0.compare_exchange(current, new, Relaxed, Relaxed),
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
    };
}

atomic!(AtomicBool, bool, |value: bool| u64::from(value), |word: u64| word != 0);
integer!(AtomicU8, u8);
integer!(AtomicU32, u32);
integer!(AtomicU64, u64);

/// As in std. Stores become visible in order anyway; a sequentially consistent fence forces them
/// out.
pub fn fence(order: Ordering) {
    if order == Ordering::SeqCst {
        show(context().thread);
    }
}
