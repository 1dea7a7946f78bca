//! The classic hash tables with which papers on persistent hash tables compare.
//!
//! | name | table | file |
//! |---|---|---|
//! | `probing`, `probing-shift` | linear probing; deletion leaves a mark, or shifts back | [`linear_probing`] |
//! | `chained` | chained hashing | [`chained`] |
//! | `array` | array hash | [`array_hash`] |
//! | `hopscotch` | hopscotch hashing with a stash | [`hopscotch`] |
//! | `cuckoo-2-4`, `cuckoo-2-8`, `cuckoo-3-4` | bucketized cuckoo hashing | [`cuckoo`] |
//! | `path` | path hashing | [`path`] |
//! | `pfht-paper` | PFHT, as its paper has it | [`pfht`] |
//!
//! Tables for several threads, which grow, are in [`threaded`]. All else on this page is about those above.
//!
//! They are for comparison, not for use: one thread, keys and values of 8 bytes, a fixed size. They lie on any
//! [`Medium`](pmem::Medium) and survive a crash at any point. Each change is one transaction of a small redo log
//! ([`region`]), for which Debnath et al. use Mnemosyne (Revisiting Hash Table Design for Phase Change Memory, INFLOW
//! 2015, section 3.1). A table is created on empty memory, and opened again over the same memory, which is the
//! recovery.
//!
//! # Writes
//!
//! The paper counts writes per insertion (table 2) without saying how. This rule gives its 4.0 for linear probing,
//! where an insertion changes one slot: **a cell costs two writes** (its log record, and the cell in place), **a
//! transaction two more** (the commit, and the truncation of the log). A cell is a pair of key and value, or one word
//! of metadata. Each of these writes is one flush here, so medium `count` counts the same.
//!
//! # Empty slots
//!
//! Every bit pattern is a legal key and value. A slot is empty if its key is 0, so an insertion needs no second cell to
//! mark the slot as taken. Key 0 itself lies in a separate cell beside the table ([`table`]), and so does every other
//! key that a table uses as a mark.

#![forbid(unsafe_code)]

pub mod array_hash;
pub mod chained;
pub mod cuckoo;
mod dice;
pub mod hopscotch;
pub mod kind;
pub mod linear_probing;
pub mod path;
pub mod pfht;
pub mod region;
pub mod table;
pub mod threaded;
pub mod unlogged;

pub use kind::{Kind, Shape, create, create_unlogged, open};
pub use region::{Changes, Commit, OpenError, Writes};
pub use table::{Full, Table};
