//! Which values a thread is computing. To ask for one of them again would have it wait for itself.

use firndex::Cache;
use std::cell::RefCell;
use std::sync::Arc;

/// A key, and the address of its cache.
type Computed = (usize, Vec<u8>);

thread_local! {
    static COMPUTING: RefCell<Vec<Computed>> = const { RefCell::new(Vec::new()) };
}

/// The calling thread computes a value of a cache until this is dropped.
pub(crate) struct Computing(Computed);

impl Computing {
    pub(crate) fn begin(cache: &Arc<Cache>, key: &[u8]) -> Self {
        let one = (Arc::as_ptr(cache).addr(), key.to_vec());
        COMPUTING.with_borrow_mut(|all| all.push(one.clone()));
        Computing(one)
    }

    /// Whether the calling thread computes the value of this key.
    pub(crate) fn is_here(cache: &Arc<Cache>, key: &[u8]) -> bool {
        let at = Arc::as_ptr(cache).addr();
        COMPUTING.with_borrow(|all| all.iter().any(|one| one.0 == at && one.1 == key))
    }
}

/// What was begun last need not end first where several stacks share a thread, as those of greenlets do.
impl Drop for Computing {
    fn drop(&mut self) {
        COMPUTING.with_borrow_mut(|all| all.retain(|one| *one != self.0));
    }
}
