//! What a line of a trace asks for.

/// One request of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What is to be done.
    pub action: Action,
    /// The key, of at least one byte.
    pub key: Box<[u8]>,
}

/// What is done to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Look the key up.
    Get,
    /// Store a value of this size, whatever was there.
    Put {
        /// Size of the value in bytes.
        value_bytes: u32,
    },
    /// Remove the key.
    Delete,
}
