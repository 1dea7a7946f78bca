//! What was done, and what a violation looks like to whoever has to mend it.

use crate::history::{Call, Program};
use crate::machine::Schedule;
use crate::subject::{Setup, Subject};
use std::fmt;

/// What has been done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Histories run.
    pub histories: u64,
    /// Crash images judged.
    pub images: u64,
    /// Recoveries run: images met again are not recovered again.
    pub recoveries: u64,
}

impl Counters {
    /// What has been done since `before`.
    #[must_use]
    pub fn less(self, before: Counters) -> Counters {
        Counters {
            histories: self.histories - before.histories,
            images: self.images - before.images,
            recoveries: self.recoveries - before.recoveries,
        }
    }
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        self.histories += other.histories;
        self.images += other.images;
        self.recoveries += other.recoveries;
    }
}

/// A promise that was broken, and everything needed to see it again.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The subject.
    pub engine: String,
    /// The setup.
    pub setup: &'static str,
    /// What is wrong.
    pub what: String,
    /// How it came about.
    pub evidence: Box<Evidence>,
}

/// What led to a failure.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// The program, if it was one.
    pub program: Program,
    /// Its schedule.
    pub schedule: Schedule,
    /// The calls up to the crash.
    pub calls: Vec<String>,
    /// Crashes and recoveries from there on, with the stores that did not arrive.
    pub trail: Vec<String>,
    /// How to run the same again.
    pub replay: Option<String>,
}

impl Failure {
    /// A failure in this setup.
    pub fn new<S: Subject>(setup: &Setup, what: String) -> Failure {
        Failure { engine: setup.subject::<S>(), setup: setup.name, what, evidence: Box::default() }
    }

    /// With what was run.
    #[must_use]
    pub fn with_program(mut self, program: &Program, schedule: &Schedule) -> Failure {
        self.evidence.program.clone_from(program);
        self.evidence.schedule = schedule.clone();
        self
    }

    /// With what was called and answered.
    #[must_use]
    pub fn with_calls(mut self, calls: &[Call]) -> Failure {
        self.evidence.calls = calls.iter().map(Call::to_string).collect();
        self
    }

    /// With what happened after the run.
    #[must_use]
    pub fn with_trail(mut self, trail: Vec<String>) -> Failure {
        self.evidence.trail = trail;
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, {}: {}", self.engine, self.setup, self.what)?;
        let Evidence { program, schedule, calls, trail, replay } = &*self.evidence;
        for (thread, ops) in program.iter().enumerate() {
            let ops: Vec<String> = ops.iter().map(ToString::to_string).collect();
            writeln!(f, "  thread {thread} does: {}", ops.join("; "))?;
        }
        if program.len() > 1 {
            let slices = schedule.slices.iter();
            let slices: Vec<String> =
                slices.map(|slice| format!("{}x{}", slice.thread, slice.accesses)).collect();
            let delays = if schedule.delays { ", stores visible late" } else { "" };
            writeln!(f, "  schedule (thread x accesses): {}{delays}", slices.join(" "))?;
        }
        calls.iter().try_for_each(|call| writeln!(f, "  {call}"))?;
        trail.iter().try_for_each(|step| writeln!(f, "  {step}"))?;
        if let Some(replay) = replay {
            writeln!(f, "  again: {replay}")?;
        }
        Ok(())
    }
}
