//! What a leased change needs.

use engines::PreferredChanges;
use pmem::Write;
use pmem::medium::Memory;
use pmem::sync::Numbered;

/// What a change is made with that is compiled into its caller, which a closure may not be.
pub(super) struct Here<'a> {
    pub(super) hot: PreferredChanges<'a, Memory>,
    pub(super) thread: Numbered,
    pub(super) write: Write<'a>,
}
