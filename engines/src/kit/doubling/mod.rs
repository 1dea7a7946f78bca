//! Tables of two choices that double while operations run: what such engines share.

mod geometry;
mod resize;
mod salvage;
mod tables;
mod two;

pub(crate) use geometry::{Geometry, LOG2_MAX, PLACES_MAX, log2_for};
pub(crate) use resize::{Doubles, extend, shrink};
pub(crate) use salvage::homes_in;
pub(crate) use tables::{ENGINE_COUNTS, Form, LOG, Tables, only_extent};
pub(crate) use two::{
    Change, Two, TwoSeen, buckets_of_doubling, operations_of_doubling, upkeep_of_doubling,
};
