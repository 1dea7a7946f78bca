//! Why a call failed: a code and a message, which the calling thread can ask for.

use crate::code::Code;
use firndex::{BatchError, Error, ItemError, OpenError, SpaceError};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};

/// Why a call failed. On the heap, since results of this size are copied on the hot path.
#[derive(Debug)]
pub(crate) struct Failure(Box<Reason>);

#[derive(Debug)]
struct Reason {
    code: Code,
    message: String,
}

/// What a call has to say.
pub(crate) type Outcome = Result<Code, Failure>;

thread_local! {
    /// The message of this thread's last failure.
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Keeps a message for the calling thread to ask for.
pub(crate) fn tell(message: String) {
    // A path may have any bytes but this one, and nothing else in a message comes from the caller.
    let text = CString::new(message.replace('\0', "\\0")).unwrap_or_default();
    // A thread that is about to end may have lost its place for messages.
    let _ = MESSAGE.try_with(|message| message.replace(text));
}

/// The message of the calling thread's last failure. It stays until the thread's next one.
pub(crate) fn told() -> *const c_char {
    MESSAGE.try_with(|message| message.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

impl Failure {
    #[cold]
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure(Box::new(Reason { code, message: message.into() }))
    }

    pub(crate) fn code(&self) -> Code {
        self.0.code
    }

    /// An argument that no call takes: what was found, what was expected, and what to do.
    #[cold]
    pub(crate) fn argument(message: impl Into<String>) -> Failure {
        Failure::new(Code::Argument, message)
    }

    /// Keeps the message for the calling thread, and returns the code.
    #[cold]
    pub(crate) fn report(self) -> Code {
        tell(self.0.message);
        self.0.code
    }

    /// The code of a batch's cause, with a message that also says how much of the batch took effect.
    #[cold]
    pub(crate) fn of_batch(error: &BatchError) -> Failure {
        Failure::new(code_of(error.error()), for_c(&error.to_string()))
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Failure {
        Failure::new(code_of(&error), for_c(&error.to_string()))
    }
}

fn code_of(error: &Error) -> Code {
    match error {
        Error::Open(error) => code_of_opening(error),
        Error::PoolFull(_) => Code::Full,
        Error::Corrupt(_) => Code::Damaged,
        Error::Limit(limit) => match limit {
            ItemError::KeyTooLong { .. } | ItemError::ValueTooLong { .. } => Code::TooLong,
            ItemError::TooManyCollisions { .. } => Code::Crowded,
            ItemError::Space(SpaceError::Crowded { .. }) => Code::Crowded,
            ItemError::Space(_) => Code::Full,
            ItemError::Corrupt(_) => Code::Damaged,
            _ => Code::Other,
        },
        Error::PairSizes { .. } | Error::Parameter { .. } | Error::OutOfRange { .. } => {
            Code::Option
        }
        Error::Log(_) => Code::Log,
        Error::NotLogged => Code::NotLogged,
        Error::ReadOnly => Code::ReadOnly,
        Error::Forked => Code::Forked,
        Error::Interrupted => Code::Interrupted,
        Error::Silent { .. } => Code::Silent,
        Error::Owner { .. } => Code::Owner,
        Error::ForOwner { .. } => Code::ForOwner,
        Error::Vanished { .. } => Code::Vanished,
        Error::Io { .. } => Code::Io,
        _ => Code::Other,
    }
}

fn code_of_opening(error: &OpenError) -> Code {
    use OpenError as E;
    match error {
        E::Missing { .. } => Code::Missing,
        E::Exists { .. } => Code::Exists,
        E::NoDirectory { .. } | E::NotAFile { .. } | E::NameTooLong { .. } => Code::Path,
        E::NotAPool { .. } => Code::NotAPool,
        E::Mismatch { .. } => Code::Mismatch,
        E::Busy { .. } | E::BusyLog { .. } => Code::Busy,
        E::AlreadyOpen { .. } => Code::AlreadyOpen,
        E::Dirty { .. } | E::NotRestored { .. } => Code::NotRestored,
        E::NeedsRecovery => Code::NeedsRecovery,
        E::NotWritable { .. } | E::OthersFile { .. } | E::NoRightToLog { .. } => Code::Denied,
        E::ForeignLog { .. }
        | E::LeftLog { .. }
        | E::InTheWay { .. }
        | E::NoLogDirectory { .. }
        | E::LogElsewhere { .. } => Code::LogPlace,
        E::NoDax { .. } | E::Unsupported { .. } => Code::Unsupported,
        E::Damaged { .. } | E::Truncated { .. } | E::Corrupt { .. } | E::Miscounted { .. } => {
            Code::Damaged
        }
        E::Log(_) => Code::Log,
        E::Space(_) => Code::Full,
        E::Io { .. } => Code::Io,
        _ => Code::Other,
    }
}

/// What the library says, and what a program in C is told instead. Advice of the library names calls of Rust.
const WORDS: &[(&str, &str)] = &[
    ("open it with `open_or_create`", "open it with FIRNDEX_OPEN_OR_CREATE"),
    ("drop this handle", "close this handle"),
    ("name a file that `create` made", "name a file that `firndex_store_open` made"),
    ("call `firndex::remove`", "call `firndex_remove`"),
    ("open it as a `Table`", "open it with `firndex_table_open`"),
    ("open it as a `Store`", "open it with `firndex_store_open`"),
    ("keep them in a `Store`", "keep them in a store"),
    (
        "open it with types of the sizes it was made with",
        "tables of other sizes than 8 and 8 bytes are opened by programs in Rust, or by the command `firndex`",
    ),
    (
        "use `Options::in_memory_table` or `in_memory_store`",
        "use `firndex_table_in_memory` or `firndex_store_in_memory`",
    ),
    ("`Options::durable_every`", "`firndex_options.durable_every_us`"),
    ("`Options::patience`", "`firndex_options.patience_ms`"),
    ("`Options::", "`firndex_options."),
    ("use `sync`", "use `firndex_store_sync` or `firndex_table_sync`"),
    ("run `check`", "run `firndex_store_check` or `firndex_table_check`"),
];

/// Salvaging as a call; in between is the pool.
const SALVAGE: (&str, &str) = ("`Salvage::open(", ")`");

/// The message for a program in C.
fn for_c(message: &str) -> String {
    let mut said = message.to_owned();
    for (library, here) in WORDS {
        said = said.replace(library, here);
    }
    let mut parts = said.split(SALVAGE.0);
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(SALVAGE.1) {
            Some((pool, rest)) => whole.extend(["`firndex salvage ", pool, " OUT`", rest]),
            None => whole.extend([SALVAGE.0, part]),
        }
    }
    whole
}

/// The name of a code.
pub(crate) fn name_of(number: i32) -> &'static CStr {
    Code::of(number).map_or(c"unknown code", Code::name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::time::Duration;

    fn path() -> PathBuf {
        "fruit.firn".into()
    }

    #[test]
    fn messages_name_what_a_program_in_c_has() {
        let mismatch = |advice| OpenError::Mismatch {
            field: "kind",
            found: "x".into(),
            expected: "y".into(),
            advice,
        };
        let option =
            |option| Error::OutOfRange { option, found: "17".into(), expected: "less".into() };
        let full = "its limit is 9 bytes: raise `Options::max_bytes`";
        let full = SpaceError::Full { needed_bytes: 17, reason: full.into() };
        let left = OpenError::LeftLog { path: path(), companions: path() };
        let cases: [(Error, Code, &str); 14] = [
            (OpenError::Missing { path: path() }.into(), Code::Missing, "FIRNDEX_OPEN_OR_CREATE"),
            (
                OpenError::Busy { path: path(), advice: "close it there first" }.into(),
                Code::Busy,
                "close it there first",
            ),
            (
                OpenError::Damaged { found: "x".into() }.into(),
                Code::Damaged,
                "`firndex salvage POOL OUT`",
            ),
            (
                OpenError::LogElsewhere { path: path() }.into(),
                Code::LogPlace,
                "`firndex_options.log_directory`",
            ),
            (left.into(), Code::LogPlace, "call `firndex_remove`"),
            (
                mismatch("open it as a `Table`").into(),
                Code::Mismatch,
                "open it with `firndex_table_open`",
            ),
            (option("durable_every"), Code::Option, "`firndex_options.durable_every_us` was given"),
            (
                Error::Silent { process: 17, waited: Duration::from_secs(1) },
                Code::Silent,
                "wait longer (`firndex_options.patience_ms`)",
            ),
            (
                OpenError::Busy { path: path(), advice: "let others in (`Options::guests`)" }
                    .into(),
                Code::Busy,
                "let others in (`firndex_options.guests`)",
            ),
            (option("max_bytes"), Code::Option, "`firndex_options.max_bytes` was given 17"),
            (full.into(), Code::Full, "raise `firndex_options.max_bytes`"),
            (Error::NotLogged, Code::NotLogged, "or use `firndex_store_sync`"),
            (
                Error::Vanished { file_bytes: 1, pool_bytes: 2 },
                Code::Vanished,
                "close this handle, and open",
            ),
            (
                Error::Limit(ItemError::KeyTooLong { found: 70_000, limit: 65_536 }),
                Code::TooLong,
                "70000 bytes, at most 65536 are possible; use a digest",
            ),
        ];
        for (error, code, says) in cases {
            let failure = Failure::from(error);
            assert_eq!(failure.code(), code, "{failure:?}");
            assert!(failure.0.message.contains(says), "{failure:?}");
            assert!(!failure.0.message.contains("::"), "{failure:?}");
        }
    }

    #[test]
    fn a_message_is_text_of_c_whatever_is_in_it() {
        assert_eq!(Failure::argument("a\0b").report(), Code::Argument);
        // SAFETY: it is this thread's message, which stays until the next one.
        let text = unsafe { CStr::from_ptr(told()) };
        assert_eq!(text, c"a\\0b");
    }

    #[test]
    fn codes_are_told_apart_and_errors_are_negative() {
        for (at, code) in Code::ALL.iter().enumerate() {
            let name = code.name().to_str().unwrap();
            assert_eq!(name.starts_with("FIRNDEX_ERROR_"), (*code as i32) < 0, "{name}");
            assert_eq!(name_of(*code as i32), code.name());
            for other in &Code::ALL[at + 1..] {
                assert_ne!(code.name(), other.name());
            }
        }
        assert_eq!(name_of(12_345), c"unknown code");
    }
}
