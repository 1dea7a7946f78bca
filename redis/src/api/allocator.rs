//! Memory from the server, so that it counts what the module takes.

use redis_module::raw;
use std::alloc::{GlobalAlloc, Layout, System};

/// What the server's allocator aligns to.
const ALIGN_MAX: usize = 16;

/// The server's allocator. It cannot align to more than 16 bytes, as buffers for the disk need: those come from the
/// system. The one of the crate `redis-module` counts on sizes to align large blocks, which they do not.
pub(crate) struct Allocator;

/// Whether a block is the server's. What frees it has the same layout.
fn is_servers(layout: Layout) -> bool {
    layout.align() <= ALIGN_MAX
}

// SAFETY: each block goes back to the allocator that it came from. The server's functions are there before the first
// call: loading the module begins with them. Otherwise there is no memory, which callers know how to take.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above; the same in all functions below.
        unsafe {
            match raw::RedisModule_Alloc {
                Some(alloc) if is_servers(layout) => alloc(layout.size()).cast(),
                Some(_) => System.alloc(layout),
                None => std::ptr::null_mut(),
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: see above.
        unsafe {
            match raw::RedisModule_Calloc {
                Some(calloc) if is_servers(layout) => calloc(1, layout.size()).cast(),
                Some(_) => System.alloc_zeroed(layout),
                None => std::ptr::null_mut(),
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: see above.
        unsafe {
            match raw::RedisModule_Realloc {
                Some(realloc) if is_servers(layout) => realloc(block.cast(), bytes).cast(),
                Some(_) => System.realloc(block, layout, bytes),
                None => std::ptr::null_mut(),
            }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: see above.
        unsafe {
            match raw::RedisModule_Free {
                Some(free) if is_servers(layout) => free(block.cast()),
                _ => System.dealloc(block, layout),
            }
        }
    }
}
