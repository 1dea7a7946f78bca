//! How records look in bytes.
//!
//! All bytes derive from the record's 64-bit key and a *version*, which the benchmark counts up
//! as it updates, so that what is read back can be judged without a copy of what was stored: it
//! must be some version of that key's value, whole, and the caller may ask which.
//!
//! * [`pair`]: 8-byte keys with 8-byte values, 16-byte keys with 15-byte values (as Zuo,
//!   Hua and Wu have them, ACM Transactions on Storage 15(2), section 5.1).
//! * [`Items`]: byte strings with sizes from a distribution ([`ValueSizes`]).
//! * [`fill_value`] and [`check_value`]: the bytes themselves, for any size.

pub mod pair;

mod contents;
mod items;
mod sizes;

pub use contents::{Mismatch, check_value, digest, fill_key, fill_value};
pub use items::{Items, LEAST_KEY_BYTES};
pub use sizes::ValueSizes;
