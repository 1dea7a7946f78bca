//! What is opened: a table, a store or a cache.

use crate::any_engine::AnyEngine;
use crate::body::Body;
use crate::contents::Contents;
use crate::guests::Served;
use crate::pool::Pool;
use crate::shapes::Shapes;
use crate::{Engine, Options, Result};
use pmem::medium::Memory;
use std::sync::Arc;

/// A table, a store or a cache, as those see it who make, open, copy and replace pools.
pub(crate) trait Held: Sized + Send + Sync + 'static {
    /// The engine's operations on keys and values.
    type Operations: ?Sized;

    fn contents() -> Contents;

    /// The shapes that it records, and demands of an existing pool.
    fn shapes() -> Shapes;

    /// Opens the engine of a pool, which is a new one or holds such contents.
    fn engine(
        pool: Arc<pmem::Pool<Memory>>,
        engine: Engine,
        options: &Options,
    ) -> Result<AnyEngine<Self::Operations>>;

    fn body(engine: &AnyEngine<Self::Operations>) -> Arc<dyn Body>;

    fn new(engine: AnyEngine<Self::Operations>, pool: Pool) -> Self;

    fn pool(&self) -> &Pool;

    fn pool_mut(&mut self) -> &mut Pool;

    /// The pool, without the operations.
    fn into_pool(self) -> Pool;

    /// The operations for guests, if there can be any.
    fn served(&self) -> Option<Arc<dyn Served>> {
        None
    }

    /// Puts all pairs into an empty pool.
    fn put_all_in(&self, copy: &Self) -> Result<()>;
}
