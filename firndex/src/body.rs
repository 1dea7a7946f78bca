//! An engine, whatever it holds.

use index::{CheckReport, Error, Fixed, Index, Occupancy, Records, Shrunk, WhenBuilt};
use pmem::heap::HeapUse;
use pmem::pool::Gate;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What an engine is asked whether it holds a table or a store.
pub(crate) trait Body: Send + Sync {
    /// As [`Records::len`].
    fn pairs(&self) -> u64;
    /// What a closed pool records of them, so that its next opening finds out if some are missing. `None`: nothing.
    fn pairs_to_record(&self) -> Option<u64> {
        Some(self.pairs())
    }

    /// As [`Records::occupancy`].
    fn occupancy(&self) -> Occupancy;
    /// As [`Records::heap_use`].
    fn heap_use(&self) -> HeapUse;
    /// As [`Records::compact`]; how many bytes became free.
    fn compact(&self) -> u64;
    /// As [`Records::give_back`].
    fn give_back(&self) -> u64;
    /// As [`Records::check`].
    fn check(&self) -> CheckReport;
    /// As [`Records::settle`].
    fn settle(&self);
    /// As [`Records::shrink`].
    fn shrink(&self) -> Result<Shrunk, Error>;
    /// As [`Records::scan_time`].
    fn scan_time(&self) -> Duration;
    /// As [`Records::is_built`].
    fn is_built(&self) -> bool;
    /// As [`Records::when_built`].
    fn when_built(&self, then: WhenBuilt);
    /// The store, if it is one.
    fn records(&self) -> Option<&dyn Records>;

    /// Whether there is work for a thread in the background, as long as the pool is open for writing.
    fn has_background(&self) -> bool {
        false
    }

    /// Does that work until it is told to stop. `gate` gives the right to write.
    fn run_background(&self, _gate: &Gate, _is_stopped: &AtomicBool) {}
}

macro_rules! body {
    ($engine:ty, $records:expr $(, $key:ident: $key_kind:ident, $value:ident: $value_kind:ident)?) => {
        impl$(<$key: $key_kind, $value: $value_kind>)? Body for Arc<$engine> {
            fn pairs(&self) -> u64 {
                (**self).len()
            }

            fn occupancy(&self) -> Occupancy {
                (**self).occupancy()
            }

            fn heap_use(&self) -> HeapUse {
                (**self).heap_use()
            }

            fn compact(&self) -> u64 {
                (**self).compact().freed_bytes
            }

            fn give_back(&self) -> u64 {
                (**self).give_back()
            }

            fn check(&self) -> CheckReport {
                (**self).check()
            }

            fn settle(&self) {
                (**self).settle();
            }

            fn shrink(&self) -> Result<Shrunk, Error> {
                (**self).shrink()
            }

            fn scan_time(&self) -> Duration {
                (**self).scan_time()
            }

            fn is_built(&self) -> bool {
                (**self).is_built()
            }

            fn when_built(&self, then: WhenBuilt) {
                (**self).when_built(then);
            }

            fn records(&self) -> Option<&dyn Records> {
                $records(&**self)
            }
        }
    };
}

body!(dyn Records, Some);
body!(dyn Index<K, V>, |_| None, K: Fixed, V: Fixed);
