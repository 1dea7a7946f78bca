//! Many processes on one pool. The process that has the pool's lock is its *owner*. It makes all changes, its own and
//! those that its *guests* ask for. A guest has no lock and changes nothing, so its end harms nobody. When the owner
//! ends, a guest opens the pool as after any kill -9 and is the owner.
//!
//! | file | what it has |
//! |---|---|
//! | `wire` | requests and answers in words |
//! | `service`, `serve_cache`, `figures`, `rights` | what the owner does for a request |
//! | `serve`, `execute`, `jobs` | the owner's serving thread |
//! | `link`, `waits`, `own`, `beside` | a guest's way to whoever is the owner, itself included |
//! | `seen` | what a guest looks up by itself |
//! | `table`, `store`, `cache`, `remote_scan`, `batches`, `part_way` | a guest's table, store and cache, their scans and batches |
//! | `join` | from a path to a guest's table, store or cache |

mod batches;
mod beside;
mod cache;
mod execute;
mod figures;
mod jobs;
mod join;
mod link;
mod own;
mod part_way;
mod remote_scan;
mod rights;
mod seen;
mod serve;
mod serve_cache;
mod service;
mod store;
mod table;
mod waits;
mod wire;

pub(crate) use beside::Beside;
pub(crate) use figures::Figures;
pub(crate) use join::{Guest, join};
pub(crate) use own::Own;
pub(crate) use rights::Rights;
pub(crate) use seen::Sights;
pub(crate) use serve::Serving;
pub(crate) use service::Served;
