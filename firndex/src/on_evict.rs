//! Telling of what has gone from a cache.

use engines::cache::{Cause, WhenGone};
use std::sync::Arc;

/// Why an entry is gone: see [`Options::on_evict`](crate::Options::on_evict).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gone {
    /// It made room for others.
    Evicted,
    /// Its time was over.
    Expired,
}

/// Called with key, value and cause.
type Tell = dyn Fn(&[u8], &[u8], Gone) + Send + Sync;

/// Who is told of entries that are gone.
#[derive(Clone)]
pub(crate) struct OnEvict(Arc<Tell>);

impl std::fmt::Debug for OnEvict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnEvict")
    }
}

impl OnEvict {
    pub(crate) fn new(tell: impl Fn(&[u8], &[u8], Gone) + Send + Sync + 'static) -> OnEvict {
        OnEvict(Arc::new(tell))
    }

    pub(crate) fn when_gone(&self) -> WhenGone {
        let tell = Arc::clone(&self.0);
        Arc::new(move |key, value, cause| {
            let gone = match cause {
                Cause::Evicted => Gone::Evicted,
                Cause::Expired => Gone::Expired,
            };
            tell(key, value, gone);
        })
    }
}
