//! What a call returns.

use std::ffi::{CStr, c_int};

macro_rules! codes {
    ($($(#[$doc:meta])+ $variant:ident = $number:literal, $name:literal;)+) => {
        /// What a call returns: negative numbers are errors.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(i32)]
        pub(crate) enum Code {
            $($(#[$doc])+ $variant = $number,)+
        }

        impl Code {
            /// All of them.
            pub(crate) const ALL: &'static [Code] = &[$(Code::$variant),+];

            /// Its name in the header.
            pub(crate) const fn name(self) -> &'static CStr {
                match self {
                    $(Code::$variant => $name,)+
                }
            }
        }
    };
}

codes! {
    /// Done, or found.
    Ok = 0, c"FIRNDEX_OK";
    /// The key is absent.
    Absent = 1, c"FIRNDEX_ABSENT";
    /// The key is present already: nothing was inserted.
    Present = 2, c"FIRNDEX_PRESENT";
    /// The key's state was not the expected one: nothing was changed.
    Different = 3, c"FIRNDEX_DIFFERENT";
    /// An iterator has returned all pairs.
    End = 4, c"FIRNDEX_END";
    /// The pool was refused when it was opened, and made anew.
    Reset = 5, c"FIRNDEX_RESET";
    /// An entry of a batch that has failed did not take effect.
    Undone = 6, c"FIRNDEX_UNDONE";
    /// A defect of the library.
    Internal = -1, c"FIRNDEX_ERROR_INTERNAL";
    /// An argument that no call takes.
    Argument = -2, c"FIRNDEX_ERROR_ARGUMENT";
    /// Not a handle, or one of another kind.
    Handle = -3, c"FIRNDEX_ERROR_HANDLE";
    /// The store or table was closed.
    Closed = -4, c"FIRNDEX_ERROR_CLOSED";
    /// The value was released before, or the iterator freed.
    Released = -5, c"FIRNDEX_ERROR_RELEASED";
    /// A value or an iterator of another thread.
    Thread = -6, c"FIRNDEX_ERROR_THREAD";
    /// Values or iterators keep the pool open.
    InUse = -7, c"FIRNDEX_ERROR_IN_USE";
    /// The value does not fit into the caller's buffer.
    TooSmall = -8, c"FIRNDEX_ERROR_TOO_SMALL";
    /// More handles than there can be.
    TooMany = -9, c"FIRNDEX_ERROR_TOO_MANY";
    /// There is no pool.
    Missing = -20, c"FIRNDEX_ERROR_MISSING";
    /// There is a file already.
    Exists = -21, c"FIRNDEX_ERROR_EXISTS";
    /// The path cannot be used.
    Path = -22, c"FIRNDEX_ERROR_PATH";
    /// The file is something else.
    NotAPool = -23, c"FIRNDEX_ERROR_NOT_A_POOL";
    /// The pool holds something else than was asked for, or another version made it.
    Mismatch = -24, c"FIRNDEX_ERROR_MISMATCH";
    /// Another process has the pool open.
    Busy = -25, c"FIRNDEX_ERROR_BUSY";
    /// This process has the pool open.
    AlreadyOpen = -26, c"FIRNDEX_ERROR_ALREADY_OPEN";
    /// The pool was not closed, and cannot be recovered.
    NotRestored = -27, c"FIRNDEX_ERROR_NOT_RESTORED";
    /// The pool was not closed, and was to be opened for reading only.
    NeedsRecovery = -28, c"FIRNDEX_ERROR_NEEDS_RECOVERY";
    /// This user may not do that.
    Denied = -29, c"FIRNDEX_ERROR_DENIED";
    /// Log and checkpoint cannot be where they are to be.
    LogPlace = -30, c"FIRNDEX_ERROR_LOG_PLACE";
    /// The machine or the file system lacks something.
    Unsupported = -31, c"FIRNDEX_ERROR_UNSUPPORTED";
    /// An option's value is out of its range, or names nothing.
    Option = -32, c"FIRNDEX_ERROR_OPTION";
    /// There is no room.
    Full = -40, c"FIRNDEX_ERROR_FULL";
    /// The key or the value is too long.
    TooLong = -41, c"FIRNDEX_ERROR_TOO_LONG";
    /// Too many keys share one hash or belong to the same buckets.
    Crowded = -42, c"FIRNDEX_ERROR_CROWDED";
    /// The pool is damaged.
    Damaged = -43, c"FIRNDEX_ERROR_DAMAGED";
    /// The log could not be written.
    Log = -44, c"FIRNDEX_ERROR_LOG";
    /// There is no log to wait for.
    NotLogged = -45, c"FIRNDEX_ERROR_NOT_LOGGED";
    /// The pool was opened for reading only.
    ReadOnly = -46, c"FIRNDEX_ERROR_READ_ONLY";
    /// A forked process used an inherited handle.
    Forked = -47, c"FIRNDEX_ERROR_FORKED";
    /// A part of the pool's file is gone.
    Vanished = -48, c"FIRNDEX_ERROR_VANISHED";
    /// The operating system failed.
    Io = -49, c"FIRNDEX_ERROR_IO";
    /// An error that this version of the library has no code for.
    Other = -50, c"FIRNDEX_ERROR_OTHER";
    /// The owner ended amid a guest's change.
    Interrupted = -60, c"FIRNDEX_ERROR_INTERRUPTED";
    /// The owner does not answer.
    Silent = -61, c"FIRNDEX_ERROR_SILENT";
    /// The owner could not do it.
    Owner = -62, c"FIRNDEX_ERROR_OWNER";
    /// Only the owner can do it.
    ForOwner = -63, c"FIRNDEX_ERROR_FOR_OWNER";
}

impl Code {
    /// The code with this number.
    pub(crate) fn of(number: c_int) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| *code as c_int == number)
    }
}
