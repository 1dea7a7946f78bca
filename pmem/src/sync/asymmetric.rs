//! The proof that light barriers cost nothing.

use super::platform::{asymmetric_light_barrier, is_asymmetric};

/// That the kernel runs the barriers of [heavy sides](super::heavy_barrier), which does not change while a process
/// runs. The crash lab never has it, and explores the paths that do without. Models under loom always have it.
#[derive(Debug, Clone, Copy)]
pub struct Asymmetric(());

impl Asymmetric {
    /// If it does so.
    #[inline]
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
        asymmetric_light_barrier();
    }
}
