//! How kernels are judged.

use loom::model::Builder;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Explores all executions of `model`, with any number of preemptions or at most `preemptions_max`.
pub(crate) fn holds(preemptions_max: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions_max;
    builder.check(model);
}

/// Asserts that loom finds an execution of `model` that panics with `complaint`, rather than one that fails in another
/// way.
pub(crate) fn breaks(
    complaint: &str,
    preemptions_max: Option<usize>,
    model: impl Fn() + Send + Sync + 'static,
) {
    let explored = catch_unwind(AssertUnwindSafe(|| holds(preemptions_max, model)));
    let payload = explored.expect_err("loom found nothing wrong with a spoilt protocol");
    let message = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message");
    assert!(message.contains(complaint), "found {message:?} instead of {complaint:?}");
}
