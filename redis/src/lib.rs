//! The module `firn` for Redis and Valkey: keys and values in a pool of firndex, which outlives the server's process.
//!
//! | file | what is in it |
//! |---|---|
//! | `keeper` | the pool, and what its changes mean to replicas |
//! | `position` | where a pool stands in the stream, and what it skips |
//! | `snapshot` | the module's part of an RDB |
//! | `commands` | the commands |
//! | `expiry`, `ending` | keys that end: how they are found, and removed |
//! | `slots` | slots of a cluster |
//! | `api` | the server's interface; all unsafe code |

mod api;
mod commands;
mod ending;
mod expiry;
mod figures;
mod glob;
mod keeper;
pub mod load;
mod names;
mod numbers;
mod position;
mod refusal;
mod settings;
mod slots;
mod snapshot;
mod value;
mod worker;

/// The server counts what the module allocates as its own memory. Tests run without a server.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: api::Allocator = api::Allocator;
