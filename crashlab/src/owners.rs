//! One owner of a pool after another, and guests beside them.
//!
//! A program with [`Op::Succeed`] has three kinds of threads. Those that only look keys up are guests. The one that
//! succeeds is the next owner, in a process of its own. The others are the owner, which is killed then, wherever it is.
//! Who runs when is the schedule's, so a program has a death at any access, and guests that go on at any point of the
//! recovery.

use crate::history::{Action, Key, Op, Program, Value};
use crate::machine;
use crate::subject::{Failed, Refusal, Setup, Subject};
use pmem::sync::simulated::{self, Context};
use std::sync::{Arc, OnceLock};

/// What a thread belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The owner.
    Owner,
    /// A guest of this owner and the next one.
    Guest,
    /// The next owner.
    Next,
}

/// What each thread of a program belongs to.
pub(crate) fn roles(program: &Program) -> Vec<Role> {
    let succeeds = |ops: &Vec<Op>| ops.contains(&Op::Succeed);
    let is_succeeded = program.iter().any(succeeds);
    let looks_up = |op: &Op| {
        let calls = op.calls();
        !calls.is_empty() && calls.iter().all(|(_, action)| *action == Action::Get)
    };
    let role = |ops: &Vec<Op>| match ops {
        _ if !is_succeeded => Role::Owner,
        ops if succeeds(ops) => Role::Next,
        ops if !ops.is_empty() && ops.iter().all(looks_up) => Role::Guest,
        _ => Role::Owner,
    };
    program.iter().map(role).collect()
}

/// The next owner's process has the number of the former one with this bit.
const NEXT: u32 = 1 << 31;
/// A kill is no new boot.
const BOOT: u64 = 0;

/// A pool's owners.
pub(crate) struct Owners<S> {
    first: Arc<S>,
    process: u32,
    next: OnceLock<Arc<S>>,
    roles: Vec<Role>,
}

impl<S: Subject> Owners<S> {
    pub(crate) fn new(first: S, process: u32, roles: Vec<Role>) -> Self {
        Owners { first: Arc::new(first), process, next: OnceLock::new(), roles }
    }

    pub(crate) fn first(&self) -> &Arc<S> {
        &self.first
    }

    /// The owner by now, and its process.
    pub(crate) fn last(&self) -> (&Arc<S>, u32) {
        match self.next.get() {
            Some(next) => (next, self.process | NEXT),
            None => (&self.first, self.process),
        }
    }

    pub(crate) fn is_guest(&self, thread: usize) -> bool {
        self.roles[thread] == Role::Guest
    }

    /// Whether a thread ends with the first owner.
    pub(crate) fn is_killed(&self, thread: usize) -> bool {
        self.roles[thread] == Role::Owner
    }

    /// Kills the first owner, and makes the running thread the next one's.
    pub(crate) fn succeed(&self, setup: &Setup) -> Result<(), Failed> {
        machine::kill(self.roles.len(), |thread| self.is_killed(thread));
        simulated::enter(self.of_next());
        let next = S::open(self.first.medium().shared(), setup, BOOT);
        let next = next.map_err(|refusal| match refusal {
            Refusal::Wrong(what) => Failed::Wrong(what),
            refusal => Failed::Wrong(format!("{refusal:?}")),
        })?;
        self.next.get_or_init(|| Arc::new(next));
        Ok(())
    }

    /// What a guest finds: in what the first owner showed, or else with the next one, which it asks if need be. `None`
    /// while that is not there: it cannot tell.
    pub(crate) fn look_up(
        &self,
        setup: &Setup,
        calls: &[(Key, Action)],
    ) -> Result<Vec<Option<Option<Value>>>, Failed> {
        let keys: Vec<Key> = calls.iter().map(|&(key, _)| key).collect();
        let mut all = self.first.see(setup, &keys)?;
        let Some(next) = self.next.get() else { return Ok(all) };
        for (found, key) in all.iter_mut().zip(keys).filter(|(found, _)| found.is_none()) {
            let outer = simulated::enter(self.of_next());
            let asked = next.call(setup, key, Action::Get);
            simulated::enter(outer);
            *found = Some(asked?);
        }
        Ok(all)
    }

    fn of_next(&self) -> Context {
        Context { process: self.process | NEXT, ..simulated::context() }
    }
}
