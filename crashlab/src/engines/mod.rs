//! What the lab knows of each engine: a file for each, with the setups that put a table at its boundaries and
//! the directed histories around them.

pub mod clevel;
pub mod iceberg;
pub mod level;
pub mod pfht;
pub mod rewo;

use crate::arena::{Arena, Effort};
use crate::subject::Setup;
use crate::trial::Directed;
use engines::{Engine, for_each_engine};

macro_rules! of_engines {
    ($($engine:ident $module:ident,)+) => {
        /// The setups in which exhaustive and random histories of an engine are run.
        pub(crate) fn arenas(engine: Engine) -> Vec<Arena> {
            match engine {
                $(Engine::$engine => $module::arenas(),)+
                _ => Vec::new(),
            }
        }

        /// The boundaries of an engine's tables of words.
        pub fn tables(engine: Engine) -> Vec<Setup> {
            match engine {
                $(Engine::$engine => $module::tables(),)+
                _ => Vec::new(),
            }
        }

        /// The boundaries of an engine's tables of longer pairs.
        pub fn long_tables(engine: Engine) -> Vec<Setup> {
            match engine {
                $(Engine::$engine => $module::long_tables(),)+
                _ => Vec::new(),
            }
        }

        /// The boundaries of stores on an engine.
        pub fn stores(engine: Engine) -> Vec<Setup> {
            match engine {
                $(Engine::$engine => $module::stores(),)+
                _ => Vec::new(),
            }
        }

        /// How much a short run does.
        pub(crate) fn effort(engine: Engine) -> Effort {
            match engine {
                $(Engine::$engine => $module::EFFORT,)+
                _ => Effort::OF_ENGINE,
            }
        }

        /// The directed histories of an engine.
        pub(crate) fn histories(engine: Engine) -> Vec<Directed> {
            match engine {
                $(Engine::$engine => $module::histories(),)+
                _ => Vec::new(),
            }
        }
    };
}
for_each_engine!(of_engines);

macro_rules! of_the_preferred {
    ($engine:ident $module:ident, $($others:tt)*) => {
        // The one that shows guests what it has.
        pub(crate) use $module::{guests, successions};
    };
}
for_each_engine!(of_the_preferred);
