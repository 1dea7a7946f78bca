//! The names of a pool's companions: files beside it, or in a directory of their own, that begin with its name.

/// What they are called.
#[derive(Debug, Clone)]
pub(super) struct Names {
    /// The pool file's name.
    pool: String,
}

impl Names {
    pub(super) fn new(pool: &str) -> Names {
        Names { pool: pool.to_owned() }
    }

    /// The checkpoint.
    pub(super) fn checkpoint(&self) -> String {
        format!("{}.safe", self.pool)
    }

    /// The checkpoint that is being written.
    pub(super) fn new_checkpoint(&self) -> String {
        format!("{}.safe.new", self.pool)
    }

    /// A segment of the log.
    pub(super) fn segment(&self, number: u64) -> String {
        format!("{}.log.{number}", self.pool)
    }

    /// The segment's number that a name says, if it is a segment's.
    pub(super) fn number_of(&self, name: &str) -> Option<u64> {
        let digits = name.strip_prefix(&self.pool)?.strip_prefix(".log.")?;
        digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?
    }

    /// Whether a name is that of one of these files.
    pub(super) fn are_of_pool(&self, name: &str) -> bool {
        name == self.checkpoint() || name == self.new_checkpoint() || self.number_of(name).is_some()
    }
}
