//! Options for pools that several processes want to use.

use super::Options;
use std::time::Duration;

impl Options {
    /// How long opening waits for a pool that [another process has open](crate::OpenError::Busy). Default: not at all.
    /// It is tried every 20 ms. A pool that this process has open is [refused](crate::OpenError::AlreadyOpen) at once.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("jobs.firn");
    /// use firndex::Options;
    /// use std::time::Duration;
    ///
    /// // The process before this one may still be closing it.
    /// let jobs = Options::new().wait(Duration::from_secs(10)).open_or_create_store(&path)?;
    /// jobs.put("job 1", "to do")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(mut self, time: Duration) -> Self {
        self.wait = time;
        self
    }

    /// Whether other processes may use the pool while this one, its *owner*, has it open (default: no). They open it as
    /// usual, and get a handle that works: as *guests*, for whom the owner makes changes. On the default engine they
    /// look keys up by themselves, in stores and in tables of 8-byte keys and values. When the owner ends, be it by
    /// kill -9, a guest becomes the owner. [`Pool::role`](crate::Pool::role) tells what a process is.
    ///
    /// `docs/guide/several-processes.md` has the promises and the prices. In short: every call that returned survives
    /// whatever process is killed. A change fails with
    /// [`Error::Interrupted`](crate::Error::Interrupted) if the owner ends in the middle of it.
    ///
    /// The owner makes a socket beside the pool, `.firndex-` and two numbers, which whoever may write the pool may
    /// connect to, and starts a thread, which sleeps while nobody asks. An opening beside a process that lets nobody in
    /// is tried for up to a second more: that one may be about to let others in, or to close the pool.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("sessions.firn");
    /// use firndex::{Options, Role};
    ///
    /// let sessions = Options::new().guests(true).open_or_create_store(&path)?;
    /// assert_eq!(sessions.role(), Role::Owner);
    /// # Ok(())
    /// # }
    /// ```
    pub fn guests(mut self, guests: bool) -> Self {
        self.guests = guests;
        self
    }

    /// Whether this process, opening a pool that another one owns, leaves it to others to become the owner after that
    /// one (default: no). Its calls then wait for one of them for [`Options::patience`].
    pub fn never_own(mut self, never: bool) -> Self {
        self.never_own = never;
        self
    }

    /// How long calls of a guest wait for an owner that does not answer, or for another one, before they fail with
    /// [`Error::Silent`](crate::Error::Silent). Default: 10 s; at least 1 ms, at most an hour. A call that takes long
    /// by itself, such as `sync` or `shrink`, is waited for.
    pub fn patience(mut self, time: Duration) -> Self {
        self.patience = time;
        self
    }
}
