//! What passes between a guest and its owner, in words.
//!
//! ```text
//! request    | number of the operation | its arguments ... |
//! answer     | 0 | what was found ...  |   or  | number of the error | what it says ... |
//! ```
//!
//! A key or a value of a table is as many words as its type has; one of a store is a number of bytes, and then these.
//! Both sides are processes of one machine, and of one format ([`Hello`](pmem::meeting::Hello)).

use super::part_way::PartWay;
use crate::{Error, Result};
use index::{Done, Fixed, ItemError};
use pmem::durability::{LogError, LogUse};
use pmem::heap::Corrupt;
use pmem::meeting::{LANE_WORDS, as_bytes, push_bytes};
use pmem::{Offset, SpaceError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)+) => {
        /// What a guest can ask for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Operation {
            $($(#[$doc])* $name,)+
        }

        impl Operation {
            pub(super) fn number(self) -> u64 {
                match self {
                    $(Operation::$name => $number,)+
                }
            }

            fn of_number(number: u64) -> Option<Operation> {
                match number {
                    $($number => Some(Operation::$name),)+
                    _ => None,
                }
            }
        }
    };
}

operations! {
    Get = 1,
    Insert = 2,
    Update = 3,
    Upsert = 4,
    Remove = 5,
    CompareExchange = 6,
    GetMany = 7,
    InsertMany = 8,
    UpdateMany = 9,
    UpsertMany = 10,
    RemoveMany = 11,
    /// Begins a scan, under a number that the guest has chosen.
    Scan = 13,
    /// The next pairs of a scan.
    ScanOn = 14,
    /// Ends a scan.
    ScanOff = 15,
    Len = 16,
    Figures = 17,
    Shrink = 18,
    Compact = 19,
    Sync = 20,
    Ticket = 21,
    DurableUpTo = 22,
    /// Waits until a ticket survives power loss.
    WaitDurable = 23,
    LogUse = 24,
    /// Of a cache: as a look-up, but no hit.
    Peek = 25,
    PutUntil = 26,
    PutMany = 27,
    Touch = 28,
    TimeLeft = 29,
    Clear = 30,
    CacheFigures = 31,
    PutIf = 32,
}

impl Operation {
    /// Whether it does not matter how often this is done.
    pub(super) fn only_reads(self) -> bool {
        use Operation::{
            CacheFigures, DurableUpTo, Figures, Get, GetMany, Len, LogUse, Peek, Scan, Sync,
            Ticket, TimeLeft, WaitDurable,
        };
        matches!(
            self,
            Get | GetMany
                | Scan
                | Len
                | Figures
                | Sync
                | Ticket
                | DurableUpTo
                | WaitDurable
                | LogUse
                | Peek
                | TimeLeft
                | CacheFigures
        )
    }

    /// Whether it may take as long as it likes.
    pub(super) fn is_long(self) -> bool {
        use Operation::{CacheFigures, Compact, Figures, Len, Shrink, Sync, WaitDurable};
        matches!(self, Shrink | Compact | Sync | WaitDurable | Figures | Len | CacheFigures)
    }
}

/// The other side has said something that is not in the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

impl From<Malformed> for Error {
    fn from(_: Malformed) -> Error {
        let found = "what it says is in no format that this process knows".into();
        Error::Owner { found }
    }
}

/// Words that are read one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(pub(super) &'a [u64]);

impl<'a> Reader<'a> {
    pub(super) fn word(&mut self) -> std::result::Result<u64, Malformed> {
        let (&first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(first)
    }

    pub(super) fn words(&mut self, count: usize) -> std::result::Result<&'a [u64], Malformed> {
        let (words, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(words)
    }

    pub(super) fn operation(&mut self) -> std::result::Result<Operation, Malformed> {
        Operation::of_number(self.word()?).ok_or(Malformed)
    }

    /// A number of things of which each has a word at least.
    pub(super) fn count(&mut self) -> std::result::Result<usize, Malformed> {
        let count = self.word()? as usize;
        if count > self.0.len() { Err(Malformed) } else { Ok(count) }
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn flag(&mut self) -> std::result::Result<bool, Malformed> {
        Ok(self.word()? != 0)
    }

    pub(super) fn bytes(&mut self) -> std::result::Result<&'a [u8], Malformed> {
        let count = usize::try_from(self.word()?).map_err(|_| Malformed)?;
        let words = self.words(count.div_ceil(8))?;
        Ok(&as_bytes(words)[..count])
    }

    pub(super) fn text(&mut self) -> std::result::Result<String, Malformed> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }

    pub(super) fn fixed<T: Fixed>(&mut self) -> std::result::Result<T, Malformed> {
        let words = self.words(words_of::<T>())?;
        Ok(T::of_words(|index| words.get(index).copied().unwrap_or(0)))
    }

    pub(super) fn maybe<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> std::result::Result<T, Malformed>,
    ) -> std::result::Result<Option<T>, Malformed> {
        if self.flag()? { read(self).map(Some) } else { Ok(None) }
    }
}

/// About as many words as a batch has in one request: its answer fits into a lane, too.
pub(super) const BATCH_WORDS: usize = LANE_WORDS - 64;

/// Words of a key or value. At least one, so that a batch of them cannot be said to have more than it can have.
pub(super) fn words_of<T: Fixed>() -> usize {
    T::layout_bytes().div_ceil(8).max(1)
}

/// Words that are added one after the other.
pub(super) trait Write {
    fn word(&mut self, word: u64);
    fn bytes(&mut self, bytes: &[u8]);

    fn operation(&mut self, operation: Operation) {
        self.word(operation.number());
    }

    fn fixed<T: Fixed>(&mut self, value: T) {
        (0..words_of::<T>()).for_each(|index| self.word(value.word(index)));
    }

    fn maybe<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.word(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }
}

impl Write for Vec<u64> {
    fn word(&mut self, word: u64) {
        self.push(word);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        push_bytes(self, bytes);
    }
}

/// That an operation was done.
pub(super) const DONE: u64 = 0;

const FULL: u64 = 1;
const NO_ROOM: u64 = 2;
const CROWDED: u64 = 3;
const CORRUPT: u64 = 4;
const KEY_TOO_LONG: u64 = 5;
const VALUE_TOO_LONG: u64 = 6;
const COLLISIONS: u64 = 7;
const NOT_LOGGED: u64 = 8;
const READ_ONLY: u64 = 9;
const LOG_CLOSED: u64 = 10;
const INTERRUPTED: u64 = 11;
const OTHER: u64 = 12;
const LOG: u64 = 13;
const TOO_LARGE: u64 = 14;
const CACHE_HELD: u64 = 15;

pub(super) fn write_error(words: &mut Vec<u64>, error: &Error) {
    let limits = |words: &mut Vec<u64>, number, found: usize, limit: usize| {
        words.extend([number, found as u64, limit as u64]);
    };
    match error {
        Error::PoolFull(SpaceError::Full { needed_bytes, reason }) => {
            words.extend([FULL, *needed_bytes]);
            words.bytes(reason.as_bytes());
        }
        Error::PoolFull(SpaceError::NoRoom { needed_bytes, reason }) => {
            words.extend([NO_ROOM, *needed_bytes]);
            words.bytes(reason.as_bytes());
        }
        Error::Limit(ItemError::Space(SpaceError::Crowded { pairs, slots })) => {
            words.extend([CROWDED, *pairs, *slots]);
        }
        Error::Corrupt(Corrupt { at, found }) => {
            words.extend([CORRUPT, at.0]);
            words.bytes(found.as_bytes());
        }
        Error::Limit(ItemError::KeyTooLong { found, limit }) => {
            limits(words, KEY_TOO_LONG, *found, *limit);
        }
        Error::Limit(ItemError::ValueTooLong { found, limit }) => {
            limits(words, VALUE_TOO_LONG, *found, *limit);
        }
        Error::Limit(ItemError::TooManyCollisions { limit }) => {
            words.extend([COLLISIONS, *limit as u64]);
        }
        Error::NotLogged => words.push(NOT_LOGGED),
        Error::ReadOnly => words.push(READ_ONLY),
        Error::Log(LogError::Closed) => words.push(LOG_CLOSED),
        Error::Log(error) => {
            words.push(LOG);
            words.bytes(error.to_string().as_bytes());
        }
        Error::Interrupted => words.push(INTERRUPTED),
        Error::TooLarge { found, limit } => words.extend([TOO_LARGE, *found, *limit]),
        Error::CacheHeld => words.push(CACHE_HELD),
        Error::Owner { found } => {
            words.push(OTHER);
            words.bytes(found.as_bytes());
        }
        other => {
            words.push(OTHER);
            words.bytes(other.to_string().as_bytes());
        }
    }
}

fn read_error(number: u64, words: &mut Reader<'_>) -> std::result::Result<Error, Malformed> {
    let mut size = || words.word().map(|word| word as usize);
    Ok(match number {
        FULL | NO_ROOM => {
            let (needed_bytes, reason) = (words.word()?, words.text()?);
            Error::PoolFull(match number {
                FULL => SpaceError::Full { needed_bytes, reason },
                _ => SpaceError::NoRoom { needed_bytes, reason },
            })
        }
        CROWDED => {
            let (pairs, slots) = (words.word()?, words.word()?);
            Error::Limit(ItemError::Space(SpaceError::Crowded { pairs, slots }))
        }
        CORRUPT => {
            let (at, found) = (Offset(words.word()?), words.text()?);
            Error::Corrupt(Corrupt { at, found })
        }
        KEY_TOO_LONG => Error::Limit(ItemError::KeyTooLong { found: size()?, limit: size()? }),
        VALUE_TOO_LONG => Error::Limit(ItemError::ValueTooLong { found: size()?, limit: size()? }),
        COLLISIONS => Error::Limit(ItemError::TooManyCollisions { limit: size()? }),
        NOT_LOGGED => Error::NotLogged,
        READ_ONLY => Error::ReadOnly,
        LOG_CLOSED => Error::Log(LogError::Closed),
        INTERRUPTED => Error::Interrupted,
        LOG => Error::Log(LogError::Told { found: words.text()? }),
        TOO_LARGE => Error::TooLarge { found: words.word()?, limit: words.word()? },
        CACHE_HELD => Error::CacheHeld,
        OTHER => Error::Owner { found: words.text()? },
        _ => return Err(Malformed),
    })
}

/// What follows the first word of an answer, unless that says that there was an error.
pub(super) fn read_answer<'a>(words: &'a [u64]) -> Result<Reader<'a>> {
    let mut words = Reader(words);
    match words.word()? {
        DONE => Ok(words),
        number => Err(read_error(number, &mut words)?),
    }
}

/// A batch that failed part-way: the error, the entry that failed, if it was one, and what was done.
pub(super) fn write_unfinished(
    words: &mut Vec<u64>,
    error: &Error,
    failed: Option<usize>,
    done: Done,
) {
    write_error(words, error);
    words.maybe(failed, |words, failed| words.word(failed as u64));
    let first = done.first_undone();
    words.push(first as u64);
    let behind = (0..u32::BITS as usize).filter(|bit| done.contains(first + bit));
    words.push(behind.fold(0, |mask, bit| mask | 1 << bit));
}

/// What follows in an answer to a batch of so many entries; and if that has failed, why and how far it came.
pub(super) fn read_batch_answer(words: &[u64], entries: usize) -> (Reader<'_>, Option<PartWay>) {
    let mut words = Reader(words);
    let mut read = || {
        let number = words.word()?;
        if number == DONE {
            return Ok(None);
        }
        let error = read_error(number, &mut words)?;
        if words.is_over() {
            // It was refused as a whole.
            return Ok(Some(error.into()));
        }
        let entry = |words: &mut Reader<'_>| {
            let entry = words.word()? as usize;
            if entry > entries { Err(Malformed) } else { Ok(entry) }
        };
        let failed = words.maybe(entry)?;
        let done = Done::of(entry(&mut words)?, words.word()? as u32);
        Ok(Some(PartWay::new(error, failed, done)))
    };
    let failed = read().unwrap_or_else(|malformed: Malformed| Some(Error::from(malformed).into()));
    (words, failed)
}

pub(super) fn write_log_use(words: &mut Vec<u64>, used: Option<&LogUse>) {
    words.maybe(used, |words, used| {
        let since_1970 = used.durable_until.and_then(|until| until.duration_since(UNIX_EPOCH).ok());
        words.maybe(since_1970, |words, since| words.word(since.as_millis() as u64));
        let figures = [
            used.log_bytes,
            used.checkpoint_bytes,
            used.written_bytes,
            used.logged_bytes,
            used.checkpoints,
        ];
        words.extend(figures);
        words.maybe(used.failure.as_ref(), |words, failure| {
            words.bytes(failure.to_string().as_bytes());
        });
    });
}

pub(super) fn read_log_use(
    words: &mut Reader<'_>,
) -> std::result::Result<Option<LogUse>, Malformed> {
    words.maybe(|words| {
        let until: Option<SystemTime> = words
            .maybe(Reader::word)?
            .and_then(|since_ms| UNIX_EPOCH.checked_add(Duration::from_millis(since_ms)));
        let figures: [u64; 5] = words.words(5)?.try_into().map_err(|_| Malformed)?;
        let failure = words.maybe(Reader::text)?.map(|found| LogError::Told { found });
        Ok(LogUse::of(until, figures, failure))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_on_the_other_side_what_they_were() {
        let reason = || "the disk is full".to_owned();
        let errors = [
            Error::PoolFull(SpaceError::Full { needed_bytes: 7, reason: reason() }),
            Error::PoolFull(SpaceError::NoRoom { needed_bytes: 7, reason: reason() }),
            Error::Limit(ItemError::Space(SpaceError::Crowded { pairs: 3, slots: 70 })),
            Error::Corrupt(Corrupt { at: Offset(64), found: "an item of no bytes".into() }),
            Error::Limit(ItemError::KeyTooLong { found: 70_000, limit: 65_536 }),
            Error::Limit(ItemError::ValueTooLong { found: 9, limit: 8 }),
            Error::Limit(ItemError::TooManyCollisions { limit: 5 }),
            Error::NotLogged,
            Error::ReadOnly,
            Error::Log(LogError::Closed),
            Error::Log(LogError::Told { found: "no room".into() }),
            Error::Interrupted,
            Error::TooLarge { found: 900, limit: 800 },
            Error::CacheHeld,
        ];
        for error in errors {
            let mut words = Vec::new();
            write_error(&mut words, &error);
            let read = read_answer(&words).unwrap_err();
            assert_eq!(format!("{read:?}"), format!("{error:?}"));
            let done = Done::of(3, 0b110);
            for failed in [Some(4), None] {
                let mut words = Vec::new();
                write_unfinished(&mut words, &error, failed, done);
                let (rest, told) = read_batch_answer(&words, 5);
                let told = told.unwrap();
                assert!(rest.is_over());
                assert_eq!((told.failed(), told.done()), (failed, done));
                assert_eq!(format!("{:?}", told.into_error()), format!("{error:?}"));
                for cut in 0..words.len() {
                    let _ = read_batch_answer(&words[..cut], 5);
                }
                let malformed = read_batch_answer(&words, 2).1.unwrap();
                assert_eq!((malformed.failed(), malformed.done()), (None, Done::NONE));
            }
        }
        let mut words = Vec::new();
        write_error(&mut words, &Error::Forked);
        let told = read_answer(&words).unwrap_err();
        assert!(told.to_string().contains(&Error::Forked.to_string()), "{told}");
    }

    #[test]
    fn what_is_in_no_format_is_said_to_be() {
        for words in [&[][..], &[77], &[FULL], &[FULL, 1, 1 << 40], &[OTHER, 9]] {
            assert!(matches!(read_answer(words), Err(Error::Owner { .. })), "{words:?}");
        }
        assert_eq!(Reader(&[3, 1]).count(), Err(Malformed));
        assert_eq!(Reader(&[u64::MAX, 1]).bytes(), Err(Malformed));
        assert_eq!(Reader(&[99]).operation(), Err(Malformed));
    }
}
