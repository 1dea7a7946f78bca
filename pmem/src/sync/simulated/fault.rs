//! Places in the code that are told to do wrong, to see whether anybody notices.
//!
//! A *site* is a place that flushes, fences, or stores with release ordering. A [`Mutation`] breaks one place.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::Location;

/// What kind of place in the code a site is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SiteKind {
    /// Stores with relaxed ordering. No site in the strict sense: nothing could be left out.
    Store,
    /// Stores with release ordering.
    Release,
    /// Flushes a line.
    Flush,
    /// Fences.
    Fence,
    /// Replaces a word if it is a certain one. No site in the strict sense.
    Exchange,
    /// Changes volatile state. No site in the strict sense.
    Volatile,
}

/// A place in the code that acts on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// What it does.
    pub kind: SiteKind,
    /// Source file, as the compiler names it.
    pub file: &'static str,
    /// Line in the file.
    pub line: u32,
    /// Column in the line.
    pub column: u32,
}

impl Site {
    fn is_at(&self, place: &Location<'_>) -> bool {
        self.line == place.line() && self.column == place.column() && self.file == place.file()
    }
}

/// What is broken at a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A flush or fence is left out; a release store is demoted to a relaxed one.
    Dropped,
    /// A store is left out; an exchange only says that it was made.
    Skipped,
    /// An exchange is made whatever is there.
    Forced,
    /// A store is made right after the next store to its line instead.
    Late,
    /// A fence is made after this many further accesses of its thread instead.
    LateFence(u32),
}

/// A place in the code that does not do what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mutation {
    /// Where.
    pub site: Site,
    /// What is wrong there.
    pub fault: Fault,
}

thread_local! {
    static MUTATION: Cell<Option<Mutation>> = const { Cell::new(None) };
    static SITES: RefCell<Option<BTreeSet<Site>>> = const { RefCell::new(None) };
    static RECORDING: Cell<bool> = const { Cell::new(false) };
}

/// Breaks a place for everything that runs on this thread of the operating system from now on.
pub fn mutate(mutation: Option<Mutation>) {
    MUTATION.set(mutation);
}

/// Runs `work` and returns with its result the places at which it acted on simulated media.
pub fn record_sites<R>(work: impl FnOnce() -> R) -> (R, BTreeSet<Site>) {
    SITES.set(Some(BTreeSet::new()));
    RECORDING.set(true);
    let result = work();
    RECORDING.set(false);
    (result, SITES.take().unwrap_or_default())
}

/// The fault at this place, if there is one.
pub(crate) fn fault_at(kind: SiteKind, place: &'static Location<'static>) -> Option<Fault> {
    if RECORDING.get() {
        let (file, line, column) = (place.file(), place.line(), place.column());
        SITES.with_borrow_mut(|sites| {
            sites.get_or_insert_default().insert(Site { kind, file, line, column });
        });
    }
    let mutation = MUTATION.get()?;
    (mutation.site.kind == kind && mutation.site.is_at(place)).then_some(mutation.fault)
}
