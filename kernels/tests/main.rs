//! All kernels in one program. Their times differ much, and this way they share the processors.

mod cache;
mod clevel;
mod ended_number;
mod epoch;
mod explore;
mod freed_slot;
mod gate;
mod iceberg;
mod lane;
mod lease;
mod level;
mod line_log;
mod link_and_persist;
mod loan;
mod magazine;
mod pfht;
mod plain;
mod rewo;
mod scene;
mod view;
