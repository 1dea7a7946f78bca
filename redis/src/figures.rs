//! What INFO and FIRN.INFO tell.

use crate::api::InfoReport;
use crate::keeper::{Keeper, with};
use crate::refusal::Answer;
use std::ffi::CStr;
use std::sync::atomic::Ordering;

/// One of them.
pub(crate) enum Figure {
    Number(u64),
    Text(String),
}

/// All of them, by their names in INFO.
pub(crate) fn figures(keeper: &mut Keeper) -> Answer<Vec<(&'static CStr, Figure)>> {
    use Figure::{Number, Text};
    let stats = keeper.store.stats()?;
    let last = keeper.position.last();
    let log = stats.log.as_ref();
    let state = if keeper.position.is_partial { "partial" } else { "whole" };
    Ok(vec![
        (c"path", Text(keeper.settings.path.display().to_string())),
        (c"state", Text(state.into())),
        (c"keys", Number(keeper.len())),
        (c"pool_bytes", Number(stats.pool_bytes)),
        (c"used_bytes", Number((stats.bytes_per_pair * stats.pairs as f64) as u64)),
        (c"sidecar_bytes", Number(stats.sidecar_bytes)),
        (c"heap_bytes", Number(stats.heap_bytes)),
        (c"heap_used_bytes", Number(stats.heap_used_bytes)),
        (c"durability", Text(stats.durability.name().into())),
        (c"log_bytes", Number(log.map_or(0, |log| log.log_bytes))),
        (
            c"log_failure",
            Text(
                log.and_then(|log| log.failure.as_ref()).map_or(String::new(), ToString::to_string),
            ),
        ),
        (c"openings", Number(stats.incarnation)),
        (c"opening_ms", Number(keeper.opening_ms as u64)),
        (c"ended_keys_removed", Number(keeper.expiry.removed.load(Ordering::Relaxed))),
        (c"ended_keys_waiting", Number(keeper.expiry.queued() as u64)),
        (c"closed_slots", Number(keeper.slots.closed())),
        (c"term", Text(last.map_or(String::new(), |last| format!("{:016x}", last.term)))),
        (c"effects", Number(last.map_or(0, |last| last.number))),
        (c"effects_skipped", Number(keeper.skipped)),
        (c"effects_missed", Number(keeper.gaps)),
    ])
}

/// Writes the module's section of INFO.
pub(crate) fn report(section: &InfoReport) {
    match with(figures) {
        Ok(figures) => figures.into_iter().for_each(|(name, figure)| match figure {
            Figure::Number(number) => section.number(name, number),
            Figure::Text(text) => section.text(name, &text),
        }),
        Err(refusal) => section.text(c"failure", &refusal.to_string()),
    }
}
