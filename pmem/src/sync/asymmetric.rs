//! The proof that light barriers cost nothing.

use super::is_asymmetric;
use std::sync::atomic::{Ordering, compiler_fence};

/// That the kernel runs the barriers of [heavy sides](super::heavy_barrier), which does not change while a process
/// runs. The crash lab and loom never have it: they explore the paths that do without.
#[derive(Debug, Clone, Copy)]
pub struct Asymmetric(());

impl Asymmetric {
    /// If it does so.
    pub fn granted() -> Option<Asymmetric> {
        is_asymmetric().then_some(Asymmetric(()))
    }

    /// For who knows that it was granted.
    #[inline(always)]
    pub(super) const fn known() -> Asymmetric {
        Asymmetric(())
    }

    /// [`light_barrier`](super::light_barrier), without a look at what the kernel does.
    #[inline(always)]
    pub fn light_barrier(self) {
        compiler_fence(Ordering::SeqCst);
    }
}
