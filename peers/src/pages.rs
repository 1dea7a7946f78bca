//! 2 MiB pages for every contender, and memory that goes when its map does.
//!
//! firndex asks the kernel for large pages by itself. For all other contenders the allocator does,
//! Rust and C++ alike, and for small allocations as for large ones: a map that keeps each pair in a
//! node of its own would otherwise be the only one on 4 KiB pages.

use std::ptr;

/// What jemalloc looks for under this name when it starts: C text, hence the pointer alone.
///
/// It advises large pages for all that it maps. Freed small allocations stay with it for an hour:
/// giving some back would break large pages up while the clock runs; [`GiveBack`] does it when the
/// clock stands. Above 8 MiB it gives back at once what was freed, as long as this time is neither
/// 0 nor endless; so what a growing map has left behind does not count as its own.
// SAFETY: jemalloc declares the symbol weak and of this type, a pointer to text that ends with 0,
// and reads only.
#[unsafe(export_name = "malloc_conf")]
pub static ALLOCATOR_OPTIONS: &[u8; 54] =
    b"thp:always,metadata_thp:always,dirty_decay_ms:3600000\0";

/// The command that gives back what all arenas hold free; 4096 stands for all of them.
const PURGE: &std::ffi::CStr = c"arena.4096.purge";

/// Returns all memory that the allocator holds free to the kernel when it is dropped: the last
/// field of every map, so that the next contender does not find its predecessor's memory.
#[derive(Default)]
pub struct GiveBack(());

impl Drop for GiveBack {
    fn drop(&mut self) {
        // A failure leaves the memory where it is, which costs room and no figure.
        // SAFETY: the name is C text, and this command neither reads nor writes through the null
        // pointers, as their lengths of 0 say.
        let _ = unsafe {
            tikv_jemalloc_sys::mallctl(
                PURGE.as_ptr(),
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
                0,
            )
        };
    }
}
