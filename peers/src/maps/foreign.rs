//! The maps in C and C++, each behind its shim in `shims/`. The calls are not inlined, which costs
//! them one or two nanoseconds an operation.

use crate::hash::twin_numbers;
use crate::pages::GiveBack;
use crate::peer::Peer;
use anyhow::{Context, Result};
#[cfg(has_boost)]
use bench::Batched;
use bench::Map;
use std::ffi::c_void;
use std::ptr::NonNull;

/// An adapter for the shim whose functions begin with `$name`. The braces have what is special: of
/// [`Peer`] first, then of [`Map`].
macro_rules! foreign {
    ($(#[$doc:meta])* $type:ident, $name:ident, $version:expr, { $($peer:tt)* }, { $($map:tt)* }) => {
        mod $name {
            use std::ffi::c_void;

            unsafe extern "C" {
                #[link_name = concat!(stringify!($name), "_new")]
                pub(super) fn new(pairs: u64, seed: u64, secret: u64) -> *mut c_void;
                #[link_name = concat!(stringify!($name), "_free")]
                pub(super) fn free(map: *mut c_void);
                #[link_name = concat!(stringify!($name), "_get")]
                pub(super) fn get(map: *const c_void, key: u64, value: *mut u64) -> bool;
                #[link_name = concat!(stringify!($name), "_insert")]
                pub(super) fn insert(map: *mut c_void, key: u64, value: u64) -> bool;
                #[link_name = concat!(stringify!($name), "_update")]
                pub(super) fn update(map: *mut c_void, key: u64, value: u64) -> bool;
                #[link_name = concat!(stringify!($name), "_upsert")]
                pub(super) fn upsert(map: *mut c_void, key: u64, value: u64) -> bool;
                #[link_name = concat!(stringify!($name), "_remove")]
                pub(super) fn remove(map: *mut c_void, key: u64) -> bool;
            }
        }

        $(#[$doc])*
        pub struct $type(NonNull<c_void>, GiveBack);

        // SAFETY: the shim's object is a map and nothing bound to a thread; another thread than made
        // it may free it.
        unsafe impl Send for $type {}
        // SAFETY: every function called through a shared reference is one that this map offers
        // for concurrent use; what is not (freeing) takes the value itself.
        unsafe impl Sync for $type {}

        impl Peer for $type {
            const VERSION: &'static str = $version;

            $($peer)*

            fn open(capacity: u64) -> Result<Self> {
                let (seed, secret) = twin_numbers();
                // SAFETY: takes numbers only. It cannot unwind: the shim is C, or noexcept.
                let map = unsafe { $name::new(capacity, seed, secret) };
                let map = NonNull::new(map).context("the shim made no map")?;
                Ok($type(map, GiveBack::default()))
            }
        }

        impl Drop for $type {
            fn drop(&mut self) {
                // SAFETY: the pointer came from `new` of the same shim, nobody else has it, and
                // it is not used again.
                unsafe { $name::free(self.0.as_ptr()) }
            }
        }

        impl Map for $type {
            #[inline]
            fn get(&self, key: u64) -> Option<u64> {
                let mut value = 0;
                // SAFETY: the map lives until `drop`; `value` is a word that it may write to
                // during the call and does not keep.
                unsafe { $name::get(self.0.as_ptr(), key, &mut value) }.then_some(value)
            }

            #[inline]
            fn insert(&self, key: u64, value: u64) -> bool {
                // SAFETY: the map lives until `drop`, and inserting is safe beside other calls.
                unsafe { $name::insert(self.0.as_ptr(), key, value) }
            }

            #[inline]
            fn update(&self, key: u64, value: u64) -> bool {
                // SAFETY: the map lives until `drop`, and updating is safe beside other calls.
                unsafe { $name::update(self.0.as_ptr(), key, value) }
            }

            #[inline]
            fn upsert(&self, key: u64, value: u64) -> bool {
                // SAFETY: the map lives until `drop`, and upserting is safe beside other calls.
                unsafe { $name::upsert(self.0.as_ptr(), key, value) }
            }

            #[inline]
            fn remove(&self, key: u64) -> bool {
                // SAFETY: the map lives until `drop`, and no reference into it is ever handed out
                // that the removal could leave dangling.
                unsafe { $name::remove(self.0.as_ptr(), key) }
            }

            $($map)*
        }
    };
}

#[cfg(has_libcuckoo)]
foreign!(
    /// libcuckoo: cuckoo hashing, two buckets of four pairs per key, striped locks.
    LibCuckoo, libcuckoo, env!("VERSION_LIBCUCKOO"),
    { const NAME: &'static str = "libcuckoo"; }, {}
);

#[cfg(has_tbb)]
foreign!(
    /// TBB's concurrent_hash_map: chains of nodes, a lock in every bucket and every node.
    Tbb, tbb, env!("VERSION_TBB"), { const NAME: &'static str = "tbb"; }, {}
);

#[cfg(has_iceberght)]
foreign!(
    /// IcebergHT in C, by the authors of the paper: blocks of 64 pairs with fingerprints, blocks of 8
    /// for what finds them full, lists for the rest; a lock per block of 64, and none to look up.
    IcebergHt, iceberght, env!("VERSION_ICEBERGHT"), {
        const NAME: &'static str = "iceberght-c";
        const GROWS: bool = false;
    }, {}
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
    Boost, boost, env!("VERSION_BOOST"), { const NAME: &'static str = "boost"; }, {
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
