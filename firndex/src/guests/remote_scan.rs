//! A scan by the owner.

use super::link::Link;
use super::wire::{Operation, Reader, read_answer};
use crate::held::Held;
use crate::{Error, Result};

/// A scan that the owner has under way for a guest. It ends with the owner.
pub(super) struct RemoteScan<'a> {
    link: &'a Link,
    number: u64,
    state: ScanState,
}

#[derive(PartialEq, Eq)]
enum ScanState {
    Due,
    Begun,
    Over,
}

impl<'a> RemoteScan<'a> {
    pub(super) fn new(link: &'a Link) -> Self {
        RemoteScan { link, number: link.scan_number(), state: ScanState::Due }
    }

    /// Begins the scan, if it has not begun. The pool if this process owns it by now, and is to scan it by itself.
    pub(super) fn begin<T: Held>(&mut self) -> Result<Option<&'a T>> {
        if self.state != ScanState::Due {
            return Ok(None);
        }
        let number = self.number;
        let own = self.link.ask(
            Operation::Scan,
            |pool: &T| Ok(Some(pool)),
            |request| request.push(number),
            |answer| read_answer(answer).map(|_| None),
        )?;
        self.state = if own.is_some() { ScanState::Over } else { ScanState::Begun };
        Ok(own)
    }

    /// Reads the next pairs by `read`, each time that another one follows. Returns whether the scan goes on.
    pub(super) fn go_on<T: Held>(
        &mut self,
        mut read: impl FnMut(&mut Reader<'_>) -> Result<()>,
    ) -> Result<bool> {
        if self.state == ScanState::Over {
            return Ok(false);
        }
        let number = self.number;
        let goes_on = self.link.ask(
            Operation::ScanOn,
            |_: &T| Err(Error::Interrupted),
            |request| request.push(number),
            |answer| {
                let mut words = read_answer(answer)?;
                while words.flag()? {
                    read(&mut words)?;
                }
                Ok(words.flag()?)
            },
        );
        if !matches!(goes_on, Ok(true)) {
            self.state = ScanState::Over;
        }
        goes_on
    }
}

impl Drop for RemoteScan<'_> {
    fn drop(&mut self) {
        if self.state == ScanState::Begun {
            self.link.end_scan(self.number);
        }
    }
}
