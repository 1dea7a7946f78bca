//! Pools that are refused while they are open.

use super::Pool;
use crate::error::Damage;
use crate::medium::Medium;
use crate::sync;

impl<M: Medium> Pool<M> {
    /// Says that the pool turned out to be damaged, so that whoever uses it refuses it from now on. The first damage
    /// counts. If pairs are missing, later openings refuse the pool, too. It can be closed as usual: what is in it is
    /// what it was.
    #[cold]
    pub fn refuse(&self, damage: Damage) {
        if let Damage::Miscounted { found, expected } = damage
            && !self.is_read_only()
        {
            // If that fails, this process at least says it.
            let _ = self.record(&|superblock| superblock.set_miscounted(found, expected));
        }
        self.damage.lock().get_or_insert(damage);
        self.close_view();
        // Whoever looks for lost pages looks for this as well.
        sync::count_bus_error();
    }

    /// Why the pool is refused, if it turned out to be damaged after it had been opened.
    pub fn damage(&self) -> Option<Damage> {
        self.damage.lock().clone()
    }

    /// See [`Medium::has_failed`].
    pub fn has_failed(&self) -> bool {
        let has_failed = self.medium.has_failed();
        if has_failed {
            self.close_view();
        }
        has_failed
    }

    /// Has guests ask from now on: they hear what is wrong.
    #[cold]
    fn close_view(&self) {
        if let Some(view) = self.view.get() {
            view.close();
        }
    }
}
