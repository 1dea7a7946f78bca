//! What the suite must know of each engine, a file each, along with the tests of that engine alone.

pub(crate) mod clevel;
pub(crate) mod iceberg;
pub(crate) mod level;
pub(crate) mod pfht;
pub(crate) mod rewo;

use crate::harness::Engine;

macro_rules! all {
    ($($_variant:ident $engine:ident,)+) => {
        /// What the suite must know of each engine.
        pub(crate) static ALL: &[&Engine] = &[$(&$engine::ENGINE),+];
    };
}
engines::for_each_engine!(all);
