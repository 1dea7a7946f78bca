//! What a process is to a pool.

/// What a process is to a pool: [`Pool::role`](crate::Pool::role).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// It has the pool's lock, and makes the changes.
    Owner,
    /// It has the changes made by the owner, which is another process.
    Guest,
}
