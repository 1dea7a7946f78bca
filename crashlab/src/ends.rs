//! How things end: resizes, and pools that say that they are clean.

use crate::history::{Action, Key, Value};
use crate::images::Image;
use crate::lab::PROBE;
use crate::machine;
use crate::owed::Contents;
use crate::subject::{Failed, Refusal, Setup, Subject};
use pmem::Offset;

/// Opens a pool that says it is clean as who only reads it does: it must be whole as it stands, hold
/// what `recovered` says first, and not be written to.
pub(crate) fn read_clean<S: Subject>(
    setup: &Setup,
    process: u32,
    image: &Image,
    recovered: &[Contents],
) -> Result<(), String> {
    machine::alone(process, None, || {
        let subject = match S::open_read_only(setup.medium(&image.words), setup) {
            Ok(subject) => subject,
            // It does not say that it is clean, or what it says is torn.
            Err(Refusal::NoPool | Refusal::Dirty) => return Ok(()),
            Err(Refusal::Wrong(what)) => return Err(what),
        };
        subject.check()?;
        let contents = subject.contents(setup)?;
        if subject.medium().is_pending_from(Offset(0)) {
            return Err("it is written to".into());
        }
        match recovered.first() {
            Some(Some(known)) if **known == *contents => Ok(()),
            known => Err(format!("it holds {contents:?}, recovered {known:?}")),
        }
    })
}

/// Insertions and removals after which a resize must have ended: each does a part of it, and what it
/// needs besides, a further level for a key that finds no room, is a resize of its own.
const CHANGES_TO_END: usize = 66;

/// Sees to it that a resize that is under way ends, and that nothing is lost in it: by writing on,
/// as operations do a part of it each, or at once.
pub(crate) fn end_resize<S: Subject>(
    subject: &S,
    setup: &Setup,
    contents: &[Option<Value>],
    is_by_writes: bool,
) -> Result<(), String> {
    if !subject.is_resizing() {
        return Ok(());
    }
    let wrong = |failed: Failed| format!("ending a resize by writing: {failed:?}");
    let by = match is_by_writes {
        true if setup.has_helper => {
            (0..CHANGES_TO_END).for_each(|_| subject.help());
            "66 rounds of a helper"
        }
        true => {
            // Three changes a round: with two, or four, each would come to the same buckets again.
            let last = setup.free_keys.saturating_sub(1).min(1) as Key;
            for round in 0..CHANGES_TO_END / 3 {
                let other = match (contents[usize::from(last)], round % 2) {
                    (Some(_), 0) | (None, 1) => Action::Remove,
                    (state, _) => Action::Upsert(state.unwrap_or(PROBE)),
                };
                for (key, action) in
                    [(0, Action::Upsert(PROBE)), (0, Action::Remove), (last, other)]
                {
                    subject.call(setup, key, action).map_err(wrong)?;
                }
            }
            if let Some(value) = contents[0] {
                subject.call(setup, 0, Action::Upsert(value)).map_err(wrong)?;
            }
            "66 changes"
        }
        false => {
            subject.settle();
            "settling"
        }
    };
    if subject.is_resizing() {
        // By writing, only a resize that has room for everything ends: a pair that finds
        // none above may wait for a key that finds none either, or for a settling.
        let before = subject.resizes();
        subject.settle();
        if subject.is_resizing() || subject.resizes() == before {
            return Err(format!("the resize has not ended after {by}"));
        }
    }
    subject.check()?;
    match subject.contents(setup)? {
        found if found == contents => Ok(()),
        found => Err(format!("the resize ended by {by}, it holds {found:?}, not {contents:?}")),
    }
}
