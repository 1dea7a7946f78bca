//! What is there after kills, forks, power loss, copies, and whatever else happens to a pool.

pub(crate) mod at_once;
pub(crate) mod at_rest;
pub(crate) mod backups;
pub(crate) mod continued;
pub(crate) mod creation;
pub(crate) mod damage;
pub(crate) mod durability;
pub(crate) mod exactly_once;
pub(crate) mod forks;
pub(crate) mod full_log;
pub(crate) mod opened_in_growth;
pub(crate) mod power;
pub(crate) mod rewrites;
pub(crate) mod salvage;
pub(crate) mod sync_marks;
pub(crate) mod tickets;
pub(crate) mod vanished;
pub(crate) mod world;
