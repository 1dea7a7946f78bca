//! What else a lab does with the runs of one program: it hands out their accesses, and bounds resizes.

use crate::execution::{self, Manner};
use crate::history::Program;
use crate::lab::Lab;
use crate::machine::{Access, Schedule};
use crate::report::Failure;
use crate::resizes::Resizes;
use crate::subject::Subject;

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
