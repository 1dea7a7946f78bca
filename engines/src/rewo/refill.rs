//! The refill of the cached table (section 3.7).

use super::Core;
use super::layout::Locked;
use crate::scan::Scanned;
use index::Fixed;
use pmem::Medium;

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Caches what there is room for. If that was everything, and nothing was left out or dropped meanwhile, the
    /// cached table is full-loaded: then it also knows what is absent. Whether it is.
    pub(super) fn refill(&self) -> bool {
        let Some(cache) = &self.cache else { return false };
        let begun = cache.begin_refill(&self.homes);
        let mut has_all = true;
        self.for_each_part(0, 1, &mut |key: K, _: V| {
            let hash = self.hash(key);
            // What the scan has met may have changed since; under its home's lock it cannot.
            let _home = Locked::wait(self.homes.get(hash.home()));
            if let Some(value) = self.get_persistent(key, hash) {
                has_all &= cache.insert(key, hash, value, |key| self.hash(key), None);
            }
        });
        cache.end_refill(begun, has_all)
    }
}
