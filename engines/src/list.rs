//! The list of engines, and the enum that is made of them.

use crate::Settings;
use crate::engine::{Describe, Description, HotPath, PairSizes, Parameters, Wanted};
use crate::wreck::{Found, Wreck};
use index::hash::Hasher;
use index::{Fixed, Index, Record, Records};
use pmem::superblock::ENGINE_PARAMS;
use pmem::{Medium, OpenError, Pool};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

macro_rules! list {
    ($($engine:ident $module:ident,)+) => {
        /// The hash table that a pool is built on: [`Engine::description`] says what each is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Engine {
            $(
                #[doc = concat!("What `engines::", stringify!($module), "` describes.")]
                $engine,
            )+
        }

        impl Engine {
            /// All of them, the one to be preferred first.
            pub const ALL: &'static [Engine] = &[$(Engine::$engine),+];

            /// What the engine says of itself.
            pub const fn description(self) -> &'static Description {
                match self {
                    $(Engine::$engine => &<crate::$module::Engine as Describe>::DESCRIPTION),+
                }
            }

            /// As [`Describe::takes`].
            pub fn takes(self, sizes: PairSizes, parameters: &Parameters) -> bool {
                match self {
                    $(Engine::$engine => crate::$module::Engine::takes(sizes, parameters)),+
                }
            }

            /// As [`Describe::may_hold`].
            pub fn may_hold(self, sizes: PairSizes) -> bool {
                match self {
                    $(Engine::$engine => crate::$module::Engine::may_hold(sizes)),+
                }
            }

            /// As [`Describe::engine_params`].
            pub fn engine_params(self, wanted: &Wanted<'_>) -> [u64; ENGINE_PARAMS] {
                match self {
                    $(Engine::$engine => crate::$module::Engine::engine_params(wanted)),+
                }
            }

            /// As [`Describe::parameters_of`].
            pub fn parameters_of(self, engine_params: &[u64; ENGINE_PARAMS]) -> Parameters {
                match self {
                    $(Engine::$engine => crate::$module::Engine::parameters_of(engine_params)),+
                }
            }

            /// As [`Describe::salvage`].
            #[inline(never)]
            pub fn salvage<K: Fixed, V: Fixed>(
                self,
                wreck: &mut Wreck<'_>,
                visit: &mut dyn FnMut(Found<'_, K, V>),
            ) {
                match self {
                    $(Engine::$engine => crate::$module::Engine::salvage(wreck, visit)),+
                }
            }

            /// As [`Describe::open_words`], with the table's hot path.
            #[inline(never)]
            pub fn open_words<M: Medium>(
                self,
                pool: Arc<Pool<M>>,
                settings: Settings,
            ) -> Result<Opened<dyn Index<u64, u64>, M>, OpenError> {
                match self {
                    $(Engine::$engine => {
                        type Of = crate::$module::Engine;
                        let table = Of::open_words(pool, settings)?;
                        let inlined = Of::hot_path_of_words(&table).map(AnyHotPath::$engine);
                        Ok(Opened { engine: Box::new(table), inlined: inlined.into() })
                    })+
                }
            }

            /// As [`Describe::open_pairs`].
            #[inline(never)]
            pub fn open_pairs<M: Medium, K: Fixed, V: Fixed>(
                self,
                pool: Arc<Pool<M>>,
                settings: Settings,
            ) -> Result<Box<dyn Index<K, V>>, OpenError> {
                match self {
                    $(Engine::$engine => crate::$module::Engine::open_pairs(pool, settings)),+
                }
            }

            /// As [`Describe::open_bytes`], with the store's hot path.
            #[inline(never)]
            pub fn open_bytes<M: Medium>(
                self,
                pool: Arc<Pool<M>>,
                hasher: Hasher,
                settings: Settings,
            ) -> Result<Opened<dyn Records, M>, OpenError> {
                match self {
                    $(Engine::$engine => {
                        type Of = crate::$module::Engine;
                        let store = Of::open_bytes(pool, hasher, settings)?;
                        let inlined = Of::hot_path_of_bytes(&store).map(AnyHotPath::$engine);
                        Ok(Opened { engine: Box::new(store), inlined: inlined.into() })
                    })+
                }
            }
        }

        list!(@preferred $($engine $module)+);

        /// The hot path of an open table or store, by engine.
        enum AnyHotPath<M: Medium> {
            $($engine(<crate::$module::Engine as Describe>::HotPath<M>)),+
        }

        impl<M: Medium> HotPath for AnyHotPath<M> {
            #[inline(always)]
            fn get(&self, key: u64, otherwise: impl FnOnce() -> Option<u64>) -> Option<u64> {
                match self {
                    $(AnyHotPath::$engine(hot) => hot.get(key, otherwise)),+
                }
            }

            #[inline(always)]
            fn get_bytes<'a>(&'a self, key: &[u8]) -> Option<Option<Record<'a>>> {
                match self {
                    $(AnyHotPath::$engine(hot) => hot.get_bytes(key)),+
                }
            }
        }
    };
    (@preferred $first:ident $first_module:ident $($other:ident)*) => {
        /// The preferred engine, for code that needs one at compile time.
        pub type Preferred = crate::$first_module::Engine;

        /// Its operations that are compiled into their callers.
        pub type PreferredHot<M> = crate::$first_module::Hot<M>;

        /// What guests see of it.
        pub type PreferredSight<M> = crate::$first_module::Sight<M>;

        /// Those that change single pairs.
        pub type PreferredChanges<'a, M> = crate::$first_module::Changes<'a, M>;

        impl<M: Medium> From<AnyHotPath<M>> for Inlined<M> {
            fn from(hot: AnyHotPath<M>) -> Inlined<M> {
                match hot {
                    AnyHotPath::$first(hot) => Inlined { preferred: hot, other: None },
                    other => Inlined { preferred: PreferredHot::none(), other: Some(other) },
                }
            }
        }
    };
}
for_each_engine!(list);

/// The operations of an open table or store that are compiled into their callers, whatever its engine.
pub struct Inlined<M: Medium> {
    /// Those of the preferred engine, which offers more, by leases; see [`HotPath`] for the others'.
    pub preferred: PreferredHot<M>,
    other: Option<AnyHotPath<M>>,
}

impl<M: Medium> From<Option<AnyHotPath<M>>> for Inlined<M> {
    fn from(hot: Option<AnyHotPath<M>>) -> Inlined<M> {
        hot.map_or(Inlined::none(), Inlined::from)
    }
}

impl<M: Medium> Inlined<M> {
    /// Without an operation that is compiled into its callers.
    pub fn none() -> Self {
        Inlined { preferred: PreferredHot::none(), other: None }
    }
}

/// Of any engine but the preferred one.
impl<M: Medium> HotPath for Inlined<M> {
    #[inline(always)]
    fn get(&self, key: u64, otherwise: impl FnOnce() -> Option<u64>) -> Option<u64> {
        match &self.other {
            Some(hot) => hot.get(key, otherwise),
            None => otherwise(),
        }
    }

    #[inline(always)]
    fn get_bytes<'a>(&'a self, key: &[u8]) -> Option<Option<Record<'a>>> {
        self.other.as_ref()?.get_bytes(key)
    }
}

/// A table or store, behind one virtual call for each operation.
pub struct Opened<T: ?Sized, M: Medium> {
    /// All of its operations.
    pub engine: Box<T>,
    /// Some of them once more, without the virtual call.
    pub inlined: Inlined<M>,
}

impl Engine {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        self.description().name
    }

    /// The engine of this number in superblocks.
    pub fn from_id(id: u32) -> Option<Engine> {
        Engine::ALL.iter().copied().find(|engine| engine.description().id == id)
    }

    /// The names of the engines for which `is_one` holds: "a, b and c".
    pub fn names(is_one: impl Fn(&Description) -> bool) -> String {
        let all = Engine::ALL.iter().map(|engine| engine.description());
        let names: Vec<&str> = all.filter(|one| is_one(one)).map(|one| one.name).collect();
        match names.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            _ => names.concat(),
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Engine::ALL.iter().copied().find(|engine| engine.name() == name).ok_or_else(|| {
            format!("no engine is called {name:?}; there are {}", Engine::names(|_| true))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn engines_are_told_apart_by_number_and_by_name() {
        let all = Engine::ALL;
        let ids: HashSet<u32> = all.iter().map(|engine| engine.description().id).collect();
        assert_eq!(ids.len(), all.len());
        for &engine in all {
            assert_eq!(Engine::from_id(engine.description().id), Some(engine));
            assert_eq!(engine.name().parse(), Ok(engine));
        }
        assert_eq!(Engine::from_id(0), None);
        let error = "cuckoo".parse::<Engine>().unwrap_err();
        assert!(error.contains("cuckoo") && error.contains(all[0].name()), "{error}");
    }

    /// Every engine is the index of a store, and parameters have values for the pairs it takes.
    #[test]
    fn every_engine_takes_words() {
        for &engine in Engine::ALL {
            assert!(engine.takes(PairSizes::WORDS, &Parameters::default()), "{engine}");
            assert!(engine.may_hold(PairSizes::WORDS), "{engine}");
            for parameter in engine.description().parameters {
                let bounds = (parameter.bounds)(PairSizes::WORDS).unwrap();
                for (value, is_taken) in
                    [(*bounds.start(), true), (*bounds.end(), true), (bounds.end() + 1, false)]
                {
                    let mut parameters = Parameters::default();
                    parameters.set(parameter.name, value);
                    let takes = engine.takes(PairSizes::WORDS, &parameters);
                    assert_eq!(takes, is_taken, "{engine}: {} {value}", parameter.name);
                }
            }
        }
    }
}
