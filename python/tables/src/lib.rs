//! Tables of any fixed sizes, by the bytes of their keys and values.
//!
//! It is a package of its own since it compiles the engines again, for each [place](sized::Place), and need not do so
//! with every optimisation: tables of words, which are the fast ones, are compiled where they are opened.

#![forbid(unsafe_code)]

pub mod sized;
mod typed;

pub use typed::{Batch, Operations, Visit, Way, open_in, open_words};
