//! Files that other programs have written over.

use super::Handle;
use crate::error::Result;

impl Handle {
    /// Refuses the pool from now on if another program has written over its file.
    pub(crate) fn look_at_file(&self) -> Result<()> {
        self.read()?;
        // The pool says that it has failed if so.
        let _ = self.pool.look_at_file();
        self.read()
    }
}
