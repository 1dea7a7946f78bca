//! What else a lab does with the runs of one program: it hands out their accesses, counts resizes, and sees
//! to it that they end.

use crate::execution::{self, Manner};
use crate::history::{Action, Key, Program, Value};
use crate::lab::{Lab, PROBE};
use crate::machine::{Access, Schedule};
use crate::report::Failure;
use crate::subject::{Failed, Setup, Subject};

impl<S: Subject> Lab<S> {
    /// From now on no run may need more resizes than these ones, whose threads run one after another.
    pub fn bound_resizes(
        &mut self,
        program: &Program,
        in_order: &[Schedule],
    ) -> Result<(), Failure> {
        let mut most = 0;
        self.resizes_max = u64::MAX;
        for schedule in in_order {
            self.explore(program, schedule, 0)?;
            most = most.max(self.resizes_seen);
        }
        self.resizes_max = most;
        Ok(())
    }

    /// As [`explore`](Lab::explore) from the first operation on; returns every access.
    pub fn explore_traced(
        &mut self,
        program: &Program,
        schedule: &Schedule,
    ) -> Result<Vec<Access>, Failure> {
        let manner = Manner { schedule, from_op: 0, slices_before: 0, is_traced: true };
        Ok(self.explore_part(program, manner)?.trace)
    }

    /// As [`explore`](Lab::explore), but crashes it only where it departs from a history that was
    /// explored before, which had the same slices up to the last one. Also returns every access.
    pub fn explore_last_slice(
        &mut self,
        program: &Program,
        schedule: &Schedule,
    ) -> Result<Vec<Access>, Failure> {
        let slices_before = schedule.slices.len();
        let manner = Manner { schedule, from_op: 0, slices_before, is_traced: true };
        Ok(self.explore_part(program, manner)?.trace)
    }

    /// The accesses of a program under a schedule, nothing being judged; none if that goes wrong.
    pub fn trace(&mut self, program: &Program, schedule: &Schedule) -> Vec<Access> {
        let process = self.next_process();
        let manner = Manner { schedule, from_op: 0, slices_before: usize::MAX, is_traced: true };
        let run = execution::run::<S>(&self.setup, program, process, manner);
        run.map_or(Vec::new(), |execution| execution.trace)
    }
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
        // By writing, only a resize that has room for everything ends: on Level hashing, a pair that
        // finds none above waits for a key that finds none either, or for a settling.
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
