//! The C++ maps, each behind its shim in `shims/`. The calls are not inlined, which costs them
//! one or two nanoseconds an operation.

#[cfg(has_boost)]
use super::Batched;
use super::Map;
use crate::hash::twin_numbers;
use std::ffi::c_void;
use std::ptr::NonNull;

/// An adapter for the shim whose functions begin with `$prefix`.
macro_rules! foreign {
    ($(#[$doc:meta])* $type:ident, $name:literal, $functions:ident, $prefix:literal, { $($more:tt)* }) => {
        mod $functions {
            use std::ffi::c_void;

            unsafe extern "C" {
                #[link_name = concat!($prefix, "_new")]
                pub(super) fn new(pairs: u64, seed: u64, secret: u64) -> *mut c_void;
                #[link_name = concat!($prefix, "_free")]
                pub(super) fn free(map: *mut c_void);
                #[link_name = concat!($prefix, "_get")]
                pub(super) fn get(map: *const c_void, key: u64, value: *mut u64) -> bool;
                #[link_name = concat!($prefix, "_insert")]
                pub(super) fn insert(map: *mut c_void, key: u64, value: u64) -> bool;
                #[link_name = concat!($prefix, "_update")]
                pub(super) fn update(map: *mut c_void, key: u64, value: u64) -> bool;
                #[link_name = concat!($prefix, "_upsert")]
                pub(super) fn upsert(map: *mut c_void, key: u64, value: u64) -> bool;
                #[link_name = concat!($prefix, "_remove")]
                pub(super) fn remove(map: *mut c_void, key: u64) -> bool;
            }
        }

        $(#[$doc])*
        pub struct $type(NonNull<c_void>);

        // SAFETY: the shim's object is a map and nothing bound to a thread; C++ may delete it in
        // another thread than made it.
        unsafe impl Send for $type {}
        // SAFETY: every function called through a shared reference is one that this map offers
        // for concurrent use; what is not (freeing) takes the value itself.
        unsafe impl Sync for $type {}

        impl $type {
            /// With room for `pairs`.
            pub fn open(pairs: u64, _threads: usize) -> Self {
                let (seed, secret) = twin_numbers();
                // SAFETY: takes numbers only. It cannot unwind: the shim is noexcept.
                let map = unsafe { $functions::new(pairs, seed, secret) };
                $type(NonNull::new(map).expect("operator new returns an object or ends the process"))
            }
        }

        impl Drop for $type {
            fn drop(&mut self) {
                // SAFETY: the pointer came from `new` of the same shim, nobody else has it, and
                // it is not used again.
                unsafe { $functions::free(self.0.as_ptr()) }
            }
        }

        impl Map for $type {
            fn name(&self) -> &'static str {
                $name
            }

            #[inline]
            fn get(&self, key: u64) -> Option<u64> {
                let mut value = 0;
                // SAFETY: the map lives until `drop`; `value` is a word that C++ may write to
                // during the call and does not keep.
                unsafe { $functions::get(self.0.as_ptr(), key, &mut value) }.then_some(value)
            }

            #[inline]
            fn insert(&self, key: u64, value: u64) -> bool {
                // SAFETY: the map lives until `drop`, and inserting is safe beside other calls.
                unsafe { $functions::insert(self.0.as_ptr(), key, value) }
            }

            #[inline]
            fn update(&self, key: u64, value: u64) -> bool {
                // SAFETY: the map lives until `drop`, and the value is written under its lock.
                unsafe { $functions::update(self.0.as_ptr(), key, value) }
            }

            #[inline]
            fn upsert(&self, key: u64, value: u64) -> bool {
                // SAFETY: the map lives until `drop`, and the value is written under its lock.
                unsafe { $functions::upsert(self.0.as_ptr(), key, value) }
            }

            #[inline]
            fn remove(&self, key: u64) -> bool {
                // SAFETY: the map lives until `drop`, and no reference into it is ever handed out
                // that the removal could leave dangling.
                unsafe { $functions::remove(self.0.as_ptr(), key) }
            }

            $($more)*
        }
    };
}

#[cfg(has_libcuckoo)]
foreign!(
    /// libcuckoo: cuckoo hashing, two buckets of four pairs per key, striped locks.
    LibCuckoo, "libcuckoo", libcuckoo, "libcuckoo", {}
);

#[cfg(has_tbb)]
foreign!(
    /// TBB's concurrent_hash_map: chains of nodes, a lock in every bucket and every node.
    Tbb, "tbb", tbb, "tbb", {}
);

#[cfg(has_boost)]
unsafe extern "C" {
    fn boost_get_many(
        map: *const c_void,
        keys: *const u64,
        count: usize,
        values: *mut u64,
        found: *mut bool,
    );
}

/// Keys that go to boost in one call; longer batches take several.
#[cfg(has_boost)]
const CHUNK: usize = 64;

#[cfg(has_boost)]
foreign!(
    /// boost::concurrent_flat_map: open addressing in groups of 15, a lock per group; look-ups of
    /// many keys overlap their cache misses.
    Boost, "boost", boost, "boost", {
        fn batched(&self) -> Batched {
            Batched::Gets
        }

        #[inline]
        fn get_many(&self, keys: &[u64], out: &mut [Option<u64>]) {
            for (keys, out) in keys.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
                let mut values = [0; CHUNK];
                let mut found = [false; CHUNK];
                // SAFETY: `keys.len()` is at most CHUNK, the length of both arrays; C++ reads the
                // keys and writes to the arrays during the call only, and writes 0 or 1 to `found`.
                unsafe {
                    boost_get_many(
                        self.0.as_ptr(),
                        keys.as_ptr(),
                        keys.len(),
                        values.as_mut_ptr(),
                        found.as_mut_ptr(),
                    );
                }
                for (out, (value, found)) in out.iter_mut().zip(values.iter().zip(found)) {
                    *out = found.then_some(*value);
                }
            }
        }
    }
);
