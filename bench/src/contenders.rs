//! All contenders that are built without other authors' code.

use crate::contender::Contender;
use crate::paper::level;
use crate::{classic, lru, own_cache, table, threaded};

/// firndex's engines, and the tables of papers that lie in [`baselines`].
pub fn all() -> Vec<Box<dyn Contender>> {
    let mut all = table::engines();
    all.extend(classic::tables());
    all.extend(threaded::tables());
    all.push(level::as_in_paper());
    all.extend(caches());
    all
}

/// The contenders of suite `cache` among them.
pub fn caches() -> Vec<Box<dyn Contender>> {
    vec![own_cache::contender(), own_cache::store(), lru::contender()]
}
