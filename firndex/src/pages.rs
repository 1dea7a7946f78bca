//! The pages that a new user reads, which are part of the package. Their Rust examples run as documentation tests.
//! Examples that keep a pool leave it in the package's directory, under names that Git ignores;
//! after a change of the format it must be deleted.

macro_rules! pages {
    ($($name:ident: $path:literal,)+) => {
        $(
            #[doc = include_str!($path)]
            enum $name {}
        )+
    };
}

pages! {
    Readme: "../README.md",
    FirstStore: "../guide/first-store.md",
    ChoosingAnEngine: "../guide/choosing-an-engine.md",
    WhatSurvives: "../guide/what-survives.md",
    Sizing: "../guide/sizing.md",
    Operating: "../guide/operating.md",
    Errors: "../guide/errors.md",
    Cache: "../guide/cache.md",
    SeveralProcesses: "../guide/several-processes.md",
    C: "../guide/c.md",
    Python: "../guide/python.md",
    Redis: "../guide/redis.md",
}
