//! What there is to compare.

use crate::maps::*;
use crate::peer::Peer;
use bench::{Contender, Medium, Opener, Setting};

/// Something to be done with a peer of whatever type.
pub trait ForEach {
    /// Does it.
    fn with<P: Peer>(&mut self);
}

/// Does something with every peer that this was built with.
pub fn for_each(work: &mut impl ForEach) {
    work.with::<Dash>();
    work.with::<Papaya>();
    work.with::<Scc>();
    #[cfg(has_libcuckoo)]
    work.with::<LibCuckoo>();
    #[cfg(has_tbb)]
    work.with::<Tbb>();
    #[cfg(has_boost)]
    work.with::<Boost>();
    #[cfg(has_iceberght)]
    work.with::<IcebergHt>();
    work.with::<Unlocked>();
}

struct Contenders(Vec<Box<dyn Contender>>);

impl ForEach for Contenders {
    fn with<P: Peer>(&mut self) {
        self.0.push(Box::new(Opener {
            name: P::NAME.to_owned(),
            version: P::VERSION.to_owned(),
            threads_max: P::THREADS_MAX,
            engine: None,
            grows: P::GROWS,
            is_by_name: !P::GROWS,
            // They keep nothing, so there is nothing that they would flush.
            lies_on: |medium, flushes| medium == Medium::Dram && !flushes,
            open: |setting: &Setting| P::open(setting.capacity),
        }));
    }
}

/// All peers, for [`bench::run`].
pub fn contenders() -> Vec<Box<dyn Contender>> {
    let mut contenders = Contenders(Vec::new());
    for_each(&mut contenders);
    contenders.0
}
