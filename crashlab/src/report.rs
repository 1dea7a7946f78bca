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
        Failure {
            engine: S::NAME,
            setup: setup.name,
            what,
            program: Vec::new(),
            schedule: Schedule::default(),
            calls: Vec::new(),
            trail: Vec::new(),
            replay: None,
        }
    }

    /// With what was run.
    #[must_use]
    pub fn with_program(mut self, program: &Program, schedule: &Schedule) -> Failure {
        self.program.clone_from(program);
        self.schedule = schedule.clone();
        self
    }

    /// With what was called and answered.
    #[must_use]
    pub fn with_calls(mut self, calls: &[Call]) -> Failure {
        self.calls = calls.iter().map(Call::to_string).collect();
        self
    }

    /// With what happened after the run.
    #[must_use]
    pub fn with_trail(mut self, trail: Vec<String>) -> Failure {
        self.trail = trail;
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, {}: {}", self.engine, self.setup, self.what)?;
        for (thread, ops) in self.program.iter().enumerate() {
            let ops: Vec<String> = ops.iter().map(ToString::to_string).collect();
            writeln!(f, "  thread {thread} does: {}", ops.join("; "))?;
        }
        if self.program.len() > 1 {
            let slices = self.schedule.slices.iter();
            let slices: Vec<String> =
                slices.map(|slice| format!("{}x{}", slice.thread, slice.accesses)).collect();
            let delays = if self.schedule.delays { ", stores visible late" } else { "" };
            writeln!(f, "  schedule (thread x accesses): {}{delays}", slices.join(" "))?;
        }
        self.calls.iter().try_for_each(|call| writeln!(f, "  {call}"))?;
        self.trail.iter().try_for_each(|step| writeln!(f, "  {step}"))?;
        if let Some(replay) = &self.replay {
            writeln!(f, "  again: {replay}")?;
        }
        Ok(())
    }
}
