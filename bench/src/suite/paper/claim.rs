//! What a paper claims, beside what was measured.

use std::io::{self, Write};

/// One statement of a paper.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Table, figure or section.
    pub place: &'static str,
    /// What it says.
    pub says: String,
    /// What was measured.
    pub measured: String,
    /// Whether it holds here; `None` if that cannot be told.
    pub holds: Option<bool>,
}

impl Claim {
    /// Prints claims one after another.
    pub(crate) fn print(claims: &[Claim], out: &mut dyn Write) -> io::Result<()> {
        for Claim { place, says, measured, holds } in claims {
            let verdict = match holds {
                Some(true) => "yes",
                Some(false) => "no",
                None => "not to be told",
            };
            writeln!(out, "{place}: {says}")?;
            writeln!(out, "    measured: {measured}")?;
            writeln!(out, "    as in the paper: {verdict}")?;
        }
        Ok(())
    }
}
