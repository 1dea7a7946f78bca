//! What is done to a table, and what came of it.
//!
//! Keys and values are small numbers; a [`Setup`](crate::subject::Setup) says which words or bytes they stand for.

use std::fmt;

/// Which of a setup's keys.
pub type Key = u8;
/// Which value.
pub type Value = u16;

/// The value that is stored to see whether a recovered table works.
pub(crate) const PROBE: Value = 999;

/// One operation on one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Reads.
    Get,
    /// Stores if absent.
    Insert(Value),
    /// Stores if present.
    Update(Value),
    /// Stores.
    Upsert(Value),
    /// Removes.
    Remove,
    /// Replaces the first state by the second.
    Exchange(Option<Value>, Option<Value>),
    /// What only caches do.
    OfCache(CacheAction),
}

/// What only caches do, as one key sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CacheAction {
    /// Lets the value end when time passes next, or never.
    Touch {
        /// Whether it ends.
        ends: bool,
    },
    /// All is removed.
    Clear,
    /// Time passes: what was to end is over.
    Pass,
}

impl Action {
    /// What becomes of a key in `state`.
    pub fn apply(self, state: Option<Value>) -> Option<Value> {
        match (self, state) {
            (Action::Insert(value), None)
            | (Action::Update(value), Some(_))
            | (Action::Upsert(value), _) => Some(value),
            (Action::Exchange(expected, new), _) if state == expected => new,
            (Action::Remove, _) => None,
            _ => state,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = |state: &Option<Value>| state.map_or("-".into(), |value| value.to_string());
        match self {
            Action::Get => write!(f, "get"),
            Action::Insert(value) => write!(f, "insert {value}"),
            Action::Update(value) => write!(f, "update {value}"),
            Action::Upsert(value) => write!(f, "upsert {value}"),
            Action::Remove => write!(f, "remove"),
            Action::Exchange(expected, new) => {
                write!(f, "exchange {} for {}", state(expected), state(new))
            }
            Action::OfCache(CacheAction::Touch { ends: true }) => write!(f, "touch, to end"),
            Action::OfCache(CacheAction::Touch { ends: false }) => write!(f, "touch, for ever"),
            Action::OfCache(CacheAction::Clear) => write!(f, "clear"),
            Action::OfCache(CacheAction::Pass) => write!(f, "time passes"),
        }
    }
}

/// The order in which a checkpoint copies words. Neither `pmem` nor the machine promises one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// From the first to the last.
    Up,
    /// From the last to the first.
    Down,
}

/// One call on the table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Op {
    /// A single operation.
    One(Key, Action),
    /// A batch of operations of one kind on different keys.
    Many(Vec<(Key, Action)>),
    /// Ends the resize that is under way.
    Settle,
    /// Halves the table.
    Shrink,
    /// Moves items together.
    Compact,
    /// Visits all pairs.
    Scan,
    /// Ends a resize that is under way, and records the pool as clean until the next change.
    Sync,
    /// One round of a helper, which the table then must be said to have.
    Help,
    /// Closes an epoch of the line log.
    Seal,
    /// Kills the owner and recovers the pool as the next one, beside the guests: the threads that only look keys up.
    /// They do so in what the former owner showed, and ask the next one.
    Succeed,
    /// Makes a checkpoint, to which the line log's later cuts belong.
    Checkpoint(Way),
    /// Removes everything from a cache.
    Clear,
    /// Lets time pass: what a cache has that was to end is over.
    Pass,
}

impl Op {
    /// What it does to single keys.
    pub fn calls(&self) -> Vec<(Key, Action)> {
        match self {
            Op::One(key, action) => vec![(*key, *action)],
            Op::Many(calls) => calls.clone(),
            _ => Vec::new(),
        }
    }

    /// What it does to every key there is, if it does.
    pub(crate) fn on_all(&self) -> Option<Action> {
        match self {
            Op::Clear => Some(Action::OfCache(CacheAction::Clear)),
            Op::Pass => Some(Action::OfCache(CacheAction::Pass)),
            _ => None,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::One(key, action) => write!(f, "k{key} {action}"),
            Op::Many(actions) => {
                let actions: Vec<String> =
                    actions.iter().map(|(key, action)| format!("k{key} {action}")).collect();
                write!(f, "[{}]", actions.join(", "))
            }
            Op::Settle => write!(f, "settle"),
            Op::Shrink => write!(f, "shrink"),
            Op::Compact => write!(f, "compact"),
            Op::Scan => write!(f, "scan"),
            Op::Sync => write!(f, "sync"),
            Op::Help => write!(f, "help"),
            Op::Seal => write!(f, "seal"),
            Op::Succeed => write!(f, "succeed"),
            Op::Checkpoint(Way::Up) => write!(f, "checkpoint"),
            Op::Checkpoint(Way::Down) => write!(f, "checkpoint from the end"),
            Op::Clear => write!(f, "clear"),
            Op::Pass => write!(f, "time passes"),
        }
    }
}

/// What each thread does, in order.
pub type Program = Vec<Vec<Op>>;

/// What a call on one key returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The state that it found.
    Found(Option<Value>),
    /// There was no room; nothing was changed.
    Full,
    /// None: its process was killed. From then on nothing changes whether it has happened.
    Lost,
}

/// An operation on one key as it happened. Moments are positions in the sequence of all
/// beginnings and ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Who called.
    pub thread: usize,
    /// On which key.
    pub key: Key,
    /// What was to be done.
    pub action: Action,
    /// When it began.
    pub began: u32,
    /// When it ended and with which answer, if it did.
    pub ended: Option<(u32, Answer)>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call { thread, key, action, began, ended } = self;
        write!(f, "thread {thread}: k{key} {action}, from {began}")?;
        match ended {
            Some((at, Answer::Found(Some(value)))) => write!(f, " to {at}, found {value}"),
            Some((at, Answer::Found(None))) => write!(f, " to {at}, found nothing"),
            Some((at, Answer::Full)) => write!(f, " to {at}, found no room"),
            Some((at, Answer::Lost)) => write!(f, ", lost with its process by {at}"),
            None => write!(f, ", under way"),
        }
    }
}
