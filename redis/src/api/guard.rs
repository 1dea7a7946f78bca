//! The boundary that no panic passes: beyond it is the server, which would end.

use super::{Level, log};
use crate::refusal::Refusal;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a panic said.
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).into(),
        (_, Some(text)) => text.clone(),
        _ => "a panic without a message".into(),
    }
}

/// The result of `run`, or what it said when it panicked.
pub(crate) fn guarded<R>(run: impl FnOnce() -> R) -> Result<R, Refusal> {
    // What a panic leaves half-done is the module's state, which holds no more than the pool's position and queues. The
    // pool itself is whole after any of its calls.
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let found = said(&*panic);
        log(Level::Warning, &format!("a panic: {found}"));
        Refusal::Panicked { found: found.replace(['\r', '\n'], " ") }
    })
}

/// The same, where there is nobody to tell.
pub(crate) fn guard<R>(otherwise: R, run: impl FnOnce() -> R) -> R {
    guarded(run).unwrap_or(otherwise)
}
