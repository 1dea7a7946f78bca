//! Clevel hashing: what is its own. What every engine owes is in `tests/conformance`, what crashes
//! and frozen threads leave in `crashlab`.

mod cost;
mod harness;
mod load;
mod records;
mod resize;
