//! What else a lab does with the runs of one program: it hands out their accesses, and counts resizes.

use crate::execution::{self, Manner};
use crate::history::Program;
use crate::lab::Lab;
use crate::machine::{Access, Schedule};
use crate::report::Failure;
use crate::subject::Subject;

/// Resizes of a run, its setup's included.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Resizes {
    /// Until its last operation has ended.
    in_run: u64,
    /// Until none is under way. A resize that has lost count of what it moves ends only by another one.
    pub(crate) ended: u64,
}

impl Resizes {
    /// As many as there may be.
    pub(crate) const ANY: Resizes = Resizes { in_run: u64::MAX, ended: u64::MAX };

    /// Those of a run whose last one may be under way.
    pub(crate) fn of(in_run: u64) -> Resizes {
        Resizes { in_run, ended: in_run }
    }

    fn most(self, other: Resizes) -> Resizes {
        Resizes { in_run: self.in_run.max(other.in_run), ended: self.ended.max(other.ended) }
    }

    /// What is wrong if there are more than in `most`.
    pub(crate) fn within(self, most: Resizes) -> Result<(), String> {
        if self.in_run > most.in_run {
            return Err(format!("{} resizes, {} are enough", self.in_run, most.in_run));
        }
        if self.ended > most.ended {
            let (ended, most) = (self.ended, most.ended);
            return Err(format!("{ended} resizes until none is under way, {most} are enough"));
        }
        Ok(())
    }
}

impl<S: Subject> Lab<S> {
    /// From now on no run may need more resizes than these ones, whose threads run one after another.
    pub fn bound_resizes(
        &mut self,
        program: &Program,
        in_order: &[Schedule],
    ) -> Result<(), Failure> {
        let mut most = Resizes::default();
        self.resizes_max = Resizes::ANY;
        for schedule in in_order {
            self.explore(program, schedule, 0)?;
            most = most.most(self.resizes_seen);
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
