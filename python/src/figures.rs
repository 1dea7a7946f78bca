//! The figures of a pool as a dict.

use firndex::{CacheStats, Role, Stats};
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub(crate) fn name_of(role: Role) -> &'static str {
    match role {
        Role::Guest => "guest",
        _ => "owner",
    }
}

pub(crate) fn told<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("kind", stats.kind.name())?;
    told.set_item("engine", stats.engine.name())?;
    told.set_item("medium", stats.medium.name())?;
    told.set_item("pairs", stats.pairs)?;
    told.set_item("capacity", stats.capacity)?;
    told.set_item("load_factor", stats.load_factor)?;
    told.set_item("resizing", stats.resizing)?;
    told.set_item("resizes", stats.resizes)?;
    told.set_item("pool_bytes", stats.pool_bytes)?;
    told.set_item("sidecar_bytes", stats.sidecar_bytes)?;
    told.set_item("heap_bytes", stats.heap_bytes)?;
    told.set_item("heap_used_bytes", stats.heap_used_bytes)?;
    told.set_item("heap_vacant_bytes", stats.heap_vacant_bytes)?;
    told.set_item("bytes_per_pair", stats.bytes_per_pair)?;
    told.set_item("role", name_of(stats.role))?;
    told.set_item("guests", stats.guests)?;
    told.set_item("incarnation", stats.incarnation)?;
    told.set_item("uuid", format!("{:032x}", stats.uuid))?;
    told.set_item("durability", stats.durability.name())?;
    told.set_item("recovery_ms", stats.recovery_ms)?;
    let log = stats.log.as_ref().map(|log| -> PyResult<_> {
        let told = PyDict::new(py);
        told.set_item("log_bytes", log.log_bytes)?;
        told.set_item("checkpoint_bytes", log.checkpoint_bytes)?;
        told.set_item("written_bytes", log.written_bytes)?;
        told.set_item("checkpoints", log.checkpoints)?;
        told.set_item("failure", log.failure.as_ref().map(ToString::to_string))?;
        Ok(told)
    });
    told.set_item("log", log.transpose()?)?;
    Ok(told)
}

pub(crate) fn told_of_cache<'py>(
    py: Python<'py>,
    stats: &CacheStats,
) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("hits", stats.hits)?;
    told.set_item("misses", stats.misses)?;
    told.set_item("hit_ratio", stats.hit_ratio())?;
    told.set_item("insertions", stats.insertions)?;
    told.set_item("evictions", stats.evictions)?;
    told.set_item("expired", stats.expired)?;
    told.set_item("refused", stats.refused)?;
    told.set_item("kept", stats.kept)?;
    told.set_item("entries", stats.entries)?;
    told.set_item("entry_bytes", stats.entry_bytes)?;
    told.set_item("index_bytes", stats.index_bytes)?;
    told.set_item("pool_bytes", stats.pool_bytes)?;
    told.set_item("capacity_bytes", stats.capacity_bytes)?;
    told.set_item("volatile_bytes", stats.volatile_bytes)?;
    told.set_item("oldest_put", stats.oldest_put.as_secs_f64())?;
    told.set_item("oldest_kept", stats.oldest_kept.as_secs_f64())?;
    Ok(told)
}
