//! Exit statuses, and errors that end with advice.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use signal_hook::consts::SIGPIPE;
use signal_hook::low_level::emulate_default_handler;

/// What a command came to; its number is the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done, found, or sound.
    Done = 0,
    /// The key is not there, or a promise was broken.
    Absent = 1,
    /// It did not work, or what was checked is not sound.
    Failed = 2,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        ExitCode::from(status as u8)
    }
}

/// The process ends as a signal would have ended it, once everything is in order: then whoever started it sees why.
#[derive(Debug)]
pub(crate) struct Ended {
    signal: i32,
    what: Option<String>,
}

impl Ended {
    pub(crate) fn by(signal: i32, what: String) -> Self {
        Ended { signal, what: Some(what) }
    }

    /// Nobody reads what the command prints, as in `firndex dump POOL | head -1`. Like any other program it then ends
    /// silently, but not as one that is done.
    pub(crate) fn unread() -> Self {
        Ended { signal: SIGPIPE, what: None }
    }

    /// Whether there is something to say.
    pub(crate) fn is_told(&self) -> bool {
        self.what.is_some()
    }

    /// Returns only if the signal does not end the process.
    pub(crate) fn end(&self) {
        let _ = emulate_default_handler(self.signal);
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.what.as_deref().unwrap_or("nobody reads stdout"))
    }
}

impl Error for Ended {}

/// An error of the command line itself: what was found, what was expected, and what to do.
#[derive(Debug)]
pub struct Failure {
    what: String,
    hint: String,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    /// What was found or done, and what to do next.
    pub fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Failure { what: what.into(), hint: hint.into(), cause: None }
    }

    /// With its cause.
    pub fn caused_by(mut self, cause: impl Error + Send + Sync + 'static) -> Self {
        self.cause = Some(Box::new(cause));
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.what)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &dyn Error)
    }
}

/// What to do about the error, if that is known.
pub(crate) fn hint(error: &anyhow::Error) -> Option<&str> {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<Failure>());
    causes.next().map(|failure| failure.hint.as_str()).filter(|hint| !hint.is_empty())
}

/// Joins the causes with colons. Many error types tell their cause in their own text, or begin with
/// what was being done as the context around them does; nothing is said twice.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    let mut said: Vec<String> = Vec::new();
    for cause in error.chain() {
        let text = cause.to_string();
        let text = crate::advice::for_typing(&text).into_owned();
        match said.last_mut() {
            Some(last) if last.contains(&text) => {}
            Some(last) if text.starts_with(last.as_str()) => *last = text,
            _ => said.push(text),
        }
    }
    said.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_said_once_and_in_order() {
        let inner = std::io::Error::other("the disk is gone");
        let failure = Failure::new("reading x", "plug it in").caused_by(inner);
        let error = anyhow::Error::new(failure).context("loading y");
        assert_eq!(one_line(&error), "loading y: reading x: the disk is gone");

        let inner = std::io::Error::other("the disk is gone");
        let failure = Failure::new("cannot read x (the disk is gone)", "").caused_by(inner);
        let error = anyhow::Error::new(failure).context("cannot read x");
        assert_eq!(one_line(&error), "cannot read x (the disk is gone)");
    }
}
