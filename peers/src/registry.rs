//! What there is to compare.

use crate::maps::*;

/// How to make one map.
pub struct Contender {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its version, as the lock file or its headers tell.
    pub version: &'static str,
    /// How many threads it bears.
    pub threads_max: usize,
    /// Makes one with room for so many pairs, for so many threads; used through a virtual call.
    pub open: fn(pairs: u64, threads: usize) -> Box<dyn Map>,
}

/// What is to be done with a map whose type is known to the compiler. A virtual call for every
/// operation would weigh most on the fastest map.
pub trait WithMap {
    /// What comes of it.
    type Output;

    /// Does it with maps of one type, made by `open`.
    fn with<M: Map>(self, open: impl Fn(u64, usize) -> M) -> Self::Output;
}

macro_rules! contenders {
    ($($(#[$only_if:meta])? $name:literal, $type:ident, $version:expr, $threads_max:expr;)+) => {
        /// All of them, firndex first.
        pub const CONTENDERS: &[Contender] = &[
            $($(#[$only_if])? Contender {
                name: $name,
                version: $version,
                threads_max: $threads_max,
                open: |pairs, threads| Box::new($type::open(pairs, threads)),
            }),+
        ];

        /// Calls `user` with the type of the map of this name; `None` if there is none.
        pub fn statically<U: WithMap>(name: &str, user: U) -> Option<U::Output> {
            match name {
                $($(#[$only_if])? $name => Some(user.with($type::open)),)+
                _ => None,
            }
        }
    };
}

contenders! {
    "firndex", Firn, env!("CARGO_PKG_VERSION"), usize::MAX;
    "dashmap", Dash, env!("VERSION_DASHMAP"), usize::MAX;
    "papaya", Papaya, env!("VERSION_PAPAYA"), usize::MAX;
    "scc", Scc, env!("VERSION_SCC"), usize::MAX;
    #[cfg(has_libcuckoo)] "libcuckoo", LibCuckoo, env!("VERSION_LIBCUCKOO"), usize::MAX;
    #[cfg(has_tbb)] "tbb", Tbb, env!("VERSION_TBB"), usize::MAX;
    #[cfg(has_boost)] "boost", Boost, env!("VERSION_BOOST"), usize::MAX;
    "std", Unlocked, env!("RUSTC_VERSION"), 1;
}
