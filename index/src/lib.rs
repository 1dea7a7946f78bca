//! What every firndex engine shares: the traits [`Index`] and [`Records`], seeded stable hashing,
//! fingerprint matching, and the adapter that makes any `Index<u64, u64>` a [`Records`].

mod bounds;
mod change;
mod error;
pub mod fingerprint;
mod fixed;
pub mod hash;
mod items;
mod report;
mod shape;
mod shown;
mod sight;
mod traits;
mod unfinished;

pub use bounds::{check_limits, check_pairs};
pub use change::Change;
pub use error::{Error, ItemError};
pub use fixed::{Fixed, are_words, fields, is_same, is_same_state};
pub use items::{Copied, ItemReader, Items, Lead, SeenItems, lead_of};
pub use pmem::heap::Compacted;
pub use pmem::pair;
pub use report::{CacheUse, CheckReport, Level, Occupancy, Shrunk};
pub use shape::{Shape, Simple};
pub use shown::Shown;
pub use sight::Sight;
pub use traits::{
    Chore, Exchange, Found, Index, KeyValue, Record, RecordExchange, RecordScan, Records, Scan,
    WhenBuilt,
};
pub use unfinished::{Done, Unfinished};
