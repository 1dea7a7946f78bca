//! Pools of which a guest has become the owner.

use crate::Result;
use crate::held::Held;
use crate::pool::Pool;
use std::any::Any;

/// A table or a store, whatever it holds.
pub(crate) trait Own: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn pool(&self) -> &Pool;
    fn close(self: Box<Self>) -> Result<()>;
}

impl<T: Held> Own for T {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn pool(&self) -> &Pool {
        Held::pool(self)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.into_pool().into_handle().close()
    }
}
