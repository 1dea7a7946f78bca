//! What else has to grow when the pool does.

use super::LineLog;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Who needs more room when a pool grows: its log, for the next checkpoint.
pub trait Room: Send + Sync {
    /// Takes room for a pool of this size, which is not larger yet. If that is refused, the pool does not grow.
    fn reserve(&self, pool_bytes: u64) -> io::Result<()>;
}

/// Refuses all growth.
struct NoRoom;

impl Room for NoRoom {
    fn reserve(&self, _pool_bytes: u64) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::StorageFull, "the pool is being closed"))
    }
}

/// The pool's [`Room`], if it has one.
#[derive(Default)]
pub(super) struct RoomKeeper(Mutex<Option<Arc<dyn Room>>>);

impl std::fmt::Debug for RoomKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RoomKeeper")
    }
}

impl RoomKeeper {
    fn set(&self, room: Option<Arc<dyn Room>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = room;
    }

    fn get(&self) -> Option<Arc<dyn Room>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl LineLog {
    /// From now on the pool grows only if `room` can.
    pub fn grow_with(&self, room: Arc<dyn Room>) {
        self.room.set(Some(room));
    }

    /// From now on the pool grows without asking.
    pub fn grow_alone(&self) {
        self.room.set(None);
    }

    /// The pool does not grow any more. Its log has ended, so no room is taken for what a helper may still want.
    pub fn grow_no_more(&self) {
        self.room.set(Some(Arc::new(NoRoom)));
    }

    /// To be called before the pool becomes so large.
    pub(crate) fn make_room(&self, pool_bytes: u64) -> io::Result<()> {
        self.room.get().map_or(Ok(()), |room| room.reserve(pool_bytes))
    }
}
