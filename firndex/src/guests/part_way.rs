//! Batches that were not done whole.

use crate::{BatchError, Error};
use index::{Done, Unfinished};

/// Why a batch was not done whole, and how far it came.
pub(super) struct PartWay {
    error: Box<Error>,
    /// The entry that failed, if it was one.
    failed: Option<usize>,
    done: Done,
}

impl From<Error> for PartWay {
    fn from(error: Error) -> PartWay {
        PartWay::new(error, None, Done::NONE)
    }
}

impl From<BatchError> for PartWay {
    fn from(error: BatchError) -> PartWay {
        let (failed, done) = (error.failed(), error.entries_done());
        PartWay::new(error.into_error(), failed, done)
    }
}

impl<E: Into<Error>> From<Unfinished<E>> for PartWay {
    fn from(unfinished: Unfinished<E>) -> PartWay {
        let Unfinished { error, failed, done } = unfinished;
        let failed = (failed != Unfinished::<E>::NO_ENTRY).then_some(failed);
        PartWay::new(error.into(), failed, done)
    }
}

impl PartWay {
    pub(super) fn new(error: Error, failed: Option<usize>, done: Done) -> PartWay {
        PartWay { error: Box::new(error), failed, done }
    }

    pub(super) fn error(&self) -> &Error {
        &self.error
    }

    pub(super) fn into_error(self) -> Error {
        *self.error
    }

    pub(super) fn failed(&self) -> Option<usize> {
        self.failed
    }

    pub(super) fn done(&self) -> Done {
        self.done
    }

    /// The same in a batch that has `before` more entries before these, which took effect.
    pub(super) fn after(self, before: usize) -> PartWay {
        let failed = self.failed.map(|failed| failed + before);
        PartWay { failed, done: self.done.behind(before), ..self }
    }

    /// As engines say it.
    pub(super) fn unfinished<E: From<Error>>(self) -> Unfinished<E> {
        let failed = self.failed.unwrap_or(Unfinished::<E>::NO_ENTRY);
        Unfinished { error: (*self.error).into(), failed, done: self.done }
    }
}
