//! What a client is told when a command cannot be carried out. The texts that Redis has are Redis' own, since clients
//! know them.

/// Why a command was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// Answered by the server itself.
    #[error("ERR wrong number of arguments")]
    Arity,
    #[error("ERR syntax error")]
    Syntax,
    #[error("ERR value is not an integer or out of range")]
    NotAnInteger,
    #[error("ERR increment or decrement would overflow")]
    Overflow,
    #[error("ERR invalid expire time in '{command}' command")]
    ExpireTime { command: &'static str },
    #[error("ERR invalid cursor")]
    Cursor,
    #[error("READONLY You can't write against a read only replica.")]
    Replica,
    /// Clients of clusters try again when they read this.
    #[error("TRYAGAIN slot {slot} is being handed over to another node; try again")]
    HandedOver { slot: u16 },
    #[error("ERR {command} works on a thread; call it outside of MULTI, scripts and functions")]
    MayNotWait { command: &'static str },
    #[error(
        "FIRNPARTIAL the pool holds only a part of its master's data; it answers again after a full resynchronisation"
    )]
    Partial,
    #[error("ERR the module firn is busy with another command; this is a mistake in the module")]
    Reentered,
    #[error("ERR the module firn has failed in this command, which may have taken effect: {found}")]
    Panicked { found: String },
    #[error(
        "ERR the pool has a value that this module did not write: {found}; let only this server write to the pool"
    )]
    Foreign { found: &'static str },
    #[error("ERR {command} is for the stream of a master; clients use the other commands")]
    OnlyReplicated { command: &'static str },
    #[error("ERR {found}, expected {expected}; {advice}")]
    Argument { found: String, expected: &'static str, advice: &'static str },
    #[error("ERR firndex: {0}")]
    Pool(#[from] firndex::Error),
    #[error("ERR firndex: {0}")]
    Batch(#[from] firndex::BatchError),
}

/// What most functions of this module return.
pub(crate) type Answer<T = ()> = Result<T, Refusal>;
