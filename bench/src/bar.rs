//! The bars that suites are set.

use std::io::{self, Write};

/// A bar: what has to be reached, what was measured, and whether it was reached.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// What the bar is about.
    pub of: String,
    /// What has to be reached.
    pub wants: String,
    /// What was measured.
    pub measured: f64,
    /// Whether it was reached.
    pub holds: bool,
}

impl Bar {
    /// A bar for something that may be at most `bound`; `None` if it was not measured.
    pub(crate) fn at_most(of: impl Into<String>, bound: f64, measured: Option<f64>) -> Option<Bar> {
        let wants = format!("at most {bound}");
        measured.map(|measured| Bar { of: of.into(), wants, measured, holds: measured <= bound })
    }

    /// A bar for something that has to be at least `bound`.
    pub(crate) fn at_least(
        of: impl Into<String>,
        bound: f64,
        measured: Option<f64>,
    ) -> Option<Bar> {
        let wants = format!("at least {bound}");
        measured.map(|measured| Bar { of: of.into(), wants, measured, holds: measured >= bound })
    }

    /// Prints bars one after another.
    pub(crate) fn print(bars: &[Bar], out: &mut dyn Write) -> io::Result<()> {
        for Bar { of, wants, measured, holds } in bars {
            let verdict = if *holds { "reached" } else { "missed" };
            writeln!(out, "{of}: {wants}, measured {measured:.2}: {verdict}")?;
        }
        Ok(())
    }
}
