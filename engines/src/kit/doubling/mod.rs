//! Tables of two choices that double while operations run: what such engines share.

mod geometry;
mod resize;
mod salvage;
mod tables;

pub(crate) use geometry::{Geometry, HOMES, Hash, LOG2_MAX, SPAN_MAX, slots_in};
pub(crate) use resize::{Doubles, Placed, helps_doubling};
pub(crate) use salvage::homes_in;
pub(crate) use tables::{ENGINE_COUNTS, Form, LOG, Tables, only_extent};
