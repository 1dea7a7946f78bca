//! The pages that a new user reads: their Rust examples run as documentation tests. Examples that keep a pool leave it
//! in the package's directory, under names that Git ignores.

macro_rules! pages {
    ($($name:ident: $path:literal,)+) => {
        $(
            #[doc = include_str!($path)]
            enum $name {}
        )+
    };
}

pages! {
    Readme: "../../README.md",
    FirstStore: "../../docs/guide/first-store.md",
    ChoosingAnEngine: "../../docs/guide/choosing-an-engine.md",
    WhatSurvives: "../../docs/guide/what-survives.md",
    Sizing: "../../docs/guide/sizing.md",
    Operating: "../../docs/guide/operating.md",
    Errors: "../../docs/guide/errors.md",
}
