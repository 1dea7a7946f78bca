//! What a violation looks like to whoever has to mend it.

use crate::history::{Call, Program};
use crate::machine::Schedule;
use crate::subject::{Setup, Subject};
use std::fmt;

/// A promise that was broken, and everything needed to see it again.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The subject.
    pub engine: &'static str,
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
        Failure { engine: S::NAME, setup: setup.name, what, evidence: Box::default() }
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
